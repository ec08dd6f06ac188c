package main

import (
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/duewheel/duewheel/processor/setting"
)

// brokers is a list of host:port. A host alone stands for port 9092.
type brokers []string

// Parse implements setting.Parser.
func (b *brokers) Parse(v any) error {
	list, err := setting.List(v)
	if err != nil {
		return err
	}
	for _, one := range list {
		if err := checkBroker(one); err != nil {
			return err
		}
	}
	*b = list
	return nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9._-]*[A-Za-z._-][A-Za-z0-9._-]*$`)

func checkBroker(b string) error {
	if _, rest, ok := strings.Cut(b, "://"); ok {
		return fmt.Errorf("%q begins with a scheme: write %s; kafka.tls and kafka.sasl say how to speak to it", b, rest)
	}
	host, port, err := net.SplitHostPort(b)
	if err != nil {
		host, port = b, "9092"
	}
	if !hostName.MatchString(host) && net.ParseIP(host) == nil {
		return fmt.Errorf("%q is not host:port", b)
	}
	if !isPort(port, 1) {
		return fmt.Errorf("%q: a port is 1 to 65535", b)
	}
	return nil
}

func isPort(s string, least int) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= least && n <= 65535
}

// clientID is what brokers put into their logs, metrics and quotas.
type clientID string

// Parse implements setting.Parser.
func (id *clientID) Parse(v any) error {
	s, err := setting.Text(v)
	if err == nil && (len(s) > 200 || strings.ContainsFunc(s, unicode.IsControl)) {
		err = fmt.Errorf("%q: at most 200 bytes, and no control characters", s)
	}
	*id = clientID(s)
	return err
}

// listenOff is the admin.listen of a process without an admin port.
const listenOff = "off"

// listenAddress is where to listen: host:port, where an empty host is every interface and port 0 any
// that is free, or off.
type listenAddress string

// Parse implements setting.Parser.
func (l *listenAddress) Parse(v any) error {
	if v == false { // what some YAML makes of off
		v = listenOff
	}
	s, err := setting.Text(v)
	if err != nil {
		return err
	}
	if strings.EqualFold(s, listenOff) {
		*l = listenOff
		return nil
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not host:port, or off; 127.0.0.1:9464 is this host only, :9464 every interface", s)
	}
	if !isPort(port, 0) {
		return fmt.Errorf("%q: a port is 1 to 65535, or 0 for any that is free", s)
	}
	*l = listenAddress(s)
	return nil
}

// isReachable tells whether other hosts may connect to where addr listens.
func isReachable(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}

// presenceAddress is where other replicas reach what listens at addr. What listens on every interface is reached by that which leads to the brokers.
// Empty: that is not known, which is logged, since it stays so.
func presenceAddress(addr net.Addr, to brokers, logger *slog.Logger) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	dialer := net.Dialer{Timeout: time.Second}
	for _, broker := range to {
		if _, _, err := net.SplitHostPort(broker); err != nil {
			broker = net.JoinHostPort(broker, "9092")
		}
		conn, err := dialer.Dial("udp", broker) // sends nothing
		if err != nil {
			continue
		}
		own := conn.LocalAddr().(*net.UDPAddr)
		conn.Close()
		return net.JoinHostPort(own.IP.String(), strconv.Itoa(tcp.Port))
	}
	logger.Warn("no broker is found, so other replicas are not told where this one is: what is lost waits for its session in the group; start it again when brokers are found, or set admin.listen to an address of this host",
		"admin", addr.String())
	return ""
}
