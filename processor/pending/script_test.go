package pending

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
)

// Each file in testdata is a story of one partition. Times are ms from the moment at which it begins; far is beyond the near window.
// A record is <offset>@<due>, with ! behind it if the configuration refuses it, with ? if it asks for nothing that can be done, and with $ if it goes to another target;
// <offset>=cancel:<offset>@<due> cancels, =elsewhere:… a record of another partition, =forwarded:… as that passes it on, =confirmed:<offset>@<due>><offset> confirms that it has cancelled, and =replace:<offset>@<due>><due>
// takes the place of a record, =replace!:… if configuration did not refuse it. <offset>=marker ends a transaction, <offset>=resolve:<offset>@<due> is a resolve record, =other-group:… one of another group. Of a route with a fixed delay the time is
// the record's own.
//
// <offset>=copy:<offset> is what carrying appends of the record, or the copy, at another offset.
//
// <offset>@<due>#<id> has an id. <offset>=cancel-id:<id> cancels it, =forwarded-id:<id>@<time> as another partition passes it on that was
// written then, and =replace-id:<id>@<due> takes the place of what has it.
//
//	open [o= w=<due>:<seq> l= end= high=] [appended] [delay=ms] [at-least-once] [storeless] [bills] [audit [soon=ms]] [on-duplicate=replace|ignore] [remember=ms]
//	                      begin with a checkpoint, or with the one that was written last: what only memory held is gone
//	accept <record>...    what each has turned out to be
//	live                  end the catch-up
//	catch-up              read what is in the log, and end the catch-up
//	flush                 write the position to the store
//	take now= [limit=]    make a part, for a turn
//	checkpoint            make a part without records
//	carry <offset>... [at=]  make a part that appends copies of what is pending there at the end of the log, or behind what others have appended meanwhile
//	happened [dead=] | refused   the oldest undecided part has happened, and one of its records was dead-lettered, or it has not
//	load now=, spill now= what is due soon comes into memory, what is not goes to the store. With share= memory is short: a partition may have so many bytes; step= is how many
//	                      records are loaded in a step
//	next                  when there is something to do next
//	await [over]          what is due waits for what other partitions pass on, or does no more
//	show                  where it stands
//	follow o= w= l=       begin to follow a checkpoint, or follow a newer one
//	read <record>...      what a follower reads
//	take-over [o= w= l=]  open what the follower leaves
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{T: t, l: testOwner(t), log: map[int64]*kgo.Record{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.T = t
			out := s.do(d)
			if s.p != nil {
				must(t, Check(s.p))
			}
			return strings.TrimRight(out, "\n") + "\n"
		})
	})
}

type script struct {
	*testing.T
	l         *owner
	p         *Partition
	f         *Follower
	end, high int64
	carried   int64 // where the log ends with the copies of the part that appends some
	undecided []*Part
	written   state.Checkpoint
	log       map[int64]*kgo.Record
}

func (s *script) do(d *datadriven.TestData) string {
	now := testNow + s.number(d, "now", 0)
	switch d.Cmd {
	case "open":
		return s.open(d)
	case "accept":
		return s.accept(d, now)
	case "live":
		must(s.T, s.p.goLive(s.l.room))
		return s.show()
	case "catch-up":
		s.catchUp(now)
		must(s.T, s.p.goLive(s.l.room))
		return s.show()
	case "flush":
		must(s.T, s.p.Flush())
		pos, _ := s.p.store.Position()
		return fmt.Sprintf("the store resumes at %d, and holds %v", pos.Resume, keysOf(s.T, s.p.store, state.Key{}))
	case "take":
		wants := s.p.Wants(now)
		take := s.p.Take
		if d.HasArg("beside") {
			take, wants = Beside{s.p}.Take, 0
		}
		pt := take(now, nil, int(s.number(d, "limit", 1000)), s.number(d, "bytes", anyBytes))
		if pt == nil && wants > 0 {
			return fmt.Sprintf("nothing of the %d that it wants", wants) // a turn without room for all would give its place to it in vain
		}
		return s.part(pt)
	case "checkpoint":
		return s.part(s.p.Checkpoint())
	case "carry":
		return s.carry(d)
	case "happened", "refused":
		if len(s.undecided) == 0 {
			s.Fatal("no part is undecided")
		}
		if d.HasArg("dead") {
			it := &s.undecided[0].Items[slices.Index(s.undecided[0].offsets(), s.number(d, "dead", 0))]
			it.Dead = it.Leaves()
		}
		return s.decide(d.Cmd == "happened", now)
	case "load":
		room := s.l.room
		room.Window = s.number(d, "window", room.Window)
		if d.HasArg("share") { // and memory is short
			room.Share, room.Step = s.number(d, "share", 0), int(s.number(d, "step", 0))
			room.Budget, room.Used = 1<<20, 1<<20-1
		}
		must(s.T, s.p.Load(now, room))
		return s.show()
	case "spill":
		fit(s.T, s.p, now, Room{Window: s.number(d, "window", LeastWindow), Share: s.number(d, "share", 0)})
		return s.show()
	case "next":
		due, ok := s.p.Next()
		if !ok {
			return "nothing"
		}
		return at(due)
	case "trust":
		s.p.Trust(testNow + s.number(d, "limit", 0))
		return "a W beyond that says nothing of the time"
	case "split":
		first, second := s.undecided[0].Split(int(s.number(d, "at", 1)))
		s.undecided = append([]*Part{first, second}, s.undecided[1:]...)
		s.p.turns++
		return s.say(first) + "\n" + s.say(second)
	case "await":
		Among{s.p}.Await(!d.HasArg("over"))
		return s.show()
	case "pass":
		s.p.Pass(s.number(d, "to", 0), 0)
		return s.show()
	case "forgo":
		s.p.Forgo()
		return s.show()
	case "show":
		return s.show()
	case "follow":
		return s.follow(d)
	case "read":
		for _, a := range d.CmdArgs {
			if _, err := s.f.Accept(s.record(a)); err != nil {
				s.Fatal(err)
			}
		}
		must(s.T, s.f.Sync())
		return s.following()
	case "take-over":
		return s.takeOver(d)
	}
	s.Fatalf("there is no command %s", d.Cmd)
	return ""
}

