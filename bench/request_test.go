package bench

import (
	"bytes"
	"compress/flate"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestStampComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := stamp{
			due:  rapid.Int64().Draw(t, "due"),
			mark: rapid.Uint32().Draw(t, "mark"), index: rapid.Uint32().Draw(t, "index"),
		}
		v := want.value()
		if got, ok := stampOf(v); !ok || got != want || len(v) != valueBytes {
			t.Fatalf("got %+v, %v, %d bytes; want %+v", got, ok, len(v), want)
		}
		if _, ok := stampOf(v[:rapid.IntRange(0, valueBytes-1).Draw(t, "cut")]); ok {
			t.Fatal("a value that was cut has a stamp")
		}
	})
}

// No compression may make the records of one side of a comparison cheaper than those of the other.
func TestValuesAreNoise(t *testing.T) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	const n = 10_000
	for i := range n {
		if _, err := w.Write(stamp{due: 1_800_000_000_000 + int64(i), index: uint32(i)}.value()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, least := b.Len(), n*(valueBytes-stampBytes); got < least {
		t.Errorf("%d values were made as small as %d bytes, want at least %d", n, got, least)
	}
}

func TestSchedule(t *testing.T) {
	plan := Options{Rate: 10_000, For: 20 * time.Second}.schedule()
	plan.first = time.UnixMilli(1000)
	if plan.warm != 50_000 || plan.in != 200_000 || plan.interval() != 100*time.Microsecond {
		t.Fatalf("got %+v", plan)
	}
	for i, want := range map[int]stamp{
		0:       {1000, markWarmUp, 0},
		9:       {1000, markWarmUp, 9},
		10:      {1001, markWarmUp, 10},
		49_999:  {5999, markWarmUp, 49_999},
		50_000:  {6000, markMeasured, 0},
		249_999: {25_999, markMeasured, 199_999},
	} {
		if got := plan.stamp(i); got != want {
			t.Errorf("record %d is %+v, want %+v", i, got, want)
		}
	}
	if plan := (Options{Rate: 1, For: 100 * time.Millisecond}).schedule(); plan.in != 1 {
		t.Errorf("a short case has %d records, want 1", plan.in)
	}
}

func TestPause(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	type step struct {
		ms           int
		n, available int64
		counts       bool
	}
	for _, test := range []struct {
		name             string
		steps            []step
		longest, waiting int // ms
	}{
		{"between two acceptances", []step{{0, 1, 9, true}, {10, 2, 9, true}, {50, 3, 9, true}}, 40, 40},
		{"one that still lasts", []step{{0, 1, 9, true}, {10, 2, 9, true}, {99, 2, 9, true}}, 89, 89},
		{"nothing was to be had", []step{{0, 5, 5, true}, {30, 5, 5, true}, {60, 6, 6, true}}, 60, 0},
		{"something was to be had later", []step{{0, 5, 5, true}, {30, 5, 6, true}, {60, 6, 6, true}}, 60, 30},
		{"ended before it counts", []step{{0, 1, 9, false}, {70, 2, 9, false}, {80, 3, 9, true}}, 10, 10},
		{"began before it counts", []step{{0, 1, 9, false}, {70, 1, 9, false}, {80, 2, 9, true}}, 80, 80},
		{"waiting ends with any acceptance", []step{{0, 1, 9, true}, {10, 2, 9, true}, {20, 3, 9, true}, {30, 4, 9, true}}, 10, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p pause
			for _, s := range test.steps {
				p.note(at(s.ms), s.n, s.available, s.counts)
			}
			if p.longest != time.Duration(test.longest)*time.Millisecond || p.longestWaiting != time.Duration(test.waiting)*time.Millisecond {
				t.Errorf("longest %v, waiting %v; want %d and %d ms", p.longest, p.longestWaiting, test.longest, test.waiting)
			}
		})
	}
}

func TestContest(t *testing.T) {
	speeds := func(rates ...float64) (s []speed) {
		for _, r := range rates {
			s = append(s, speed{rate: r})
		}
		return s
	}
	c := contest{ours: []float64{400, 600, 100}, copies: map[int][]speed{
		5_000: speeds(500, 480, 520), 20_000: speeds(790, 10, 800), 50_000: speeds(700, 710, 720),
	}}
	if batch, rate := c.best(); batch != 20_000 || rate != 790 {
		t.Errorf("best is %v at %d", rate, batch)
	}
	f := c.figures()
	if f["records_per_s"] != 400 || f["copy_5000_per_s"] != 500 || f["copy_best_per_s"] != 790 || f["ratio"] != 400.0/790 {
		t.Errorf("figures %v", f)
	}
	if got, want := c.String(), "400/s, 0.51 of the copy loop's 790/s (at 20,000 a transaction)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOptions(t *testing.T) {
	err := Options{Cases: []string{"throughput", "speed"}, Records: -1, For: time.Millisecond}.withDefaults().validate(Cases())
	if err == nil {
		t.Fatal("no error")
	}
	want := `bench: no client options: brokers are missing
bench: no case "speed"; there are throughput, store, writes, lateness, lateness-alo, instant, hot, window, floor, carry, idle
bench: records is -1: 1 to 1073741824
bench: a lateness case of 1ms: 100ms to 24h`
	if err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
