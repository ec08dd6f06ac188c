package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// locked is a cluster with two logins, old with first, by PLAIN alone, and new with second, and one for the test.
func locked(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.GroupMinSessionTimeout(100*time.Millisecond),
		kfake.Superuser("PLAIN", "root", "root"), kfake.Superuser("PLAIN", "old", "one-secret"), kfake.Superuser("PLAIN", "new", "another-secret"),
		kfake.Superuser("SCRAM-SHA-256", "new", "another-secret"), kfake.Superuser("SCRAM-SHA-512", "new", "another-secret"), kfake.SeedTopics(1, "delays", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// ping logs in by options, with a connection of its own.
func ping(t *testing.T, opts []kgo.Opt) error {
	t.Helper()
	cl, err := kgo.NewClient(append(opts[:len(opts):len(opts)], kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return cl.Ping(ctx)
}

// Name and password are what their files hold when they are needed, in whatever file, mechanism and source they come.
func TestLoginIsReadAgain(t *testing.T) {
	addr := locked(t).ListenAddrs()[0]
	file := func(name string) string { return filepath.Join(t.TempDir(), name) }
	user, pass, client := file("user"), file("pass"), file("client.properties")
	holding := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"DUEWHEEL_KAFKA_SASL_USERNAME_FILE=" + user, "DUEWHEEL_KAFKA_SASL_PASSWORD_FILE=" + pass}
	jaas := func(user, pass string) string {
		return fmt.Sprintf("sasl.mechanism=PLAIN\nsasl.jaas.config=x.PlainLoginModule required username=\"%s\" password=\"%s\";\n", user, pass)
	}
	for _, test := range []struct {
		name string
		src  sources
		file bool // a file says it
	}{
		{"PLAIN", sources{Env: env, X: []string{"sasl.mechanism=PLAIN"}}, true},
		{"SCRAM-SHA-256", sources{Env: env, X: []string{"sasl.mechanism=SCRAM-SHA-256"}}, true},
		{"SCRAM-SHA-512", sources{Env: env, X: []string{"sasl.mechanism=SCRAM-SHA-512"}}, true},
		{"JAAS in a client.properties", sources{CommandConfig: client}, true},
		{"a client.properties above files", sources{Env: env, CommandConfig: client}, true},
		{"typed above a file", sources{CommandConfig: client, X: []string{"sasl.username=old", "sasl.password=one-secret"}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			holding(user, "old\n")
			holding(pass, "one-secret\n")
			holding(client, jaas("old", "one-secret"))
			test.src.X = append(test.src.X, "bootstrap.servers="+addr)
			s, err := load(test.src)
			opts, optsErr := s.clientOpts()
			if err := errors.Join(err, optsErr); err != nil {
				t.Fatal(err)
			}
			first := ping(t, opts)
			if isPlain := s.SASL.Mechanism == "PLAIN"; isPlain != (first == nil) {
				t.Fatalf("the login of before: %v", first)
			}
			holding(user, "new\n")
			holding(pass, "another-secret\n")
			holding(client, jaas("new", "another-secret"))
			if err := ping(t, opts); err != nil {
				t.Errorf("the login of now: %v", err)
			}
			for path, text := range map[string]string{user: "", pass: "\n", client: "sasl.mechanism=PLAIN\n"} {
				holding(path, text)
			}
			err = ping(t, opts)
			if !test.file {
				if err != nil {
					t.Errorf("what does not come from a file: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "read kafka.sasl.username again: there is none in /") {
				t.Errorf("files that are empty: %v", err)
			}
			for _, path := range []string{user, pass, client} {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			if err := ping(t, opts); err == nil || !strings.Contains(err.Error(), "read kafka.sasl.username again: ") || !strings.Contains(err.Error(), "no such file or directory") {
				t.Errorf("files that are gone: %v", err)
			}
		})
	}
}

// A processor goes on when its password has changed, also where the file was not there for a while.
func TestRunTakesUpANewPassword(t *testing.T) {
	c := locked(t)
	addr := c.ListenAddrs()[0]
	root := client(t, addr, kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	deliver := func(value string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		headers := []kgo.RecordHeader{{Key: "delay-for", Value: []byte("1")}, {Key: "delay-target-topic", Value: []byte("orders")}}
		if err := root.ProduceSync(ctx, &kgo.Record{Topic: "delays", Value: []byte(value), Headers: headers}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		f := root.PollFetches(ctx)
		if records := f.Records(); f.Err() != nil || len(records) != 1 || string(records[0].Value) != value {
			t.Fatalf("%s is not delivered: %v %v", value, records, f.Err())
		}
	}
	var cut atomic.Bool // the connections, each at its next request once it is logged in
	c.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch r.(type) {
		case *kmsg.ApiVersionsRequest, *kmsg.SASLHandshakeRequest, *kmsg.SASLAuthenticateRequest:
			return nil, nil, false
		}
		return nil, errors.New("cut"), cut.Load()
	})
	user, pass := writeFile(t, "user", "old"), writeFile(t, "pass", "one-secret")
	stop, log := start(t, addr, t.TempDir(), "-X", "sasl.mechanism=PLAIN", "-X", "kafka.sasl.username_file="+user, "-X", "kafka.sasl.password_file="+pass)
	deliver("with the first")

	if err := os.Rename(pass, pass+".away"); err != nil {
		t.Fatal(err)
	}
	cut.Store(true)
	log.await(t, "read kafka.sasl.password again: open "+pass+": no such file or directory")
	cut.Store(false)
	if err := errors.Join(os.WriteFile(user, []byte("new"), 0o600), os.WriteFile(pass, []byte("another-secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	deliver("with the second")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if said := log.String(); strings.Contains(said, "one-secret") || strings.Contains(said, "another-secret") {
		t.Errorf("a password is in the log:\n%s", said)
	}
}
