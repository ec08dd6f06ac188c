package check

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestEmitNone: without emitted headers, records are known by their content; every promise but the order of what is alike
// can still be judged.
func TestEmitNone(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(o *outcome)
		want  map[Kind]int64
	}{
		{"an honest processor", func(o *outcome) {}, nil},
		{"not seen", func(o *outcome) { o.arrivals = o.arrivals[1:] }, map[Kind]int64{Missing: 1}},
		{"twice", func(o *outcome) { o.repeat() }, map[Kind]int64{Doubled: 1}},
		{"early", func(o *outcome) { o.arrivals[0].Timestamp = now }, map[Kind]int64{Early: 1}},
		{"altered", func(o *outcome) { o.arrivals[0].Value = nil }, map[Kind]int64{Missing: 1, Stray: 1}},
		{"a request header is left", func(o *outcome) {
			o.arrivals[0].Headers = append(o.arrivals[0].Headers, o.good.Headers[1])
		}, map[Kind]int64{Altered: 1}},
		{"two that are alike", func(o *outcome) {
			same := *o.good
			o.w.append(&same)
			o.more = append(o.more, &same)
			o.repeat()
		}, nil},
		{"two that are alike, and one is not seen", func(o *outcome) {
			same := *o.good
			o.w.append(&same)
			o.more = append(o.more, &same)
		}, map[Kind]int64{Missing: 1}},
	}
	for _, tt := range tests {
		for _, first := range []string{"requests", "arrivals"} {
			t.Run(tt.name+"/"+first+" first", func(t *testing.T) {
				o := honest()
				o.w.config.Routes[0].Emit = emitNone
				for _, name := range []string{"due", "fired", "source", "source-timestamp"} {
					drop(o.arrivals[0], prefix+name)
				}
				tt.spoil(o)
				c := newChecker(t, o.w.config)
				if first == "arrivals" {
					feed(c, o.arrivals...)
				}
				feed(c, o.good, o.bad)
				feed(c, o.more...)
				if first == "requests" {
					feed(c, o.arrivals...)
				}
				expectFaults(t, c, tt.want, "")
			})
		}
	}
}

// repeat adds what arrived first, once more.
func (o *outcome) repeat() {
	again := *o.arrivals[0]
	o.arrivals = append(o.arrivals, o.w.append(&again))
}

// TestPlacement: a record with a key belongs where Java's producer would put it, unless a partition was asked for.
func TestPlacement(t *testing.T) {
	// murmur2 of these keys, as Kafka's own tests have it: 21 is -973932308, foobar -790332482.
	want := map[string]int32{"21": (-973932308 & 0x7fffffff) % 4, "foobar": (-790332482 & 0x7fffffff) % 4}
	for key, right := range want {
		for partition := range int32(4) {
			for _, asked := range []bool{false, true} {
				w := newWorld()
				headers := []string{"delay-until=" + millis(due), "delay-target-topic=bills.de"}
				wrong := partition != right
				if asked {
					headers = append(headers, "delay-target-partition=2")
					wrong = partition != 2
				}
				q := w.request(key, "v", headers...)
				d := w.deliver(q, due)
				d.Topic, d.Partition = "bills.de", partition
				c := newChecker(t, w.config)
				feed(c, q, d)
				if got := c.Report().Count(Altered) == 1; got != wrong {
					t.Errorf("key %s in partition %d, asked %v: fault %v", key, partition, asked, got)
				}
			}
		}
	}
}

