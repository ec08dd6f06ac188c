package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/magiconair/properties"
)

// propertyNames maps names of the Java client, librdkafka and rpk to ours, where a value means the
// same in both. What needs more than that is in javaClient.
var propertyNames = map[string]string{
	"bootstrap.servers":    "kafka.brokers",
	"metadata.broker.list": "kafka.brokers",
	"brokers":              "kafka.brokers",
	"client.id":            "kafka.client_id",
	"client.rack":          "kafka.rack",
	"group.id":             "group.id",
	"group.instance.id":    "group.instance_id",
	"group.protocol":       "group.protocol",

	"session.timeout.ms":     "group.session_timeout",
	"heartbeat.interval.ms":  "group.heartbeat_interval",
	"transaction.timeout.ms": "transaction_timeout",

	"sasl.mechanism":  "kafka.sasl.mechanism",
	"sasl.mechanisms": "kafka.sasl.mechanism",
	"sasl.username":   "kafka.sasl.username",
	"sasl.password":   "kafka.sasl.password",
	"user":            "kafka.sasl.username",
	"pass":            "kafka.sasl.password",

	"ssl.ca.location":                "kafka.tls.ca_file",
	"ssl.ca.pem":                     "kafka.tls.ca",
	"ssl.certificate.location":       "kafka.tls.cert_file",
	"ssl.certificate.pem":            "kafka.tls.cert",
	"ssl.key.location":               "kafka.tls.key_file",
	"ssl.key.pem":                    "kafka.tls.key",
	"ssl.truststore.certificates":    "kafka.tls.ca",
	"ssl.keystore.certificate.chain": "kafka.tls.cert",
	"ssl.keystore.key":               "kafka.tls.key",
	"tls.enabled":                    "kafka.tls.enabled",
	"tls.ca":                         "kafka.tls.ca_file",
	"tls.cert":                       "kafka.tls.cert_file",
	"tls.key":                        "kafka.tls.key_file",
	"tls.insecure_skip_verify":       "kafka.tls.insecure_skip_verify",
}

// javaClient are the names that several of ours, or a judgement, stand behind.
var javaClient = []string{
	"security.protocol", "sasl.jaas.config", "ssl.truststore.location", "ssl.truststore.type",
	"ssl.keystore.location", "ssl.keystore.type", "ssl.key.password",
	"ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification",
}

// about says which keys of ours a property of javaClient sets that something else may miss.
var about = map[string][]string{
	"sasl.jaas.config":      {"kafka.sasl.mechanism", "kafka.sasl.username", "kafka.sasl.password"},
	"ssl.keystore.location": {"kafka.tls.cert_file", "kafka.tls.key_file"},
	"ssl.key.password":      {"kafka.tls.key_file"},
}

// withoutEffect begins names that a client.properties shared with other tools may well hold, and
// that say nothing about how to reach the cluster.
var withoutEffect = []string{
	"acks", "allow.auto.create.topics", "auto.", "batch.size", "buffer.memory", "check.crcs", "client.dns.lookup",
	"compression.", "connections.max.idle.ms", "default.api.timeout.ms", "delivery.timeout.ms", "enable.auto.commit",
	"enable.idempotence", "enable.metrics.push", "exclude.internal.topics", "fetch.", "interceptor.classes", "isolation.level",
	"key.deserializer", "key.serializer", "linger.ms", "log.connection.close", "max.", "message.", "metadata.max.", "metadata.recovery.",
	"metric.reporters", "metrics.", "partition.assignment.strategy", "partitioner.", "receive.buffer.bytes", "reconnect.",
	"request.timeout.ms", "retries", "retry.backoff.", "sasl.login.", "send.buffer.bytes", "socket.",
	"ssl.cipher.suites", "ssl.enabled.protocols", "ssl.protocol", "ssl.provider", "ssl.truststore.password",
	"ssl.keystore.password", "statistics.interval.ms", "value.deserializer", "value.serializer",
}

func (l *loader) loadCommandConfig(path string) {
	if path == "" {
		return
	}
	name := filepath.Base(path)
	b, err := os.ReadFile(path)
	if err != nil {
		l.bad("read client properties: %w", err)
		return
	}
	before := maps.Clone(l.origin)
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(b)
	if err != nil {
		l.bad("%s: %w", name, err)
		return
	}
	l.addProperties(p.Map(), name+": ")
	for _, k := range keys {
		if l.origin[k.Key] != before[k.Key] && k.Secret {
			l.keepSecret(k.Key, secretFile{path: path, properties: true})
		}
	}
}

