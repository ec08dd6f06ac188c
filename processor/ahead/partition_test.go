package ahead

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

func request(offset, due int64, more ...string) *kgo.Record {
	r := &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow - 60_000), Value: []byte("v"), Headers: []kgo.RecordHeader{
		{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, due, 10)}, {Key: topics.HeaderTargetTopic, Value: []byte("orders")}}}
	for i := 0; i < len(more); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: more[i], Value: []byte(more[i+1])})
	}
	return r
}

// again is a retry of the request at an offset, which was first asked for a due time.
func again(offset, of, first, due int64) *kgo.Record {
	r := request(offset, first)
	r.Headers, _ = topics.AppendRetry(nil, r.Headers, testMark, topics.Retry{Due: due, Attempt: 1, Origin: topics.Origin{Offset: of, Timestamp: testNow, Due: first}}, nil)
	return r
}

func cancelOf(offset int64, name string) *kgo.Record {
	return &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow - 50_000), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(name)}}}
}

// passedOn is a cancel of an id that was asked for at a time, in another partition.
func passedOn(offset int64, id string, asked int64) *kgo.Record {
	r := cancelOf(offset, id)
	r.Headers, _ = topics.AppendForward(nil, r.Headers, testMark, 1, 17, asked, nil)
	return r
}

func opened(t *testing.T, c state.Checkpoint, env Env) *Partition {
	t.Helper()
	c.TopicID = testID
	env.Mark, env.Skew, env.Now = testMark, 1000, testNow
	if env.Route == nil {
		env.Route = testRoute(t, "p1")
	}
	p, err := New(env, c, 100)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func accept(p *Partition, rs ...*kgo.Record) {
	for _, r := range rs {
		p.Accept(r)
	}
}

func offsetsOf(p *Partition) (all []int64) {
	for w := range p.All() {
		all = append(all, w.Offset)
	}
	return all
}

// A transaction that has carried a record on may be later than the checkpoint that was found. Its copy says that the record is resolved, so
// it is not pending twice.
func TestCarriedOnSince(t *testing.T) {
	p := opened(t, state.Checkpoint{Offset: 2}, Env{Watch: Watch{Offset: 0, Has: true}})
	accept(p, request(0, testNow-1), request(1, testNow+5), request(2, testNow+7), again(3, 0, testNow-1, testNow+1000), again(4, 2, testNow+7, testNow+2000), again(5, 0, testNow-1, testNow+3000))
	p.Decide()
	if got := offsetsOf(p); !slices.Equal(got, []int64{1, 4, 5}) {
		t.Errorf("pending are %v", got)
	}
	if f := p.Fates(); len(f) != 1 || f[0].State != IsCarriedOn || f[0].By != 5 || f[0].NextDue != testNow+3000 {
		t.Errorf("the first has become %+v", f)
	}
	// In the order of the log, too.
	p = opened(t, state.Checkpoint{Offset: 2, LowWater: 2, Parsers: []state.ParserEpoch{{Spec: "p1+2000"}}}, Env{Route: testRoute(t, "fixed")})
	plain := func(offset int64) *kgo.Record {
		return &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow - 60_000)}
	}
	copied := plain(4)
	copied.Headers, _ = topics.AppendRetry(nil, nil, testMark, topics.Retry{Due: testNow + 1000, Attempt: 1, Origin: topics.Origin{Offset: 2, Timestamp: testNow, Due: testNow}}, nil)
	accept(p, plain(2), plain(3), copied)
	p.Decide()
	if got := offsetsOf(p); !slices.Equal(got, []int64{3, 4}) {
		t.Errorf("pending are %v in the order of the log", got)
	}
}

