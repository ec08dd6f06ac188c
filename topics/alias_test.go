package topics

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Headers of other tools are taken for ours, and the record loses them when it is delivered.
func TestAliases(t *testing.T) {
	const spring = "\x01\x9b\x76\xda\xbc\x03"
	for _, tt := range []struct {
		name    string
		spec    string
		headers []kgo.RecordHeader
		want    Request
		left    string // of what was delivered
	}{
		{"plain", "p1", headers("deliver-at", "1767225605123", "a", "b"), Request{Due: T, Partition: -1, Preset: PresetPlain}, "a"},
		{"plain for", "p1", headers("deliver-after", "5 s"), Request{Due: T + 5000, Partition: -1, Preset: PresetPlain}, ""},
		{"RabbitMQ's", "p1", headers("x-delay", "5000"), Request{Due: T + 5000, Partition: -1, Preset: PresetPlain}, ""},
		{"the first of a preset counts", "p1", headers("x-delay", "1", "deliver-after", "5s", "deliver-at", "1767225605"), Request{Due: T - 123, Partition: -1, Preset: PresetPlain}, ""},
		{"the first of two delays, too", "p1", headers("deliver-after", "5s", "x-delay", "1"), Request{Due: T + 5000, Partition: -1, Preset: PresetPlain}, ""},
		{"the next one where the first is absent", "p1", headers("deliver-after", "", "x-delay", "5000"), Request{Due: T + 5000, Partition: -1, Preset: PresetPlain}, ""},
		{"etf1", "p1", headers("scheduler-epoch", "1767225605", "scheduler-target-topic", "orders", "scheduler-target-key", "k", "scheduler-other", "x"),
			Request{Due: T - 123, Target: []byte("orders"), TargetBy: "scheduler-target-topic", Key: []byte("k"), HasKey: true, Partition: -1, Preset: PresetETF1}, "scheduler-other"},
		{"karafka", "p1", headers("schedule_schema_version", "1.0.0", "schedule_target_epoch", "1767225605", "schedule_source_type", "schedule",
			"schedule_target_topic", "orders", "schedule_target_key", "k", "schedule_target_partition", "2"),
			Request{Due: T - 123, Target: []byte("orders"), TargetBy: "schedule_target_topic", Key: []byte("k"), HasKey: true, Partition: 2, Preset: PresetKarafka}, ""},
		{"karafka's type alone does not say when", "p1", headers("schedule_source_type", "schedule", "x-delay", "5000"), Request{Due: T + 5000, Partition: -1, Preset: PresetPlain}, "schedule_source_type"},
		{"karafka cancels a key", "p1/kr", headers("schedule_schema_version", "1.0.0", "schedule_source_type", "cancel"), Request{Kind: KindCancel, Partition: -1, NamedID: []byte("key"), Preset: PresetKarafka}, ""},
		{"karafka's tombstone", "p1/kr", headers("schedule_source_type", "tombstone"), Request{Kind: KindCancel, Partition: -1, NamedID: []byte("key"), Preset: PresetKarafka}, ""},
		{"cloudevents", "p1", headers("ce_id", "1", "ce_deliverat", "2026-01-01T00:00:05.123Z", "ce_expirytime", "2026-01-01T00:00:07Z"),
			Request{Due: T, Partition: -1, Expires: 1767225607000, Preset: PresetCloudEvents}, "ce_id ce_expirytime"},
		{"cloudevents for", "p1", headers("ce_deliverafter", "PT5S"), Request{Due: T + 5000, Partition: -1, Preset: PresetCloudEvents}, ""},
		{"spring-retry", "p1!s", headers("retry_topic-attempts", "\x00\x00\x00\x02", "retry_topic-backoff-timestamp", spring, "kafka_original-topic", "orders"),
			Request{Due: T, Target: []byte("orders"), TargetBy: "kafka_original-topic", Partition: -1, Preset: PresetSpringRetry}, "retry_topic-attempts kafka_original-topic"},
		{"own headers win", "p1", headers("delay-for", "1s", "x-delay", "5000", "scheduler-target-topic", "orders"), Request{Due: T + 1000, Partition: -1}, "x-delay scheduler-target-topic"},
		{"an own one that is absent does not", "p1", headers("delay-for", "", "x-delay", "5000"), Request{Due: T + 5000, Partition: -1, Preset: PresetPlain}, ""},
		{"what was emitted before does not", "p1", headers("delay-due", "7", "delay-source", "a/0/0", "x-delay", "5000"), Request{Due: T + 5000, Partition: -1, Preset: PresetPlain}, ""},
		{"one that does not say when is the user's own", "p1", headers("delay-for", "1s", "ce_expirytime", "2001-01-01T00:00:00Z", "scheduler-target-key", "k"), Request{Due: T + 1000, Partition: -1}, "ce_expirytime scheduler-target-key"},
		{"of another preset than that which says when", "p1", headers("x-delay", "5000", "scheduler-target-topic", "bills", "ce_expirytime", "2001-01-01T00:00:00Z"), Request{Due: T + 5000, Partition: -1, Preset: PresetPlain}, "scheduler-target-topic ce_expirytime"},
		{"a preset that is off", "p1!e", headers("x-delay", "7", "scheduler-epoch", "1767225605"), Request{Due: T - 123, Partition: -1, Preset: PresetETF1}, "x-delay"},
		{"a fixed delay has none", "p1+1000", headers("x-delay", "7"), Request{Due: T + 1000, Partition: -1}, "x-delay"},
		{"a retry route has none", "r1+1000+2000+60000+0", headers("x-delay", "7"), Request{Due: AtOnce, Partition: -1, AtOnce: true, Pause: 1000}, "x-delay"},
		{"what is tried again", "p1", headers("scheduler-epoch", "1767225605", "scheduler-target-topic", "orders", "delay-retry", "a8098c1a:billing:3:7:1:1:1:1767225605123"),
			Request{Due: T, Target: []byte("orders"), TargetBy: "scheduler-target-topic", Partition: -1, Retry: true, Attempt: 1, Origin: Origin{7, 1, 1}, Preset: PresetETF1}, ""},
		{"another prefix", "p1^x-wheel-", headers("x-wheel-for", "1s", "x-wheel-target-topic", "orders", "delay-for", "mine"), Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "x-wheel-target-topic", Partition: -1}, "delay-for"},
		{"another prefix and an alias", "p1^x-wheel-", headers("x-delay", "5000", "delay-for", "mine"), Request{Due: T + 5000, Partition: -1, Preset: PresetPlain}, "delay-for"},
		{"an id there", "p1^x-wheel-", headers("x-wheel-for", "1s", "x-wheel-id", "x"), Request{Due: T + 1000, Partition: -1, ID: []byte("x"), IDAt: 2}, ""},
		{"a replacement there", "p1^x-wheel-", headers("x-wheel-replace", "x", "x-wheel-for", "1s"), Request{Due: T + 1000, Partition: -1, ID: []byte("x"), NamedID: []byte("x"), Replaces: true, IDAt: 1}, ""},
		{"a cancel of ours there", "p1^x-wheel-", headers("delay-cancel", "x", "delay-forwarded", "a8098c1a:billing:3:4:41:700"), Request{Kind: KindCancel, Partition: -1, NamedID: []byte("x"), Forwarded: true, WrittenBy: 700}, ""},
		{"what is tried again there", "p1^x-wheel-", headers("x-wheel-for", "1s", "delay-retry", "a8098c1a:billing:3:7:1:1:1:1767225605123"), Request{Due: T, Partition: -1, Retry: true, Attempt: 1, Origin: Origin{7, 1, 1}}, ""},
		{"the attempt of a retry route there", "r1+1000+2000+60000+0^x-wheel-", headers("x-wheel-attempt", "1", "delay-attempt", "5"), Request{Due: AtOnce, Partition: -1, AtOnce: true, Pause: 2000, Round: 1}, "delay-attempt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, stamp := parser(t, tt.spec), Stamp{Millis: T, Key: []byte("key")}
			got, err := p.Parse(tt.headers, stamp, 42, ours)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, got, tt.want)
			if got.Kind != KindRequest {
				return
			}
			again, err := readAgain(p, tt.headers, stamp, got.Due, 42, ours)
			if equal(t, again, got); err != nil {
				t.Error(err)
			}
			out, _ := AppendDelivered(nil, tt.headers, &Delivered{Preset: got.Preset, Prefix: p.ours(), Emit: EmitNone}, nil)
			var left []string
			for _, h := range out {
				left = append(left, h.Key)
			}
			equal(t, strings.Join(left, " "), tt.left)
		})
	}
}

