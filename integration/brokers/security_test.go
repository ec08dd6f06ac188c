package brokers_test

import (
	"testing"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Each listener lets in clients that show what it asks for, and no others.
func TestListeners(t *testing.T) {
	c := brokers.Start(t, brokers.Options{Listeners: []brokers.Listener{brokers.TLS, brokers.MTLS, brokers.SASL}})
	createTopic(t, connect(t, c.Opts(brokers.Plain)...), "t", 1)
	for _, l := range []brokers.Listener{brokers.Plain, brokers.TLS, brokers.MTLS, brokers.SASL} {
		produce(t, connect(t, c.Opts(l)...), "t", string(l))
	}
	expect(t, "t", []string{"PLAINTEXT", "TLS", "MTLS", "SASL"}, c.Opts(brokers.SASL)...)

	overTLS := func(l brokers.Listener, opts ...kgo.Opt) []kgo.Opt {
		return append(opts, kgo.SeedBrokers(c.AddrsOf(l)...), kgo.DialTLSConfig(c.Security().TLSConfig(false)))
	}
	login := func(m sasl.Mechanism) []kgo.Opt { return overTLS(brokers.SASL, kgo.SASL(m)) }
	let := map[string][]kgo.Opt{
		"SCRAM-SHA-256": login(scram.Auth{User: brokers.User, Pass: brokers.Password}.AsSha256Mechanism()),
		"SASL PLAIN":    login(plain.Auth{User: brokers.User, Pass: brokers.Password}.AsMechanism()),
	}
	refused := map[string][]kgo.Opt{
		"plain text at TLS":         {kgo.SeedBrokers(c.AddrsOf(brokers.TLS)...)},
		"no certificate at MTLS":    overTLS(brokers.MTLS),
		"no password at SASL":       overTLS(brokers.SASL),
		"a wrong password at SCRAM": login(scram.Auth{User: brokers.User, Pass: "wrong"}.AsSha512Mechanism()),
		"a wrong password at PLAIN": login(plain.Auth{User: brokers.User, Pass: "wrong"}.AsMechanism()),
	}
	for name, opts := range let {
		if err := connect(t, opts...).Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, opts := range refused {
		if err := connect(t, append(opts, kgo.RequestRetries(0))...).Ping(t.Context()); err == nil {
			t.Errorf("%s was let in", name)
		}
	}
}