// TestMayVanish: what was asked of a topic that is deleted may be delivered or dead-lettered, as it was, and not both.
func TestMayVanish(t *testing.T) {
	w := newWorld()
	w.config.Targets[0].MayVanish = true
	headers := []string{"trace=1", "delay-until=" + millis(due), "delay-target-topic=orders", "delay-target-key=K"}
	a, b, both, none := w.request("a", "v", headers...), w.request("b", "v", headers...), w.request("c", "v", headers...), w.request("d", "v", headers...)
	da, dboth := w.deliver(a, due), w.deliver(both, due)
	da.Key, dboth.Key = []byte("K"), []byte("K")
	letters := []*kgo.Record{w.condemn(b, "unknown_target"), w.condemn(both, "unknown_target")}
	c := newChecker(t, w.config)
	feed(c, a, b, both, none, da, dboth)
	feed(c, letters...)
	expectFaults(t, c, map[Kind]int64{Missing: 1, Doubled: 1}, fmt.Sprintf("missing: requests/1@%d", none.Offset))

	c = newChecker(t, w.config)
	feed(c, letters[0], b)
	expectFaults(t, c, nil, "")
	set(letters[0], "trace", "2")
	c = newChecker(t, w.config)
	feed(c, b, letters[0])
	expectFaults(t, c, map[Kind]int64{Altered: 1}, "headers")
}

// TestLateness: from the due time, or from the request when it was due already; and the longest time that something due
// waited while nothing came.
func TestLateness(t *testing.T) {
	w := newWorld()
	c := newChecker(t, w.config)
	arrive := func(ahead, seen time.Duration) {
		q := w.request("k", "v", "delay-until="+millis(now.Add(ahead)), "delay-target-topic=orders")
		d := w.deliver(q, now.Add(ahead))
		feed(c, q)
		c.Delivered(d, now.Add(seen))
	}
	arrive(-time.Hour, 30*ms) // due already
	arrive(100*ms, 104*ms)    // 4 ms late
	arrive(200*ms, 210*ms)    // 10 ms late
	arrive(205*ms, 260*ms)    // 55 ms late, of which 50 ms nothing came
	arrive(1000*ms, 1001*ms)  // 1 ms late, after a long time in which nothing was due
	arrive(3600e3*ms, 3600e9) // on time
	l := c.Report().Lateness
	if n := l.OverdueMicros.TotalCount(); n != 1 || !near(l.OverdueMicros.Max(), 30_000) {
		t.Errorf("%d were due already, at most %d late", n, l.OverdueMicros.Max())
	}
	if n := l.Micros.TotalCount(); n != 5 || !near(l.Micros.Max(), 55_000) || !near(l.Micros.ValueAtQuantile(50), 4_000) {
		t.Errorf("%d became due, p50 %d, at most %d late", n, l.Micros.ValueAtQuantile(50), l.Micros.Max())
	}
	if l.Gap != 50*ms || !l.GapEnd.Equal(now.Add(260*ms)) {
		t.Errorf("longest gap %v until %v", l.Gap, l.GapEnd.Sub(now))
	}
	if !l.First.Equal(now.Add(30*ms)) || !l.Last.Equal(now.Add(time.Hour)) {
		t.Errorf("seen from %v to %v", l.First.Sub(now), l.Last.Sub(now))
	}
	if by := c.Report().ByTarget["orders"]; by.Micros.TotalCount() != 5 {
		t.Errorf("%d in orders", by.Micros.TotalCount())
	}
}

// near allows for the three digits of a histogram.
func near(got, want int64) bool { return got >= want-want/500 && got <= want+want/500 }

// TestKeep: all faults are counted, a few are kept, and those are the earliest.
func TestKeep(t *testing.T) {
	w := newWorld()
	w.config.Keep = 3
	c := newChecker(t, w.config)
	for range 3 * pageSlots {
		feed(c, w.request("k", "v", "delay-for=1", "delay-target-topic=orders"))
	}
	r := c.Report()
	if r.Count(Missing) != 3*pageSlots || len(r.Found[Missing].First) != 3 {
		t.Fatalf("%d counted, %d kept", r.Count(Missing), len(r.Found[Missing].First))
	}
	for i, f := range r.Found[Missing].First {
		if f.Source.Offset != int64(i) {
			t.Errorf("kept offset %d at %d", f.Source.Offset, i)
		}
	}
}