func TestAliasesRefuse(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		headers    []kgo.RecordHeader
		code       Code
		header     string
		says       string
	}{
		{"two presets", "p1", headers("x-delay", "7", "scheduler-epoch", "1767225605"), CodeUnsupportedHeader, "scheduler-epoch", "x-delay and scheduler-epoch both say"},
		{"the alias is to blame", "p1", headers("deliver-at", "soon"), CodeUnparsableDue, "deliver-at", "an offset like"},
		{"its target, too", "p1", headers("scheduler-epoch", "1767225605", "scheduler-target-topic", "a b"), CodeInvalidTarget, "scheduler-target-topic", "249"},
		{"its expiry, too", "p1", headers("ce_deliverat", "2026-01-01T00:00:05Z", "ce_expirytime", "soon"), CodeInvalidExpiry, "ce_expirytime", "an offset like"},
		{"milliseconds where seconds belong", "p1", headers("scheduler-epoch", "1767225605123"), CodeDueOutOfRange, "scheduler-epoch", "in ms it is 2026-01-01T00:00:05.123Z"},
		{"beside a header of ours", "p1", headers("delay-target-topic", "orders", "x-delay", "7"), CodeNoDue, "", "it has x-delay, which does not count beside"},
		{"beside an empty one", "p1", headers("delay-target-topic", "orders", "x-delay", "", "deliver-at", "7"), CodeNoDue, "", "it has deliver-at, which does not count beside"},
		{"in capitals", "p1", headers("trace", "1", "X-Delay", "7"), CodeNoDue, "", "it has X-Delay, and names are lower case: write x-delay"},
		{"in capitals, and empty", "p1", headers("X-Delay", "", "Deliver-At", "7"), CodeNoDue, "", "it has Deliver-At, and names are lower case: write deliver-at"},
		{"of a preset that is off", "p1!e", headers("x-delay", "7"), CodeNoDue, "", "does not list plain"},
		{"spring-retry is off", "p1", headers("retry_topic-backoff-timestamp", "1767225605123"), CodeNoDue, "", "does not list spring-retry"},
		{"a key to choose the partition by", "p1", headers("schedule_target_epoch", "1767225605", "schedule_target_partition_key", "x"), CodeUnsupportedHeader, "schedule_target_partition_key", "not support"},
		{"a cancel where the key is no id", "p1", headers("schedule_source_type", "cancel"), CodeUnsupportedHeader, "schedule_source_type", "mode: keyed"},
		{"another type", "p1", headers("schedule_source_type", "repeat"), CodeUnsupportedHeader, "schedule_source_type", "neither schedule nor cancel"},
		{"a name with another prefix", "p1^x-wheel-", headers("x-wheel-untill", "7"), CodeUnsupportedHeader, "x-wheel-untill", "did you mean x-wheel-until?"},
		{"another case of it", "p1^x-wheel-", headers("X-Wheel-Until", "7"), CodeUnsupportedHeader, "X-Wheel-Until", "write x-wheel-until"},
		{"nothing with another prefix", "p1^x-wheel-", headers("delay-until", "7"), CodeNoDue, "", "neither x-wheel-until nor x-wheel-for"},
		{"what cannot be read with another prefix", "p1^x-wheel-", headers("x-wheel-until", "soon"), CodeUnparsableDue, "x-wheel-until", "an offset like"},
		{"not supported yet, with another prefix", "p1^x-wheel-", headers("x-wheel-cron", "soon"), CodeUnsupportedHeader, "x-wheel-cron", "not support"},
		{"a header of ours made up with another prefix", "p1^x-wheel-", headers("x-wheel-for", "1s", "x-wheel-retry", "x"), CodeUnsupportedHeader, "x-wheel-retry", "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parser(t, tt.spec).Parse(tt.headers, Stamp{Millis: T, Key: []byte("key")}, 42, ours)
			var r *Refusal
			if !errors.As(err, &r) {
				t.Fatalf("got %+v", got)
			}
			if r.Code != tt.code || r.Header != tt.header || !strings.Contains(r.Message, tt.says) {
				t.Errorf("got %s of %q: %s\nwant %s of %q: … %s …", r.Code, r.Header, r.Message, tt.code, tt.header, tt.says)
			}
		})
	}
}

