package processor

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/answers"
	"github.com/duewheel/duewheel/processor/internal/wiretap"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// someone is a member of the group.
var someone = kafka.Member{ID: "someone", Generation: 7}

// readyTurn is a turn that delivers one record, with a producer that has just been started.
func readyTurn(t *testing.T, l *lane, w *wiretap.Tap, rs ...*kgo.Record) *turn.Turn {
	t.Helper()
	for _, name := range []string{"orders", testTopic, testTopic + ".dead"} {
		l.targets.Of([]byte(name)).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
	}
	if len(rs) == 0 {
		rs = []*kgo.Record{req(0, testNow, "orders")}
	}
	return l.turnOf(t, w, livePartition(t, l), rs...)
}

// turnOf is a turn with what is due of records that a partition reads.
func (l *lane) turnOf(t *testing.T, w *wiretap.Tap, p *partition, rs ...*kgo.Record) *turn.Turn {
	t.Helper()
	l.read(t, p, testNow, rs...)
	pt := p.take(testNow, nil, 1000, anyBytes)
	p.Begin()
	id := "me-0"
	if l.cfg.Guarantee == AtLeastOnce {
		id = ""
	}
	tn := &turn.Turn{
		Env: l.turnEnv(), Parts: []*turn.Part{pt}, Member: someone, Began: time.Now(), Cancel: func() {},
		Producer: producer.New(l.producers.config(id)),
		Renderer: &turn.Renderer{Env: l.turnEnv()},
	}
	t.Cleanup(tn.Producer.Close)
	if err := tn.Producer.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Take()
	return tn
}

// Offsets first, then the records, then the decision (design rule 9).
func TestTurnOrder(t *testing.T) {
	l, w := testCluster(t)
	tn := readyTurn(t, l, w)
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Done)
	equals(t, "requests", w.Take(), []string{"TxnOffsetCommit", "Produce", "EndTxn commit=true"})
}

// Only what is known not to have happened is tried again; everything else is unknown (design
// rule 7). A known abort leaves a new producer behind, whose start has aborted what was open.
func TestTurnOutcomes(t *testing.T) {
	for _, c := range []struct {
		name    string
		break_  func(w *wiretap.Tap)
		want    turn.Outcome
		renewed bool
	}{
		{"EndTxn is not answered", func(w *wiretap.Tap) { w.Cut(kmsg.EndTxn) }, turn.Unknown, false},
		{"EndTxn is answered by an error", func(w *wiretap.Tap) {
			w.Answer(kmsg.EndTxn, func(req kmsg.Request) (kmsg.Response, error) {
				resp := req.ResponseKind().(*kmsg.EndTxnResponse)
				resp.ErrorCode = kerr.InvalidTxnState.Code
				return resp, nil
			})
		}, turn.Unknown, false},
		{"EndTxn is answered: fenced", func(w *wiretap.Tap) {
			w.Answer(kmsg.EndTxn, func(req kmsg.Request) (kmsg.Response, error) {
				resp := req.ResponseKind().(*kmsg.EndTxnResponse)
				resp.ErrorCode = kerr.ProducerFenced.Code
				return resp, nil
			})
		}, turn.Unknown, false},
		{"TxnOffsetCommit is not answered", func(w *wiretap.Tap) { w.Cut(kmsg.TxnOffsetCommit) }, turn.Unknown, false},
		{"TxnOffsetCommit is refused by a rebalance", func(w *wiretap.Tap) {
			w.Answer(kmsg.TxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error) {
				return answers.Commit(req, kerr.IllegalGeneration.Code), nil
			})
		}, turn.Aborted, true},
		{"TxnOffsetCommit is refused: fenced", func(w *wiretap.Tap) {
			w.Answer(kmsg.TxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error) {
				return answers.Commit(req, kerr.ProducerFenced.Code), nil
			})
		}, turn.Unknown, false},
		{"a record is refused", func(w *wiretap.Tap) { refuseRecords(w, kerr.InvalidRecord) }, turn.Aborted, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			tn := readyTurn(t, l, w)
			c.break_(w)
			before := tn.Producer.Client()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			tn.Run(ctx)
			equal(t, "outcome", tn.Outcome, c.want)
			if tn.Err == nil {
				t.Error("no error says why")
			}
			seen := w.Take()
			equal(t, "renewed", tn.Producer.Client() != before && len(wiretap.Only(seen, "InitProducerID me-0")) > 0, c.renewed)
			if c.renewed {
				equals(t, "decisions", wiretap.Only(seen, "EndTxn commit=true"), nil)
			}
		})
	}
}

