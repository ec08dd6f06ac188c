package processor

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/wiretap"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

const testAudit = "bills" // a topic that the cluster has

// auditing has what becomes of requests audited.
func auditing(c *Config) {
	c.AuditTopic, c.Routes = testAudit, []topics.Route{testRoute(false)}
	c.Routes[0].CancelsAnswered = true
}

func (l *lane) auditIs(status targets.Status) {
	l.targets.Of([]byte(testAudit)).State.Store(&targets.State{Status: status, Partitions: 4, Why: "why", Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
}

// audits is what a turn has audited, a line for each record: key, and value without what all have.
func audits(tn *turn.Turn) (lines []string) {
	for _, o := range tn.Renderer.Outputs {
		if o.Kind != turn.OutAudit {
			continue
		}
		value := strings.NewReplacer(`"topic":"requests","group":"g","at":1000000000000,`, "", `"handle":"`+string(o.Record.Key)+`",`, "", `,"message":"`, " ").Replace(string(o.Record.Value))
		if at := strings.Index(value, " "); at > 0 {
			value = value[:at] + value[strings.Index(value, `,"target"`):]
		}
		lines = append(lines, string(o.Record.Key)+" "+value)
	}
	return lines
}

// A turn tells what becomes of each request, when all else of it has been acknowledged: by handle, and where it went.
func TestTurnTells(t *testing.T) {
	l, w := testCluster(t, auditing)
	l.auditIs(targets.Ready)
	bad := req(6, testNow, "orders")
	bad.Headers = nil
	replaces := req(10, testNow+60_000, "orders")
	replaces.Headers = append(replaces.Headers, kgo.RecordHeader{Key: topics.HeaderReplace, Value: []byte(topics.Handle{Partition: testTP.Partition, Offset: 9, Due: testNow + 60_000}.String())})
	expired := req(13, testNow-5, "orders")
	expired.Headers = append(expired.Headers, kgo.RecordHeader{Key: topics.HeaderExpires, Value: []byte("999999999997")})
	never := req(14, testNow+60_000, "orders")
	never.Headers = append(never.Headers, kgo.RecordHeader{Key: topics.HeaderExpires, Value: []byte("999999999997")})
	elsewhere := req(15, testNow+60_000, "orders")
	elsewhere.Headers = append(elsewhere.Headers, kgo.RecordHeader{Key: topics.HeaderReplace, Value: []byte(topics.Handle{Partition: 2, Offset: 7, Due: testNow}.String())})
	tn := decidedTurn(t, l, w,
		req(1, testNow+60_000, "orders"),
		cancelOf(2, testTP.Partition, 1, testNow+60_000), cancelOf(3, testTP.Partition, 0, testNow), cancelOf(4, testTP.Partition, 1, testNow+60_000), cancelOf(5, 2, 7, testNow),
		bad, req(7, testNow-5, "orders"), cancelOf(8, testTP.Partition, 7, testNow-5),
		req(9, testNow+60_000, "orders"), replaces,
		req(11, testNow-5, "orders"), req(12, testNow-5, "elsewhere"), expired, never, elsewhere,
	)
	w.Take()
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Done)
	if seen := w.Take(); len(wiretap.Only(seen, "Produce")) < 2 || seen[len(seen)-1] != "EndTxn commit=true" {
		t.Errorf("requests are %v", seen)
	}
	equals(t, "audited", audits(tn), []string{
		`3-1-1000000060000 {"event":"accepted","due":1000000060000}`,
		`3-1-1000000060000 {"event":"cancelled","due":1000000060000,"by":"3-2"}`,
		`3-3 {"event":"too_late","handle":"3-0-1000000000000","due":1000000000000,"by":"3-3"}`,
		`3-4 {"event":"unknown","handle":"3-1-1000000060000","due":1000000060000,"by":"3-4"}`,
		`3-5 {"event":"forwarded","handle":"2-7-1000000000000","due":1000000000000,"by":"3-5"}`,
		`3-6 {"event":"dead_lettered","code":"no_due","target":"requests.dead","target_partition":0,"target_offset":2}`,
		`3-7-999999999995 {"event":"cancelled","due":999999999995,"by":"3-8"}`,
		`3-9-1000000060000 {"event":"accepted","due":1000000060000}`,
		`3-10-1000000060000 {"event":"accepted","due":1000000060000}`,
		`3-9-1000000060000 {"event":"replaced","due":1000000060000,"by":"3-10"}`,
		`3-11-999999999995 {"event":"delivered","due":999999999995,"target":"orders","target_partition":0,"target_offset":0}`,
		`3-12-999999999995 {"event":"dead_lettered","due":999999999995,"code":"target_not_allowed","target":"requests.dead","target_partition":0,"target_offset":3}`,
		`3-13-999999999995 {"event":"expired","due":999999999995,"code":"expired","target":"requests.dead","target_partition":0,"target_offset":4}`,
		`3-14-1000000060000 {"event":"expired","due":1000000060000,"code":"expired","target":"requests.dead","target_partition":0,"target_offset":5}`,
		`3-15-1000000060000 {"event":"dead_lettered","due":1000000060000,"code":"wrong_partition","target":"requests.dead","target_partition":0,"target_offset":6}`,
	})
	l.turnDecided(t.Context(), tn)
	equal(t, "counted as accepted", l.counters.audits()["accepted"], 3)
	equal(t, "counted as cancelled", l.counters.audits()["cancelled"], 2)
	if l.counters.cancels.snapshot()["accepted"] != 0 {
		t.Error("what is accepted counts as a cancel")
	}
}

// A record that is carried on, and what becomes of it then, has the handle of the request, whatever the jitter of its route was by then.
func TestTurnTellsOfRetries(t *testing.T) {
	for _, jitter := range []time.Duration{time.Second, 0, 3 * time.Second} {
		tellsOfRetries(t, jitter)
	}
}

// withJitter is what a retry says of a request, with a jitter of a second, that has asked to be due at a time.
func withJitter(t *testing.T, offset, due int64) (topics.Origin, string) {
	p, err := topics.ParserFor("p1~1000")
	if err != nil {
		t.Fatal(err)
	}
	return topics.Origin{Offset: offset, Timestamp: testNow, Due: due + p.Jitter(testMark, offset)}, topics.NamesOf(p)
}

func tellsOfRetries(t *testing.T, jitter time.Duration) {
	l, w := testCluster(t, auditing, func(c *Config) { c.Routes[0].Jitter = jitter })
	l.auditIs(targets.Ready)
	again := req(9, testNow, "orders")
	first, names := withJitter(t, 5, testNow-10_000)
	again.Headers, _ = topics.AppendRetry(nil, again.Headers, testMark, topics.Retry{Due: testNow, Attempt: 1, Origin: first, Names: names}, nil)
	for _, c := range []struct {
		target targets.Status
		want   string
	}{
		{targets.Ready, `3-5-999999990000 {"event":"delivered","due":999999990000,"target":"orders","target_partition":0,"target_offset":0}`},
		{targets.Troubled, `3-5-999999990000 {"event":"retried","due":999999990000,"next_due":`},
		{targets.Missing, `3-5-999999990000 {"event":"dead_lettered","due":999999990000,"code":"unknown_target","target":"requests.dead","target_partition":0,"target_offset":0}`},
	} {
		tn := readyTurn(t, l, w, again)
		l.targets.Of([]byte("orders")).State.Store(&targets.State{Status: c.target, Partitions: 1, Why: "why", Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}, Asked: tn.Began.Add(time.Hour)})
		tn.Run(t.Context())
		got := audits(tn)
		if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Fatalf("%v: audited is %q, want %q", c.target, got, c.want)
		}
		if c.target == targets.Troubled && !strings.HasSuffix(got[0], `,"attempt":2}`) {
			t.Errorf("audited is %q, want the second attempt", got)
		}
	}
}

