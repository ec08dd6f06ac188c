package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/topics"
)

// blind is a survey of topics of which nothing is known.
type blind struct{}

func (blind) Resolved(check.Source, int64, int64) bool { return false }
func (blind) Unseen(check.Unseen) (v check.Verdict)    { return v }

// What verify expects of a request is what a replica makes of it: where the two read a header in different ways, verify would call it a
// fault that all is well.
func TestVerifyReadsAsReplicasDo(t *testing.T) {
	eight := binary.BigEndian.AppendUint64(nil, 1795186800123)
	values := map[string][]string{
		"delay-until": {"1795186800123", "1795186800", "2026-11-20T14:05:00Z", `"2026-11-20T14:05:00Z"`, "null", "", " ", "2026-11-20T14:05:00+01:00[Europe/Paris]", string(eight), "tomorrow", "20454",
			`{"schema":{"type":"int64"},"payload":1795186800123}`, "2026-11-20T14:05Z", "2026-11-20 14:05:00 +0000 UTC", "2026-11-20T14:05:00", "2026-11-20t14:05:00,5z", "-1", "1e999999999", "2026-11-20T23:59:60Z"},
		"delay-for": {"5m", "PT5M", `"5m"`, "null", "0:05:00", "300000", "-5m", "1 h 5 m", "2 days, 0:00:05", "2.00:00:05", "-1 days, 23:00:00", "P1M", "P-1D", "+5m", ".5s", "12:30", "1h-5m", string(eight), "5", "PT1.5H", "P1,5D", "5.m", "5m\x00", "5000\x00", "5\x00m\x00", "\xff\xfe5\x00m\x00", "\x005\x00m", "300.000000000", "300.123456789", "-0.123456789", "99999.123456789", "100000.123456789", "-0.500000000", "+1.00000000e0", "1.000000e10", ".000000000", "+.000000000",
			`{"schema":{"type":"int64"},"payload":300000}`, `{"schema":null,"payload":null}`},
		"delay-target-topic":            {"orders", `"orders"`, " orders ", "null", "", "billing", "or ders", "..", `{"schema":{"type":"string"},"payload":"orders"}`, "__consumer_offsets", "delays"},
		"delay-target-key":              {"other", `"other"`, "null", ""},
		"delay-target-partition":        {"1", `"1"`, " 1 ", "null", "", "-1", "x", "01", "40000", "3000000000"},
		"delay-expires":                 {"2026-11-21T14:05:00Z", `"2026-11-21T14:05:00Z"`, "null", "1795186800124", "later", "1795100000000", "", " "},
		"delay-id":                      {"a", `"a"`, "null", "", "0-1-1795186800123", strings.Repeat("x", 257), " a", `"null"`},
		"delay-cancel":                  {"0-1-1795186800123", `"0-1-1795186800123"`, " 0-1-1795186800123 ", "null", "", "a", `"a"`, "1-1-1795186800123", strings.Repeat("x", 257)},
		"delay-replace":                 {"0-1-1795186800123", `"0-1-1795186800123"`, "null", "", "a", `"a"`, "1-1-1795186800123"},
		"delay-due":                     {"1"},
		"delay-attempt":                 {"2", "null"},
		"delay-retry":                   {"x"},
		"delay-resolve":                 {"", "x"},
		"delay-forwarded":               {"x"},
		"delay-every":                   {"5m", "null", ""},
		"delay-unknown":                 {"x", ""},
		"Delay-For":                     {"5m"},
		"deliver-at":                    {"1795186800123", "null", `"1795186800123"`},
		"deliver-after":                 {"5m"},
		"x-delay":                       {"300000"},
		"scheduler-epoch":               {"1795186800", "1795186800123", "null"},
		"scheduler-target-topic":        {"orders", `"orders"`},
		"scheduler-target-key":          {"other"},
		"schedule_target_epoch":         {"1795186800"},
		"schedule_target_topic":         {"orders"},
		"schedule_target_key":           {"other"},
		"schedule_schema_version":       {"1.0.0"},
		"schedule_target_partition":     {"1"},
		"schedule_target_partition_key": {"x", "null", ""},
		"schedule_source_type":          {"schedule", "cancel", `"schedule"`, "x", "tombstone"},
		"ce_deliverat":                  {"2026-11-20T14:05:00Z"},
		"ce_deliverafter":               {"PT5M", "null"},
		"ce_expirytime":                 {"2026-11-21T14:05:00Z", `"x"`},
		"trace":                         {"17"},
		"retry_topic-backoff-timestamp": {"1795186800123", string(eight[2:])},
		"kafka_original-topic":          {"orders", `"orders"`, "null"},
		"__connect.errors.topic":        {"orders", " orders "},
		"kafka_dlt-original-topic":      {"orders"},
		"__streams.errors.topic":        {"orders", "null"},
		"__dlq.errors.topic":            {"orders"},
	}
	var names []string
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, a := range topics.Aliases() {
		if !slices.Contains(names, a.Name) {
			t.Errorf("%s of the preset %v is not tried", a.Name, a.Preset)
		}
	}
	routes := []topics.Route{
		{Topic: "delays", Allow: []string{"orders", "bill*"}},
		{Topic: "owned", Allow: []string{"orders"}, Target: "orders", Jitter: time.Second, OnDuplicate: topics.DuplicateReplaces},
		{Topic: "keyed", Allow: []string{"orders"}, Target: "orders", Keyed: true},
		{Topic: "later", Target: "orders", Delay: time.Minute},
		{Topic: "prefixed", Allow: []string{"orders"}, Target: "orders", Prefix: "x-wheel-"},
		{Topic: "tools", Allow: []string{"orders"}, Aliases: []string{"plain", "spring-retry", "connect-dlq"}},
		{Topic: "toolless", Target: "orders", Aliases: []string{"none"}},
		{Topic: "retries", Allow: []string{"orders"}, Retry: &topics.Retrying{FromHeaders: true, Backoff: topics.Backoff{Initial: time.Second, Factor: 2, Max: time.Minute}, MaxAttempts: 3, Strip: []string{"tr*"}}},
	}
	all, checker := surveyed(t, routes...)
	random := rand.New(rand.NewPCG(7, 7))
	mark := topics.NewMark([4]byte{}, "", 0)
	seen := map[string]int{}
	for i := range 60_000 {
		route := all[random.IntN(len(all))]
		r := &kgo.Record{Topic: route.Topic, Offset: int64(100 + i), Timestamp: lookNow, Value: []byte("v"), Key: []byte("k")}
		if random.IntN(8) == 0 {
			r.Value = nil
		}
		if random.IntN(8) == 0 {
			r.Key = nil
		}
		if random.IntN(16) == 0 {
			r.Timestamp = time.UnixMilli(-1)
		}
		n := random.IntN(4)
		if random.IntN(3) > 0 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: route.Header("delay-until"), Value: []byte("1795186800123")}, kgo.RecordHeader{Key: route.Header("delay-target-topic"), Value: []byte("orders")})
		}
		for range n {
			name := names[random.IntN(len(names))]
			of := values[name]
			if rest, ours := strings.CutPrefix(name, topics.HeaderPrefix); ours && route.Prefix != "" && random.IntN(4) > 0 {
				name = route.Prefix + rest
			}
			h := kgo.RecordHeader{Key: name, Value: []byte(of[random.IntN(len(of))])}
			if random.IntN(20) == 0 {
				h.Value = nil
			}
			r.Headers = append(r.Headers, h)
		}
		q, err := route.Parser().Parse(r.Headers, topics.StampOf(r), r.Offset, mark)
		e := checker.Expect(r)
		wrong := disagree(route, r, &q, err, &e)
		if wrong == "" {
			wrong = blamed(checker, route, r, &q, err)
		}
		if wrong != "" {
			what := wrong
			for _, h := range r.Headers {
				what += " " + h.Key + "=" + strconv.Quote(string(h.Value))
			}
			key := wrong
			if seen[key]++; seen[key] <= 3 {
				t.Errorf("%s: %s (key %q, value %v): replica %+v, %v", route.Topic, what, r.Key, r.Value != nil, q, err)
			}
		}
	}
	for kind, found := range checker.Report().Found {
		for _, f := range found.First {
			if f.Source.Topic != "retries" { // of these it is not known when they came
				t.Errorf("%v: %v", kind, f)
			}
		}
	}
}

