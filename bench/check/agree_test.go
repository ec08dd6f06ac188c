package check_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/topics"
)

// The checker reads requests by itself. Here both readings are held against each other: what the processor makes of a request is nothing that a survey
// calls a fault.

const agreeNow = int64(1767225600000)

var (
	agreeID   = [16]byte{1, 2, 3, 4}
	agreeMark = topics.NewMark([4]byte(agreeID[:4]), "g", 3)
)

// agreeing is one route as the processor and as the checker have it.
type agreeing struct {
	name  string
	route topics.Route
	as    check.Route
}

func agreeings() []agreeing {
	usual := []string{"plain", "etf1", "karafka", "cloudevents", "spring-retry"}
	dlqs := []string{"spring-retry", "spring-dlt", "connect-dlq"}
	strip := append([]string{"f*"}, topics.ErrorHeaders...)
	retry := func(strip ...string) (*topics.Retrying, *check.Retry) {
		return &topics.Retrying{Backoff: topics.Backoff{Initial: 10 * time.Second, Factor: 2, Max: time.Hour, Jitter: 0.2}, MaxAttempts: 3, FromHeaders: true, Strip: strip},
			&check.Retry{Initial: 10 * time.Second, Factor: 2, Max: time.Hour, Jitter: 0.2, MaxAttempts: 3, FromHeaders: true, Strip: strip}
	}
	again, asAgain := retry()
	stripped, asStripped := retry(strip...)
	return []agreeing{
		{"no target", topics.Route{}, check.Route{}},
		{"usual", topics.Route{Target: "orders"}, check.Route{Target: "orders"}},
		{"prefix", topics.Route{Target: "orders", Prefix: "x-wheel-"}, check.Route{Target: "orders", Prefix: "x-wheel-"}},
		{"jitter", topics.Route{Target: "orders", Jitter: 1500 * time.Millisecond}, check.Route{Target: "orders", Jitter: 1500 * time.Millisecond}},
		{"max delay", topics.Route{Target: "orders", MaxDelay: time.Hour}, check.Route{Target: "orders", MaxDelay: time.Hour}},
		{"jitter, max delay", topics.Route{Target: "orders", Jitter: 40 * time.Hour, MaxDelay: 48 * time.Hour}, check.Route{Target: "orders", Jitter: 40 * time.Hour, MaxDelay: 48 * time.Hour}},
		{"expiry", topics.Route{Target: "orders", ExpireAfter: time.Minute}, check.Route{Target: "orders", ExpireAfter: time.Minute}},
		{"keyed", topics.Route{Target: "orders", Keyed: true}, check.Route{Target: "orders", Keyed: true}},
		{"keyed, prefix", topics.Route{Target: "orders", Keyed: true, Prefix: "x-wheel-"}, check.Route{Target: "orders", Keyed: true, Prefix: "x-wheel-"}},
		{"fixed", topics.Route{Target: "orders", Delay: time.Minute}, check.Route{Target: "orders", Delay: time.Minute}},
		{"all tools", topics.Route{Target: "orders", Aliases: usual}, check.Route{Target: "orders", Tools: usual}},
		{"dead letters", topics.Route{Aliases: dlqs}, check.Route{Tools: dlqs}},
		{"no tools", topics.Route{Target: "orders", Aliases: []string{"none"}}, check.Route{Target: "orders", Tools: []string{"none"}}},
		{"emit all", topics.Route{Target: "orders", Emit: topics.EmitAll}, check.Route{Target: "orders", Emit: "all"}},
		{"original", topics.Route{Target: "orders", Timestamp: topics.TimestampOriginal}, check.Route{Target: "orders", Timestamp: "original"}},
		{"due", topics.Route{Target: "orders", Timestamp: topics.TimestampDue, Emit: topics.EmitAll}, check.Route{Target: "orders", Timestamp: "due", Emit: "all"}},
		{"retry", topics.Route{Retry: again}, check.Route{Retry: asAgain}},
		{"strip", topics.Route{Target: "orders", Retry: stripped}, check.Route{Target: "orders", Retry: asStripped}},
		{"retry, prefix", topics.Route{Target: "orders", Retry: again, Prefix: "x-wheel-"}, check.Route{Target: "orders", Retry: asAgain, Prefix: "x-wheel-"}},
	}
}

