package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// authority is one that has signed a certificate for an address, and its own as PEM.
func authority(t *testing.T, address string) (broker tls.Certificate, own []byte) {
	t.Helper()
	caKey, caErr := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	key, keyErr := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.ParseIP(address)}, NotAfter: time.Now().Add(time.Hour)}
	if err := errors.Join(caErr, keyErr); err != nil {
		t.Fatal(err)
	}
	caDER, caErr := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	leafDER, leafErr := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err := errors.Join(caErr, leafErr); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
}

// Brokers are judged by what the file of authorities holds when a connection is made, and as strictly as by what it held at start.
func TestAuthoritiesAreReadAgain(t *testing.T) {
	old, oldCA := authority(t, "127.0.0.1")
	renewed, newCA := authority(t, "127.0.0.1")
	elsewhere, otherCA := authority(t, "127.0.0.2")
	brokers := func(pair tls.Certificate) string {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c.ListenAddrs()[0]
	}
	atOld, atNew, atOther := brokers(old), brokers(renewed), brokers(elsewhere)
	file := filepath.Join(t.TempDir(), "ca.pem")
	for _, test := range []struct {
		name, addr string
		x          []string
		then       []byte // what the file holds later; before it is that of the old authority
		want       string // of the error; empty: it connects
	}{
		{"the same authority", atOld, nil, oldCA, ""},
		{"a new authority", atNew, nil, newCA, ""},
		{"both", atOld, nil, append(newCA[:len(newCA):len(newCA)], oldCA...), ""},
		{"not the old one any more", atOld, nil, newCA, "certificate signed by unknown authority"},
		{"not what the new one has not signed", atNew, nil, otherCA, "certificate signed by unknown authority"},
		{"not for another address", atOther, nil, otherCA, "certificate is valid for 127.0.0.2, not 127.0.0.1"},
		{"not for another name", atNew, []string{"kafka.tls.server_name=kafka.internal"}, newCA, "certificate is not valid for any names, but wanted to match kafka.internal"},
		{"any name", atOther, []string{"kafka.tls.verify_hostname=false"}, otherCA, ""},
		{"any name, and not any authority", atOther, []string{"kafka.tls.verify_hostname=false"}, newCA, "certificate signed by unknown authority"},
		{"being written", atNew, nil, newCA[:len(newCA)/2], "kafka.tls.ca_file: no certificate in it"},
		{"gone", atNew, nil, nil, "kafka.tls.ca_file: open " + file + ": no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(file, oldCA, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := load(sources{X: append(test.x, "bootstrap.servers="+test.addr, "kafka.tls.ca_file="+file)})
			opts, optsErr := s.clientOpts()
			if err := errors.Join(err, optsErr); err != nil {
				t.Fatal(err)
			}
			if err := ping(t, opts); (err == nil) != (test.addr == atOld) {
				t.Fatalf("before: %v", err)
			}
			if err := errors.Join(os.Remove(file), os.WriteFile(file, test.then, 0o600)); err != nil {
				t.Fatal(err)
			}
			if test.then == nil {
				os.Remove(file)
			}
			switch err := ping(t, opts); {
			case test.want == "" && err != nil:
				t.Errorf("it does not connect: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