// TestOrderInParts: order is judged alike when deliveries are sorted a few at a time.
func TestOrderInParts(t *testing.T) {
	for _, atATime := range []int{1, 10, 1000} {
		w := newWorld()
		c := newChecker(t, w.config)
		var arrivals []*kgo.Record
		for i := range 300 {
			q := w.request(fmt.Sprint(i%30), "v", "delay-until="+millis(due), "delay-target-topic=orders")
			feed(c, q)
			arrivals = append(arrivals, w.deliver(q, due))
		}
		// Of two keys, the first delivery comes last.
		arrivals[0].Offset, arrivals[7].Offset = 1000, 1001
		feed(c, arrivals...)
		end := ending{*c}
		for _, src := range c.sources {
			end.judgeOrder(src, atATime)
		}
		if got := end.found[Disordered].Count; got != 2 {
			t.Errorf("%d at a time: %d out of order, want 2", atATime, got)
		}
	}
}

// Requests that differ only in their values are told apart, however many there are.
func TestContentsAreToldApart(t *testing.T) {
	x := hasher{maphash.MakeSeed()}
	seen := map[uint64]bool{}
	for i := range 1_000_000 {
		seen[x.content(0, nil, binary.BigEndian.AppendUint64(nil, uint64(i)), nil)] = true
	}
	if len(seen) != 1_000_000 {
		t.Errorf("%d contents of a million", len(seen))
	}
}

// TestEmitSource: without the two headers that are left out by default a delivered record is judged by its own timestamp, and its
// lateness from when its request was written, once that is known.
func TestEmitSource(t *testing.T) {
	const late = 100 * time.Millisecond
	past := "delay-until=" + millis(now.Add(-time.Hour))
	for _, tt := range []struct {
		name  string
		until string
		spoil func(o *outcome)
		seen  time.Time
		want  map[Kind]int64
	}{
		{"an honest processor", "", func(*outcome) {}, due.Add(late), nil},
		{"early", "", func(o *outcome) { o.arrivals[0].Timestamp = due.Add(-1) }, due.Add(late), map[Kind]int64{Early: 1}},
		{"late", "", func(*outcome) {}, due.Add(late + 1), map[Kind]int64{Late: 1}},
		{"too much", "", func(o *outcome) {
			o.arrivals[0].Headers = append(o.arrivals[0].Headers, kgo.RecordHeader{Key: "delay-fired", Value: []byte(millis(due))})
		}, due.Add(late), map[Kind]int64{Altered: 1}},
		{"too little", "", func(o *outcome) { drop(o.arrivals[0], "delay-due") }, due.Add(late), map[Kind]int64{Altered: 1}},
		{"due before it was written", past, func(*outcome) {}, now.Add(late), nil},
		{"late, and due before it was written", past, func(*outcome) {}, now.Add(late + 1), map[Kind]int64{Late: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.config.Routes[0].Emit, w.config.Late = "", late
			q, at := w.request("k", "v", "delay-target-topic=orders", "delay-until="+millis(due)), due
			if tt.until != "" {
				q.Headers[1], at = parse([]string{tt.until})[0], now.Add(-time.Hour)
			}
			d := w.deliver(q, at)
			d.Timestamp = time.UnixMilli(max(at.UnixMilli(), now.UnixMilli()))
			drop(d, "delay-fired")
			drop(d, "delay-source-timestamp")
			o := &outcome{w: w, arrivals: []*kgo.Record{d}}
			tt.spoil(o)
			c := newChecker(t, w.config)
			c.Observe(q, now)
			c.Observe(d, tt.seen)
			expectFaults(t, c, tt.want, "")
		})
	}
}

// Of more targets than are told apart the others count as one.
func TestMoreTargetsThanAreToldApart(t *testing.T) {
	c, err := New(Config{Routes: []Route{{Topic: "delays"}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range mostTargets + 10 {
		c.targets.index(strconv.Itoa(i))
	}
	if a, b := c.targets.index("another"), c.targets.index("one more"); a != b {
		t.Errorf("told apart as %d and %d", a, b)
	}
}
