package state

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

func TestCheckpointScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/checkpoint", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "parse":
				var offset int64
				d.ScanArgs(t, "offset", &offset)
				c, err := ParseCheckpoint(offset, NoEpoch, d.Input)
				if err != nil {
					return fmt.Sprintf("%s: %v\n", kindOf(err), err)
				}
				return fmt.Sprintf("id=%x offset=%d watermark=%v low=%d writer=%q appended=%v parsers=%v\n",
					c.TopicID, c.Offset, c.Watermark, c.LowWater, c.Writer, c.Appended, c.Parsers)
			case "parsers":
				c, err := ParseCheckpoint(1_000_000, NoEpoch, "dw1 t=00000000 w=0:0 l=0 c="+d.Input)
				must(t, err)
				var low int64
				if d.MaybeScanArgs(t, "below", &low) {
					c.DropParsersBelow(low)
				}
				return fmt.Sprintln(c.Parsers)
			default:
				d.Fatalf(t, "unknown command")
				return ""
			}
		})
	})
}

func kindOf(err error) string {
	for name, kind := range map[string]error{
		"ErrNotOurs": ErrNotOurs, "ErrUnknownVersion": ErrUnknownVersion, "ErrCorrupt": ErrCorrupt,
		"ErrMetadataTooLong": ErrMetadataTooLong, "ErrEnded": ErrEnded, "ErrGiven": ErrGiven,
	} {
		if errors.Is(err, kind) {
			return name
		}
	}
	return "another error"
}

func anyCheckpoint() *rapid.Generator[Checkpoint] {
	return rapid.Custom(func(t *rapid.T) Checkpoint {
		offset := rapid.Int64Min(0).Draw(t, "offset")
		c := Checkpoint{
			TopicID:   [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "id")),
			Offset:    offset,
			Epoch:     NoEpoch,
			Watermark: Key{rapid.Int64Min(0).Draw(t, "due"), rapid.Int64Min(0).Draw(t, "seq")},
			LowWater:  rapid.Int64Range(0, offset).Draw(t, "low"),
			Writer:    rapid.String().Draw(t, "writer"),
			Appended:  rapid.Bool().Draw(t, "appended"),
			Identity:  rapid.OneOf(rapid.Just(""), rapid.StringN(1, 20, 60)).Draw(t, "identity"),
			GivenUp:   rapid.OneOf(rapid.Just[int64](0), rapid.Int64Min(0)).Draw(t, "given up"),
		}
		from := int64(-1)
		for _, step := range rapid.SliceOfN(rapid.Int64Range(1, 1<<50), 0, 5).Draw(t, "steps") {
			from += step
			c.Parsers = append(c.Parsers, ParserEpoch{from, rapid.StringMatching(`[!-9<-~]{1,12}`).Draw(t, "spec")})
		}
		return c
	})
}

func TestCheckpointRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyCheckpoint().Draw(t, "checkpoint")
		text, err := want.Metadata()
		must(t, err)
		got, err := ParseCheckpoint(want.Offset, NoEpoch, text)
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", text, got, want)
		}
	})
}

