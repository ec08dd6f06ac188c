package group

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const testTopic = "requests"

// selfSigned is a certificate that only its owner trusts.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Whatever keeps a process away from its group is named, with the setting to look at.
func TestEntrance(t *testing.T) {
	topics := kfake.SeedTopics(1, testTopic)
	secured := []kfake.Opt{topics, kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "right")}
	encrypted := []kfake.Opt{topics, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{selfSigned(t)}})}
	password := func(pass string) kgo.Opt { return kgo.SASL(plain.Auth{User: "alice", Pass: pass}.AsMechanism()) }
	for _, c := range []struct {
		name   string
		broker []kfake.Opt // none: there is no broker
		client []kgo.Opt
		fault  *kfake.Fault
		says   string // empty: nothing keeps it away
	}{
		{name: "all is well", broker: []kfake.Opt{topics}},
		{name: "all is well with a password", broker: secured, client: []kgo.Opt{password("right")}},
		{name: "no broker", says: "broker 127.0.0.1:1: unable to dial: dial tcp 127.0.0.1:1: connect: connection refused"},
		{name: "a wrong password", broker: secured, client: []kgo.Opt{password("wrong")}, says: "it hangs up; kafka.tls and kafka.sasl must be what its listener expects"},
		{name: "no password", broker: secured, says: "kafka.sasl"},
		{name: "no TLS", broker: encrypted, says: "it hangs up; kafka.tls and kafka.sasl must be what its listener expects"},
		{name: "an unknown authority", broker: encrypted, client: []kgo.Opt{kgo.DialTLSConfig(&tls.Config{})}, says: "look at kafka.tls: "},
		{name: "TLS where there is none", broker: []kfake.Opt{topics}, client: []kgo.Opt{kgo.DialTLSConfig(&tls.Config{})}, says: "kafka.tls"},
		{name: "no delay topic", broker: []kfake.Opt{kfake.SeedTopics(1, "other")}, says: "delay topic " + testTopic + " does not exist, or may not be described: `duewheel topics create` makes it"},
		{name: "a delay topic that may not be described", broker: []kfake.Opt{topics}, says: "not allowed to describe delay topic " + testTopic,
			fault: &kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: testTopic, Err: kerr.TopicAuthorizationFailed, Count: -1}},
		{name: "a delay topic in another trouble", broker: []kfake.Opt{topics}, says: "delay topic " + testTopic + ": INVALID_TOPIC_EXCEPTION",
			fault: &kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: testTopic, Err: kerr.InvalidTopicException, Count: -1}},
		{name: "all is well with an old broker", broker: []kfake.Opt{topics, kfake.MaxVersions(kversion.V2_7_0())}},
		{name: "a group that may not be read", broker: []kfake.Opt{topics}, says: "not allowed to read group g",
			fault: &kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.GroupAuthorizationFailed, Count: -1}},
		{name: "a group without a coordinator", broker: []kfake.Opt{topics}, says: "group g has no coordinator: COORDINATOR_NOT_AVAILABLE",
			fault: &kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // one of them waits for an answer
			addrs := []string{"127.0.0.1:1"}
			if c.broker != nil {
				cluster, err := kfake.NewCluster(append(c.broker, kfake.NumBrokers(1))...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cluster.Close)
				addrs = cluster.ListenAddrs()
				if c.fault != nil {
					cluster.Fault(*c.fault)
				}
				cluster.ControlKey(int16(kmsg.FindCoordinator), func(req kmsg.Request) (kmsg.Response, error, bool) {
					cluster.KeepControl()
					if r := req.(*kmsg.FindCoordinatorRequest); r.Version < 4 && r.CoordinatorKey != "g" || r.Version >= 4 && !slices.Equal(r.CoordinatorKeys, []string{"g"}) {
						t.Errorf("asked for the coordinator of %q, %q", r.CoordinatorKey, r.CoordinatorKeys)
					}
					return nil, nil, false
				})
			}
			cl, err := kgo.NewClient(append(c.client, kgo.SeedBrokers(addrs...))...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cl.Close)
			e := NewEntrance("g", []string{testTopic}, nil, slog.New(slog.DiscardHandler))
			err = e.examine(t.Context(), cl)
			if got := err == nil; got != (c.says == "") || !got && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want one that says %q", err, c.says)
			}
		})
	}
}