// On a retry route the handle of a record that came at a time that is not known follows from when it is due next, and one that is parked
// without having waited has none.
func TestTurnTellsOfRetryRoute(t *testing.T) {
	l, w := testCluster(t, auditing, func(c *Config) {
		c.Routes[0].Retry = &topics.Retrying{Backoff: topics.Backoff{Initial: 3 * time.Second, Factor: 2, Max: time.Hour}, MaxAttempts: 2}
	})
	l.auditIs(targets.Ready)
	failed := func(offset int64, attempt string) *kgo.Record {
		r := req(offset, testNow, "orders")
		r.Headers = []kgo.RecordHeader{{Key: topics.HeaderTargetTopic, Value: []byte("orders")}, {Key: topics.HeaderAttempt, Value: []byte(attempt)}}
		return r
	}
	tn := readyTurn(t, l, w, failed(0, "1"), failed(1, "2"))
	tn.Run(t.Context())
	equals(t, "audited", audits(tn), []string{
		`3-1 {"event":"parked","code":"attempts_exhausted","target":"requests.dead","target_partition":0,"target_offset":0}`,
		`3-0-1000000006000 {"event":"retried","due":1000000006000,"next_due":1000000006000,"attempt":0}`,
	})
}

// What is audited of a request with an id has that, whether it was found by it or not.
func TestTurnTellsOfIDs(t *testing.T) {
	l, w := testCluster(t, auditing)
	l.auditIs(targets.Ready)
	named := func(r *kgo.Record, header, name string) *kgo.Record {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: header, Value: []byte(name)})
		return r
	}
	cancelled := func(offset int64, id string) *kgo.Record {
		r := req(offset, testNow, "orders")
		r.Headers = nil
		return named(r, topics.HeaderCancel, id)
	}
	tn := decidedTurn(t, l, w,
		withID(req(1, testNow-5, "orders"), "a\"quote\""), withID(req(2, testNow+60_000, "orders"), "b"), withID(req(3, testNow+60_000, "orders"), "c"),
		cancelOf(4, testTP.Partition, 2, testNow+60_000), cancelled(5, "c"), withID(req(6, testNow+60_000, "orders"), "d"),
		named(req(7, testNow+60_000, "orders"), topics.HeaderReplace, "d"), withID(req(8, testNow+60_000, "orders"), "d"),
		withID(req(9, testNow-5, "orders"), "e"), cancelled(10, "e"),
	)
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Done)
	equals(t, "audited", audits(tn), []string{
		`3-1-999999999995 {"event":"delivered","id":"a\"quote\"","due":999999999995,"target":"orders","target_partition":0,"target_offset":0}`,
		`3-2-1000000060000 {"event":"accepted","id":"b","due":1000000060000}`,
		`3-3-1000000060000 {"event":"accepted","id":"c","due":1000000060000}`,
		`3-2-1000000060000 {"event":"cancelled","id":"b","due":1000000060000,"by":"3-4"}`,
		`3-3-1000000060000 {"event":"cancelled","id":"c","due":1000000060000,"by":"3-5"}`,
		`3-6-1000000060000 {"event":"accepted","id":"d","due":1000000060000}`,
		`3-7-1000000060000 {"event":"accepted","id":"d","due":1000000060000}`,
		`3-6-1000000060000 {"event":"replaced","id":"d","due":1000000060000,"by":"3-7"}`,
		`3-8-1000000060000 {"event":"duplicate","id":"d","due":1000000060000,"code":"duplicate_id","target":"requests.dead","target_partition":0,"target_offset":0}`,
		`3-9-999999999995 {"event":"cancelled","id":"e","due":999999999995,"by":"3-10"}`,
	})
}