// made makes both ready.
func (a agreeing) made(t *testing.T) (*topics.Route, *check.Checker) {
	t.Helper()
	r, as := a.route, a.as
	r.Topic, r.DeadLetter, r.Allow = "requests", "requests.dead", []string{"orders", "bills"}
	as.Topic, as.DeadLetter, as.Allow, as.TopicID, as.Group = r.Topic, r.DeadLetter, r.Allow, agreeID, "g"
	routes, err := topics.NewRoutes(r)
	if err != nil {
		t.Fatal(err)
	}
	c, err := check.New(check.Config{Routes: []check.Route{as}, Targets: []check.Target{{Topic: "orders"}, {Topic: "bills"}}, Survey: nothing{}})
	if err != nil {
		t.Fatal(err)
	}
	c.Window("requests", 3, 0, 1<<40)
	return routes[0], c
}

// nothing is known of a group.
type nothing struct{}

func (nothing) Resolved(check.Source, int64, int64) bool { return false }
func (nothing) Unseen(check.Unseen) check.Verdict        { return check.Verdict{} }

func TestAgrees(t *testing.T) {
	for i, a := range agreeings() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			route, c := a.made(t)
			d := drawing{rand.New(rand.NewPCG(uint64(i), 0)), a.route.Prefix}
			var all []*kgo.Record
			arrived := 0
			for offset := range int64(10_000) {
				r := d.request(offset)
				all = append(all, r)
				if wrong := disagree(route, c, r); wrong != "" {
					t.Errorf("%s: %s", shown(r), wrong)
				}
				arrived += arrive(route, c, r)
			}
			for k, found := range c.Report().Found {
				if kind := check.Kind(k); kind != check.Missing && kind != check.Overdue && found.Count > 0 {
					t.Errorf("%v: %d, the first of %s: %v", kind, found.Count, shown(all[found.First[0].Source.Offset]), found.First[0])
				}
			}
			if arrived < 1000 && !route.Keyed {
				t.Errorf("%d have arrived: that shows nothing", arrived)
			}
		})
	}
}

// reads is what the processor makes of a request.
func reads(route *topics.Route, r *kgo.Record) (topics.Request, *topics.Refusal) {
	q, err := route.Parser().Parse(r.Headers, topics.StampOf(r), r.Offset, agreeMark)
	if why := (*topics.Refusal)(nil); errors.As(err, &why) {
		return q, why
	}
	return q, route.Refuse(&q, agreeNow)
}

// disagree tells how the checker understands a request in another way.
func disagree(route *topics.Route, c *check.Checker, r *kgo.Record) string {
	q, why := reads(route, r)
	want := c.Expect(r)
	key := r.Key
	if q.HasKey {
		key = q.Key
	}
	switch {
	case why != nil && want.Outcome != check.DeadLetter && want.Outcome != check.Either:
		return fmt.Sprintf("%v; want %+v", why, want)
	case why != nil && !slices.Contains(strings.Split(want.Codes.String(), " or "), string(why.Code)):
		return fmt.Sprintf("%v; want %v", why, want.Codes)
	case why != nil:
	case q.Kind == topics.KindCancel && (want.Outcome != check.Cancel || string(q.NamedID) != want.ID || q.NamedID == nil && want.Names.Offset != q.Handle.Offset):
		return fmt.Sprintf("cancels %v %q; want %+v", q.Handle, q.NamedID, want)
	case q.Kind == topics.KindCancel:
	case q.Kind == topics.KindOfAnotherGroup && want.Outcome == check.Ignore:
	case q.Kind != topics.KindRequest:
		return fmt.Sprintf("is passed over; want %+v", want)
	case want.Codes&check.UnparsableDue != 0 && !enveloped(r): // of a schema that no tool writes it may be
		return fmt.Sprintf("due %d; want a form that is not read", q.Due)
	case want.Outcome != check.Deliver && want.Outcome != check.Either, string(q.Target) != want.Target, q.Partition != want.Partition,
		!bytes.Equal(key, want.Key), q.Due != want.Due && !want.OrLater, string(q.ID) != want.ID && string(q.NamedID) != want.ID:
		return fmt.Sprintf("due %d to %s/%d with key %q and id %q; want %+v", q.Due, q.Target, q.Partition, key, q.ID, want)
	}
	return ""
}