// A cluster that has never had a group has no coordinator for some seconds: that is said as what it is, and as an error when it lasts. What else keeps
// members away is an error from the beginning, and nothing is said twice.
func TestEntranceToldAs(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: -1})
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	none := NewEntrance("g", []string{testTopic}, nil, nil).examine(t.Context(), cl)
	both := NewEntrance("g", []string{testTopic, "missing"}, nil, nil).examine(t.Context(), cl)
	for _, says := range []string{"delay topic missing", "group g has no coordinator"} {
		if !strings.Contains(both.Error(), says) {
			t.Errorf("%v, want one that says %q", both, says)
		}
	}
	for _, test := range []struct {
		name string
		err  error
		want string // the levels of what is logged after 1, 6, 11, 16 and 21 s
	}{
		{"no coordinator", none, "INFO ERROR "},
		{"no coordinator and no topic", both, "ERROR "},
		{"no broker", errors.New("broker 127.0.0.1:1: connection refused"), "ERROR "},
	} {
		var levels strings.Builder
		e := NewEntrance("g", []string{testTopic}, nil, slog.New(slog.NewTextHandler(&levels, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.LevelKey {
				return a
			}
			return slog.Attr{}
		}})))
		for waited := time.Second; waited < 25*time.Second; waited += entrancePause {
			e.tell(test.err, waited)
		}
		if got := strings.NewReplacer("level=", "", "\n", " ").Replace(levels.String()); got != test.want {
			t.Errorf("%s: logged as %q, want %q", test.name, got, test.want)
		}
	}
}

// journal is what is logged, which a test reads meanwhile.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// Kafka says why it refuses a login before it hangs up.
func TestExplainBroker(t *testing.T) {
	for err, says := range map[error]string{
		kerr.SaslAuthenticationFailed: "kafka.sasl.username or kafka.sasl.password",
		kerr.UnsupportedSaslMechanism: "kafka.sasl.mechanism",
	} {
		if got := explainBroker(err); !errors.Is(got, err) || !strings.Contains(got.Error(), says) {
			t.Errorf("%v, want one that says %s", got, says)
		}
	}
}

// Every broker that cannot be reached is named.
func TestEntranceNamesEachBroker(t *testing.T) {
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1", "127.0.0.1:2"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	err = NewEntrance("g", nil, nil, nil).examine(t.Context(), cl)
	for _, broker := range []string{"broker 127.0.0.1:1: ", "broker 127.0.0.1:2: "} {
		if err == nil || !strings.Contains(err.Error(), broker) {
			t.Errorf("%v, want one that names %s", err, broker)
		}
	}
}

// What keeps members out is said while it does: not before it is clear, once, not when they are in, and anew when they are out again. The end of the process is no reason.
func TestEntranceWhileMembersAreOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, hang atomic.Bool
		var logged journal
		ctx, end := context.WithCancel(t.Context())
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			if hang.Load() {
				<-ctx.Done()
			}
			return nil, errors.New("no route")
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers("broker:1"), kgo.Dialer(dial))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		e := NewEntrance("g", nil, out.Load, slog.New(slog.NewTextHandler(&logged, nil)))
		done := make(chan struct{})
		go func() { defer close(done); e.Run(ctx, cl) }()
		shows := func(what string, why bool, said int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(logged.String(), "no route"); (e.Why() != "") != why || got != said {
				t.Errorf("%s: it shows %q, and was logged %d times, want %d", what, e.Why(), got, said)
			}
		}
		out.Store(true)
		time.Sleep(entranceFirst / 2)
		shows("before it is asked", false, 0)
		time.Sleep(entranceFirst)
		shows("when it was asked", true, 1)
		time.Sleep(5 * entrancePause)
		shows("when it lasts", true, 1)
		out.Store(false)
		time.Sleep(entrancePause + entranceFirst)
		shows("when they are in", false, 1)
		out.Store(true)
		time.Sleep(2 * entrancePause)
		shows("when they are out again", true, 2)
		out.Store(false)
		time.Sleep(entrancePause + entranceFirst)
		hang.Store(true)
		out.Store(true)
		time.Sleep(entranceFirst + entrancePatience/4)
		end()
		<-done
		shows("at the end", false, 2)
	})
}

// A delay topic that brokers do not show is said once, and when they show it again; the other ones are not named.
func TestHiddenTopic(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic, "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var logged journal
	e := NewEntrance("g", []string{testTopic, "other"}, nil, slog.New(slog.NewTextHandler(&logged, nil)))
	looks := func(what string, hidden bool, said, again int) {
		t.Helper()
		e.lookForHidden(t.Context(), cl)
		why := e.Hidden(testTopic)
		if errors.Is(why, kerr.TopicAuthorizationFailed) != hidden || (why != nil) != hidden || e.Hidden("other") != nil {
			t.Errorf("%s: hidden are %v, and the other one %v", what, why, e.Hidden("other"))
		}
		if n, m := strings.Count(logged.String(), "is not shown"), strings.Count(logged.String(), "is shown again"); n != said || m != again {
			t.Errorf("%s: that is said %d times, and the end of it %d times: %s", what, n, m, logged.String())
		}
	}
	looks("before", false, 0, 0)
	h := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: testTopic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	looks("then", true, 1, 0)
	looks("as it lasts", true, 1, 0)
	gone, end := context.WithCancel(t.Context())
	end()
	e.lookForHidden(gone, cl) // no answer is none
	looks("after a look without an answer", true, 1, 0)
	h.Remove()
	looks("afterwards", false, 1, 1)
}