// A later checkpoint counts, as long as nothing at or above the O before was read.
func TestFollow(t *testing.T) {
	p := opened(t, state.Checkpoint{Offset: 2}, Env{})
	accept(p, request(0, testNow+1), request(1, testNow+9))
	later := state.Checkpoint{TopicID: testID, Offset: 4, Watermark: state.Key{Due: testNow + 5, Seq: 9}}
	if ok, err := p.Follow(later, 100); !ok || err != nil {
		t.Fatal(ok, err)
	}
	// What comes below O now was decided: a second record with an id has no resolve record, so it was accepted after the first was delivered.
	accept(p, request(2, testNow+3, topics.HeaderID, "a"), request(3, testNow+8, topics.HeaderID, "a"), request(4, testNow+2))
	p.Decide()
	if got := offsetsOf(p); !slices.Equal(got, []int64{1, 3, 4}) {
		t.Errorf("pending are %v", got)
	}
	for name, c := range map[string]state.Checkpoint{
		"another topic": {TopicID: [4]byte{9}, Offset: 9, Watermark: later.Watermark},
		"O set back":    {TopicID: testID, Offset: 3, Watermark: later.Watermark},
		"W set back":    {TopicID: testID, Offset: 9},
		"O passed":      {TopicID: testID, Offset: 9, Watermark: later.Watermark},
	} {
		if ok, err := p.Follow(c, 100); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

// What was cancelled takes no memory for long.
func TestTidy(t *testing.T) {
	const many = 400_000
	p := opened(t, state.Checkpoint{Offset: 3 * many}, Env{})
	var last *kgo.Record
	for i := range int64(many) {
		last = request(2*i, testNow+i+1, topics.HeaderID, fmt.Sprint(i))
		accept(p, last)
		if i%100 != 0 {
			accept(p, cancelOf(2*i+1, fmt.Sprint(i)))
		}
	}
	if len(p.chunks) > 40 {
		t.Errorf("%d chunks hold %d records", len(p.chunks), p.n-p.gone)
	}
	accept(p, cancelOf(2*many, "300000"), cancelOf(2*many+1, topics.Handle{Partition: 3, Offset: 200_000, Due: testNow + 100_001}.String()))
	p.Decide()
	got := offsetsOf(p)
	if len(got) != many/100-2 || got[0] != 0 || got[1] != 200 || slices.Contains(got, 600_000) || slices.Contains(got, 200_000) {
		t.Errorf("%d are pending, from %v on", len(got), got[:2])
	}
}

// What has become of a record, by what names it in the log.
func TestFates(t *testing.T) {
	w := state.Key{Due: testNow - 1000, Seq: 9}
	soon, over, early := testNow+5000, testNow-2000, testNow-500
	resolved := func(offset, of, due, by, at int64) *kgo.Record {
		return &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(at), Headers: topics.ResolveBy(testMark, of, due, of, by)}
	}
	inTime, tooLate := cancelOf(5, handleOf(0, over)), cancelOf(5, handleOf(0, over))
	tooLate.Timestamp = time.UnixMilli(over + 1)
	later := cancelOf(6, handleOf(0, over))
	later.Timestamp = time.UnixMilli(over + 2)
	copied := again(5, 0, over, soon)
	stale := request(6, soon)
	stale.Headers, _ = topics.AppendCopy(nil, stale.Headers, testMark, topics.Copy{Seq: 0, Due: soon, Timestamp: testNow, From: 0}, nil)
	for _, c := range []struct {
		name string
		log  []*kgo.Record
		want Fate
	}{
		{"it waits", []*kgo.Record{request(0, soon)}, Fate{State: IsPending, Read: true}},
		{"it was delivered", []*kgo.Record{request(0, over)}, Fate{State: IsResolved, Read: true}},
		{"a cancel", []*kgo.Record{request(0, soon), cancelOf(5, handleOf(0, soon))}, Fate{State: IsCancelled, By: 5, Read: true}},
		{"a cancel that no replica has read", []*kgo.Record{request(0, soon), cancelOf(15, handleOf(0, soon))}, Fate{State: IsCancelled, By: 15, Read: true}},
		{"a cancel with another due time", []*kgo.Record{request(0, soon), cancelOf(5, handleOf(0, soon+1))}, Fate{State: IsPending, Read: true}},
		{"a cancel in time", []*kgo.Record{request(0, over), inTime}, Fate{State: IsCancelled, By: 5, Guess: true, Read: true}},
		{"a cancel that came too late, if a replica was there", []*kgo.Record{request(0, over), tooLate}, Fate{State: IsResolved, By: 5, Read: true}},
		{"the first of two that came too late", []*kgo.Record{request(0, over), tooLate, later}, Fate{State: IsResolved, By: 5, Read: true}},
		{"a cancel of what was carried on", []*kgo.Record{request(0, over), copied, cancelOf(6, handleOf(0, over))}, Fate{State: IsCarriedOn, By: 5, NextDue: soon, Read: true}},
		{"a cancel of its id that was asked for before it was written", []*kgo.Record{request(0, over, topics.HeaderID, "a"), passedOn(5, "a", testNow-60_001)}, Fate{State: IsResolved, Read: true}},
		{"a cancel of its id that another partition has passed on", []*kgo.Record{request(0, over, topics.HeaderID, "a"), passedOn(5, "a", testNow-60_000)}, Fate{State: IsCancelled, By: 5, Guess: true, Read: true}},
		{"a cancel of its id", []*kgo.Record{request(0, soon, topics.HeaderID, "a"), cancelOf(5, "a")}, Fate{State: IsCancelled, By: 5, Read: true}},
		{"a replacement", []*kgo.Record{request(0, soon), request(6, soon, topics.HeaderReplace, handleOf(0, soon))}, Fate{State: IsReplaced, By: 6, Read: true}},
		{"a resolve record", []*kgo.Record{request(0, soon), {Offset: 7, Headers: topics.Resolve(testMark, 0, soon, 0)}}, Fate{State: IsDeadLettered, Read: true}},
		{"a resolve record of a cancel", []*kgo.Record{request(0, soon), {Offset: 7, Headers: topics.ResolveBy(testMark, 0, soon, 0, 6)}}, Fate{State: IsCancelled, By: 6, Read: true}},
		{"a resolve record of a replacement", []*kgo.Record{request(0, soon), request(6, soon, topics.HeaderReplace, handleOf(0, soon)), resolved(7, 0, soon, 6, testNow)}, Fate{State: IsReplaced, By: 6, Read: true}},
		{"a duplicate, and then another one takes the place of what has the id", []*kgo.Record{request(0, soon, topics.HeaderID, "a"), request(6, soon, topics.HeaderReplace, "a"), resolved(7, 0, soon, -1, testNow)}, Fate{State: IsDeadLettered, Read: true}},
		{"what was refused, and cancelled before that was written", []*kgo.Record{request(0, soon), cancelOf(5, handleOf(0, soon)), resolved(7, 0, soon, -1, testNow)}, Fate{State: IsDeadLettered, Read: true}},
		{"it has overtaken what waits", []*kgo.Record{request(0, early), resolved(7, 0, early, -1, testNow)}, Fate{State: IsResolved, Read: true}},
		{"it has overtaken what waits, and was cancelled meanwhile", []*kgo.Record{request(0, early), cancelOf(5, handleOf(0, early)), resolved(7, 0, early, -1, testNow)}, Fate{State: IsResolved, Read: true}},
		{"it was carried on when it overtook", []*kgo.Record{request(0, early), resolved(7, 0, early, -1, testNow), again(8, 0, early, soon)}, Fate{State: IsCarriedOn, By: 8, NextDue: soon, Read: true}},
		{"it was carried on, and its copy was dead-lettered", []*kgo.Record{request(0, soon), again(5, 0, soon, soon+9), resolved(7, 0, soon, -1, testNow)}, Fate{State: IsCarriedOn, By: 5, NextDue: soon + 9, Read: true}},
		{"a copy came when it was cancelled, and who has read that did not know by what", []*kgo.Record{request(0, soon), cancelOf(5, handleOf(0, soon)), stale, {Offset: 7, Headers: topics.Resolve(testMark, 6, soon, 0)}}, Fate{State: IsCancelled, By: 5, Read: true}},
		{"it was carried on, and cancelled meanwhile", []*kgo.Record{request(0, over), inTime, again(6, 0, over, soon)}, Fate{State: IsCarriedOn, By: 6, NextDue: soon, Read: true}},
	} {
		p := opened(t, state.Checkpoint{Offset: 10, Watermark: w}, Env{Watch: Watch{Offset: 0, Has: true}})
		accept(p, c.log...)
		p.Decide()
		got := p.Fates()
		if len(got) != 1 {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		f := got[0]
		f.Found, f.Waits = Found{}, Pending{}
		if f != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, f, c.want)
		}
	}
}

