package main

import (
	"log/slog"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// settings is what file, environment and flags say once they are put together, and, with processor.Config, the only list of what can be
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

	// AdminListen is where `/metrics`, `/livez`, `/readyz` and `/healthz` are; `off`: nowhere. There is no authentication, so an
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
	// Topic is the delay topic. Needed.
	Topic string `key:"topic"`

	// Target is where records go that name no target. Not with a topic as `retry.target`, which says it there.
	Target string `key:"target"`

	// Allow lists the targets that a record may name in `delay-target-topic`: topics, in which `*` is any run of characters. A
	// producer that may write the delay topic can have us write to all of these. Delay topics, dead letter topics and `__*` are never allowed:
	// a pattern does not reach them, and naming one is an error.
	Allow []string `key:"targets.allow" unset:"only the fixed target"`

	// Delay is a fixed delay for every record, counted from its timestamp; a timestamp ahead of the clock counts as the time at which
	// the record was seen. When it is changed or removed, records that wait keep the one that they were written for. Together with
	// `target` such a route needs no headers at all. Not above `max_delay`.
	Delay time.Duration `key:"delay"`

	// MaxDelay is how far ahead records may ask to be due, without the `jitter` of the route. Others are dead-lettered: mostly it is a mistyped unit.
	MaxDelay time.Duration `key:"max_delay" default:"366d"`

	// DeadLetter is where records go that cannot be delivered. It cannot be a delay topic or a target; several routes may share one.
	DeadLetter string `key:"dead_letter" unset:"the topic's name and .dead"`

	// Emit says which headers delivered records get. `source`: `delay-due` and `delay-source` (`topic/partition/offset` of the request).
	// `all`: `delay-source-timestamp` and `delay-fired`, too. `none`, for sinks that cannot read plain text headers.
	Emit topics.Emit `key:"headers.emit" default:"source" words:"source all none"`

	// Prefix begins the names of our headers in this topic, those of requests and those that delivered records get: small letters, digits, `-`, `_` and `.`,
	// with one of the last three at its end. Names that begin with it and mean nothing are dead-lettered. `__delay.errors.*` and what duewheel writes into the delay topic for itself keep their names.
	Prefix string `key:"headers.prefix" default:"delay-"`

	// Aliases lists presets of headers of other tools that are understood, which docs/requests.md has: `plain`, `etf1`, `karafka`, `cloudevents`, `spring-retry` say when
	// a record is due, and `connect-dlq`, `spring-dlt`, `streams-dlq`, `share-dlq` where it goes. `none` alone: none. A list takes the place of the usual one.
	Aliases []string `key:"headers.aliases" unset:"plain, etf1, karafka and cloudevents; with retry.target from_headers connect-dlq, spring-dlt, streams-dlq and share-dlq; with delay none" empty:"none"`

	// Partitioner says which partition of its target a delivered record gets that asks for none. `murmur2`: by key, as Java, kafkajs, kafka-python and franz-go choose. `crc32`:
	// by key, as librdkafka does by default, so kcat and confluent-kafka. `source_partition`: the number of the partition in which the request was; what its target does not have is dead-lettered.
	Partitioner topics.Partitioner `key:"partitioner" default:"murmur2" words:"murmur2 crc32 source_partition"`

	// Timestamp says which timestamp delivered records get, where the target's `message.timestamp.type` is CreateTime. `fired`: when it was delivered. `due`: when it was due. `original`: that of the request;
	// a target whose `retention.ms` is shorter than the delay may delete such a record at once.
	Timestamp topics.Timestamp `key:"timestamp" default:"fired" words:"fired due original"`

	// Jitter spreads what is due at one instant: up to so much is added to a due time, a share that follows from the record's partition and
	// offset. A record is delivered that much later than it asked for, also one that asks for no delay (`duewheel deliver-now` goes around that). Handles have the due time that was asked for. Not with `delay` or `retry`, and not above `max_delay`.
	Jitter time.Duration `key:"jitter" unset:"none"`

	// Trim says whether duewheel deletes from the topic what it does not need any more, so that the log stays short. Not where another group reads the topic, nor, unless this is true, where not all groups can be seen (Describe on the cluster and on all groups). It takes the
	// right to Delete the topic.
	Trim *bool `key:"trim" unset:"true where retention.ms and retention.bytes of the topic are -1, as topics create makes it"`

	// Carry says whether what is pending is written again, to the end of its partition, before the topic's retention deletes it, and where it keeps a trimmed log
	// long. What it costs is in docs/sizing.md#carrying. `false`: the topic's `retention.ms` must be longer than any delay. Not with `delay`.
	Carry *bool `key:"carry" unset:"true"`

	// Weight is how much of a turn the route gets when more is due than a turn takes, of other routes, too: one with 3 gets three times as much as one with 1.
	// Its partitions share that equally. What a route does not need is left to the others. 1 to 1000.
	Weight int `key:"weight" default:"1"`

	// ExpireAfter is how long after it was due, however long its delay was, a record is of no use: it is dead-lettered then instead of delivered. `delay-expires` says so
	// of one record.
	ExpireAfter time.Duration `key:"expire_after" unset:"never"`

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

	// Remember says for how long the id of a delivered record is remembered, from when that was due on: another record with the id that is
	// written until then is dead-lettered, or left out, as if the first one were pending. The delay topic has to keep its records for as much longer. Not with `ids.on_duplicate: replace`.
	Remember time.Duration `key:"ids.remember" unset:"not at all"`

	Retry retrySettings `key:"retry"`
}

// retrySettings makes a route one for records that a consumer has failed to process. One that says nothing is none.
type retrySettings struct {
	// Target is where records go again. `from_headers`: to the topic that Connect, Spring, Streams or a share group names in the headers of
	// the failed record, or that `delay-target-topic` names. Each key below `retry` makes the route one for retries. Do not add them for a topic with unread requests of the other kind: their due times would be passed over.
	Target string `key:"target" unset:"from_headers"`

	Backoff backoffSettings `key:"backoff"`

	// MaxAttempts is how often a record is delivered again before it is parked.
	MaxAttempts int `key:"max_attempts" default:"8"`

	// Parking is where it goes then, with headers that say why. It cannot be a delay topic or a target.
	Parking string `key:"parking" unset:"the dead letter topic"`

	// Strip lists headers that delivered records lose, besides `delay-*` and `__delay.errors.*`; `*` is any run of characters. So a record does not grow from trip to trip. `none` alone: none.
	Strip []string `key:"strip" unset:"those of Connect, Spring, Streams and share groups" empty:"none"`
}

type backoffSettings struct {
	// Initial is how long a record waits after it has failed for the first time, counted from its arrival.
	Initial time.Duration `key:"initial" default:"10s"`

	// Factor makes each further pause longer. Of no use with `max_attempts: 1`, and refused there, as `max` is.
	Factor *float64 `key:"factor" default:"2"`

	// Max is the longest pause. Not above `max_delay`, and not with `factor: 1`.
	Max time.Duration `key:"max" default:"1h"`

	// Jitter is the part of each pause by which it is longer or shorter, so that what failed together does not come back together.
	Jitter *float64 `key:"jitter" default:"0.2"`
}