// loadX takes -X name=value. Besides the names of other clients it takes ours, so that everything
// can be set from the command line.
func (l *loader) loadX(xs []string) {
	theirs, ours := map[string]string{}, map[string]any{}
	for _, x := range xs {
		name, v, ok := strings.Cut(x, "=")
		name = strings.TrimSpace(name)
		path := pathOf(name)
		switch {
		case !ok, name == "":
			l.bad("-X %s: write -X name=value", x)
		case slices.Contains(names(), general(path)):
			if l.placeInRange(path, "-X ") {
				ours[path] = v
			}
		default:
			theirs[name] = v
		}
	}
	l.addProperties(theirs, "-X ")
	l.add(ours, func(path string) string { return "-X " + shown(path) })
}

// addProperties puts a set of client properties above what is there. where begins the messages.
func (l *loader) addProperties(props map[string]string, where string) {
	layer, from := map[string]any{}, map[string]string{}
	put := func(property, path string, v any) { layer[path], from[path] = v, property }
	for _, name := range sorted(props) {
		v := strings.TrimSpace(props[name])
		path, ok := propertyNames[name]
		switch {
		case ok && strings.HasSuffix(name, ".ms"):
			if _, err := strconv.ParseUint(v, 10, 31); err != nil {
				l.misread(path)
				l.bad("%s%s: %q is not a number of milliseconds", where, name, v)
				continue
			}
			put(name, path, v+"ms")
		case ok:
			put(name, path, v)
		case slices.Contains(javaClient, name):
			if err := translate(name, v, props, put); err != nil {
				l.misread(about[name]...)
				l.bad("%s%s: %w", where, name, err)
			}
		case slices.ContainsFunc(withoutEffect, func(p string) bool { return strings.HasPrefix(name, p) }):
		default:
			near := nearest(name, slices.Concat(sorted(propertyNames), javaClient, names()))
			l.unknown(where+"unknown property "+name, advice(name, near, shown(near)), append(about[near], propertyNames[near], near)...)
		}
	}
	l.add(layer, func(path string) string { return where + from[path] })
}

// translate handles one property of javaClient.
func translate(name, v string, props map[string]string, put func(property, path string, v any)) error {
	switch name {
	case "security.protocol":
		if !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, strings.ToUpper(v)) {
			return fmt.Errorf("%q is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", v)
		}
		put(name, "kafka.tls.enabled", strings.HasSuffix(strings.ToUpper(v), "SSL"))
		put(name, "kafka.sasl.enabled", strings.HasPrefix(strings.ToUpper(v), "SASL"))
	case "sasl.jaas.config":
		login, err := parseJAAS(v)
		if err != nil {
			return err
		}
		if login.mechanism != "" && props["sasl.mechanism"] == "" {
			put(name, "kafka.sasl.mechanism", login.mechanism)
		}
		put(name, "kafka.sasl.username", login.username)
		put(name, "kafka.sasl.password", login.password)
	case "ssl.truststore.location":
		if err := wantPEM(v, props["ssl.truststore.type"]); err != nil {
			return fmt.Errorf("%w; keytool -exportcert -rfc -keystore %s -alias <alias> -file ca.pem, and -X ssl.ca.location=ca.pem", err, v)
		}
		put(name, "kafka.tls.ca_file", v)
	case "ssl.keystore.location":
		if err := wantPEM(v, props["ssl.keystore.type"]); err != nil {
			return fmt.Errorf("%w; keytool -importkeystore -srckeystore %s -destkeystore client.p12 -deststoretype PKCS12, then"+
				" openssl pkcs12 -in client.p12 -nodes -out client.pem, and ssl.keystore.type=PEM with ssl.keystore.location=client.pem", err, v)
		}
		put(name, "kafka.tls.cert_file", v)
		put(name, "kafka.tls.key_file", v)
	case "ssl.key.password":
		return fmt.Errorf("encrypted keys are not read; openssl pkey -in <key> -out key.pem removes the password")
	case "ssl.endpoint.identification.algorithm":
		put(name, "kafka.tls.verify_hostname", v != "" && !strings.EqualFold(v, "none"))
	case "enable.ssl.certificate.verification":
		put(name, "kafka.tls.insecure_skip_verify", strings.EqualFold(v, "false"))
	}
	return nil
}

// wantPEM refuses what is not PEM. A store without a type is JKS to a Java client, unless its name
// says otherwise.
func wantPEM(path, kind string) error {
	if kind == "" {
		switch strings.ToLower(filepath.Ext(path)) {
		case ".pem", ".crt", ".cer":
			kind = "PEM"
		case ".p12", ".pfx":
			kind = "PKCS12"
		default:
			kind = "JKS"
		}
	}
	if strings.EqualFold(kind, "PEM") {
		return nil
	}
	return fmt.Errorf("%s is a %s store, and only PEM is read", path, strings.ToUpper(kind))
}
