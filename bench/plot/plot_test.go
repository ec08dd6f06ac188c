package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

func draw(t *testing.T, p Plot) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatalf("%v in %s", err, b.String())
		}
	}
}

// A plot with all that there is: a bound, a gap, an axis by logarithm, marks.
func TestGolden(t *testing.T) {
	got := draw(t, Plot{
		Title: "Soak <1>", Note: "a & b", Marks: []float64{20, 70},
		Panels: []Panel{
			{Title: "memory", Unit: "MiB", Lines: []Line{
				{Name: "resident", At: []float64{0, 30, 60, 90}, Values: []float64{100, 250, 300, 290}},
				{Name: "bound", At: []float64{0, 90}, Values: []float64{512, 512}, Dashed: true},
			}},
			{Title: "lateness", Unit: "ms", Log: true, Lines: []Line{
				{Name: "p50", At: []float64{0, 30, 60, 90}, Values: []float64{3, math.NaN(), 4, 5}},
				{Name: "p99", At: []float64{0, 30, 60, 90}, Values: []float64{0, 80, 120, 11}},
			}},
			{Title: "nothing"},
		},
	})
	const path = "testdata/plot.svg"
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant %s; -rewrite writes it anew", got, path)
	}
}

// However many points there are, the highest is drawn, and there are no more than pixels.
func TestPeaksStay(t *testing.T) {
	l := Line{}
	for i := range 100_000 {
		v := 1.0
		if i == 54_321 {
			v = 8
		}
		l.At, l.Values = append(l.At, float64(i)), append(l.Values, v)
	}
	p := Panel{Lines: []Line{l}}
	path := l.path(0, 99_999, p.scale())
	if n := strings.Count(path, "L") + strings.Count(path, "M"); n > wide+1 || !strings.Contains(path, " 0.0L") {
		t.Errorf("%d points: %s", n, path)
	}
}

func TestAxes(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 0.7: 0.8, 1: 1, 37: 40, 512: 600, 513e6: 600e6, 9.5: 10} {
		if got := ceil(v); math.Abs(got-want) > want*1e-9 {
			t.Errorf("the axis of %v ends at %v, want %v", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.01: "0.01", 250: "250", 1500: "1.5 k", 20e6: "20 M", 3e9: "3 G"} {
		if got := label(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
	if s := (Panel{Log: true, Lines: []Line{{Values: []float64{0, 3, 250}}}}).scale(); s.from != 1 || s.to != 1000 {
		t.Errorf("by logarithm from %v to %v", s.from, s.to)
	}
}
