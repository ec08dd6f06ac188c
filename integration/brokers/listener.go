package brokers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Listener names a way to connect to a broker.
type Listener string

// The listeners. Their names do not contain SSL:// behind a scheme, which the start script of the apache/kafka image would
// take as an order to look for key stores in files.
const (
	Plain Listener = "PLAINTEXT" // no encryption, no authentication; the brokers use it among themselves
	TLS   Listener = "TLS"       // the broker shows a certificate
	MTLS  Listener = "MTLS"      // the client shows one too
	SASL  Listener = "SASL"      // user and password, inside TLS: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512
)

var protocols = map[Listener]string{Plain: "PLAINTEXT", TLS: "SSL", MTLS: "SSL", SASL: "SASL_SSL"}

func (l Listener) known() bool { return l != Plain && protocols[l] != "" }

// prefix begins the properties that hold for this listener only.
func (l Listener) prefix() string { return "listener.name." + strings.ToLower(string(l)) + "." }

// User and Password are those of the SASL listener.
const (
	User     = "duewheel"
	Password = "not-a-secret"
)

// listenerProperties adds the plain listener, the controller's, and those that were asked for.
func (c *Cluster) listenerProperties(n *Node, p map[string]string) {
	addresses := []string{fmt.Sprintf("CONTROLLER://127.0.0.1:%d", n.controllerPort)}
	mapped := []string{"CONTROLLER:PLAINTEXT"}
	var advertised []string
	for _, l := range c.listeners() {
		a := fmt.Sprintf("%s://%s", l, n.Addr(l))
		addresses, advertised = append(addresses, a), append(advertised, a)
		mapped = append(mapped, fmt.Sprintf("%s:%s", l, protocols[l]))
		maps.Copy(p, c.securityProperties(l))
	}
	p["listeners"] = strings.Join(addresses, ",")
	p["advertised.listeners"] = strings.Join(advertised, ",")
	p["listener.security.protocol.map"] = strings.Join(mapped, ",")
}

func (c *Cluster) securityProperties(l Listener) map[string]string {
	if l == Plain {
		return nil
	}
	p := map[string]string{
		l.prefix() + "ssl.keystore.type":              "PEM",
		l.prefix() + "ssl.keystore.certificate.chain": oneLine(c.security.server.cert),
		l.prefix() + "ssl.keystore.key":               oneLine(c.security.server.key),
	}
	switch l {
	case MTLS:
		p[l.prefix()+"ssl.truststore.type"] = "PEM"
		p[l.prefix()+"ssl.truststore.certificates"] = oneLine(c.security.ca.cert)
		p[l.prefix()+"ssl.client.auth"] = "required"
	case SASL:
		p[l.prefix()+"sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
		p[l.prefix()+"plain.sasl.jaas.config"] = fmt.Sprintf(
			`org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s";`, User, Password)
		for _, m := range []string{"scram-sha-256", "scram-sha-512"} {
			p[l.prefix()+m+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}
	return p
}

// oneLine lets a PEM block travel in an environment variable and in a properties file; Kafka takes any white space in it.
func oneLine(pem []byte) string { return strings.Join(strings.Fields(string(pem)), " ") }

// Opts are what a client needs to connect through one listener; with SASL it is SCRAM-SHA-512.
func (c *Cluster) Opts(l Listener) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(c.AddrsOf(l)...)}
	switch l {
	case TLS:
		opts = append(opts, kgo.DialTLSConfig(c.security.TLSConfig(false)))
	case MTLS:
		opts = append(opts, kgo.DialTLSConfig(c.security.TLSConfig(true)))
	case SASL:
		login := scram.Auth{User: User, Pass: Password}.AsSha512Mechanism()
		opts = append(opts, kgo.DialTLSConfig(c.security.TLSConfig(false)), kgo.SASL(login))
	}
	return opts
}

// createUser gives the user a SCRAM password of both kinds and returns when every node knows it.
func (c *Cluster) createUser(ctx context.Context) error {
	if !slices.Contains(c.options.Listeners, SASL) {
		return nil
	}
	client, err := kgo.NewClient(c.Opts(Plain)...)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} { // a request may name a user once
		user := kadm.UpsertSCRAM{User: User, Mechanism: m, Iterations: 4096, Password: Password}
		altered, err := kadm.NewClient(client).AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{user})
		if err == nil {
			err = altered.Error()
		}
		if err != nil {
			return fmt.Errorf("brokers: create the user: %w", err)
		}
	}
	return c.each(func(n *Node) error { return poll(ctx, n.machine.died(), n.login) })
}

// login tries the SASL listener of this node.
func (n *Node) login(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client, err := kgo.NewClient(append(n.cluster.Opts(SASL), kgo.SeedBrokers(n.Addr(SASL)), kgo.RequestRetries(0))...)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(ctx)
}
