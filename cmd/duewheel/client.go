package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/setting"
)

// codecs are what kafka.compression may be, beside auto.
var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// clientOpts says how to reach the cluster. Every client of every command is made with it. The
// error holds every problem.
func (s *settings) clientOpts() ([]kgo.Opt, error) {
	var errs []error
	if len(s.Brokers) == 0 && !s.isUnread("kafka.brokers") {
		errs = append(errs, fmt.Errorf("kafka.brokers is missing: give it in the file, as %s, or with -b", envName("kafka.brokers")))
	}
	filled := *s
	setting.Fill(&filled)
	// A client whose metrics are asked for (KIP-714) sends them when it is closed, and waits for a broker that is frozen.
	opts := []kgo.Opt{kgo.SeedBrokers(s.Brokers...), kgo.ClientID(string(filled.ClientID)), kgo.DisableClientMetrics(), kgo.DialTimeout(kafka.BrokerPatience)}
	if s.Rack != "" {
		opts = append(opts, kgo.Rack(s.Rack))
	}
	if codec, ok := codecs[filled.Compression]; ok {
		opts = append(opts, compression(codec))
	} else {
		opts = append(opts, kgo.WithCompressor(kafka.LargeOnly()))
	}
	config, err := s.TLS.config()
	if err != nil && !s.isUnread("kafka.tls.cert_file", "kafka.tls.cert", "kafka.tls.key_file", "kafka.tls.key") {
		errs = append(errs, err)
	}
	if config != nil {
		opts = append(opts, s.TLS.option(config))
	}
	auth, err := s.SASL.option(s.secrets)
	if err != nil && !s.isUnread("kafka.sasl.mechanism", "kafka.sasl.username", "kafka.sasl.password") {
		errs = append(errs, err)
	}
	if auth != nil {
		opts = append(opts, auth)
	}
	return opts, errors.Join(errs...)
}

// compression is an option for several clients at a time: one that lists codecs is not, since a client
// that is being made writes to that list.
func compression(codec kgo.CompressionCodec) kgo.Opt {
	if c, err := kgo.DefaultCompressor(codec); err == nil && c != nil {
		return kgo.WithCompressor(c)
	}
	return kgo.ProducerBatchCompression() // none
}

// config returns nil where TLS is off.
func (t *tlsSettings) config() (*tls.Config, error) {
	enabled := *t != tlsSettings{}
	if t.Enabled != nil {
		enabled = *t.Enabled
	}
	if !enabled {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	if errs := t.contradictions(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var errs []error
	if t.CA != "" || t.CAFile != "" {
		pem, err := pemOf(t.CA, t.CAFile)
		c.RootCAs = x509.NewCertPool()
		if err == nil && !c.RootCAs.AppendCertsFromPEM(pem) {
			err = errors.New("no certificate in it; PEM is wanted")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("kafka.tls.ca%s: %w", fileSuffix(t.CAFile), err))
		}
	}
	if err := t.ownCertificate(c); err != nil {
		errs = append(errs, err)
	}
	if t.VerifyHostname != nil && !*t.VerifyHostname && !t.InsecureSkipVerify {
		verifyChainOnly(c)
	}
	return c, errors.Join(errs...)
}

// option makes connections by TLS: config is how, as of now. Authorities in a file are read again for every connection, and with them all
// of config is made anew: it verifies what a broker shows as it did at start.
func (t tlsSettings) option(config *tls.Config) kgo.Opt {
	if t.CAFile == "" {
		return kgo.DialTLSConfig(config)
	}
	return kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		config, err := t.config()
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: kafka.BrokerPatience}, Config: config}
		return d.DialContext(ctx, network, address)
	})
}