// Where what becomes of requests cannot be audited, nothing is done.
func TestTurnWaitsForAudit(t *testing.T) {
	l, w := testCluster(t, auditing)
	tn := readyTurn(t, l, w)
	l.auditIs(targets.Missing)
	tn.Run(t.Context())
	equal(t, "parts that were tried", len(tn.Tried), 0)
	equals(t, "requests", w.Take(), nil)
	l.turnDecided(t.Context(), tn)
	if p := partitionOf(tn.Parts[0]); p.err == nil || !strings.Contains(p.err.Error(), "the audit topic "+testAudit) || len(p.Repeated()) != 1 {
		t.Errorf("it is held up by %v, and to be tried again are %d parts", p.err, len(p.Repeated()))
	}
}

// A transaction whose audit is refused does not happen, and no record is to blame for that.
func TestTurnWithRefusedAudit(t *testing.T) {
	for _, test := range []struct{ why, others *kerr.Error }{{why: kerr.InvalidRecord}, {why: kerr.TopicAuthorizationFailed}, {kerr.InvalidRecord, kerr.InvalidRecord}} {
		l, w := testCluster(t, auditing)
		l.auditIs(targets.Ready)
		tn := readyTurn(t, l, w, req(0, testNow, "orders"), req(1, testNow+60_000, "orders")) // one is delivered, and one is told of as accepted
		refuse(w, testAudit, test.why, test.others)
		tn.Run(t.Context())
		equal(t, "outcome", tn.Outcome, turn.Aborted)
		equals(t, "decisions", wiretap.Only(w.Take(), "EndTxn"), nil)
		if tn.Blamed[testAudit] == nil || tn.Rejected != nil {
			t.Errorf("%v, and of others %v: blamed are %v, and refused is %v", test.why, test.others, tn.Blamed, tn.Rejected)
		}
		if len(tn.Blamed) != 1 && test.others == nil {
			t.Errorf("%v: blamed are %v", test.why, tn.Blamed)
		}
	}
}

