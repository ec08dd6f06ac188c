package brokers

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
	"time"
)

// Security is what clients need for the listeners other than Plain: an authority made for this cluster, and a client
// certificate that it signed. The files lie in the cluster's folder and go with it.
type Security struct {
	CAFile   string // PEM: the authority that signed the brokers' certificate
	CertFile string // PEM: the client's certificate, for MTLS
	KeyFile  string // PEM, PKCS #8: the client's key

	ca, server, client pair
}

// pair is a certificate and its key, as PEM and ready to sign with.
type pair struct {
	cert, key []byte
	parsed    *x509.Certificate
	signer    *ecdsa.PrivateKey
}

// newSecurity makes the certificates and writes the client's side into dir.
func newSecurity(dir string) (*Security, error) {
	var err error
	s := &Security{
		CAFile:   filepath.Join(dir, "ca.pem"),
		CertFile: filepath.Join(dir, "client.pem"),
		KeyFile:  filepath.Join(dir, "client-key.pem"),
	}
	if s.ca, err = certify(authority(), pair{}); err != nil {
		return nil, err
	}
	if s.server, err = certify(leaf("broker", x509.ExtKeyUsageServerAuth), s.ca); err != nil {
		return nil, err
	}
	if s.client, err = certify(leaf("client", x509.ExtKeyUsageClientAuth), s.ca); err != nil {
		return nil, err
	}
	return s, errors.Join(
		os.WriteFile(s.CAFile, s.ca.cert, 0o644),
		os.WriteFile(s.CertFile, s.client.cert, 0o644),
		os.WriteFile(s.KeyFile, s.client.key, 0o600),
	)
}

// TLSConfig trusts the cluster's authority, and shows the client certificate if mutual.
func (s *Security) TLSConfig(mutual bool) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(s.ca.parsed)
	config := &tls.Config{RootCAs: roots}
	if mutual {
		config.Certificates = []tls.Certificate{{
			Certificate: [][]byte{s.client.parsed.Raw},
			PrivateKey:  s.client.signer,
		}}
	}
	return config
}

func authority() *x509.Certificate {
	c := named("duewheel test authority")
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	return c
}

// leaf gives brokers and clients alike the names of this machine; clients do not need them.
func leaf(name string, usage x509.ExtKeyUsage) *x509.Certificate {
	c := named(name)
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{usage}
	c.DNSNames, c.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	return c
}

// named is valid from an hour ago, since clocks of containers may be behind, for a day.
func named(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

// certify makes a key and has its certificate signed by the issuer; without one it signs itself.
func certify(c *x509.Certificate, issuer pair) (pair, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if issuer.parsed == nil {
		issuer = pair{parsed: c, signer: signer}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, issuer.parsed, &signer.PublicKey, issuer.signer)
	if err != nil {
		return pair{}, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return pair{}, err
	}
	return pair{
		cert:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		parsed: parsed,
		signer: signer,
	}, nil
}
