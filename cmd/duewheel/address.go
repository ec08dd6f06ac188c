package main

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
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