// surveyed makes routes ready, and a checker as verify has one.
func surveyed(t *testing.T, routes ...topics.Route) ([]*topics.Route, *check.Checker) {
	t.Helper()
	config := check.Config{Survey: blind{}, AllowDoubles: true /* each is delivered as if no other had its id */, Targets: []check.Target{{Topic: "orders"}, {Topic: "billing"}}}
	for i := range routes {
		routes[i].DeadLetter = routes[i].Topic + ".dead"
	}
	all, err := topics.NewRoutes(routes...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		config.Routes = append(config.Routes, promised(r))
	}
	checker, err := check.New(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		checker.Window(r.Topic, 0, 100, 1<<40)
	}
	return all, checker
}

// goldenTime is a time or a delay as some producer writes it, of testdata of package topics.
type goldenTime struct{ Kind, Text, Hex string }

// goldenTimes are all there are.
func goldenTimes(t *testing.T) (all []goldenTime) {
	t.Helper()
	b, err := os.ReadFile("../../topics/testdata/due.json")
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil || len(all) < 200 {
		t.Fatal(err, len(all))
	}
	return all
}

func (g goldenTime) bytes(t *testing.T) string {
	t.Helper()
	b, err := hex.DecodeString(g.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return g.Text + string(b)
}

// Each time and each delay as producers write them is to verify what it is to a replica, and what that makes of it no fault: in our headers, and in those of
// other tools.
func TestVerifyReadsGoldenTimes(t *testing.T) {
	names := map[string][]string{"until": {topics.HeaderUntil}, "for": {topics.HeaderFor}}
	var tools []string
	for _, a := range topics.Aliases() {
		if kind := strings.TrimPrefix(a.For, topics.HeaderPrefix); names[kind] != nil {
			names[kind], tools = append(names[kind], a.Name), append(tools, a.Preset.String())
		}
	}
	slices.Sort(tools)
	all, checker := surveyed(t, topics.Route{Topic: "delays", Target: "orders", Aliases: slices.Compact(tools)})
	offset := int64(100)
	names["until"] = append(names["until"], topics.HeaderExpires, "ce_expirytime")
	beside := map[string]string{topics.HeaderExpires: topics.HeaderUntil, "ce_expirytime": "ce_deliverat"}
	for _, v := range goldenTimes(t) {
		for _, name := range names[v.Kind] {
			r := &kgo.Record{Topic: "delays", Offset: offset, Timestamp: lookNow, Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: name, Value: []byte(v.bytes(t))}}}
			if beside[name] != "" { // of most the same second
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: beside[name], Value: []byte("1767225605000")})
			}
			offset++
			q, err := all[0].Parser().Parse(r.Headers, topics.StampOf(r), r.Offset, topics.Mark{})
			e := checker.Expect(r)
			if wrong := disagree(all[0], r, &q, err, &e); wrong != "" {
				t.Errorf("%s %q: %s: replica %d, %v; verify %+v", name, v.bytes(t), wrong, q.Due, err, e)
			}
			if wrong := blamed(checker, all[0], r, &q, err); wrong != "" {
				t.Errorf("%s %q: verify finds %s in what a replica makes of it: %d, %v", name, v.bytes(t), wrong, q.Due, err)
			}
			if err == nil && e.Due != q.Due {
				t.Errorf("%s %q is due at %d, and verify reads %d", name, v.bytes(t), q.Due, e.Due)
			}
		}
	}
	if n, many := len(names["until"])+len(names["for"]), 2*len(goldenTimes(t)); n < 12 || offset < int64(100+many) {
		t.Errorf("%d headers say when, and %d records were read", n, offset-100)
	}
}