// arrive has the checker see a request and what the processor makes of it, and returns how many records have arrived. What depends on other requests, or
// on when it is read, is left out.
func arrive(route *topics.Route, c *check.Checker, r *kgo.Record) int {
	q, why := reads(route, r)
	now := max(q.Due, agreeNow)
	if route.Keyed || why == nil && (q.Kind != topics.KindRequest || q.ID != nil || q.Replaces || q.AtOnce || route.Expired(&q, q.Due, now) != nil) {
		return 0
	}
	c.Requested(r)
	out := &kgo.Record{Offset: r.Offset, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(now)}
	if why != nil {
		out.Topic = route.LetterBox(why)
		out.Headers, _ = topics.AppendDeadLetter(nil, r.Headers, topics.DeadLetter{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Refusal: why}, nil)
		c.DeadLettered(out)
		return 1
	}
	first := q.First(r.Offset, r.Timestamp.UnixMilli())
	out.Topic, out.Partition, out.Timestamp = string(q.Target), max(q.Partition, 0), time.UnixMilli(route.Timestamp.Of(first, now))
	if q.HasKey {
		out.Key = q.Key
	}
	as := topics.Delivered{Topic: r.Topic, Partition: r.Partition, Origin: first, Fired: now, Emit: route.Emit, Preset: q.Preset, Prefix: route.HeaderPrefix()}
	if route.Retry != nil {
		as.Round, as.Strip = q.Round+1, route.Retry.Strip
	}
	out.Headers, _ = topics.AppendDelivered(nil, r.Headers, &as, nil)
	c.Delivered(out, time.Time{})
	return 1
}

// enveloped tells whether something is in the envelope of a JsonConverter.
func enveloped(r *kgo.Record) bool {
	return slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return bytes.Contains(h.Value, []byte(`"schema"`)) })
}

func shown(r *kgo.Record) string {
	s := fmt.Sprintf("offset %d, key %q, value %q", r.Offset, r.Key, r.Value)
	for _, h := range r.Headers {
		s += fmt.Sprintf(", %s=%q", h.Key, h.Value)
	}
	return s
}

// drawing makes up requests: forms that are documented, those that nearly are, and what converters put around them.
type drawing struct {
	*rand.Rand
	prefix string
}

func (d drawing) of(all []string) string { return all[d.IntN(len(all))] }

func (d drawing) request(offset int64) *kgo.Record {
	r := &kgo.Record{Topic: "requests", Partition: 3, Offset: offset, Timestamp: time.UnixMilli(agreeNow + d.Int64N(3)), Key: []byte("k"), Value: []byte("v")}
	switch d.IntN(8) {
	case 0:
		r.Value = nil
	case 1:
		r.Key = nil
	case 2:
		r.Key = d.value(false)
	}
	if d.IntN(4) == 0 {
		r.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
	}
	for i := 0; i == 0 || d.IntN(3) > 0; i++ {
		name := d.of(drawnNames)
		if i == 0 && d.IntN(10) > 0 {
			name = d.of(drawnTimes)
		}
		if name, ours := strings.CutPrefix(name, "delay-"); ours && d.prefix != "" && d.IntN(2) == 0 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: d.prefix + name, Value: d.value(slices.Contains(drawnTimes, "delay-"+name))})
			continue
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: d.value(slices.Contains(drawnTimes, name))})
	}
	d.Shuffle(len(r.Headers), func(i, j int) { r.Headers[i], r.Headers[j] = r.Headers[j], r.Headers[i] })
	if d.IntN(12) == 0 {
		d.mirror(r)
	}
	return r
}