// When a record came to a retry route its turn has noted, where the topic does not tell: it is due as that says, and goes by that time in the audit topic.
func TestFateOfWhatCameAtAnUnknownTime(t *testing.T) {
	over, soon := testNow-2000, testNow+5000
	for _, c := range []struct {
		name string
		log  []*kgo.Record
		want Fate
	}{
		{"its turn comes", nil, Fate{Found: Found{Due: topics.AtOnce}, State: IsResolved, Read: true}},
		{"it waits", []*kgo.Record{again(5, 0, soon, soon)}, Fate{Found: Found{Due: soon}, State: IsCarriedOn, By: 5, NextDue: soon, Read: true}},
		{"it was delivered", []*kgo.Record{again(5, 0, over, over)}, Fate{Found: Found{Due: over}, State: IsResolved, Read: true}},
		{"it is tried again", []*kgo.Record{again(5, 0, over, over), again(7, 0, over, soon)}, Fate{Found: Found{Due: over}, State: IsCarriedOn, By: 7, NextDue: soon, Read: true}},
	} {
		p := opened(t, state.Checkpoint{Offset: 10, Watermark: state.Key{Due: testNow - 1000, Seq: 9}, Parsers: []state.ParserEpoch{{Spec: testRoute(t, "retry").Spec()}}}, Env{Route: testRoute(t, "retry"), Watch: Watch{Has: true}})
		accept(p, append([]*kgo.Record{{Timestamp: time.UnixMilli(testNow - 60_000)}}, c.log...)...)
		p.Decide()
		got := p.Fates()
		if len(got) != 1 {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		got[0].Written = 0
		if got[0] != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got[0], c.want)
		}
	}
}

