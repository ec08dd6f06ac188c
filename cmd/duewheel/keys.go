package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// key is one thing that can be set. keys is the only list of them: the file, the environment, the
// flags, the messages about unknown names and docs/configuration.md go by it.
type key struct {
	name   string // the path; an N stands for a place in a list
	def    string // the default, as the reference prints it
	secret bool   // name_file may name a file that holds the value
	set    func(s *settings, n int, v any) error
}

var keys = []key{
	{name: "kafka.brokers", set: value(asBrokers, func(s *settings) *[]string { return &s.Brokers })},
	{name: "kafka.client_id", def: "duewheel", set: value(asClientID, func(s *settings) *string { return &s.ClientID })},
	{name: "kafka.rack", set: text(func(s *settings) *string { return &s.Rack })},
	{name: "kafka.compression", def: "snappy", set: oneOf(func(s *settings) *string { return &s.Compression }, "none", "gzip", "snappy", "lz4", "zstd")},
	{name: "kafka.tls.enabled", def: "true when another kafka.tls key is set", set: flag(func(s *settings) **bool { return &s.TLS.Enabled })},
	{name: "kafka.tls.ca_file", def: "the system's", set: text(func(s *settings) *string { return &s.TLS.CAFile })},
	{name: "kafka.tls.ca", set: text(func(s *settings) *string { return &s.TLS.CA })},
	{name: "kafka.tls.cert_file", set: text(func(s *settings) *string { return &s.TLS.CertFile })},
	{name: "kafka.tls.cert", set: text(func(s *settings) *string { return &s.TLS.Cert })},
	{name: "kafka.tls.key_file", set: text(func(s *settings) *string { return &s.TLS.KeyFile })},
	{name: "kafka.tls.key", set: text(func(s *settings) *string { return &s.TLS.Key })},
	{name: "kafka.tls.server_name", def: "the broker's host", set: text(func(s *settings) *string { return &s.TLS.ServerName })},
	{name: "kafka.tls.verify_hostname", def: "true", set: flag(func(s *settings) **bool { return &s.TLS.VerifyHostname })},
	{name: "kafka.tls.insecure_skip_verify", def: "false", set: yes(func(s *settings) *bool { return &s.TLS.InsecureSkipVerify })},
	{name: "kafka.sasl.enabled", def: "true when kafka.sasl.mechanism is set", set: flag(func(s *settings) **bool { return &s.SASL.Enabled })},
	{name: "kafka.sasl.mechanism", set: oneOf(func(s *settings) *string { return &s.SASL.Mechanism }, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")},
	{name: "kafka.sasl.username", secret: true, set: text(func(s *settings) *string { return &s.SASL.Username })},
	{name: "kafka.sasl.password", secret: true, set: text(func(s *settings) *string { return &s.SASL.Password })},

	{name: "group.id", set: text(func(s *settings) *string { return &s.Group })},
	{name: "group.protocol", def: "classic", set: oneOf(func(s *settings) *processor.Protocol { return &s.Protocol }, processor.ProtocolClassic, processor.ProtocolConsumer)},
	{name: "group.instance_id", set: text(func(s *settings) *string { return &s.InstanceID })},
	{name: "group.session_timeout", def: "10s", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.SessionTimeout })},
	{name: "group.heartbeat_interval", def: "500ms", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.HeartbeatInterval })},

	{name: "guarantee", def: "exactly_once", set: oneOf(func(s *settings) *processor.Guarantee { return &s.Guarantee }, processor.ExactlyOnce, processor.AtLeastOnce)},
	{name: "lanes", def: "the number of CPUs, at most 4", set: value(some(asInt), func(s *settings) *int { return &s.Lanes })},
	{name: "standbys", def: "0", set: value(asInt, func(s *settings) *int { return &s.Standbys })},
	{name: "state.dir", def: "duewheel-state", set: text(func(s *settings) *string { return &s.StateDir })},
	{name: "memory.budget", def: "256MiB", set: value(some(asSize), func(s *settings) *int64 { return &s.MemoryBudget })},
	{name: "transaction_timeout", def: "30s", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.TransactionTimeout })},
	{name: "near_window", def: "30s", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.NearWindow })},
	{name: "batch.records", def: "20000", set: value(some(asInt), func(s *settings) *int { return &s.BatchRecords })},
	{name: "batch.bytes", def: "16MiB", set: value(some(asSize), func(s *settings) *int64 { return &s.BatchBytes })},
	{name: "commit_interval", def: "1s; at_least_once: 250ms", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.CommitInterval })},
	{name: "turn_timeout", def: "5s", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.TurnTimeout })},
	{name: "shutdown_timeout", def: "20s", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.ShutdownTimeout })},
	{name: "retry_backoff", def: "1s", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.RetryBackoff })},
	{name: "retry_backoff_max", def: "5m", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.RetryBackoffMax })},
	{name: "unknown_target_after", def: "5s", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.UnknownTargetAfter })},
	{name: "forbidden_target_after", def: "10m", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.ForbiddenTargetAfter })},
	{name: "max_clock_skew", def: "1s", set: value(some(asDuration), func(s *settings) *time.Duration { return &s.MaxClockSkew })},
	{name: "accept_loss", def: "false", set: yes(func(s *settings) *bool { return &s.AcceptLoss })},
	{name: "instance", def: "random", set: text(func(s *settings) *string { return &s.Instance })},

	{name: "routes.N.topic", set: routeText(func(r *routeSettings) *string { return &r.Topic })},
	{name: "routes.N.target", set: routeText(func(r *routeSettings) *string { return &r.Target })},
	{name: "routes.N.targets.allow", def: "only the fixed target", set: func(s *settings, n int, v any) (err error) {
		s.Routes[n].Allow, err = asList(v)
		return err
	}},
	{name: "routes.N.delay", set: func(s *settings, n int, v any) (err error) {
		s.Routes[n].Delay, err = some(asDuration)(v)
		return err
	}},
	{name: "routes.N.max_delay", def: "366d", set: func(s *settings, n int, v any) (err error) {
		s.Routes[n].MaxDelay, err = some(asDuration)(v)
		return err
	}},
	{name: "routes.N.dead_letter", def: "<topic>.dead", set: routeText(func(r *routeSettings) *string { return &r.DeadLetter })},
	{name: "routes.N.headers.emit", def: "all", set: func(s *settings, n int, v any) error {
		return oneOf(func(s *settings) *string { return &s.Routes[n].Emit }, "all", "none")(s, n, v)
	}},

	{name: "admin.listen", def: "127.0.0.1:9464, or the next free port", set: value(asListen, func(s *settings) *string { return &s.AdminListen })},
	{name: "log.level", def: "info", set: func(s *settings, _ int, v any) error {
		t, err := asString(v)
		if err == nil && s.LogLevel.UnmarshalText([]byte(t)) != nil {
			err = fmt.Errorf("%q is not one of debug, info, warn, error", t)
		}
		return err
	}},
	{name: "log.format", def: "text", set: oneOf(func(s *settings) *string { return &s.LogFormat }, "text", "json")},
}

