package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/verify"
)

// Brokers may come after it: with --watch it says that it cannot tell, and looks again.
func TestVerifyWatchWaitsForBrokers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: orders}\n")
	ctx, cancel := context.WithCancel(t.Context())
	var out, notes heard
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"verify", "-c", config, "--watch", "--every", "1s", "--listen", "off"}, strings.NewReader(""), &out, &notes)
		fmt.Fprintln(&notes, "it ended:", err)
		ended <- err
	}()
	t.Cleanup(cancel)
	if said := notes.await(t, `(?m)^(.*reach 127.0.0.1:[0-9]+: .*)$`); !strings.Contains(said, " could not tell: ") {
		t.Fatal(said)
	}
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(n), kfake.SeedTopics(1, "delays", "orders", "delays.dead"))
	if err != nil {
		t.Fatal("does another process have the port now? Run it again: ", err)
	}
	t.Cleanup(c.Close)
	out.await(t, `(?m)^\S+ (requested 0), `)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}

// What is wrong with its configuration ends it at once, with --watch, too.
func TestVerifyWatchEndsForWantOfATopic(t *testing.T) {
	_, addr := cluster(t, nil)
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: nothing, target: orders}\n")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, notes heard
	err := run(ctx, []string{"verify", "-c", config, "--watch", "--every", "1s", "--listen", "off"}, strings.NewReader(""), &out, &notes)
	if exitCode(err) != 2 || !strings.Contains(fmt.Sprint(err), "the delay topic nothing does not exist") {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}

func TestWhatPasses(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		err  error
		want bool
	}{
		{dial(syscall.ECONNREFUSED), true},
		{dial(&net.DNSError{Err: "no such host", IsNotFound: true}), true},
		{kerr.CoordinatorNotAvailable, true},
		{kerr.NotLeaderForPartition, true},
		{verify.ErrSilent, true},
		{kerr.UnknownTopicOrPartition, false}, // although Kafka says that this passes
		{kerr.TopicAuthorizationFailed, false},
		{kerr.SaslAuthenticationFailed, false},
		{&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, false},
		{verify.ErrMemory, false},
		{verify.ErrAnew, false},
		{errors.New("of any other kind"), false},
	} {
		if got := mayPass(fmt.Errorf("at %v: %w", time.Second, c.err)); got != c.want {
			t.Errorf("%v passes: %v", c.err, got)
		}
	}
}

// Of a group that has no checkpoint, and of a delay topic that does not exist beside others, it cannot be told whether all is well, and the exit code says so; what can be looked at
// is told all the same.
func TestVerifyOfAGroupThatNeverWas(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "delays.dead": 1, "orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: orders}\n  - {topic: later, target: orders}\n")
	if err := client(t, addr).ProduceSync(t.Context(), &kgo.Record{Topic: "delays", Headers: []kgo.RecordHeader{{Key: "delay-for", Value: []byte("1h")}}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	id := c.TopicInfo("delays").TopicID
	commit(t, addr, "delays", 0, 1, fmt.Sprintf("dw1 t=%x w=1:0 l=0 c=0:p1", id[:4]))
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--route", "delays"}, ""},
		{nil, "cannot tell of all: the delay topic later does not exist"},
		{[]string{"--route", "delays", "-g", "mistyped"}, "cannot tell of all: the group mistyped has no checkpoint of any of these topics"},
		{[]string{"--route", "later"}, "the delay topic later does not exist"},
	} {
		out, _, err := both(t, append([]string{"verify", "-c", config}, tt.args...)...)
		told := strings.Contains(out, "1 requested\n") && strings.Contains(out, "1 pending\n")
		if want := 2; tt.says == "" && (err != nil || !told || !strings.HasSuffix(out, "\nall is well\n")) || tt.says != "" && (exitCode(err) != want || !strings.Contains(err.Error(), tt.says) || strings.Contains(out, "all is well") || told == slices.Contains(tt.args, "later")) {
			t.Errorf("%v: exit code %d, %v, printed\n%s", tt.args, exitCode(err), err, out)
		}
	}
	// What looks like a fault is none that is known of, as long as the name of the group may be wrong.
	if err := client(t, addr).ProduceSync(t.Context(), &kgo.Record{Topic: "delays", Timestamp: time.Now().Add(-time.Hour), Headers: []kgo.RecordHeader{{Key: "delay-for", Value: []byte("1s")}}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string]int{"g": 1, "mistyped": 2} {
		out, _, err := both(t, "verify", "-c", config, "--route", "delays", "-g", of)
		if exitCode(err) != want || !strings.Contains(out, "OVERDUE: 1\n") || strings.Contains(err.Error(), "is this its name?") != (of == "mistyped") {
			t.Errorf("%s: exit code %d, %v, printed\n%s", of, exitCode(err), err, out)
		}
	}
}