// refuseRecords makes the broker refuse what is produced.
func refuseRecords(w *wiretap.Tap, why *kerr.Error) {
	refuse(w, "bills", why, why)
}

// acknowledgedAt is the offset that a broker acknowledges which refuses records of another topic.
const acknowledgedAt = int64(7)

// refuse makes the broker refuse what is produced to a topic, and the rest for another reason, or acknowledge it.
func refuse(w *wiretap.Tap, topic string, why, others *kerr.Error) {
	id := w.C.TopicInfo(topic).TopicID
	w.Answer(kmsg.Produce, func(kreq kmsg.Request) (kmsg.Response, error) {
		req := kreq.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition = p.Partition
				switch {
				case t.Topic == topic || t.TopicID == id:
					rp.ErrorCode = why.Code
				case others != nil:
					rp.ErrorCode = others.Code
				default:
					rp.BaseOffset = acknowledgedAt
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil
	})
}

// A record that is not acknowledged blames its target, and never is a transaction committed
// without it: kgo would answer nil (design rule 8).
func TestTurnBlamesTheTarget(t *testing.T) {
	l, w := testCluster(t)
	tn := readyTurn(t, l, w)
	refuseRecords(w, kerr.TopicAuthorizationFailed)
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Aborted)
	if !errors.Is(tn.Blamed["orders"], kerr.TopicAuthorizationFailed) || len(tn.Blamed) != 1 {
		t.Errorf("blamed are %v", tn.Blamed)
	}
}

// What is refused for what a record is blames no target. One that nothing went along with is the
// one to blame, if it was to be delivered or can be made smaller.
func TestTurnBlamesTheRecord(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []*kgo.Record
		suspect int
		culprit bool
		target  string
		why     *kerr.Error
	}{
		{"alone", []*kgo.Record{req(0, testNow, "orders")}, 1, true, "", kerr.InvalidRecord},
		{"two together", []*kgo.Record{req(0, testNow, "orders"), req(1, testNow, "orders")}, 2, false, "", kerr.InvalidRecord},
		{"a dead letter", []*kgo.Record{{Topic: testTopic, Value: make([]byte, 4<<10)}}, 0, false, testTopic + ".dead", kerr.InvalidRecord},
		{"a dead letter, for its size", []*kgo.Record{{Topic: testTopic, Value: make([]byte, 4<<10)}}, 1, true, "", kerr.MessageTooLarge},
		{"a small dead letter, for its size", []*kgo.Record{{Topic: testTopic, Value: make([]byte, 10)}}, 0, false, testTopic + ".dead", kerr.MessageTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			tn := readyTurn(t, l, w, c.records...)
			refuseRecords(w, c.why)
			tn.Run(t.Context())
			equal(t, "outcome", tn.Outcome, turn.Aborted)
			if c.target != "" {
				equal(t, "blamed", tn.Blamed[c.target] != nil && tn.Rejected == nil, true)
				return
			}
			equal(t, "suspects", len(tn.Rejected.Items), c.suspect)
			equal(t, "one to blame", tn.Rejected.Alone != nil, c.culprit)
			equal(t, "targets to blame", len(tn.Blamed), 0)
		})
	}
}

// What is known of a target counts against a record when the brokers have said so since it was due:
// else the target may have been made, or given partitions, in between, and it is asked for again.
func TestRefusalOfTargetIsAskedForAnew(t *testing.T) {
	for _, known := range []targets.State{{Status: targets.Missing}, {Status: targets.Forbidden}, {Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}}} {
		for _, c := range []struct {
			name  string
			asked time.Duration // after the record was due
			want  turn.Kind
		}{
			{"asked before it was due", -time.Minute, turn.OutRetry},
			{"asked at the same ms", 0, turn.OutRetry},
			{"asked after it was due", time.Minute, turn.OutDeadLetter},
		} {
			t.Run(known.Status.String()+" "+c.name, func(t *testing.T) {
				l, w := testCluster(t)
				r := req(0, testNow, "orders")
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderTargetPartition, Value: []byte("4")})
				tn := readyTurn(t, l, w, r)
				orders, st := l.targets.Of([]byte("orders")), known
				st.Asked = time.Now().Add(c.asked) // which is testNow by the clock that counts
				orders.State.Store(&st)
				orders.Hurry.Store(false)
				tn.RenderParts(t.Context(), tn.Parts)
				if len(tn.Renderer.Outputs) != 1 || tn.Renderer.Outputs[0].Kind != c.want {
					t.Fatalf("outputs are %+v", tn.Renderer.Outputs)
				}
				equal(t, "it is looked up again", orders.Hurry.Load(), c.want == turn.OutRetry)
				blamed := "delay-target-topic=orders"
				if known.Status == targets.Ready {
					blamed = "delay-target-partition=4"
				}
				if refusal := tn.Renderer.Outputs[0].Refusal; refusal != nil {
					equal(t, "header to blame", refusal.Header+"="+string(refusal.Value), blamed)
				}
			})
		}
	}
}