// blamed says what verify calls a fault of what a replica makes of a request: its delivery or its dead letter.
func blamed(c *check.Checker, route *topics.Route, r *kgo.Record, q *topics.Request, err error) string {
	before := c.Counts()
	c.Requested(r)
	var refusal *topics.Refusal
	if !errors.As(err, &refusal) && q.Kind == topics.KindRequest {
		refusal = route.Refuse(q, lookNow.UnixMilli())
	}
	if refusal == nil && q.Kind != topics.KindRequest {
		return ""
	}
	as := &kgo.Record{Key: r.Key, Value: r.Value, Topic: route.DeadLetter, Offset: r.Offset, Timestamp: time.UnixMilli(max(q.Due, r.Timestamp.UnixMilli()))}
	if refusal == nil {
		refusal = route.Expired(q, q.Due, as.Timestamp.UnixMilli())
	}
	if refusal != nil {
		as.Headers, _ = topics.AppendDeadLetter(nil, r.Headers, topics.DeadLetter{Topic: r.Topic, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Refusal: refusal}, nil)
		c.DeadLettered(as)
	} else {
		d := topics.Delivered{Topic: r.Topic, Origin: q.First(r.Offset, r.Timestamp.UnixMilli()), Prefix: route.HeaderPrefix(), Preset: q.Preset}
		if d.Origin.Due = q.Due; route.Retry != nil {
			d.Round, d.Strip = q.Round+1, route.Retry.Strip
		}
		if as.Topic = string(q.Target); q.HasKey {
			as.Key = q.Key
		}
		as.Partition = max(q.Partition, 0)
		as.Headers, _ = topics.AppendDelivered(nil, r.Headers, &d, nil)
		c.Delivered(as, as.Timestamp)
	}
	switch now := c.Counts(); {
	case now.Faults > before.Faults:
		return "a fault"
	case now.Foreign > before.Foreign:
		return "not known again"
	}
	return ""
}