// mirror turns a request into what duewheel has written of it into another topic or partition, or nearly.
func (d drawing) mirror(r *kgo.Record) {
	mark := d.of([]string{"0a020304:g:3:", "01020304:g:4:", "0a020304:other:7:", "0a020304:g:3", "0a020304:", ""})
	add := func(name, numbers string) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(mark + numbers)})
	}
	switch d.IntN(5) {
	case 0:
		r.Key, r.Value, r.Headers = nil, nil, nil
		add("delay-resolve", "7:1767225605123:7:-1")
	case 1:
		add("delay-retry", d.of([]string{"7:1767225505123:1767225505124:2:1767225699000", "7:-1:1767225505124:2:1767225699000", "7:01:1767225505124:2:1767225699000", "7:1767225505123:1767225505124:2:1767225699000:^x-wheel-", "7:1767225505123:1767225505124:2:1767225699000:!"}))
	case 2:
		add("delay-retry", d.of([]string{"7:1767225505123:1767225505124:2:1767225699000", "7:1767225505123:1767225505124:2:1767225699000:!p^dw.", "7:1767225505123:1767225505124:2:1767225699000:+!"}))
		fallthrough
	default:
		add("delay-seq", d.of([]string{"7:1767225699000:1767225505123", "7:1767225699000:1767225505123:~5000^x-wheel-", "7:1767225699000:-1", "7:1767225699000:", "7:1767225699000"}))
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "delay-from", Value: []byte("7")})
	}
}

func (d drawing) value(time bool) []byte {
	v := []byte(d.of(drawnTexts))
	if time && d.IntN(10) > 0 {
		v = []byte(d.of([]string{d.of(drawnInstants), d.of(drawnSpans)}))
	}
	for d.IntN(6) == 0 && len(v) > 0 { // one byte more, less, or another one
		i, c := d.IntN(len(v)), "0123456789.,:+-TZ PWDHMSe\"{}\x00\n"[d.IntN(30)]
		v = slices.Concat(v[:i], [][]byte{nil, {c}, {c, v[i]}}[d.IntN(3)], v[i+1:])
	}
	switch d.IntN(12) {
	case 0:
		return []byte(strconv.Quote(string(v)))
	case 1:
		return []byte(" " + string(v) + "\n")
	case 2:
		return fmt.Appendf(nil, `{"schema":{"type":"string","optional":false},"payload":%q}`, d.of(drawnTexts))
	case 3:
		return []byte(d.of([]string{"", "null", `""`}))
	case 4:
		if time { // an integer of any size, of whose bytes some may be letters
			n := d.Int64() >> d.IntN(64)
			return []byte(d.of([]string{littleEndian(n), bigEndian(n), bigEndian(n)[d.IntN(8):]}))
		}
	case 5:
		if time {
			return fmt.Appendf(nil, `{"schema":{"type":"int64","name":%q,"parameters":{"scale":"%d"}},"payload":%s}`, d.of(drawnSchemas), d.IntN(4), d.of(drawnPayloads))
		}
	}
	return v
}

func bigEndian(n int64) string    { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }
func littleEndian(n int64) string { return string(binary.LittleEndian.AppendUint64(nil, uint64(n))) }

