package main

import (
	"errors"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor"
)

func TestClientProperties(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		name, properties string
		want             settings
	}{
		{
			name: "Java with SCRAM",
			properties: `
# as the tools of Kafka take it
bootstrap.servers=a:9092,b:9092
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
  username="alice" password="p\\"w; d";
ssl.truststore.type=PEM
ssl.truststore.location=/etc/ca.pem
ssl.endpoint.identification.algorithm=
key.serializer=org.apache.kafka.common.serialization.StringSerializer
`,
			want: settings{
				Brokers: []string{"a:9092", "b:9092"},
				TLS:     tlsSettings{Enabled: &yes, CAFile: "/etc/ca.pem", VerifyHostname: &no},
				SASL:    saslSettings{Enabled: &yes, Mechanism: "SCRAM-SHA-512", Username: "alice", Password: `p"w; d`},
			},
		},
		{
			name:       "Java with PLAIN needs no mechanism",
			properties: "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password=p;\n",
			want:       settings{SASL: saslSettings{Mechanism: "PLAIN", Username: "u", Password: "p"}},
		},
		{
			name:       "Java with mTLS in PEM",
			properties: "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=/etc/client.pem\nssl.keystore.password=x\n",
			want: settings{
				TLS:  tlsSettings{Enabled: &yes, CertFile: "/etc/client.pem", KeyFile: "/etc/client.pem"},
				SASL: saslSettings{Enabled: &no},
			},
		},
		{
			name: "librdkafka",
			properties: "metadata.broker.list=k:1\nclient.id=me\nsasl.mechanisms=SCRAM-SHA-256\nsasl.username=u\nsasl.password=${p}\n" +
				"ssl.ca.location=/ca\nssl.certificate.location=/cert\nssl.key.location=/key\nenable.ssl.certificate.verification=false\n" +
				"session.timeout.ms=6000\nheartbeat.interval.ms=300\ngroup.id=g\nclient.rack=r\ntransaction.timeout.ms=9000\n",
			want: settings{
				Brokers: []string{"k:1"}, ClientID: "me", Rack: "r", Config: processor.Config{Group: "g",
					SessionTimeout: 6 * time.Second, HeartbeatInterval: 300 * time.Millisecond, TransactionTimeout: 9 * time.Second},
				TLS:  tlsSettings{CAFile: "/ca", CertFile: "/cert", KeyFile: "/key", InsecureSkipVerify: true},
				SASL: saslSettings{Mechanism: "SCRAM-SHA-256", Username: "u", Password: "${p}"},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := writeFile(t, "client.properties", test.properties)
			got, err := load(sources{CommandConfig: file})
			if err != nil {
				t.Fatal(err)
			}
			if test.want.SASL.Username != "" {
				lies := secretFile{path: file, properties: true}
				test.want.secrets = map[string]secretFile{"kafka.sasl.username": lies, "kafka.sasl.password": lies}
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// -X counts more than the file of properties.
func TestXOverCommandConfig(t *testing.T) {
	s, err := load(sources{CommandConfig: writeFile(t, "client.properties", "client.id=file\n"), X: []string{"client.id=flag"}})
	if err != nil || s.ClientID != "flag" {
		t.Errorf("client id %q, %v", s.ClientID, err)
	}
}

func TestPropertyErrors(t *testing.T) {
	for _, test := range []struct{ name, property, want string }{
		{"protocol", "security.protocol=TLS", `-X security.protocol: "TLS" is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL`},
		{
			"JKS trust store", "ssl.truststore.location=/etc/trust.jks",
			"-X ssl.truststore.location: /etc/trust.jks is a JKS store, and only PEM is read; keytool -exportcert -rfc -keystore /etc/trust.jks -alias <alias> -file ca.pem, and -X ssl.ca.location=ca.pem",
		},
		{
			"PKCS12 key store", "ssl.keystore.location=/etc/client.p12",
			"-X ssl.keystore.location: /etc/client.p12 is a PKCS12 store, and only PEM is read; keytool -importkeystore -srckeystore /etc/client.p12 -destkeystore client.p12 -deststoretype PKCS12," +
				" then openssl pkcs12 -in client.p12 -nodes -out client.pem, and ssl.keystore.type=PEM with ssl.keystore.location=client.pem",
		},
		{"encrypted key", "ssl.key.password=x", "-X ssl.key.password: encrypted keys are not read; openssl pkey -in <key> -out key.pem removes the password"},
		{"Kerberos", "sasl.mechanism=GSSAPI", `-X sasl.mechanism: "GSSAPI" is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512`},
		{
			"another login module", `sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;`,
			"-X sasl.jaas.config: login module Krb5LoginModule is not supported: PlainLoginModule and ScramLoginModule are",
		},
		{"no semicolon", `sasl.jaas.config=x.PlainLoginModule required username="u" password="p"`, "-X sasl.jaas.config: " + errJAAS.Error()},
		{"no user", `sasl.jaas.config=x.PlainLoginModule required password="p";`, "-X sasl.jaas.config: no username in it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(sources{X: []string{test.property}})
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// No bytes make the reader of sasl.jaas.config panic, and no error quotes more of it than a class
// name: the rest may be a password.
func FuzzParseJAAS(f *testing.F) {
	f.Add(`a.PlainLoginModule required username="u" password="p";`)
	f.Add(`a.ScramLoginModule required password='p`)
	f.Add(`password=p required;`)
	f.Add(`\"';= =;`)
	quoting := regexp.MustCompile(`^login module [A-Za-z]\w*LoginModule is not supported: PlainLoginModule and ScramLoginModule are$`)
	f.Fuzz(func(t *testing.T, s string) {
		l, err := parseJAAS(s)
		switch {
		case err == nil && l.username == "":
			t.Error("neither a user nor an error")
		case err == nil, errors.Is(err, errJAAS), err.Error() == "no username in it":
		case !quoting.MatchString(err.Error()):
			t.Errorf("%q quotes too much", err)
		}
	})
}
