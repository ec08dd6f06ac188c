package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/topics"
)

// The duewheel command delivers through each way to reach a broker: TLS as the configuration file says it, SCRAM as a client.properties
// for Java says it, and a client certificate from the environment. The last on a route whose delay and target are fixed.
func TestSecurity(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	t.Parallel()
	c := brokers.Start(t, brokers.Options{
		Listeners: []brokers.Listener{brokers.TLS, brokers.MTLS, brokers.SASL},
		Config: map[string]string{ // everything is allowed but what a test forbids
			"authorizer.class.name":          "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"allow.everyone.if.no.acl.found": "true",
			"super.users":                    "User:ANONYMOUS",
		},
	})
	secrets := c.Security()
	t.Run("TLS", func(t *testing.T) {
		s := newTenant(t, c, setting{seed: newSeed(t)})
		s.deliverThrough(load.Config{Records: 300, Bad: 0.1}, command{yaml: fmt.Sprintf(`
kafka:
  brokers: [%s]
  tls:
    ca_file: %s
routes:
  - topic: %s
    targets: {allow: ["%s.target-*"]}
`, c.AddrsOf(brokers.TLS)[0], secrets.CAFile, s.name, s.name)})
	})
	t.Run("SCRAM", func(t *testing.T) {
		s := newTenant(t, c, setting{seed: newSeed(t)})
		s.deliverThrough(load.Config{Records: 300, Bad: 0.1}, s.scram())
	})
	t.Run("forbidden target", func(t *testing.T) { forbiddenTarget(t, c) })
	t.Run("look without rights", func(t *testing.T) { lookWithoutRights(t, c) })
	t.Run("trim beside another user", func(t *testing.T) { trimBesideAnother(t, c) })
	t.Run("ends of transactions with the rights of a replica", func(t *testing.T) { endsWithRights(t, c) })
	t.Run("mTLS", func(t *testing.T) {
		s := newTenant(t, c, setting{seed: newSeed(t), route: func(r *topics.Route) {
			r.Delay, r.Allow, r.Target = 2*time.Second, nil, r.Topic+".target-0"
		}})
		s.deliverThrough(load.Config{Records: 300, Plain: true, Bare: true}, command{
			yaml: fmt.Sprintf("routes:\n  - topic: %s\n    target: %s\n    delay: 2s\n", s.name, s.targets[0]),
			env: []string{
				"DUEWHEEL_KAFKA_BROKERS=" + c.AddrsOf(brokers.MTLS)[0],
				"DUEWHEEL_KAFKA_TLS_CA_FILE=" + secrets.CAFile,
				"DUEWHEEL_KAFKA_TLS_CERT_FILE=" + secrets.CertFile,
				"DUEWHEEL_KAFKA_TLS_KEY_FILE=" + secrets.KeyFile,
			},
		})
	})
}

// scram is how the command is run as a user with a password.
func (s *tenant) scram() command {
	s.t.Helper()
	properties := filepath.Join(s.t.TempDir(), "client.properties")
	if err := os.WriteFile(properties, fmt.Appendf(nil, `security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="%s" password="%s";
ssl.truststore.type=PEM
ssl.truststore.location=%s
`, brokers.User, brokers.Password, s.cluster.Security().CAFile), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return command{
		yaml: fmt.Sprintf("retry_backoff: 1s\nroutes:\n  - topic: %s\n    targets: {allow: [\"%s.target-*\"]}\n", s.name, s.name),
		args: []string{"--command-config", properties, "-b", s.cluster.AddrsOf(brokers.SASL)[0]},
	}
}

// A target that may not be written holds up no other, and gets its records when it may.
func forbiddenTarget(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, setting{targets: 2, seed: newSeed(t)})
	// It may be described all the same: only writing to it tells.
	acls := func(op kadm.ACLOperation) *kadm.ACLBuilder {
		return kadm.NewACLs().Topics(s.targets[1]).ResourcePatternType(kadm.ACLPatternLiteral).Operations(op)
	}
	allow, forbid := acls(kadm.OpAll).Allow("User:"+brokers.User).AllowHosts(), acls(kadm.OpWrite).Deny("User:"+brokers.User).DenyHosts()
	for _, acl := range []*kadm.ACLBuilder{allow, forbid} {
		if created, err := s.admin.CreateACLs(t.Context(), acl); err != nil || created[0].Err != nil {
			t.Fatal(err, created)
		}
	}
	p := s.runBinary(s.scram())
	due := []load.Due{{Weight: 1, To: 2 * time.Second}}
	s.load(load.Config{Records: 500, Targets: s.targets[:1], Due: due}, load.Config{Records: 500, Targets: s.targets[1:], Due: due})
	s.awaitDelivered(500)
	eventually(t, func() string {
		if n := s.watch.Counts().Retried; n < 500 {
			return fmt.Sprintf("%d retries", n)
		}
		return ""
	})
	t.Logf("with a target forbidden: %s", s.watch.Counts().Summary())
	if n := s.watch.Report().ByTarget[s.targets[1]].Micros.TotalCount(); n > 0 {
		t.Errorf("%d records delivered to a target that is forbidden", n)
	}
	if deleted, err := s.admin.DeleteACLs(t.Context(), forbid); err != nil || deleted[0].Err != nil {
		t.Fatal(err, deleted)
	}
	s.arrive()
	s.terminate(p)
	s.judge()
}

// deliverThrough runs the command while requests are written and until all of them have arrived.
func (s *tenant) deliverThrough(crowd load.Config, c command) {
	s.t.Helper()
	p := s.runBinary(c)
	crowd.Due = []load.Due{{Weight: 1, From: -time.Hour}, {Weight: 2, To: 3 * time.Second}}
	s.load(crowd)
	s.arrive()
	s.terminate(p)
	if report := s.judge(); report.Requested != int64(crowd.Records) {
		s.t.Errorf("%d requests seen", report.Requested)
	}
}
