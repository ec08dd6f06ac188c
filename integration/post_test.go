package integration

import (
	"context"
	bigEndian "encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// post is a network that may hold requests back. Who has written one believes that it is on its way; it arrives when it is let go,
// whatever has become of the connection.
type post struct {
	hold    func(kmsg.Request) <-chan struct{} // nil: it goes at once, else when that is closed
	answers chan int16                         // what EndTxn requests were answered whose writer had hung up
	wg      sync.WaitGroup
}

func (p *post) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn, post: p, out: make(chan []byte, 1024)}
	p.wg.Go(l.deliver)
	return l, nil
}

// line is one connection.
type line struct {
	net.Conn
	post *post
	out  chan []byte
	once sync.Once
}

// Write takes one request.
func (l *line) Write(b []byte) (int, error) {
	select {
	case l.out <- append([]byte(nil), b...):
		return len(b), nil
	default:
		return 0, net.ErrClosed
	}
}

// Close hangs up: what was written is delivered all the same. A reader is told at once.
func (l *line) Close() error {
	l.once.Do(func() {
		l.Conn.SetReadDeadline(time.Unix(1, 0))
		close(l.out)
	})
	return nil
}

func (l *line) deliver() {
	defer l.Conn.Close()
	for b := range l.out {
		q := parseRequest(b)
		held := l.post.hold(q)
		if held != nil {
			<-held
		}
		if _, err := l.Conn.Write(b); err != nil {
			return
		}
		if end, ok := q.(*kmsg.EndTxnRequest); ok && held != nil {
			l.await(end)
		}
	}
}

// await reads the answer to a request that was held back, if the client that wrote it has hung up meanwhile.
func (l *line) await(q *kmsg.EndTxnRequest) {
	l.Conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	var size [4]byte
	if _, err := io.ReadFull(l.Conn, size[:]); err != nil {
		return
	}
	b := make([]byte, bigEndian.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(l.Conn, b); err != nil {
		return
	}
	head := 4
	if q.IsFlexible() {
		head++
	}
	resp := q.ResponseKind().(*kmsg.EndTxnResponse)
	if err := resp.ReadFrom(b[head:]); err == nil {
		l.post.answers <- resp.ErrorCode
	}
}

// parseRequest reads a request with its size and header. Those that no test holds back need not be understood.
func parseRequest(b []byte) kmsg.Request {
	key := int16(bigEndian.BigEndian.Uint16(b[4:]))
	if key != int16(kmsg.EndTxn) && key != int16(kmsg.Produce) {
		return nil
	}
	q := kmsg.RequestForKey(key)
	q.SetVersion(int16(bigEndian.BigEndian.Uint16(b[6:])))
	b = b[12:]
	b = b[2+max(int(int16(bigEndian.BigEndian.Uint16(b))), 0):] // the client's id
	if q.IsFlexible() {
		b = b[1:] // no tags
	}
	if err := q.ReadFrom(b); err != nil {
		panic(fmt.Sprintf("request %d: %v", key, err))
	}
	return q
}