// The text is made for people, and other tools read it: it does not change by accident.
func TestMetadataText(t *testing.T) {
	c := Checkpoint{
		TopicID: [4]byte{0x1f, 0, 0xab, 0x09}, Offset: 9000, Watermark: Key{1767225605123, 8812}, LowWater: 7001,
		Writer: "billing team/eu-4f-0", Appended: true, GivenUp: 6500, Parsers: []ParserEpoch{{0, "p1"}, {8000, "p1+300000"}}, Identity: "billing team",
	}
	got, err := c.Metadata()
	must(t, err)
	want := "dw1 t=1f00ab09 w=1767225605123:8812 l=7001 x=billing%20team%2Feu-4f-0 a=1 g=6500 c=0:p1;8000:p1+300000 n=billing%20team"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What is left with a group of a checkpoint that another one has is no checkpoint, and says whose it is.
func TestGivenCheckpoint(t *testing.T) {
	c := Checkpoint{TopicID: [4]byte{0x1f, 0, 0xab, 9}, Offset: 9000, Watermark: Key{5, 8812}, LowWater: 7001, Writer: "w", Identity: "first", Parsers: []ParserEpoch{{0, "p1"}}}
	text, err := c.GivenTo("billing team")
	if want := "dw1 t=1f00ab09 w=5:8812 l=7001 m=billing%20team"; err != nil || text != want {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
	got, err := ParseCheckpoint(9000, NoEpoch, text)
	var given *GivenError
	if !errors.As(err, &given) || given.To != "billing team" || !errors.Is(err, ErrGiven) || !reflect.DeepEqual(got, Checkpoint{}) {
		t.Errorf("it is read as %+v, %v", got, err)
	}
	if text, err = c.GivenTo("\x1b[2Jheir"); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseCheckpoint(9000, NoEpoch, text); err == nil || !strings.Contains(err.Error(), `group "\x1b[2Jheir" takes`) {
		t.Errorf("a terminal obeys %v", err)
	}
	if text, err = c.GivenTo(strings.Repeat("%", 1500)); !errors.Is(err, ErrMetadataTooLong) {
		t.Errorf("a name that has no room: %q, %v", text, err)
	}
}

// A release reads what it writes, each version once, and has a reader for each field of each.
func TestVersions(t *testing.T) {
	if got, want := Versions(), "reads dw1, writes dw1"; got != want {
		t.Errorf("got %q, want %q: the rule for changing this is in doc.go", got, want)
	}
	values := map[byte]string{'t': "00000000", 'w': "0:0", 'l': "0", 'x': "w", 'a': "1", 'g': "1", 'c': "0:p1", 'n': "g", 'm': "h"}
	for _, v := range versions {
		text := v.name
		for i := range len(v.fields) {
			text += fmt.Sprintf(" %c=%s", v.fields[i], values[v.fields[i]])
		}
		if _, err := ParseCheckpoint(0, NoEpoch, text); err != nil && !errors.Is(err, ErrGiven) {
			t.Errorf("%s: %v", text, err)
		}
		if strings.Count(reads(), v.name) != 1 {
			t.Errorf("%s is not read once: %s", v.name, reads())
		}
	}
}

func TestMetadataRefusesWhatCannotBeReadBack(t *testing.T) {
	good := Checkpoint{Offset: 10, LowWater: 5}
	for name, c := range map[string]struct {
		change func(*Checkpoint)
		want   error
	}{
		"low water above offset": {func(c *Checkpoint) { c.LowWater = 11 }, ErrCorrupt},
		"negative offset":        {func(c *Checkpoint) { c.Offset, c.LowWater = -1, -1 }, ErrCorrupt},
		"negative watermark":     {func(c *Checkpoint) { c.Watermark.Due = -1 }, ErrCorrupt},
		"negative given up":      {func(c *Checkpoint) { c.GivenUp = -1 }, ErrCorrupt},
		"parser with a space":    {func(c *Checkpoint) { c.Parsers = []ParserEpoch{{0, "p 1"}} }, ErrCorrupt},
		"parser with a colon":    {func(c *Checkpoint) { c.Parsers = []ParserEpoch{{0, "p:1"}} }, ErrCorrupt},
		"empty parser":           {func(c *Checkpoint) { c.Parsers = []ParserEpoch{{0, ""}} }, ErrCorrupt},
		"parsers out of order":   {func(c *Checkpoint) { c.Parsers = []ParserEpoch{{5, "a"}, {5, "b"}} }, ErrCorrupt},
		"long writer":            {func(c *Checkpoint) { c.Writer = strings.Repeat("/", MaxWriter/3+1) }, ErrMetadataTooLong},
	} {
		broken := good
		c.change(&broken)
		if _, err := broken.Metadata(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// What is written once can be written whatever becomes of it: numbers grow, another writer with a longer name takes over,
// records of ours are appended. Only one more way of reading records may be too much, and that waits.
func TestMetadataHasRoomToGrow(t *testing.T) {
	c := Checkpoint{TopicID: [4]byte{1, 2, 3, 4}, Writer: "g-1-0"}
	for from := int64(0); ; from++ {
		next := c
		next.Offset = from
		next.Parsers = append(slices.Clone(c.Parsers), ParserEpoch{from, "p1"})
		if _, err := next.Metadata(); err != nil {
			if !errors.Is(err, ErrMetadataTooLong) {
				t.Fatal(err)
			}
			break
		}
		c = next
	}
	if len(c.Parsers) < 200 {
		t.Fatalf("only %d parsers fit", len(c.Parsers))
	}
	grown := c
	grown.Offset, grown.LowWater, grown.GivenUp, grown.Watermark = math.MaxInt64, math.MaxInt64, math.MaxInt64, Key{math.MaxInt64, math.MaxInt64}
	grown.Epoch, grown.Writer, grown.Appended = NoEpoch, strings.Repeat("w", MaxWriter), true
	text, err := grown.Metadata()
	if err != nil || len(text) > MaxMetadata {
		t.Errorf("%d bytes: %v", len(text), err)
	}
	if len(text) < MaxMetadata-20 {
		t.Errorf("%d bytes at most, and one more parser was refused", len(text))
	}
	if got, err := ParseCheckpoint(grown.Offset, NoEpoch, text); err != nil || !reflect.DeepEqual(got, grown) {
		t.Errorf("it is read as %+v, %v", got, err)
	}
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add(int64(9000), "dw1 t=1f00ab09 w=1767225605123:8812 l=7001 x=billing%20team a=1 g=6500 c=0:p1;8000:p1+300000")
	f.Add(int64(9), "dw1 t=1f00ab09 w=5:8 l=7 m=h")
	f.Add(int64(0), "dw2 t=1")
	f.Add(int64(0), "")
	f.Fuzz(func(t *testing.T, offset int64, text string) {
		c, err := ParseCheckpoint(offset, NoEpoch, text)
		if err != nil {
			if kindOf(err) == "another error" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := c.Metadata()
		if errors.Is(err, ErrMetadataTooLong) { // a person wrote it
			return
		}
		if err != nil {
			t.Fatalf("%q is read as %+v, which cannot be written: %v", text, c, err)
		}
		if got, err := ParseCheckpoint(offset, NoEpoch, again); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%q is read as %+v, and then as %+v, %v", text, c, got, err)
		}
	})
}