// What of a delivered record the route decides: its partition, its timestamp, and how headers are called.
func TestRouteDecidesWhatComesOut(t *testing.T) {
	const written = testNow - 5000
	for _, tt := range []struct {
		name      string
		route     topics.Route
		key       string
		headers   []string // names and values
		partition func(source int32) int32
		stamp     int64
		left      string
	}{
		{"as usual", topics.Route{}, "k", []string{"delay-for", "4s", "a", "b"}, func(int32) int32 { return producer.AnyPartition }, 0, "a delay-due delay-source"},
		{"CRC32", topics.Route{Partitioner: topics.PartitionerCRC32}, "17", []string{"delay-for", "4s"}, func(int32) int32 { return 2 }, 0, "delay-due delay-source"},
		{"CRC32 of another key", topics.Route{Partitioner: topics.PartitionerCRC32}, "k", []string{"delay-for", "4s", "delay-target-key", "17"}, func(int32) int32 { return 2 }, 0, "delay-due delay-source"},
		{"CRC32 without a key", topics.Route{Partitioner: topics.PartitionerCRC32}, "", []string{"delay-for", "4s"}, func(int32) int32 { return producer.AnyPartition }, 0, "delay-due delay-source"},
		{"the partition of the request", topics.Route{Partitioner: topics.PartitionerSource}, "k", []string{"delay-for", "4s"}, func(source int32) int32 { return source }, 0, "delay-due delay-source"},
		{"a partition that is asked for", topics.Route{Partitioner: topics.PartitionerCRC32}, "17", []string{"delay-for", "4s", "delay-target-partition", "1"}, func(int32) int32 { return 1 }, 0, "delay-due delay-source"},
		{"when it was due", topics.Route{Timestamp: topics.TimestampDue}, "k", []string{"delay-for", "4s"}, func(int32) int32 { return producer.AnyPartition }, written + 4000, "delay-due delay-source"},
		{"when it was requested", topics.Route{Timestamp: topics.TimestampOriginal}, "k", []string{"delay-for", "4s"}, func(int32) int32 { return producer.AnyPartition }, written, "delay-due delay-source"},
		{"another prefix", topics.Route{Prefix: "x-wheel-"}, "k", []string{"x-wheel-for", "4s", "delay-for", "mine"}, func(int32) int32 { return producer.AnyPartition }, 0, "delay-for x-wheel-due x-wheel-source"},
		{"headers of another tool", topics.Route{}, "k", []string{"scheduler-epoch", strconv.FormatInt(testNow/1000, 10), "scheduler-target-topic", "orders", "x-delay", "", "ce_expirytime", "2001-01-01"}, func(int32) int32 { return producer.AnyPartition }, 0, "x-delay ce_expirytime delay-due delay-source"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, w := testCluster(t, func(c *Config) {
				r := testRoute(false)
				r.Target, r.Prefix, r.Partitioner, r.Timestamp = "orders", tt.route.Prefix, tt.route.Partitioner, tt.route.Timestamp
				c.Routes = []topics.Route{r}
			})
			r := req(0, testNow, "orders")
			r.Timestamp, r.Headers, r.Key = time.UnixMilli(written), nil, []byte(tt.key)
			if tt.key == "" {
				r.Key = nil
			}
			for i := 0; i < len(tt.headers); i += 2 {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: tt.headers[i], Value: []byte(tt.headers[i+1])})
			}
			tn := readyTurn(t, l, w, r)
			began := l.clock.Now()
			tn.RenderParts(t.Context(), tn.Parts)
			if len(tn.Renderer.Outputs) != 1 || tn.Renderer.Outputs[0].Kind != turn.OutDelivered {
				t.Fatalf("outputs are %+v", tn.Renderer.Outputs)
			}
			out := tn.Renderer.Outputs[0].Record
			equal(t, "partition", out.Partition, tt.partition(tn.Parts[0].TP.Partition))
			if at := out.Timestamp.UnixMilli(); tt.stamp == 0 {
				equal(t, "the timestamp is that of its delivery", began <= at && at <= l.clock.Now(), true)
			} else {
				equal(t, "timestamp", at, tt.stamp)
			}
			var left []string
			for _, h := range out.Headers {
				left = append(left, h.Key)
			}
			equal(t, "headers", strings.Join(left, " "), tt.left)
		})
	}
}