// Beside a header of ours that asks for something, whatever it is, no alias says when.
func TestAliasesBesideOurs(t *testing.T) {
	for name, value := range map[string]string{HeaderTargetTopic: "orders", HeaderTargetKey: "k", HeaderTargetPartition: "1", HeaderExpires: "1767225606123", HeaderID: "a", HeaderReplace: "a"} {
		t.Run(name, func(t *testing.T) {
			got, err := parser(t, "p1").Parse(headers(name, value, "x-delay", "7"), Stamp{Millis: T, Key: []byte("key")}, 42, ours)
			var r *Refusal
			if !errors.As(err, &r) || r.Code != CodeNoDue {
				t.Errorf("got %+v and %v, want %s", got, err, CodeNoDue)
			}
		})
	}
}

// What is looked up by name is the table.
func TestAliasAt(t *testing.T) {
	for i, a := range aliases {
		want := i
		if a.Name == "kafka_original-topic" {
			want = 17 // of two presets
		} else if a.Preset.dlq() {
			want = -1
		}
		if got := aliasAt(a.Name); got != want {
			t.Errorf("%s is at %d, want %d", a.Name, got, want)
		}
		if fieldOf(a.For, HeaderPrefix) != a.field && a.For != "" {
			t.Errorf("%s stands for %s, and is field %d", a.Name, a.For, a.field)
		}
	}
	if !slices.Equal(SourceHeaders, []string{"__connect.errors.topic", "kafka_dlt-original-topic", "kafka_original-topic", "__streams.errors.topic", "__dlq.errors.topic"}) {
		t.Errorf("the sources are %v", SourceHeaders)
	}
}