// checkpoint is the one of the arguments, or else the one that was written last.
func (s *script) checkpoint(d *datadriven.TestData) state.Checkpoint {
	c := s.written
	c.Offset, c.LowWater = s.number(d, "o", c.Offset), s.number(d, "l", c.LowWater)
	c.Appended = c.Appended || d.HasArg("appended")
	if v := s.text(d, "w"); v != "" {
		due, seq, _ := strings.Cut(v, ":")
		c.Watermark = state.Key{Due: testNow + s.parse(due), Seq: s.parse(seq)}
	}
	return c
}

func (s *script) open(d *datadriven.TestData) string {
	r := testRoute(!d.HasArg("no-bills"))
	r.Target, r.Delay = "orders", time.Duration(s.number(d, "delay", 0))*time.Millisecond
	r.Remember = time.Duration(s.number(d, "remember", 0)) * time.Millisecond
	if then := s.text(d, "on-duplicate"); then != "" {
		must(s.T, r.OnDuplicate.UnmarshalText([]byte(then)))
	}
	s.l.route, s.l.atLeastOnce, s.l.audit = mustRoute(r), d.HasArg("at-least-once"), d.HasArg("audit")
	s.l.soon = s.number(d, "soon", 0)
	if d.HasArg("storeless") {
		s.l.store = nil
	}
	c := s.checkpoint(d)
	s.end = s.number(d, "end", max(s.end, c.Offset))
	s.high = s.number(d, "high", max(s.end, s.high))
	var err error
	if s.p, err = s.l.assign(c, s.number(d, "start", 0), s.end, s.high); err != nil {
		return err.Error()
	}
	s.undecided, s.f, s.written = nil, nil, s.p.committed
	return fmt.Sprintf("reads from %d up to %d; ", s.p.start, max(s.end, s.p.ownEnd)) + s.show()
}

// catchUp reads what is in the log from the position on; where nothing was accepted markers lie.
func (s *script) catchUp(now int64) {
	for s.p.position < s.high {
		r := s.log[s.p.position]
		if r == nil {
			r = control(s.p.position)
		}
		_, err := s.p.Accept(r, now)
		must(s.T, err)
	}
	must(s.T, s.p.Sync())
}

func (s *script) accept(d *datadriven.TestData, now int64) string {
	var out []string
	for _, arg := range d.CmdArgs {
		if arg.Key == "now" {
			continue
		}
		r := s.record(arg)
		before := s.p.Figures(now)
		late := s.p.late.len()
		a, err := s.p.Accept(r, now)
		must(s.T, errors.Join(err, s.p.Sync()))
		s.high, s.log[r.Offset] = max(s.high, r.Offset+1), r
		after := s.p.Figures(now)
		what := "nothing new"
		switch {
		case a.Unparsed != nil || s.p.late.len() > late && s.p.late.tail().refusal != nil:
			what = "refused"
		case a.Late:
			what = "late"
		case after.Near > before.Near:
			what = "near"
		case after.Pending > before.Pending:
			what = "far"
		case after.Pending < before.Pending:
			what = "resolves one"
		}
		out = append(out, fmt.Sprintf("%d %s", r.Offset, what))
	}
	must(s.T, s.p.Sync())
	return strings.Join(out, ", ")
}

func (s *script) part(pt *Part) string {
	if pt == nil {
		return "nothing"
	}
	s.p.Begin()
	s.undecided = append(s.undecided, pt)
	return s.say(pt)
}