// contradictions are settings of which only one can hold.
func (t *tlsSettings) contradictions() (errs []error) {
	for _, two := range []struct{ name, text, file string }{{"ca", t.CA, t.CAFile}, {"cert", t.Cert, t.CertFile}, {"key", t.Key, t.KeyFile}} {
		if two.text != "" && two.file != "" {
			errs = append(errs, fmt.Errorf("kafka.tls.%s and kafka.tls.%[1]s_file are both given", two.name))
		}
	}
	if t.InsecureSkipVerify && t.VerifyHostname != nil && *t.VerifyHostname {
		errs = append(errs, errors.New("kafka.tls.verify_hostname is true and kafka.tls.insecure_skip_verify takes any certificate: leave one of them out"))
	}
	return errs
}

// ownCertificate is mTLS. The files are read again for every connection, so that a renewed
// certificate is taken up without a restart.
func (t *tlsSettings) ownCertificate(c *tls.Config) error {
	hasCert, hasKey := t.Cert+t.CertFile != "", t.Key+t.KeyFile != ""
	switch {
	case !hasCert && !hasKey:
		return nil
	case !hasKey:
		return fmt.Errorf("kafka.tls.cert%s is given without kafka.tls.key_file", fileSuffix(t.CertFile))
	case !hasCert:
		return fmt.Errorf("kafka.tls.key%s is given without kafka.tls.cert_file", fileSuffix(t.KeyFile))
	}
	read := func() (*tls.Certificate, error) {
		cert, err := pemOf(t.Cert, t.CertFile)
		if err != nil {
			return nil, err
		}
		key, err := pemOf(t.Key, t.KeyFile)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		return &pair, err
	}
	if _, err := read(); err != nil {
		return fmt.Errorf("kafka.tls.cert%s and kafka.tls.key%s: %w", fileSuffix(t.CertFile), fileSuffix(t.KeyFile), err)
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	return nil
}

// verifyChainOnly is what a Java client does with an empty ssl.endpoint.identification.algorithm:
// the chain must be good, the name on the certificate is not looked at.
func verifyChainOnly(c *tls.Config) {
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(s tls.ConnectionState) error {
		opts := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool()}
		for _, cert := range s.PeerCertificates[1:] {
			opts.Intermediates.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(opts)
		return err
	}
}

func pemOf(inline, path string) ([]byte, error) {
	if inline != "" {
		return []byte(inline), nil
	}
	return os.ReadFile(path)
}

func fileSuffix(path string) string {
	if path == "" {
		return ""
	}
	return "_file"
}

// option returns nil where SASL is off. What lies in files is read again at each login.
func (a *saslSettings) option(files map[string]secretFile) (kgo.Opt, error) {
	enabled := a.Mechanism != "" || a.Username != "" || a.Password != ""
	if a.Enabled != nil {
		enabled = *a.Enabled
	}
	if !enabled {
		return nil, nil
	}
	switch {
	case a.Mechanism == "":
		return nil, errors.New("kafka.sasl.mechanism is missing: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	case a.Username == "" || a.Password == "":
		return nil, fmt.Errorf("kafka.sasl.username and kafka.sasl.password are both needed for %s", a.Mechanism)
	}
	username, password := a.Username, a.Password // as they are now
	login := func() (user, pass string, err error) {
		user, err = secretNow("kafka.sasl.username", username, files)
		if err == nil {
			pass, err = secretNow("kafka.sasl.password", password, files)
		}
		if err != nil { // nothing has been sent, as where no connection can be made: so it is tried again likewise
			err = &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
		return user, pass, err
	}
	inScram := func(context.Context) (scram.Auth, error) {
		user, pass, err := login()
		return scram.Auth{User: user, Pass: pass}, err
	}
	switch a.Mechanism {
	case "SCRAM-SHA-256":
		return kgo.SASL(scram.Sha256(inScram)), nil
	case "SCRAM-SHA-512":
		return kgo.SASL(scram.Sha512(inScram)), nil
	default:
		return kgo.SASL(plain.Plain(func(context.Context) (plain.Auth, error) {
			user, pass, err := login()
			return plain.Auth{User: user, Pass: pass}, err
		})), nil
	}
}