// A spec says what is not usual of aliases and prefix, and the parser that it names is that of the route.
func TestSpecsOfNames(t *testing.T) {
	for spec, r := range map[string]Route{
		"p1":                           {},
		"p1!":                          {Aliases: []string{"none"}},
		"p1!pe":                        {Aliases: []string{"etf1", "plain"}},
		"p1!pekcs":                     {Aliases: []string{"plain", "etf1", "karafka", "cloudevents", "spring-retry", "connect-dlq"}},
		"p1~500/kr!^x-wheel-":          {Jitter: 500e6, Keyed: true, OnDuplicate: DuplicateReplaces, Aliases: []string{"connect-dlq"}, Prefix: "x-wheel-"},
		"p1^dw.":                       {Prefix: "dw."},
		"p1+1000":                      {Delay: time.Second, Aliases: []string{"spring-dlt"}},
		"p1+1000^dw_":                  {Delay: time.Second, Prefix: "dw_"},
		"r1+1000+2000+60000+0":         {Retry: &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Minute}, MaxAttempts: 1}},
		"r1+1000+2000+60000+0^delays-": {Retry: &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Minute}, MaxAttempts: 1, FromHeaders: true}, Prefix: "delays-"},
	} {
		r.Topic, r.Target, r.DeadLetter = "t", "orders", "t.dead"
		made, err := NewRoutes(r)
		if err != nil {
			t.Fatal(spec, err)
		}
		equal(t, made[0].Spec(), spec)
		p, err := made[0].ParserFor(spec)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, p, made[0].Parser())
	}
	for _, bad := range []string{"p1!pekc", "p1!ep", "p1!pp", "p1!x", "p1!.", "p1^delay-", "p1^", "p1^x", "p1^X-", "p1^x-^x-", "p1!!", "p1^x-!p", "p1+1000!", "p1/k!pekc", "r1+1000+2000+60000+0!", "p1^__x-", "p1^" + strings.Repeat("x", 32) + "-"} {
		if _, err := ParserFor(bad); !errors.Is(err, ErrUnknownParser) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestRoutesRefuseNames(t *testing.T) {
	retry := &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Minute}, MaxAttempts: 1}
	for _, tt := range []struct {
		route Route
		says  string
	}{
		{Route{Prefix: "X-"}, "small letters"},
		{Route{Prefix: "wheel"}, "ends with a dash"},
		{Route{Prefix: "__delay-"}, "does not begin with __"},
		{Route{Prefix: "x"}, "2 to 32"},
		{Route{Prefix: "x-"}, `"x-" begins the header x-delay of the preset plain`},
		{Route{Prefix: "ce_"}, "begins the header ce_deliverat"},
		{Route{Aliases: []string{"etf"}}, `has "etf", which is none of plain, etf1, karafka`},
		{Route{Aliases: []string{"none", "plain"}}, "none beside others"},
		{Route{Aliases: []string{"plain"}, Delay: time.Second}, "does nothing on a route with a fixed delay: plain says when"},
		{Route{Aliases: []string{"spring-retry"}, Retry: retry}, "does nothing on a retry route: spring-retry says when"},
		{Route{Aliases: []string{"connect-dlq"}, Retry: retry}, "retry.target is orders: write retry.target: from_headers"},
	} {
		tt.route.Topic, tt.route.Target, tt.route.DeadLetter = "t", "orders", "t.dead"
		if _, err := NewRoutes(tt.route); err == nil || !strings.Contains(err.Error(), tt.says) || strings.Count(err.Error(), "\n") > 1 {
			t.Errorf("%+v: got %v, want … %s …", tt.route, err, tt.says)
		}
	}
}