// explain says of a 0 what to do instead.
func (k key) explain(err error) error {
	switch {
	case !errors.Is(err, errZero):
		return err
	case k.def == "":
		return fmt.Errorf("%w: leave it out", err)
	}
	return fmt.Errorf("%w: leave it out for the default, %s", err, k.def)
}

// value sets what field points at to what parse makes of a value.
func value[T any](parse func(any) (T, error), field func(*settings) *T) func(*settings, int, any) error {
	return func(s *settings, _ int, v any) error {
		t, err := parse(v)
		if err == nil {
			*field(s) = t
		}
		return err
	}
}

// errZero is the error of a 0 where it would mean the same as to say nothing.
var errZero = errors.New("0 is no value")

// some refuses 0, which would silently be taken for the default.
func some[T int | int64 | time.Duration](parse func(any) (T, error)) func(any) (T, error) {
	return func(v any) (T, error) {
		n, err := parse(v)
		if err == nil && n == 0 {
			err = errZero
		}
		return n, err
	}
}

func text(field func(*settings) *string) func(*settings, int, any) error {
	return value(asString, field)
}

func yes(field func(*settings) *bool) func(*settings, int, any) error { return value(asBool, field) }

func flag(field func(*settings) **bool) func(*settings, int, any) error {
	return value(func(v any) (*bool, error) {
		b, err := asBool(v)
		return &b, err
	}, field)
}

func routeText(field func(*routeSettings) *string) func(*settings, int, any) error {
	return func(s *settings, n int, v any) error {
		t, err := asString(v)
		if err == nil {
			*field(&s.Routes[n]) = t
		}
		return err
	}
}

func oneOf[T ~string](field func(*settings) *T, words ...T) func(*settings, int, any) error {
	return value(func(v any) (T, error) {
		t, err := asString(v)
		if err != nil {
			return "", err
		}
		var known []string
		for _, w := range words {
			if strings.EqualFold(t, string(w)) {
				return w, nil
			}
			known = append(known, string(w))
		}
		return "", fmt.Errorf("%q is not one of %s", t, strings.Join(known, ", "))
	}, field)
}

var listPlace = regexp.MustCompile(`\.(\d+)\b`)

// general is a path with an N for every place in a list, as keys spells it.
func general(path string) string { return listPlace.ReplaceAllString(path, ".N") }

// shown is a path as people write it: routes[0].topic.
func shown(path string) string {
	return strings.ReplaceAll(listPlace.ReplaceAllString(path, "[$1]"), ".N", "[N]")
}

// envName is the environment's name for a path.
func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// names are all paths that can be set, those of secrets' files too.
func names() []string {
	var all []string
	for _, k := range keys {
		all = append(all, k.name)
		if k.secret {
			all = append(all, k.name+"_file")
		}
	}
	return all
}

// isSection reports whether keys lie below a path.
func isSection(path string) bool {
	for _, k := range keys {
		if strings.HasPrefix(k.name, path+".") {
			return true
		}
	}
	return false
}