// handleOf names the record at an offset.
func handleOf(offset, due int64) string {
	return topics.Handle{Partition: 3, Offset: offset, Due: due}.String()
}

// The same by its id, which what has resolved a record, or stands for it, does not say again. What is left out knows why, too.
func TestFatesByID(t *testing.T) {
	soon, over := testNow+5000, testNow-2000
	for _, c := range []struct {
		name, route string
		log         []*kgo.Record
		want        State
		by          int64
		code        topics.Code
	}{
		{"a resolve record", "p1", []*kgo.Record{request(0, soon, topics.HeaderID, "a"), {Offset: 7, Headers: topics.Resolve(testMark, 0, soon, 0)}}, IsDeadLettered, 0, ""},
		{"a cancel of its handle", "p1", []*kgo.Record{request(0, soon, topics.HeaderID, "a"), cancelOf(5, handleOf(0, soon))}, IsCancelled, 5, ""},
		{"a cancel of its handle that no replica has read", "p1", []*kgo.Record{request(0, soon, topics.HeaderID, "a"), cancelOf(15, handleOf(0, soon))}, IsCancelled, 15, ""},
		{"a replacement of its handle", "p1", []*kgo.Record{request(0, soon, topics.HeaderID, "a"), request(5, soon, topics.HeaderReplace, handleOf(0, soon))}, IsReplaced, 5, ""},
		{"a retry", "p1", []*kgo.Record{request(0, over, topics.HeaderID, "a"), again(12, 0, over, soon)}, IsCarriedOn, 12, ""},
		{"a duplicate that is left out", "p1/i", []*kgo.Record{request(10, soon, topics.HeaderID, "a"), request(11, soon, topics.HeaderID, "a")}, IsDeadLettered, 0, topics.CodeDuplicateID},
	} {
		p := opened(t, state.Checkpoint{Offset: 10, Watermark: state.Key{Due: testNow - 1000, Seq: 9}}, Env{Route: testRoute(t, c.route), Watch: Watch{ID: []byte("a")}})
		accept(p, c.log...)
		p.Decide()
		all := p.Fates()
		got := all[len(all)-1]
		if got.State != c.want || got.By != c.by || (got.Refusal != nil) != (c.code != "") || c.code != "" && got.Refusal.Code != c.code {
			t.Errorf("%s: %+v", c.name, all)
		}
	}
}

// What is refused for another header than that of its due time has its jitter, and what a queue has passed was delivered.
func TestFatesByRoute(t *testing.T) {
	p := opened(t, state.Checkpoint{}, Env{Route: testRoute(t, "jitter"), Watch: Watch{Has: true}})
	accept(p, request(0, testNow+1000, "delay-foo", "1"))
	p.Decide()
	jitter := p.Parser(0).Jitter(testMark, 0)
	if f := p.Fates(); len(f) != 1 || f[0].Due != testNow+1000+jitter || jitter == 0 || f[0].State != IsDeadLettered {
		t.Errorf("with a jitter of %d: %+v", jitter, f)
	}
	p = opened(t, state.Checkpoint{Offset: 1, LowWater: 1, Parsers: []state.ParserEpoch{{Spec: "p1+2000"}}}, Env{Route: testRoute(t, "fixed"), Watch: Watch{Has: true}})
	p.position = 0
	accept(p, &kgo.Record{Timestamp: time.UnixMilli(testNow - 60_000)})
	p.Decide()
	if f := p.Fates(); len(f) != 1 || f[0].State != IsResolved || f[0].Taken {
		t.Errorf("of a queue: %+v", f)
	}
}

