// Package proxy stands between one client and its brokers, so that a test can cut the connections of this client alone.
//
// # Use
//
//	p, err := proxy.New(addrs...)         // what brokers advertise
//	kgo.Dialer(proxy.Dialer(p.Via()))     // in the client, which may be another process
//	p.Set(proxy.Hole)                     // nothing goes through, in either direction
//	p.Set(proxy.Open)                     // what was held goes on
//	p.Lag(time.Second)                    // answers take so much longer
//	p.Reset()                             // every connection is gone
//
// # On the wire
//
// Kafka's bytes pass unchanged. Before them the proxy sends one byte that tells whether the broker took the connection, since it
// accepts each connection itself before it knows; the dialer turns a refusal into the error of a refused connection. So a client
// learns of a broker that is down just as without a proxy.
//
// What is held in a hole is not lost: when the hole is gone it arrives, late, as TCP would send it again. That holds for the end
// of a connection, too.
//
// # Who owns what
//
// A Proxy may be used by several goroutines. Close ends everything that it has started.
package proxy