// At least once, what was delivered and could not be audited is audited later, and not delivered again.
func TestAuditFollowsAtLeastOnce(t *testing.T) {
	l, w := testCluster(t, auditing, func(c *Config) { c.Guarantee = AtLeastOnce })
	l.auditIs(targets.Ready)
	tn := readyTurn(t, l, w)
	refuse(w, testAudit, kerr.TopicAuthorizationFailed, nil)
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Aborted)
	p := partitionOf(tn.Parts[0])
	l.turnDecided(t.Context(), tn)
	equal(t, "counted as delivered", p.stats.delivered.Load(), 1)
	equal(t, "counted as audited", l.counters.audits()["delivered"], 0)
	if pt := p.prepareCommit(); pt != nil && pt.To.Watermark.Due > 0 {
		t.Errorf("a checkpoint passes what was not audited: %+v", pt.To)
	}
	w.Answer(kmsg.Produce, nil)
	l.auditIs(targets.Ready)
	next := &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{p.take(testNow+1000, nil, 10, anyBytes)}, Member: someone, Cancel: func() {}, Producer: tn.Producer, Renderer: &turn.Renderer{Env: l.turnEnv()}}
	next.Run(t.Context())
	equal(t, "outcome", next.Outcome, turn.Done)
	equal(t, "outputs", len(next.Renderer.Outputs), 1)
	equals(t, "audited", audits(next), []string{`3-0-1000000000000 {"event":"delivered","due":1000000000000,"target":"orders","target_partition":0,"target_offset":7}`})
	l.turnDecided(t.Context(), next)
	equal(t, "counted as audited", l.counters.audits()["delivered"], 1)
	equal(t, "W", p.prepareCommit().To.Watermark.Due, testNow)
}

// What is due within a second when it is read is not audited as accepted: its outcome follows.
func TestTurnTellsWhatWaits(t *testing.T) {
	l, w := testCluster(t, auditing)
	l.auditIs(targets.Ready)
	tn := readyTurn(t, l, w, req(1, testNow+999, "orders"), req(2, testNow+1000, "orders"))
	tn.Run(t.Context())
	equals(t, "audited", audits(tn), []string{`3-2-1000000001000 {"event":"accepted","due":1000000001000}`})
	equal(t, "O", tn.Parts[0].To.Offset, 3)
}

// Without an audit topic nothing is audited, and no turn is made for what is accepted.
func TestNothingIsAuditedUnasked(t *testing.T) {
	l, w := testCluster(t)
	tn := readyTurn(t, l, w, req(0, testNow, "orders"), req(1, testNow+60_000, "orders"))
	equal(t, "records", len(tn.Parts[0].Items), 1)
	tn.Run(t.Context())
	equal(t, "outputs", len(tn.Renderer.Outputs), 1)
	equal(t, "records for what is audited", len(tn.Renderer.Audits()), 0)
}

