package load

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// now is when a load without a cluster is written.
var now = time.UnixMilli(1_767_225_605_123)

func everything() Config {
	return Config{
		Seed: 1, Topics: []string{"requests"}, Targets: []string{"orders", "bills.de", "bills.fr"}, TargetPartitions: 4,
		Records: 3000, Bad: .1, Unknown: "bills.none", LargeBytes: 5000,
	}
}

// expectations is what the checker is told of a load.
func expectations() check.Config {
	return check.Config{
		Routes: []check.Route{{Topic: "requests", Allow: []string{"orders", "bills.*"}, MaxDelay: 366 * 24 * time.Hour}},
		Targets: []check.Target{
			{Topic: "orders", Partitions: 4, MaxBytes: 4096}, {Topic: "bills.de", Partitions: 4, MaxBytes: 4096},
			{Topic: "bills.fr", Partitions: 4, MaxBytes: 4096},
		},
	}
}

var codes = map[Bad]check.Codes{
	NoDue: check.NoDue, Unparsable: check.UnparsableDue, OutOfRange: check.DueOutOfRange, NoTarget: check.NoTarget,
	NotAllowed: check.TargetNotAllowed, UnknownTarget: check.UnknownTarget, TooLarge: check.TooLarge,
	TooFarAhead: check.TooFarAhead, UnsupportedHeader: check.UnsupportedHeader,
}

// TestGenerator: what is made is bad in the way that is said, and else good; all ways and all due times are there.
func TestGenerator(t *testing.T) {
	g, err := NewGenerator(everything(), 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := check.New(expectations())
	if err != nil {
		t.Fatal(err)
	}
	var past, near, far int
	seen := make(map[Bad]int)
	for i := range 5000 {
		r, bad := g.Next(now)
		r.Offset = int64(i)
		seen[bad]++
		e := c.Expect(r)
		if bad != Good {
			if e.Outcome != check.DeadLetter || e.Codes&codes[bad] == 0 {
				t.Fatalf("%s: outcome %d with code %s: %v", bad, e.Outcome, e.Codes, r.Headers)
			}
			continue
		}
		if e.Outcome != check.Deliver {
			t.Fatalf("good, and the outcome is %d with code %s: %v", e.Outcome, e.Codes, r.Headers)
		}
		switch ahead := time.UnixMilli(e.Due).Sub(now); {
		case ahead <= 0:
			past++
		case ahead <= 6*time.Second:
			near++
		case ahead >= time.Hour && ahead <= 2*time.Hour:
			far++
		default:
			t.Errorf("due %v ahead", ahead)
		}
	}
	if min(past, near, far) < 1200 {
		t.Errorf("%d are due already, %d soon, %d in an hour", past, near, far)
	}
	for b := range bads {
		if seen[b] == 0 {
			t.Errorf("none is bad as %q", b)
		}
	}
}

// TestSeed: the same seed and number make the same records, and another number makes others.
func TestSeed(t *testing.T) {
	make100 := func(seed uint64, number int) (all []kgo.Record) {
		c := everything()
		c.Seed = seed
		g, err := NewGenerator(c, number)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			r, _ := g.Next(now)
			all = append(all, *r)
		}
		return all
	}
	first := make100(1, 0)
	if !reflect.DeepEqual(first, make100(1, 0)) {
		t.Error("the same seed makes other records")
	}
	if reflect.DeepEqual(first, make100(2, 0)) || reflect.DeepEqual(first, make100(1, 1)) {
		t.Error("another seed or number makes the same records")
	}
}

// TestRun: what is committed is what a read_committed consumer finds, aborted transactions notwithstanding.
func TestRun(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "requests", "requests.dead", "orders", "bills.de", "bills.fr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	c := everything()
	c.Producers, c.Transactional, c.Abort, c.Batch = 3, 2, .3, 50
	c.Rate = 20_000
	addrs := kgo.SeedBrokers(fake.ListenAddrs()...)
	totals, err := Run(t.Context(), c, addrs)
	if err != nil {
		t.Fatal(err)
	}
	if totals.Committed != c.Records || totals.Aborted == 0 || totals.Topics["requests"] != c.Records {
		t.Errorf("%+v", totals)
	}
	if least := time.Duration(float64(c.Records-c.Batch) / c.Rate * float64(time.Second)); totals.Elapsed < least {
		t.Errorf("took %v, and the rate asks for %v", totals.Elapsed, least)
	}
	bad := 0
	for _, n := range totals.Bad {
		bad += n
	}
	report, err := check.Read(t.Context(), expectations(), addrs)
	if err != nil {
		t.Fatal(err)
	}
	if report.Requested != int64(c.Records) || report.Bad != int64(bad) || report.Count(check.Missing) != int64(c.Records) {
		t.Errorf("%d and %d bad committed, and found: %s", totals.Committed, bad, report.Summary())
	}
}

// TestRunStops: Run returns when its context ends.
func TestRunStops(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "requests"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	c := Config{Topics: []string{"requests"}, Targets: []string{"orders"}, Records: 1e9, Rate: 100, Transactional: 1}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, c, kgo.SeedBrokers(fake.ListenAddrs()...)); err == nil {
		t.Error("Run returned without an error before all was written")
	}
}

// TestConfig: every problem is reported.
func TestConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no topics":               {},
		"all aborted":             {Topics: []string{"a"}, Abort: 1},
		"more than all are bad":   {Topics: []string{"a"}, Bad: 2},
		"too many transactional":  {Topics: []string{"a"}, Producers: 1, Transactional: 2},
		"large without a size":    {Topics: []string{"a"}, BadKinds: []Bad{TooLarge}},
		"no target among none":    {Topics: []string{"a"}, BadKinds: []Bad{NoTarget}},
		"a stretch going back":    {Topics: []string{"a"}, Due: []Due{{Weight: 1, From: time.Hour}}},
		"no due time where fixed": {Topics: []string{"a"}, Plain: true, BadKinds: []Bad{NoDue}},
	} {
		if _, err := NewGenerator(c, 0); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	c := Config{Topics: []string{"a"}}
	c.fill()
	if slices.Contains(c.BadKinds, TooLarge) || !slices.Contains(c.BadKinds, NoDue) {
		t.Errorf("BadKinds defaults to %v", c.BadKinds)
	}
}

func BenchmarkNext(b *testing.B) {
	for name, bare := range map[string]bool{"rich": false, "bare": true} {
		b.Run(name, func(b *testing.B) {
			c := everything()
			c.Bare = bare
			g, err := NewGenerator(c, 0)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				g.Next(now)
			}
		})
	}
}
