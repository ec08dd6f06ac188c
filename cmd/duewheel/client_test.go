package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/topics"
)

// certificate is one that is good for 127.0.0.1 and signs itself, as PEM files.
func certificate(t *testing.T) (pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair = server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	err = errors.Join(
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	return pair, certFile, keyFile
}

// What -X says reaches the connection: TLS, mTLS and each SASL mechanism, good and wrong.
func TestConnections(t *testing.T) {
	pair, cert, key := certificate(t)
	plain := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "pw"), kfake.Superuser("SCRAM-SHA-256", "alice", "pw"), kfake.Superuser("SCRAM-SHA-512", "alice", "pw")}
	server := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}})
	mutual := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert})
	user := []string{"sasl.username=alice", "sasl.password=pw"}
	for _, test := range []struct {
		name   string
		broker []kfake.Opt
		x      []string
		want   string // of the error; empty: it connects
	}{
		{"PLAIN", plain, append(user, "sasl.mechanism=PLAIN", "security.protocol=SASL_PLAINTEXT"), ""},
		{"SCRAM-SHA-256", plain, append(user, "sasl.mechanism=SCRAM-SHA-256"), ""},
		{"SCRAM-SHA-512 as Java says it", plain, []string{
			"sasl.mechanism=SCRAM-SHA-512", `sasl.jaas.config=x.ScramLoginModule required username="alice" password="pw";`,
		}, ""},
		{"a wrong password", plain, []string{"sasl.username=alice", "sasl.password=no", "sasl.mechanism=PLAIN"}, "reach 127.0.0.1:"},
		{"TLS", []kfake.Opt{server}, []string{"security.protocol=SSL", "ssl.ca.location=" + cert}, ""},
		{"TLS of an unknown authority", []kfake.Opt{server}, []string{"security.protocol=SSL"}, "certificate"},
		{"TLS under another name", []kfake.Opt{server}, []string{"kafka.tls.ca_file=" + cert, "kafka.tls.server_name=other"}, "certificate is valid for"},
		{"TLS under any name", []kfake.Opt{server}, []string{
			"kafka.tls.ca_file=" + cert, "kafka.tls.server_name=other", "ssl.endpoint.identification.algorithm=",
		}, ""},
		{"any name is not any certificate", []kfake.Opt{server}, []string{"security.protocol=SSL", "ssl.endpoint.identification.algorithm="}, "certificate"},
		{"any certificate", []kfake.Opt{server}, []string{"kafka.tls.insecure_skip_verify=true"}, ""},
		{"mTLS", []kfake.Opt{mutual}, []string{"ssl.ca.location=" + cert, "ssl.certificate.location=" + cert, "ssl.key.location=" + key}, ""},
		{"no certificate of ours", []kfake.Opt{mutual}, []string{"ssl.ca.location=" + cert}, "certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := kfake.NewCluster(append(test.broker, kfake.NumBrokers(1), kfake.SeedTopics(1, "delays"))...)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			args := []string{"checkpoints", "-b", c.ListenAddrs()[0], "-g", "g", "-t", "delays"}
			for _, x := range test.x {
				args = append(args, "-X", x)
			}
			out, err := command(t, "", args...)
			switch {
			case test.want == "" && (err != nil || !strings.Contains(out, "nothing committed")):
				t.Errorf("got %v\n%s", err, out)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// A listener without a login answers ILLEGAL_SASL_STATE, which says nothing to a person.
func TestLoginWhereThereIsNone(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.ControlKey(int16(kmsg.SASLHandshake), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
		resp.ErrorCode = kerr.IllegalSaslState.Code
		return resp, nil, true
	})
	_, err = command(t, "", "ls", "-b", c.ListenAddrs()[0], "-g", "g", "-t", "delays", "-X", "sasl.username=alice", "-X", "sasl.password=pw", "-X", "sasl.mechanism=PLAIN")
	if err == nil || !strings.HasSuffix(err.Error(), "; nobody logs in there: leave kafka.sasl out, or give the port of a listener that is SASL_PLAINTEXT or SASL_SSL") {
		t.Errorf("got %v", err)
	}
}

// A certificate that is renewed while the process runs is taken up.
func TestCertificateIsReadAgain(t *testing.T) {
	_, cert, key := certificate(t)
	config, err := (&tlsSettings{CertFile: cert, KeyFile: key}).config()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.GetClientCertificate(nil); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(cert, []byte("being written"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.GetClientCertificate(nil); err == nil {
		t.Error("the certificate of before is still used")
	}
}

func TestTLSErrors(t *testing.T) {
	empty := writeFile(t, "empty.pem", "")
	_, err := (&tlsSettings{CAFile: empty, CertFile: empty, KeyFile: "/nowhere"}).config()
	want := "kafka.tls.ca_file: no certificate in it; PEM is wanted\n" +
		"kafka.tls.cert_file and kafka.tls.key_file: open /nowhere: no such file or directory"
	if errText(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	off := false
	if c, err := (&tlsSettings{Enabled: &off, CAFile: empty}).config(); c != nil || err != nil {
		t.Errorf("TLS is off, and there is %v, %v", c, err)
	}
}

// kafka.compression is what records are written with; by default only those are compressed that are large and alone, so that all consumers can read what is written.
func TestCompression(t *testing.T) {
	for said, want := range map[string]kgo.CompressionCodecType{
		"": kgo.CodecNone, "auto": kgo.CodecNone, "none": kgo.CodecNone, "gzip": kgo.CodecGzip, "snappy": kgo.CodecSnappy, "LZ4": kgo.CodecLz4, "zstd": kgo.CodecZstd,
	} {
		src := sources{X: []string{"kafka.brokers=127.0.0.1:9092"}}
		if said != "" {
			src.X = append(src.X, "kafka.compression="+said)
		}
		s, err := load(src)
		opts, optsErr := s.clientOpts()
		if err := errors.Join(err, optsErr); err != nil {
			t.Fatal(err)
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			t.Fatal(err)
		}
		got := kgo.CodecNone
		large := kgo.CodecNone
		if c, ok := cl.OptValue(kgo.WithCompressor).(kgo.Compressor); ok {
			_, got = c.Compress(new(bytes.Buffer), make([]byte, 1000))
			_, large = c.Compress(new(bytes.Buffer), topics.AppendRecord(nil, nil, make([]byte, 1<<20), nil))
		}
		cl.Close()
		if got != want {
			t.Errorf("%q: codec %d, want %d", said, got, want)
		}
		if want == kgo.CodecNone && said != "none" {
			want = kgo.CodecGzip
		}
		if large != want {
			t.Errorf("%q: codec %d of what is large, want %d", said, large, want)
		}
	}
}
