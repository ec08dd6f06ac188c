package main

import (
	"log/slog"
	"net"
	"strings"
	"testing"
)

// Other replicas are told an address that they can reach: what listens everywhere is where it speaks to brokers from.
func TestPresenceAddress(t *testing.T) {
	for _, c := range []struct {
		ip   string
		to   brokers
		want string
	}{
		{"127.0.0.3", brokers{"127.0.0.1:9092"}, "127.0.0.3:9464"},
		{"::1", brokers{"127.0.0.1:9092"}, "[::1]:9464"},
		{"0.0.0.0", brokers{"127.0.0.1:9092"}, "127.0.0.1:9464"},
		{"::", brokers{"127.0.0.1"}, "127.0.0.1:9464"},
		{"::", brokers{"no-such-host.invalid:9092", "127.0.0.1:9092"}, "127.0.0.1:9464"},
		{"::", brokers{"no-such-host.invalid:9092"}, ""},
	} {
		var log strings.Builder
		got := presenceAddress(&net.TCPAddr{IP: net.ParseIP(c.ip), Port: 9464}, c.to, slog.New(slog.NewTextHandler(&log, nil)))
		if got != c.want {
			t.Errorf("%s, brokers at %s: %q, want %q", c.ip, c.to, got, c.want)
		}
		if said := strings.Contains(log.String(), "not told where this one is"); said != (got == "") {
			t.Errorf("%s, brokers at %s: it says %q", c.ip, c.to, log.String())
		}
	}
}