func (s *script) say(pt *Part) string {
	var out strings.Builder
	if len(pt.Items) > 0 {
		out.WriteString("records")
	}
	for _, it := range pt.Items {
		fmt.Fprintf(&out, " %d", it.Offset)
		switch {
		case it.Effect != EffectNone:
			fmt.Fprintf(&out, " (%v", it.Effect)
			if it.Effect == EffectStale && it.By > 0 {
				fmt.Fprintf(&out, " by %d, resolve record", it.By)
			}
			out.WriteString(")")
		case it.By > 0:
			fmt.Fprintf(&out, " (%s by %d", map[bool]string{true: "replaced", false: "taken away"}[it.Replaced], it.By)
			if it.By >= pt.To.Offset {
				out.WriteString(", resolve record")
			}
			out.WriteString(")")
		}
		if it.Overtakes() {
			out.WriteString(" (overtakes)")
		}
		if it.Leaves() {
			fmt.Fprintf(&out, " (leaves a stub until %s)", at(it.stub.Due))
		}
		if it.noted() != nil {
			fmt.Fprintf(&out, " (#%s)", it.noted())
		}
		if took, id := it.Took(); took != nil {
			fmt.Fprintf(&out, " (took %d", took.Seq)
			if id != nil {
				fmt.Fprintf(&out, "#%s", id)
			}
			out.WriteString(")")
		}
		if it.Refusal != nil {
			out.WriteString(" (dead letter")
			if it.Resolve {
				out.WriteString(", resolve record")
			}
			out.WriteString(")")
		}
	}
	if len(pt.Items) > 0 {
		out.WriteString("; ")
	}
	return out.String() + checkpointed(pt.To)
}

func (s *script) decide(happened bool, now int64) string {
	pt := s.undecided[0]
	s.undecided = s.undecided[1:]
	s.p.End()
	switch {
	case !happened && len(pt.Items) > 0:
		s.p.Repeat(pt, 0)
	case !happened:
	case len(pt.Items) == 0:
		s.p.Wrote(pt)
	default:
		s.p.Settle(pt)
		if !s.l.atLeastOnce {
			s.p.Committed(pt)
		}
	}
	if pt.Carries {
		s.carryEnds(happened)
	}
	s.written = s.p.committed
	return s.show()
}

func (s *script) follow(d *datadriven.TestData) string {
	s.written = s.checkpoint(d)
	c := s.written
	c.Parsers = s.l.parsers(c, s.high)
	if s.f != nil {
		jumped, err := s.f.Follow(c)
		must(s.T, err)
		if jumped {
			return "reads from there; " + s.following()
		}
		return s.following()
	}
	store, err := s.l.store.Partition(testID)
	must(s.T, err)
	got, err := Inherit(never, s.l.route, store, c, 0, 1<<40)
	must(s.T, err)
	s.f, err = Follow(s.l.env(), c, store, got)
	must(s.T, err)
	return s.following()
}

func (s *script) following() string {
	m := s.f.Marks()
	return fmt.Sprintf("position %d, %d pending, %d ahead, stored %v", m.Position, s.f.Pending(), s.f.Waiting(), keysOf(s.T, s.f.p.store, state.Key{}))
}

func (s *script) takeOver(d *datadriven.TestData) string {
	s.written = s.checkpoint(d)
	store, err := s.l.store.Partition(testID)
	must(s.T, err)
	c := s.written
	c.Parsers = s.l.parsers(c, s.high)
	got, ok, err := s.f.HandOver(store, c)
	must(s.T, err)
	if !ok {
		return "the store is looked through"
	}
	s.p, err = New(s.l.env(), c, Sighting{End: s.high, At: testNow})
	must(s.T, err)
	s.p.Trust(1 << 60)
	s.p.Use(store, got, testNow, s.l.room.Most)
	s.f = nil
	return fmt.Sprintf("reads from %d; ", s.p.start) + s.show()
}

func (s *script) show() string {
	f := s.p.Figures(testNow)
	far := ""
	if f.Pending > 0 {
		far = fmt.Sprintf(", %d of them in memory", f.Near+int64(s.p.late.own()))
	}
	if f.Remembered > 0 {
		far += fmt.Sprintf(", %d remembered", f.Remembered)
	}
	return fmt.Sprintf("position %d, %d pending%s; %s", s.p.position, f.Pending, far, checkpointed(s.p.committed))
}

func checkpointed(c state.Checkpoint) string {
	w := "none"
	if c.Watermark != (state.Key{}) {
		w = at(c.Watermark.Due) + ":" + strconv.FormatInt(c.Watermark.Seq, 10)
	}
	out := fmt.Sprintf("O=%d W=%s L=%d", c.Offset, w, c.LowWater)
	if c.Appended {
		out += " appended"
	}
	return out
}

func at(due int64) string {
	if due == 0 {
		return "at once"
	}
	return fmt.Sprintf("%+d", due-testNow)
}

func (s *script) text(d *datadriven.TestData, name string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return ""
}

func (s *script) number(d *datadriven.TestData, name string, or int64) int64 {
	if v := s.text(d, name); v != "" {
		return s.parse(v)
	}
	return or
}

func (s *script) parse(v string) int64 {
	if v == "far" {
		return farMs
	}
	n, err := strconv.ParseInt(v, 10, 64)
	must(s.T, err)
	return n
}