// disagree says in what verify does not expect what a replica does.
func disagree(route *topics.Route, r *kgo.Record, q *topics.Request, err error, e *check.Expectation) string {
	var refusal *topics.Refusal
	if errors.As(err, &refusal) {
		switch {
		case e.Outcome != check.DeadLetter && e.Outcome != check.Either:
			return "delivered, and it is refused"
		case e.Codes != 0 && !slices.Contains(strings.Split(e.Codes.String(), " or "), string(refusal.Code)):
			return "code " + string(refusal.Code) + " is not one of " + e.Codes.String()
		}
		return ""
	}
	if q.Kind == topics.KindCancel {
		switch {
		case e.Outcome != check.Cancel:
			return "not a cancel"
		case q.NamedID != nil && (!e.NamesID || e.ID != string(q.NamedID)):
			return "cancels another id"
		case q.NamedID == nil && (e.NamesID || e.Names.Partition != q.Handle.Partition || e.Names.Offset != q.Handle.Offset || e.NamesDue != q.Handle.Due):
			return "cancels another handle"
		}
		return ""
	}
	if q.Kind != topics.KindRequest {
		return ""
	}
	if e.Outcome == check.Cancel || e.Outcome == check.Ignore {
		return "no request"
	}
	if refusal := route.Refuse(q, lookNow.UnixMilli()); refusal != nil {
		if e.Outcome == check.Deliver || e.Codes != 0 && !slices.Contains(strings.Split(e.Codes.String(), " or "), string(refusal.Code)) {
			return "authorised as " + string(refusal.Code) + " and not " + e.Codes.String()
		}
		return ""
	}
	key := r.Key
	if q.HasKey {
		key = q.Key
	}
	switch {
	case e.Outcome == check.DeadLetter:
		return "refused for " + e.Codes.String() + ", and it is delivered"
	case e.Due != q.Due && !(e.OrLater && q.Due > e.Due):
		return "another due time"
	case e.Target != string(q.Target):
		return "another target"
	case string(e.Key) != string(key):
		return "another key"
	case e.Partition != q.Partition && (q.Partition <= math.MaxInt16 || e.Outcome == check.Deliver):
		return "another partition"
	case e.ID != string(q.ID) && route.Retry == nil: // on those for retries nothing has an id
		return "another id"
	case q.Replaces != (e.Names.Topic != "" || e.NamesID):
		return "another replacement"
	}
	return ""
}

// What verify reads of a due time is what a processor reads.
func TestVerifyReadsTheSameTimes(t *testing.T) {
	all, err := topics.NewRoutes(topics.Route{Topic: "delays", Target: "orders", DeadLetter: "delays.dead"})
	if err != nil {
		t.Fatal(err)
	}
	judge, err := check.New(check.Config{Routes: []check.Route{promised(all[0])}, Targets: []check.Target{{Topic: "orders"}}})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	texts := map[string][]string{
		"delay-until": {"1767225605", "1767225605.5", "1.767225605123E9", " 1767225605123 ", "1767225605123001", "2026-01-01T00:00:05.1234Z", "2026-01-01 01:00:05.123+01:00", "\x00\x00\x01\x9b\x76\xda\xcf\x83"},
		"delay-for":   {"5", "300000", "5m", "1h30m", "1.5s", "2d", "1w", "1ns", "7us", "7µs", "-5m", "PT5M", "P1DT2H", "PT1.5S", "P1M", "P1Y", "P2W", "pt5m", "\x00\x00\x00\x00\x00\x04\x93\xe0"},
	}
	for range 300 {
		texts["delay-for"] = append(texts["delay-for"], time.Duration(random.Int64N(int64(1000*time.Hour))).String(), fmt.Sprintf("%d.%03dh", random.IntN(100), random.IntN(1000)),
			fmt.Sprintf("P%dM%dDT%d.%dS", random.IntN(30), random.IntN(99), random.IntN(99), random.IntN(999)), fmt.Sprintf("P%dY%dM", random.IntN(9), random.IntN(40)))
		texts["delay-until"] = append(texts["delay-until"], time.UnixMicro(random.Int64N(4e15)+1e15).UTC().Format(time.RFC3339Nano), fmt.Sprint(random.Int64N(9e18)+1e11))
	}
	for name, values := range texts {
		for _, text := range values {
			written := noon
			if random.IntN(2) == 0 {
				written = time.Date(2024, time.Month(random.IntN(24)), 0, 12, 0, 0, 0, time.UTC) // the last day of a month
			}
			r := &kgo.Record{Topic: "delays", Timestamp: written, Headers: []kgo.RecordHeader{{Key: name, Value: []byte(text)}}}
			q, refusal := all[0].Parser().Parse(r.Headers, topics.StampOf(r), 0, topics.Mark{})
			e := judge.Expect(r)
			if refusal != nil || e.Outcome != check.Deliver {
				if (refusal != nil) != (e.Outcome == check.DeadLetter) {
					t.Errorf("%s: %q is refused with %v, and verify expects %d", name, text, refusal, e.Outcome)
				}
				continue
			}
			if e.Due != q.Due {
				t.Errorf("%s: %q is due at %d, and verify says %d", name, text, q.Due, e.Due)
			}
		}
	}
}
