package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// toldCase is a request that a row of docs/requests.md tells of.
type toldCase struct {
	code    string // of its dead letter; "": it has none
	message string // a part of what that says
	blames  string // the header that it names; "": none
	topic   string // wheel.delays
	large   bool
	headers []string // names and values
}

const requestsRoutes = `audit: {topic: wheel.audit}
unknown_target_after: 1s
forbidden_target_after: 1s
retry_backoff: 100ms
routes:
  - {topic: wheel.delays, dead_letter: wheel.dead, targets: {allow: [wheel.orders, wheel.nowhere, wheel.small, wheel.compacted, secrets]}, max_delay: 2h, on_unknown_cancel: dead_letter}
  - {topic: wheel.once, dead_letter: wheel.dead, target: wheel.orders, ids: {on_duplicate: ignore}}
  - {topic: wheel.retries, dead_letter: wheel.dead, targets: {allow: [wheel.orders]}, retry: {target: from_headers, max_attempts: 2, backoff: {initial: 100ms}}}
`

// What docs/requests.md says of dead letters and of the audit topic is what happens, row by row: for each code a request is dead-lettered with it, with a
// reason and the header to blame, and of each event a record is told with its fields, no others, and in the order that the page has.
func TestRequestsPageIsWhatHappens(t *testing.T) {
	page, err := os.ReadFile("../../docs/requests.md")
	if err != nil {
		t.Fatal(err)
	}
	addr, root, as := wheelWithoutSecrets(t)
	cl := client(t, addr, root...)
	write := func(r *kgo.Record) *kgo.Record {
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	ask := func(topic string, headers ...string) *kgo.Record {
		r := &kgo.Record{Topic: topic, Value: []byte("v")}
		for i := 0; i < len(headers); i += 2 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
		}
		return r
	}
	now := time.Now()
	soon, later := now.Add(-time.Second).UnixMilli(), now.Add(time.Hour).UnixMilli()
	until := func(due int64) string { return fmt.Sprint(due) }
	delays := func(headers ...string) *kgo.Record { return write(ask("wheel.delays", headers...)) }
	handle := func(r *kgo.Record, due int64) string { return fmt.Sprintf("%d-%d-%d", r.Partition, r.Offset, due) }

	// Written before any replica runs, so that all are told in the order of the log.
	done := delays("delay-until", until(soon), "delay-target-topic", "wheel.orders")
	delays("delay-until", until(later), "delay-target-topic", "wheel.orders", "delay-id", "taken")
	cancelled := delays("delay-until", until(later), "delay-target-topic", "wheel.orders")
	replaced := delays("delay-until", until(later), "delay-target-topic", "wheel.orders")
	write(ask("wheel.once", "delay-until", until(later), "delay-id", "taken"))
	stop := runAs(t, as)
	fetchAs(t, addr, root, "wheel.orders", 1)
	delays("delay-cancel", handle(cancelled, later))
	delays("delay-replace", handle(replaced, later), "delay-until", until(later), "delay-target-topic", "wheel.orders")
	delays("delay-cancel", "an id that nothing has") // it is passed on, and not there
	write(ask("wheel.once", "delay-until", until(later), "delay-id", "taken"))

	cases := []toldCase{
		{code: "no_due", message: "delay-until"},
		{code: "unparsable_due", blames: "delay-until", headers: []string{"delay-until", "soon"}},
		{code: "unparsable_due", message: "minutes", blames: "delay-for", headers: []string{"delay-for", "12:30"}},
		{code: "due_out_of_range", message: "days", blames: "delay-until", headers: []string{"delay-until", "20454"}},
		{code: "invalid_target", blames: "delay-target-topic", headers: []string{"delay-for", "0", "delay-target-topic", "a b"}},
		{code: "invalid_partition", blames: "delay-target-partition", headers: []string{"delay-for", "0", "delay-target-topic", "wheel.orders", "delay-target-partition", "x"}},
		{code: "invalid_partition", message: "partitions 0 to 0", blames: "delay-target-partition", headers: []string{"delay-for", "0", "delay-target-topic", "wheel.orders", "delay-target-partition", "9"}},
		{code: "unsupported_header", blames: "delay-untl", headers: []string{"delay-for", "0", "delay-target-topic", "wheel.orders", "delay-untl", "1"}},
		{code: "invalid_expiry", blames: "delay-expires", headers: []string{"delay-for", "0", "delay-target-topic", "wheel.orders", "delay-expires", "soon"}},
		{code: "invalid_attempt", blames: "delay-attempt", topic: "wheel.retries", headers: []string{"delay-target-topic", "wheel.orders", "delay-attempt", "x"}},
		{code: "wrong_partition", blames: "delay-replace", headers: []string{"delay-for", "0", "delay-target-topic", "wheel.orders", "delay-replace", "1-7-" + until(later)}},
		{code: "invalid_id", blames: "delay-id", headers: []string{"delay-for", "0", "delay-target-topic", "wheel.orders", "delay-id", strings.Repeat("x", 257)}},
		{code: "invalid_id", blames: "delay-id", headers: []string{"delay-for", "0", "delay-target-topic", "wheel.orders", "delay-id", "2026-11-22"}},
		{code: "no_target", message: "target", headers: []string{"delay-for", "0"}},
		{code: "target_not_allowed", blames: "delay-target-topic", headers: []string{"delay-for", "0", "delay-target-topic", "elsewhere"}},
		{code: "too_far_ahead", message: "2h", headers: []string{"delay-for", "3h", "delay-target-topic", "wheel.orders"}},
		{code: "unknown_target", message: "does not exist", blames: "delay-target-topic", headers: []string{"delay-for", "0", "delay-target-topic", "wheel.nowhere"}},
		{code: "forbidden_target", message: "may not be written to", blames: "delay-target-topic", headers: []string{"delay-for", "0", "delay-target-topic", "secrets"}},
		{code: "too_large", message: "takes 1000", large: true, headers: []string{"delay-for", "0", "delay-target-topic", "wheel.small"}},
		{code: "rejected", message: "without a key", headers: []string{"delay-for", "0", "delay-target-topic", "wheel.compacted"}},
		{code: "expired", blames: "delay-expires", headers: []string{"delay-until", until(soon), "delay-target-topic", "wheel.orders", "delay-expires", until(soon + 1)}},
		{code: "attempts_exhausted", message: "delivered 3 times", blames: "delay-attempt", topic: "wheel.retries", headers: []string{"delay-target-topic", "wheel.orders", "delay-attempt", "2"}},
		{code: "too_late", blames: "delay-replace", headers: []string{"delay-for", "0", "delay-target-topic", "wheel.orders", "delay-replace", handle(done, soon)}},
		{code: "too_late", blames: "delay-cancel", headers: []string{"delay-cancel", handle(done, soon)}},
		{code: "unknown_handle", blames: "delay-cancel", headers: []string{"delay-cancel", handle(cancelled, later+1)}},
		{code: "duplicate_id", blames: "delay-id", headers: []string{"delay-for", "1h", "delay-target-topic", "wheel.orders", "delay-id", "taken"}},
	}
	for i, c := range cases {
		topic := "wheel.delays"
		if c.topic != "" {
			topic = c.topic
		}
		r := ask(topic, append([]string{"case", fmt.Sprint(i)}, c.headers...)...)
		if c.large {
			r.Value = make([]byte, 3000)
			_, _ = rand.Read(r.Value)
		}
		write(r)
	}
	letters := map[string]map[string]string{}
	for _, r := range fetchAs(t, addr, root, "wheel.dead", len(cases)) {
		h := headers(r)
		letters[h["case"]] = h
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for i, c := range cases {
		h := letters[fmt.Sprint(i)]
		told[h["__delay.errors.code"]] = true
		blamed, _, _ := strings.Cut(h["__delay.errors.header"], "=")
		if h["__delay.errors.code"] != c.code || h["__delay.errors.message"] == "" || !strings.Contains(h["__delay.errors.message"], c.message) || blamed != c.blames {
			t.Errorf("%v: %s, header %q: %s; want %s, header %q: … %s …", c.headers, h["__delay.errors.code"], blamed, h["__delay.errors.message"], c.code, c.blames, c.message)
		}
	}
	rows := tableOf(t, string(page), "| code | because |")
	for _, row := range rows {
		if !told[strings.Trim(row[0], "`")] {
			t.Errorf("nothing was dead-lettered as %s", row[0])
		}
		delete(told, strings.Trim(row[0], "`"))
	}
	if len(told) > 0 || len(rows) < 20 {
		t.Errorf("the page has %d codes, and lacks %v", len(rows), told)
	}
	auditIsAsThePageSays(t, string(page), fetchAs(t, addr, root, "wheel.audit", 0))
}

// auditIsAsThePageSays compares what was told with the table of events.
func auditIsAsThePageSays(t *testing.T, page string, all []*kgo.Record) {
	t.Helper()
	common := []string{"event", "handle", "id", "topic", "group", "at", "due"}
	is := map[string]map[string]bool{} // by event: the fields besides, as they come
	for _, r := range all {
		names := fieldsOf(t, r.Value)
		at, besides := 0, []string(nil)
		for _, name := range names {
			switch i := slices.Index(common, name); {
			case i < 0:
				besides = append(besides, name)
			case len(besides) > 0 || i < at:
				t.Errorf("%s is not in the order of the page: %s", name, r.Value)
			default:
				at = i
			}
		}
		for _, name := range []string{"event", "topic", "group", "at"} {
			if !slices.Contains(names, name) {
				t.Errorf("it has no %s: %s", name, r.Value)
			}
		}
		var event struct{ Event string }
		if err := json.Unmarshal(r.Value, &event); err != nil {
			t.Fatal(err)
		}
		if is[event.Event] == nil {
			is[event.Event] = map[string]bool{}
		}
		is[event.Event][strings.Join(slices.Sorted(slices.Values(besides)), " ")] = true
	}
	said := map[string]map[string]bool{}
	var delivered, last []string
	for _, row := range tableOf(t, page, "| event | says | fields besides |") {
		event, cell := strings.Trim(row[0], "`"), row[2]
		var fields []string
		for _, found := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cell, -1) {
			if found[1] == "delivered" {
				fields = append(fields, delivered...)
			} else {
				fields = append(fields, found[1])
			}
		}
		if strings.HasPrefix(cell, "the same") {
			fields = last
		}
		if last = fields; event == "delivered" {
			delivered = fields
		}
		if said[event] == nil {
			said[event] = map[string]bool{}
		}
		said[event][strings.Join(slices.Sorted(slices.Values(fields)), " ")] = true
		if strings.HasSuffix(cell, ", or none") {
			said[event][""] = true
		}
	}
	for event := range said {
		if !maps.Equal(said[event], is[event]) {
			t.Errorf("%s has the fields besides %v, and the page says %v", event, is[event], said[event])
		}
		delete(is, event)
	}
	if len(is) > 0 {
		t.Errorf("the page does not say that there are %v", is)
	}
}