// What the route of one record has said holds for no other route.
func TestRoutesOfNeighbours(t *testing.T) {
	l, w := testCluster(t)
	r := req(0, testNow, "orders")
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "trace", Value: []byte("1")})
	tn := readyTurn(t, l, w, r)
	usual, again, denied := testRoute(false), testRoute(false), testRoute(false)
	again.Retry = &topics.Retrying{Backoff: topics.Backoff{Initial: time.Second, Factor: 1, Max: time.Second}, MaxAttempts: 1, Strip: []string{"trace"}}
	denied.Allow = []string{"bills"}
	for i, tt := range []struct {
		route topics.Route
		kind  turn.Kind
		first string // header
	}{{again, turn.OutDelivered, topics.HeaderAttempt}, {usual, turn.OutDelivered, "trace"}, {denied, turn.OutDeadLetter, topics.HeaderUntil}} {
		tn.Parts[0].Route = mustRoute(tt.route)
		tn.RenderParts(t.Context(), tn.Parts)
		if len(tn.Renderer.Outputs) <= i {
			t.Fatalf("outputs are %+v", tn.Renderer.Outputs)
		}
		out := tn.Renderer.Outputs[i]
		equal(t, "kind", out.Kind, tt.kind)
		equal(t, "header", out.Record.Headers[0].Key, tt.first)
	}
}

// A target that has made a turn fail is tried with one record, of one turn at a time; the others are
// carried on. Dead letters and retries, which can go nowhere else, all go.
func TestOneRecordOnTrial(t *testing.T) {
	l, w := testCluster(t)
	bad := req(3, testNow, "orders")
	bad.Headers = nil
	tn := readyTurn(t, l, w, req(0, testNow, "orders"), req(1, testNow, "orders"), req(2, testNow, "orders"), bad)
	for _, name := range []string{"orders", testTopic, testTopic + ".dead"} {
		l.targets.Of([]byte(name)).State.Store(&targets.State{Status: targets.OnTrial, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}, Failures: 1})
	}
	kinds := func(tn *turn.Turn) (kinds []turn.Kind) {
		tn.RenderParts(t.Context(), tn.Parts)
		for _, o := range tn.Renderer.Outputs {
			kinds = append(kinds, o.Kind)
		}
		return kinds
	}
	equals(t, "what the first turn writes", kinds(tn), []turn.Kind{turn.OutDeadLetter, turn.OutDelivered, turn.OutRetry, turn.OutRetry})
	other := &turn.Turn{Env: l.turnEnv(), Parts: tn.Parts, Member: someone, Cancel: func() {}, Renderer: &turn.Renderer{Env: l.turnEnv()}}
	equal(t, "what another turn writes", len(kinds(other)), 0) // its parts are held
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Done)
	equal(t, "status when it has taken the record", l.targets.Of([]byte("orders")).State.Load().Status, targets.Ready)
	tn.EndTrials()
	if orders := l.targets.Of([]byte("orders")); orders.Trying.Load() {
		t.Error("nothing can try it any more")
	}
}

// A part whose dead letter topic cannot be written is held up, and then there is no transaction
// without a record in it: the checkpoints go plainly (design rule 8).
func TestTurnWithoutRecords(t *testing.T) {
	l, w := testCluster(t)
	bad := req(0, testNow, "orders")
	bad.Headers = nil
	tn := readyTurn(t, l, w, bad)
	l.targets.Of([]byte(testTopic + ".dead")).State.Store(&targets.State{Status: targets.Troubled, Why: "it is away"})
	tn.Parts = append(tn.Parts, partitionOf(tn.Parts[0]).part(&pending.Part{To: partitionOf(tn.Parts[0]).Marks().Done})) // a checkpoint that is getting old
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Done)
	equal(t, "parts held up", len(tn.Untried), 1)
	equals(t, "requests", w.Take(), []string{"OffsetCommit"})
}