// A cancel that has done nothing is audited with what it names, also where it has no answer of its own.
func TestTurnTellsOfCancelsInVain(t *testing.T) {
	l, w := testCluster(t, auditing, func(c *Config) { c.Routes[0].CancelsAnswered = false })
	l.auditIs(targets.Ready)
	tn := decidedTurn(t, l, w, cancelOf(1, testTP.Partition, 0, testNow))
	tn.Run(t.Context())
	equals(t, "audited", audits(tn), []string{`3-1 {"event":"too_late","handle":"3-0-1000000000000","due":1000000000000,"by":"3-1"}`})
}

// What waits with a record that can go nowhere is not audited either.
func TestHeldPartIsNotAudited(t *testing.T) {
	l, w := testCluster(t, auditing)
	l.auditIs(targets.Ready)
	tn := readyTurn(t, l, w, req(0, testNow+60_000, "orders"), req(1, testNow, "elsewhere"))
	l.targets.Of([]byte(testTopic + ".dead")).State.Store(&targets.State{Status: targets.Missing, Why: "why"})
	equal(t, "records", len(tn.Parts[0].Items), 2)
	if before, err := tn.Renderer.Part(t.Context(), tn.Parts[0], testNow); before != 1 || err == nil {
		t.Fatalf("%d before the one that waits: %v", before, err)
	}
	equal(t, "outputs", len(tn.Renderer.Outputs)+len(tn.Renderer.Audits()), 0)
}

// A retry that is cancelled is audited with the handle of its request.
func TestTurnTellsOfACancelledRetry(t *testing.T) {
	l, w := testCluster(t, auditing)
	l.auditIs(targets.Ready)
	again := req(9, testNow, "orders")
	first, names := withJitter(t, 5, testNow-10_000)
	again.Headers, _ = topics.AppendRetry(nil, again.Headers, testMark, topics.Retry{Due: testNow - 5, Attempt: 1, Origin: first, Names: names}, nil)
	tn := decidedTurn(t, l, w, again, cancelOf(10, testTP.Partition, 9, testNow-5))
	tn.Run(t.Context())
	equals(t, "audited", audits(tn), []string{`3-5-999999990000 {"event":"cancelled","due":999999990000,"by":"3-10"}`})
}

// So is one that waits to be tried again, wherever it is held: it is cancelled, or replaced, by the name that it has where it lies now.
func TestTurnTellsOfARetryThatWaits(t *testing.T) {
	for _, after := range []int64{1000, 3600_000} { // in memory, and in the store
		l, w := testCluster(t, auditing)
		l.auditIs(targets.Ready)
		retry := func(offset, of, due int64) *kgo.Record {
			r := req(offset, testNow, "orders")
			first, names := withJitter(t, of, testNow-10_000)
			r.Headers, _ = topics.AppendRetry(nil, r.Headers, testMark, topics.Retry{Due: due, Attempt: 1, Origin: first, Names: names}, nil)
			return r
		}
		due := testNow + after
		replaces := req(12, testNow+60_000, "orders")
		replaces.Headers = append(replaces.Headers, kgo.RecordHeader{Key: topics.HeaderReplace, Value: []byte(topics.Handle{Partition: testTP.Partition, Offset: 10, Due: due}.String())})
		tn := decidedTurn(t, l, w, retry(9, 5, due), retry(10, 6, due), cancelOf(11, testTP.Partition, 9, due), replaces)
		tn.Run(t.Context())
		equals(t, "audited", audits(tn), []string{
			`3-5-999999990000 {"event":"cancelled","due":999999990000,"by":"3-11"}`,
			`3-12-1000000060000 {"event":"accepted","due":1000000060000}`,
			`3-6-999999990000 {"event":"replaced","due":999999990000,"by":"3-12"}`,
		})
	}
}