// Every problem with names is told at once.
func TestRoutesRefuseAllNames(t *testing.T) {
	_, err := NewRoutes(Route{Topic: "t", Target: "orders", DeadLetter: "t.dead", Prefix: "X-", Aliases: []string{"etf", "plain", "none", "karavka"}})
	for _, says := range []string{"small letters", `has "etf"`, "none beside others", `has "karavka"`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want … %s …", err, says)
		}
	}
}

// What is no header has no prefix.
func TestHeaderOfARoute(t *testing.T) {
	for name, want := range map[string]string{HeaderUntil: "x-wheel-until", HeaderSourceTimestamp: "x-wheel-source-timestamp", "": ""} {
		if got := (&Route{Prefix: "x-wheel-"}).Header(name); got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
}

// Where a record that could not be processed was, the presets that the route lists say, on any route.
func TestPresetsNameTheTarget(t *testing.T) {
	r := route(t, Route{Delay: time.Second, Allow: []string{"*"}, Aliases: []string{"streams-dlq", "connect-dlq"}})
	for _, tt := range []struct {
		headers []kgo.RecordHeader
		want    string
	}{
		{headers("__streams.errors.topic", "a", "__connect.errors.topic", "b", "__connect.errors.topic", "c"), "c"},
		{headers("__streams.errors.topic", "a", "__dlq.errors.topic", "b"), "a"},
		{headers("__streams.errors.topic", "a", "delay-target-topic", "d"), "d"},
		{headers("__dlq.errors.topic", "b"), ""},
	} {
		q, err := r.Parser().Parse(tt.headers, Stamp{Millis: T}, 42, ours)
		if err != nil || string(q.Target) != tt.want {
			t.Errorf("%v: got %s, %v, want %s", tt.headers, q.Target, err, tt.want)
		}
	}
}