var (
	drawnTimes = []string{"delay-until", "delay-for", "delay-expires", "deliver-at", "deliver-after", "x-delay", "scheduler-epoch", "schedule_target_epoch", "ce_deliverat",
		"ce_deliverafter", "ce_expirytime", "retry_topic-backoff-timestamp"}
	drawnNames = append([]string{"delay-target-topic", "delay-target-key", "delay-target-partition", "delay-id", "delay-cancel", "delay-replace", "delay-attempt", "delay-due", "delay-source",
		"delay-tries", "delay-every", "delay-cron", "delay-target-key-null", "delay-nonsense", "Delay-Until", "delay-", "delay-forwarded", "delay-resolve", "delay-retry", "delay-seq", "delay-from",
		"scheduler-target-topic", "scheduler-target-key", "schedule_target_topic", "schedule_target_key", "schedule_target_partition", "schedule_target_partition_key", "schedule_source_type",
		"schedule_schema_version", "kafka_original-topic", "__connect.errors.topic", "kafka_dlt-original-topic", "__streams.errors.topic", "foo"}, drawnTimes...)
	drawnTexts = []string{"orders", "bills", "nowhere", "a b", "", "0", "1", "17", "-1", "+1", "01", "99999999999", "id-1", "3-0-1767225605123", "2-0-1767225605123", "3-5-1767225605000", "schedule",
		"cancel", "tombstone", "3-5", "1-2-3-4", "03-5-1", "requests", "__x", "\xff\x00"}
	drawnInstants = []string{"1767225605", "1767225605123", "1767225605123456", "1767225605123456789", "1.767225605123E9", "1767225605.123", "1767225605.", "1e12", "99999999999.9999", "99999999", "+1767225605123",
		"2026-01-01T00:00:05.123Z", "2026-01-01T01:00+01:00", "2026-01-01 00:00:05.123+00", "2026-01-01T01:00:05+0100", "2026-01-01T00:00:05,123+00:00", "2026-01-01T01:00+01:00[Europe/Paris]",
		"2026-01-01 00:00:05.123 +0000 UTC", "2026-01-01 00:00:05.123 UTC", "2026-01-01 00:00:05 UTC+1", "2026-01-01", "2026-01-01T00:00:05", "2026-01-01T00:00[Europe/Paris]", "20454", "2016-12-31T23:59:60.5Z", "5138-11-16T09:46:40Z", "1973-03-03T09:46:39.99999Z", "253402300799", "253402300799999", "253402300.799",
		"Thu Jan 01 00:00:05 UTC 2026", "AAABm3bavAM=", bigEndian(1767225605123), bigEndian(1767225605), bigEndian(1767225605123)[2:], bigEndian(1767225605)[4:], littleEndian(1767225605123), littleEndian(1767225605)}
	drawnSpans = []string{"5000", "300000.0", "3e5", "-5000", "0", "5m", "1h30m", "1.5s", "2d", "1w", "5 s", "1h 30m", "100µs", "-5m", "PT5M", "P1DT2H", "PT1.5S", "P1M", "P1Y", "p1dt2h", "-PT5M", "P1Y2M3W4DT5H6M7.8S",
		"0:05:00", "00:05:00.123", "2 days, 0:00:05", "2 days 00:00:05", "-1 day, 23:59:55", "2.00:00:05", "12:30", "5 minutes", "106752d", "P300Y", "9223372036856", "300.000000000", "299999.123456789", "300.123456789", "99999.123456789", "100000.123456789", bigEndian(300_000), bigEndian(300_000)[4:],
		littleEndian(300_000), "3000\x00", "15m\x00", "12\x00\x00", "5\x00m\x00", "\xff\xfe5\x00m\x00", "\xfe\xff\x005\x00m", "\x003\x000\x00s", "\x005\x00m", "1\x005\x00", "\xff\xfe5\x00", "\u00a05000", "\v5000"}
	drawnSchemas = []string{"org.apache.kafka.connect.data.Timestamp", "io.debezium.time.MicroTimestamp", "io.debezium.time.NanoTimestamp", "org.apache.kafka.connect.data.Date", "io.debezium.time.Date",
		"org.apache.kafka.connect.data.Time", "io.debezium.time.MicroTime", "io.debezium.time.NanoDuration", "org.apache.kafka.connect.data.Decimal", "io.debezium.time.ZonedTimestamp", "x"}
	drawnPayloads = []string{"1767225605", "1767225605123", "1767225605123456", "1767225605123456789", "20454", "300000", "-5", `"EQ=="`, `"AZt22rwD"`, `"2026-01-01T00:00:05Z"`, `"PT5M"`, "null"}
)
