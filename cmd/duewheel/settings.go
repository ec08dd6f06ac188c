package main

import (
	"log/slog"
	"slices"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// settings is what file, environment and flags say once they are put together, and, with processor.Config and topics.Route, the only list of what can be
// set. A zero value means that nothing was said: its user fills in the default.
type settings struct {
	// Brokers lists brokers to begin with, `host:port`, without a scheme. A host alone stands for port 9092.
	Brokers brokers `key:"kafka.brokers"`

	// ClientID is the name in the broker's logs, metrics and quotas.
	ClientID clientID `key:"kafka.client_id" default:"duewheel"`

	// Rack lets records be read from replicas of this rack where the brokers allow it (`replica.selector.class`). One that stops
	// replicating is left within 15 s of being out of sync (`replica.lag.time.max.ms`, 30 s).
	Rack string `key:"kafka.rack"`

	// Compression is how records are compressed that are written. `auto` compresses nothing, as producers of Kafka do, but a record of 16 KiB or more that makes a
	// batch of its own: that by gzip. All consumers can read this; not all read snappy, lz4 or zstd by themselves (docs/requests.md), which save disk and
	// network. A record fits into a topic when it does as compressed by this.
	Compression string `key:"kafka.compression" default:"auto" words:"auto none gzip snappy lz4 zstd"`

	TLS  tlsSettings  `key:"kafka.tls"`
	SASL saslSettings `key:"kafka.sasl"`

	processor.Config
	Routes []routeSettings `key:"routes"`

	// AdminListen is where `/metrics`, `/livez`, `/readyz` and `/healthz` are, and `/presence`, by which other replicas notice at once that this one has
	// ended (docs/operations.md#a-replica-that-is-lost); `off`: nowhere. There is no authentication, so an
	// address that other hosts reach, such as `:9464`, is warned of in the log.
	AdminListen listenAddress `key:"admin.listen" unset:"127.0.0.1:9464, or the next free port"`

	// LogLevel is the least of what is logged.
	LogLevel slog.Level `key:"log.level" default:"info" words:"debug info warn error"`

	// LogFormat is how lines of the log are written.
	LogFormat string `key:"log.format" default:"text" words:"text json"`

	// unread are the keys, with N for a place in a list, of which something was said that could not be
	// understood. That they are missing is not worth a further message.
	unread map[string]bool
	// secrets says in which files those secrets lie, by key, that can be read again at each login.
	secrets map[string]secretFile
}

// isUnread tells whether something that could not be understood was said of one of the keys.
func (s *settings) isUnread(paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return s.unread[general(path)] })
}

// tlsSettings says how to speak TLS. Certificates come as files, or as PEM text as the Java
// client's ssl.keystore.key does.
type tlsSettings struct {
	// Enabled says whether to speak TLS.
	Enabled *bool `key:"enabled" unset:"true when another kafka.tls key is set"`

	// CAFile is a PEM file with the certificates of the authorities that may sign the brokers' certificates. Read again for every connection. While
	// authorities change it has to hold both.
	CAFile string `key:"ca_file" unset:"the system's"`

	// CA is the same as text.
	CA string `key:"ca"`

	// CertFile is a PEM file with our certificate, for mTLS. Read again for every connection, so a renewed one is taken up.
	CertFile string `key:"cert_file"`

	// Cert is the same as text.
	Cert string `key:"cert"`

	// KeyFile is a PEM file with its key, without a password. It may be the same file.
	KeyFile string `key:"key_file"`

	// Key is the same as text.
	Key string `key:"key"`

	// ServerName is the name that the brokers' certificates must have.
	ServerName string `key:"server_name" unset:"the broker's host"`

	// VerifyHostname says whether it is looked at. `false`: the certificate must be good, but may have any name.
	VerifyHostname *bool `key:"verify_hostname" unset:"true"`

	// InsecureSkipVerify takes any certificate, so not beside `verify_hostname: true`. A machine in between can then read and change
	// everything.
	InsecureSkipVerify bool `key:"insecure_skip_verify" default:"false"`
}

type saslSettings struct {
	// Enabled says whether to log in.
	Enabled *bool `key:"enabled" unset:"true when another kafka.sasl key is set"`

	// Mechanism is how to log in.
	Mechanism string `key:"mechanism" words:"PLAIN SCRAM-SHA-256 SCRAM-SHA-512"`

	// Username is the name to log in with. A file that holds it is read again at each login.
	Username string `key:"username" secret:"true"`

	// Password is what proves it. A file that holds it is read again at each login.
	Password string `key:"password" secret:"true"`
}

// routeSettings is one entry of routes.
type routeSettings struct {
	topics.Route // what it declares; of the rest the words that follow are made

	// OnUnknownCancel says what becomes of a cancel of a handle that comes too late, or names nothing that is pending. `count`: the metric
	// `duewheel_cancels_total`. `dead_letter`: it is dead-lettered, too. Not with `delay`.
	OnUnknownCancel string `key:"on_unknown_cancel" default:"count" words:"count dead_letter"`

	// OnLateReplace says what becomes of a replacement when what it names is not pending any more. Not with `delay`.
	OnLateReplace string `key:"on_late_replace" default:"dead_letter" words:"dead_letter deliver"`

	// Mode says what the id of a record is, of which at most one is pending in a partition. `headers`: what `delay-id` says. `keyed`: the
	// record's key, and a record with a null value cancels what has its key. Not with `delay` or `retry`, where there are no ids.
	Mode string `key:"mode" default:"headers" words:"headers keyed"`

	// OnDuplicate says what becomes of a record whose id another one has that is pending. `reject`: it is dead-lettered, with the code
	// `duplicate_id`. `replace`: it takes the place of the other one. `ignore`: it is left out, and counted in `duewheel_cancels_total`.
	// Not with `delay` or `retry`.
	OnDuplicate string `key:"ids.on_duplicate" unset:"reject; with mode keyed replace" words:"reject replace ignore"`

	Retry retrySettings `key:"retry"`
}

// retrySettings makes a route one for records that a consumer has failed to process. One that says nothing is none.
type retrySettings struct {
	// Target is where records go again. `from_headers`: to the topic that Connect, Spring, Streams or a share group names in the headers of
	// the failed record, or that `delay-target-topic` names. Each key below `retry` makes the route one for retries. Do not add them for a topic with unread requests of the other kind: their due times would be passed over.
	Target string `key:"target" unset:"from_headers"`

	Backoff backoffSettings `key:"backoff"`

	topics.Retrying
}

type backoffSettings struct {
	topics.Backoff

	// Factor makes each further pause longer. Of no use with `max_attempts: 1`, and refused there, as `max` is.
	Factor *float64 `key:"factor" default:"2"`

	// Jitter is the part of each pause by which it is longer or shorter, so that what failed together does not come back together.
	Jitter *float64 `key:"jitter" default:"0.2"`
}