// A record of a queue is delivered after all before it, not only after the one before.
func TestQueueKeepsItsOrder(t *testing.T) {
	p := opened(t, state.Checkpoint{}, Env{Route: testRoute(t, "fixed")})
	for i, ago := range []int64{10, 30, 20} {
		accept(p, &kgo.Record{Offset: int64(i), Timestamp: time.UnixMilli(testNow - ago)})
	}
	p.Decide()
	var late []int64 // how much later than the first
	first := int64(0)
	for w := range p.All() {
		if first == 0 {
			first = w.Due
		}
		late = append(late, w.Due-first)
	}
	if !slices.Equal(late, []int64{0, 0, 0}) {
		t.Errorf("due after the first: %v", late)
	}
}

// Nothing below the low water is pending, whatever its due time is and however little of what lies behind it was read. By which parser a record
// was read is known as far as the checkpoint names them.
func TestFatesBelowTheLowWater(t *testing.T) {
	soon, over := testNow+5000, testNow-2000
	c := state.Checkpoint{Offset: 10, LowWater: 8, Watermark: state.Key{Due: testNow - 1000, Seq: 9}, Parsers: []state.ParserEpoch{{From: 4, Spec: "p1"}}}
	for _, tt := range []struct {
		name  string
		first int64
		due   int64
		want  Fate
	}{
		{"it was due", 4, over, Fate{State: IsResolved, Read: true}},
		{"it has been taken away", 4, soon, Fate{State: IsResolved, Read: true, Taken: true}},
		{"another parser held", 3, soon, Fate{State: IsResolved, Read: true, Forgotten: true}},
		{"it waits", 8, soon, Fate{State: IsPending, Read: true}},
	} {
		p := opened(t, c, Env{Watch: Watch{Offset: tt.first, Has: true}})
		p.position = tt.first
		accept(p, request(tt.first, tt.due))
		p.Decide()
		got := p.Fates()
		if len(got) != 1 || got[0].Due != tt.due && !tt.want.Forgotten {
			t.Errorf("%s: %+v", tt.name, got)
			continue
		}
		f := got[0]
		f.Found, f.Waits = Found{}, Pending{}
		if f != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, f, tt.want)
		}
	}
}

// Names of targets, and what is remembered of what is watched, are bounded: any producer may make them up.
func TestBounds(t *testing.T) {
	p := opened(t, state.Checkpoint{Offset: 10_000}, Env{Watch: Watch{ID: []byte("a")}})
	for i := range mostTargets + 50 {
		p.target(fmt.Appendf(nil, "target-%d", i))
	}
	if len(p.targets) > mostTargets+1 || p.targets[p.target([]byte("one more"))] != "(others)" {
		t.Errorf("%d names", len(p.targets))
	}
	for i := range int64(3 * mostTraced) {
		accept(p, request(2*i, testNow+i, topics.HeaderID, "a"), cancelOf(2*i+1, "a"))
	}
	if n, m := len(p.trace.founds), len(p.trace.namings); n > mostTraced || m > mostTraced || n < mostTraced/2 || m < mostTraced/2 {
		t.Errorf("%d found, %d namings", n, m)
	}
	if last := p.trace.founds[len(p.trace.founds)-1]; last.Offset != 2*(3*mostTraced-1) {
		t.Errorf("the last is %+v", last)
	}
}

// Where records replace from now on what has their id, that holds for what an owner takes in next, and at least once for what is written from now on: ls and get say
// what the next owner will do.
func TestLooksByTheGuarantee(t *testing.T) {
	for writer, waits := range map[string][]int64{"an owner": {1}, "": {0}} {
		c := state.Checkpoint{Writer: writer, Parsers: []state.ParserEpoch{{Spec: "p1"}}}
		p := opened(t, c, Env{Route: testRoute(t, "p1/r")})
		accept(p, request(0, testNow+1000, topics.HeaderID, "a"), request(1, testNow+2000, topics.HeaderID, "a"))
		p.Decide()
		var got []int64
		for w := range p.All() {
			got = append(got, w.Offset)
		}
		if !slices.Equal(got, waits) {
			t.Errorf("after the checkpoint of %q what waits is %v, want %v", writer, got, waits)
		}
	}
}
