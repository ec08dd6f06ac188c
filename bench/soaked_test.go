package bench

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// goodSoak is one of ten minutes that is as it should be: half a minute of filling, and a sample each second.
func goodSoak() *Soaked {
	s := &Soaked{
		For: 10 * time.Minute, Pending: 1_000_000, Rate: 3000, Budget: 256 * mib, BatchRecords: 20_000, Partitions: 4, Trim: 10 * time.Second,
		Kept: time.Minute, CheckEvery: 5 * time.Second, Filled: 30, Written: 1_800_000,
		Records:  Records{Requested: 2_800_000, Delivered: 1_700_000, Later: 1_100_000, Left: 1_100_000},
		Restarts: []Restart{{At: 200, Killed: true, First: 0.4, All: 0.9}, {At: 400, First: 0.3, All: 0.7}},
	}
	for i := range int64(631) {
		x := Sample{At: float64(i), Resident: 400 * mib, Heap: 200 * mib, Disk: 300 * mib, Weight: 200 * mib, Seen: 2700 * i, P50: 4, P99: 20}
		x.Topics[soakFar] = SampledTopic{Pending: 990_000, End: 990_000 + 1000*i}
		x.Topics[soakKept] = SampledTopic{Pending: 10_000, Carried: 240 * i, End: 1333 * i, Start: max(0, 1333*(i-65))}
		x.Topics[soakMixed] = SampledTopic{Pending: 50_000, Carried: 10 * i, End: 1100 * i, Start: max(0, 1100*i-140_000)}
		s.Samples = append(s.Samples, x)
	}
	return s
}

// Each verdict holds for a good soak, and each is red for its own fault, and it alone.
func TestSoakVerdicts(t *testing.T) {
	if err := goodSoak().Err(); err != nil {
		t.Fatalf("a good soak: %v: %+v", err, goodSoak().Verdicts())
	}
	each := func(change func(i int, x *Sample)) func(*Soaked) {
		return func(s *Soaked) {
			for i := range s.Samples {
				change(i, &s.Samples[i])
			}
		}
	}
	one := func(change func(x *Sample)) func(*Soaked) {
		return each(func(i int, x *Sample) {
			if i == 400 {
				change(x)
			}
		})
	}
	for _, test := range []struct {
		name   string
		change func(*Soaked)
		red    string
	}{
		{"a fault", func(s *Soaked) { s.Faults = "doubled: 1" }, "records"},
		{"nothing was delivered", func(s *Soaked) { s.Records = Records{Requested: 5, Later: 5, Left: 5} }, "records"},
		{"one is dead-lettered", func(s *Soaked) { s.Records.DeadLettered++ }, "records"},
		{"one is missing", func(s *Soaked) { s.Records.Delivered-- }, "records"},
		{"one that is due later is not pending any more", func(s *Soaked) { s.Records.Left-- }, "records"},
		{"one that was delivered is pending", func(s *Soaked) { s.Records.Left++ }, "records"},
		{"too much memory once", one(func(x *Sample) { x.Resident = 513 * mib }), "memory"},
		{"memory is not told", each(func(_ int, x *Sample) { x.Resident = 0 }), "memory"},
		{"too much on disk once", one(func(x *Sample) { x.Disk = 700 * mib }), "disk"},
		{"the log of far grows", one(func(x *Sample) { x.Topics[soakFar].End += 2_000_000 }), "log of far"},
		{"the log of mixed grows", each(func(i int, x *Sample) { x.Topics[soakMixed].Start = 0 }), "log of mixed"},
		{"the log of kept is not cut", each(func(_ int, x *Sample) { x.Topics[soakKept].Start = 0 }), "log of kept"},
		{"nothing is carried", each(func(_ int, x *Sample) { x.Topics[soakKept].Carried = 0 }), "carried"},
		{"carrying ends", each(func(_ int, x *Sample) { x.Topics[soakKept].Carried = min(x.Topics[soakKept].Carried, 50_000) }), "carried"},
		{"all is carried twice as often", each(func(_ int, x *Sample) { x.Topics[soakKept].Carried *= 2 }), "carried"},
		{"deliveries stand still", each(func(i int, x *Sample) {
			if i > 300 && i <= 312 {
				x.Seen = 2700 * 300
			}
		}), "deliveries"},
		{"for long there is no sample, nor a delivery", func(s *Soaked) { s.Samples = slices.Delete(s.Samples, 301, 312) }, "deliveries"},
		{"a restart takes long", func(s *Soaked) { s.Restarts[1].First = 6 }, "restarts"},
		{"it was not killed", func(s *Soaked) { s.Restarts[0].Killed = false }, "restarts"},
		{"most samples are missing", func(s *Soaked) { s.Samples = slices.Delete(s.Samples, 32, 432) }, "samples"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := goodSoak()
			test.change(s)
			var red []string
			for _, v := range s.Verdicts() {
				if !v.Held {
					red = append(red, v.Name)
				}
			}
			if test.red == "samples" { // which stand for what was not looked at
				red = slices.DeleteFunc(red, func(name string) bool { return name != "samples" })
			}
			if !slices.Equal(red, []string{test.red}) || s.Err() == nil {
				t.Errorf("red are %q, want %q: %+v", red, test.red, s.Verdicts())
			}
		})
	}
}

// What was sampled is read as it was written, and shown and drawn from that alone.
func TestSoakedTravels(t *testing.T) {
	s := goodSoak()
	path := filepath.Join(t.TempDir(), "soak.json")
	if err := WriteSoaked(path, s); err != nil {
		t.Fatal(err)
	}
	got, err := ReadSoaked(path)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Fatalf("%v: got %+v", err, got)
	}
	var table, svg bytes.Buffer
	if err := got.Write(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FIRST", "resident memory, MiB", "pending in mixed", "1,620,000", "memory  ", "ok", "400 MiB resident at most"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, table.String())
		}
	}
	p := got.Plot()
	if err := p.Write(&svg); err != nil {
		t.Fatal(err)
	}
	if len(p.Panels) != 5 || !slices.Equal(p.Marks, []float64{30, 200, 400}) {
		t.Errorf("%d panels, marks at %v", len(p.Panels), p.Marks)
	}
	carried := p.Panels[3].Lines[0]
	if n := len(carried.Values); n != 63 || carried.Values[n-1] != 250 {
		t.Errorf("carried: %v", carried.Values)
	}
	if md := got.Markdown(); !strings.Contains(md, "| log of kept | yes |") || !strings.Contains(md, "| lateness p99, ms | 20.0 | 20.0 | 20.0 |") {
		t.Errorf("markdown: %s", md)
	}
}
