package proxy

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// What a proxy says first.
const (
	accepted = 1
	refused  = 0
)

// answerLimit is how long a dialer waits for the proxy's byte: as long as the Kafka client waits for a connection by default.
const answerLimit = 10 * time.Second

// Dialer connects to brokers by the ways that Proxy.Via names. It is for kgo.Dialer.
func Dialer(via map[string]string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		way, ok := via[addr]
		if !ok {
			return nil, fmt.Errorf("proxy: no way to %s", addr)
		}
		ctx, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(ctx, network, way)
		if err != nil {
			return nil, err
		}
		if err := hear(ctx, conn); err != nil {
			conn.Close()
			return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: err}
		}
		return conn, nil
	}
}

// hear reads the proxy's byte.
func hear(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	var b [1]byte
	_, err := conn.Read(b[:])
	if !stop() { // the deadline is set, or about to be
		return os.ErrDeadlineExceeded
	}
	if err == nil && b[0] != accepted {
		err = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	return err
}