// What is refused above W takes a resolve record along to the delay topic, and the checkpoint
// says that records of ours lie above it.
func TestTurnAppends(t *testing.T) {
	l, w := testCluster(t)
	tn := readyTurn(t, l, w, req(0, testNow+1000, "elsewhere"))
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Done)
	pt := tn.Parts[0]
	equal(t, "appended", pt.To.Appended, true)
	if tn.OwnEnds[pt] == 0 {
		t.Error("it is not known where the resolve record lies")
	}
	var kinds []turn.Kind
	for _, o := range tn.Renderer.Outputs {
		kinds = append(kinds, o.Kind)
	}
	equals(t, "outputs", kinds, []turn.Kind{turn.OutDeadLetter, turn.OutResolve})
	equal(t, "header", tn.Renderer.Outputs[1].Record.Headers[0].Key, topics.HeaderResolve)
	l.turnDecided(t.Context(), tn)
	equal(t, "until where records of ours may lie", partitionOf(pt).Marks().OwnEnd, tn.OwnEnds[pt])
}

// In at_least_once a turn that was given up costs its client only when that has something left to do:
// what is still on its way could come after the records of the next turn.
func TestRefusedRecordsKeepTheClient(t *testing.T) {
	for _, c := range []struct {
		name  string
		bills *kerr.Error
		kept  bool
	}{
		{"all are refused", kerr.InvalidRecord, true},
		{"another target is in trouble", kerr.TopicAuthorizationFailed, false},
		{"another target's record may have been written", kerr.RequestTimedOut, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t, func(c *Config) { c.Guarantee, c.Routes = AtLeastOnce, []topics.Route{testRoute(true)} })
			l.targets.Of([]byte("bills")).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
			tn := readyTurn(t, l, w, req(0, testNow, "orders"), req(1, testNow, "bills"))
			before := tn.Producer.Client()
			refuse(w, "bills", c.bills, kerr.InvalidRecord)
			tn.Run(t.Context())
			equal(t, "outcome", tn.Outcome, turn.Aborted)
			equal(t, "kept", tn.Producer.Client() == before, c.kept)
		})
	}
}

// at_least_once has no transaction, and no checkpoint before the records are acknowledged.
func TestTurnAtLeastOnce(t *testing.T) {
	l, w := testCluster(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	tn := readyTurn(t, l, w)
	refuseRecords(w, kerr.InvalidRecord)
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Aborted)
	equals(t, "commits", wiretap.Only(w.Take(), "OffsetCommit", "TxnOffsetCommit", "EndTxn"), nil)
	w.Answer(kmsg.Produce, nil)
	p := partitionOf(tn.Parts[0])
	l.turnDecided(t.Context(), tn)
	if pt := p.prepareCommit(); pt != nil && pt.To.Watermark.Due > 0 {
		t.Errorf("a checkpoint passes what was not acknowledged: %+v", pt.To)
	}
	again := p.take(testNow+1000, nil, 10, anyBytes)
	equals(t, "records", offsetsIn(again), []int64{0})
	tn = &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{again}, Member: someone, Cancel: func() {}, Producer: tn.Producer, Renderer: &turn.Renderer{Env: l.turnEnv()}}
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Done)
	l.turnDecided(t.Context(), tn)
	equal(t, "W", p.prepareCommit().To.Watermark, again.To.Watermark)
}

// What at_least_once has appended in a turn that was given up lies in the log: a restore has to read up to there.
func TestAppendedInATurnThatWasGivenUp(t *testing.T) {
	l, w := testCluster(t, func(c *Config) { c.Guarantee, c.Routes = AtLeastOnce, []topics.Route{testRoute(true)} })
	l.targets.Of([]byte("bills")).State.Store(&targets.State{Status: targets.Troubled, Why: "in trouble"})
	tn := readyTurn(t, l, w, req(0, testNow, "orders"), req(1, testNow, "bills"))
	refuse(w, "orders", kerr.InvalidRecord, nil)
	tn.Run(t.Context())
	equal(t, "outcome", tn.Outcome, turn.Aborted)
	p := partitionOf(tn.Parts[0])
	l.turnDecided(t.Context(), tn)
	equal(t, "records of ours lie below", p.Marks().OwnEnd, acknowledgedAt+1)
	if pt := p.prepareCommit(); pt != nil && !pt.To.Appended {
		t.Errorf("a checkpoint does not say that something was appended: %+v", pt.To)
	}
}

// Of a turn that has failed the old client may still hold records, and send them: what they are made of is not used again.
func TestAbortGivesUpMemory(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			l, w := testCluster(t, func(c *Config) { c.Guarantee = guarantee })
			tn := readyTurn(t, l, w)
			refuseRecords(w, kerr.InvalidRecord)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			tn.Run(ctx)
			equal(t, "outcome", tn.Outcome, turn.Aborted)
			if r := tn.Renderer; !reflect.DeepEqual(*r, turn.Renderer{Env: r.Env}) {
				t.Errorf("the next turn renders into memory of this one: %+v", r)
			}
		})
	}
}