// fieldsOf are the names of a JSON object in their order.
func fieldsOf(t *testing.T, b []byte) (names []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	for i := 0; ; i++ {
		token, err := d.Token()
		if err != nil {
			return names
		}
		if name, is := token.(string); is && i%2 == 1 { // behind the brace names and values take turns
			names = append(names, name)
		}
	}
}

// tableOf are the cells of the rows of the table that begins with a heading row.
func tableOf(t *testing.T, page, heading string) (rows [][]string) {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n"+heading+"\n")
	if !found {
		t.Fatalf("no table begins with %s", heading)
	}
	for i, line := range strings.Split(rest, "\n") {
		if !strings.HasPrefix(line, "|") {
			return rows
		}
		if i == 0 {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// wheelWithoutSecrets is a cluster with the topics of requestsRoutes, where the user wheel may do all but write to the topic secrets.
func wheelWithoutSecrets(t *testing.T) (addr string, root []kgo.Opt, as []string) {
	t.Helper()
	all := onTopic("wheel.", kmsg.ACLOperationAll)
	all.Pattern = kmsg.ACLResourcePatternTypePrefixed
	group := kfake.ACL{Resource: kmsg.ACLResourceTypeGroup, Name: "g", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationAll, Allow: true}
	ids := kfake.ACL{Resource: kmsg.ACLResourceTypeTransactionalId, Name: "g-", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationAll, Allow: true}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "wheel", "wheel", all, onTopic("secrets", kmsg.ACLOperationDescribe), group, ids))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for topic, configs := range map[string]map[string]string{
		"wheel.once": nil, "wheel.retries": nil, "wheel.dead": nil, "wheel.audit": nil, "wheel.orders": nil, "secrets": nil,
		"wheel.small": {"max.message.bytes": "1000"}, "wheel.compacted": {"cleanup.policy": "compact"},
	} {
		if err := c.CreateTopic(topic, 1, configs); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.CreateTopic("wheel.delays", 2, nil); err != nil {
		t.Fatal(err)
	}
	addr = c.ListenAddrs()[0]
	root = []kgo.Opt{kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\n"+requestsRoutes)
	return addr, root, []string{"-c", config, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=wheel", "-X", "sasl.password=wheel"}
}

// runAs runs a processor until stop is called, or the test ends.
func runAs(t *testing.T, as []string) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	args := append([]string{"run", "-X", "state.dir=" + t.TempDir(), "-X", "admin.listen=off"}, as...)
	go func() { ended <- run(ctx, args, nil, io.Discard, io.Discard) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

// fetchAs returns the first n records of a topic of one partition, or all that are there.
func fetchAs(t *testing.T, addr string, as []kgo.Opt, topic string, n int) (all []*kgo.Record) {
	t.Helper()
	cl := client(t, addr, append(as[:len(as):len(as)], kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	end := int64(1 << 60)
	if n == 0 {
		ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		of, _ := ends.Lookup(topic, 0)
		n, end = 1<<30, of.Offset
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for reached := int64(0); len(all) < n && reached < end; {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("%d of %d records of %s: %v", len(all), n, topic, err)
		}
		for _, r := range f.Records() {
			if reached = r.Offset + 1; !r.Attrs.IsControl() {
				all = append(all, r)
			}
		}
	}
	return all
}
