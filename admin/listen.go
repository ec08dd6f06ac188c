package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

const (
	// DefaultPort is where OpenTelemetry's Prometheus exporters listen too, so that scrapers know it.
	DefaultPort = 9464
	// portsToTry is how many processors on one host find a port of their own without being told.
	portsToTry = 100
)

// Listen opens the admin port. An empty address is 127.0.0.1:9464, or the next free port where
// that is taken; an address that was asked for is taken as it is or not at all.
func Listen(address string) (net.Listener, error) {
	if address != "" {
		return net.Listen("tcp", address)
	}
	return ListenNear("127.0.0.1", DefaultPort)
}

// ListenNear opens the first free port of a host from port on.
func ListenNear(host string, port int) (net.Listener, error) {
	for p := port; p < port+portsToTry; p++ {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(p)))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, fmt.Errorf("no free port on %s from %d to %d", host, port, port+portsToTry-1)
}

// Serve answers on a listener until ctx ends, and then lets running answers finish.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(end) != nil {
		_ = server.Close()
	}
	<-served
	return nil
}
