package setting

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type word string

type even int

func (e *even) Parse(v any) error {
	n, err := Int(v)
	if err == nil && n%2 != 0 {
		err = fmt.Errorf("%d is odd", n)
	}
	*e = even(n)
	return err
}

type embedded struct {
	Pace  time.Duration `key:"pace" default:"2s" min:"1s" max:"1m"`
	Copy  int           `key:"copies" default:"0" min:"0" max:"9"`
	Bytes int64         `key:"bytes" default:"1KiB" min:"1"`
	Other func()
}

type item struct {
	Name string `key:"name" unset:"none"`
}

type sample struct {
	embedded
	Way   word `key:"way" default:"slow" words:"slow fast"`
	Login struct {
		On   *bool  `key:"on"`
		Pass string `key:"pass" secret:"true"`
	} `key:"login"`
	Items []item   `key:"items"`
	Names []string `key:"names"`
	Kinds []string `key:"kinds" unset:"all" empty:"none"`
	Even  even     `key:"even"`
}

func TestOf(t *testing.T) {
	var got []string
	for _, s := range Of[sample]() {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s=%s%s %s.%s %s", s.Key, s.Default, s.Unset, s.Struct, s.Field, s.May())))
	}
	want := []string{
		"pace=2s embedded.Pace 1s to 1m", "copies=0 embedded.Copy 0 to 9", "bytes=1KiB embedded.Bytes at least 1",
		"way=slow sample.Way slow or fast", "login.on= .On", "login.pass= .Pass", "items.N.name=none item.Name", "names= sample.Names", "kinds=all sample.Kinds", "even= sample.Even",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestSet(t *testing.T) {
	for _, test := range []struct {
		key  string
		v    any
		want string // of the field, or an error
	}{
		{"pace", "3s", "3s"},
		{"pace", 3, "error: 3 has no unit: write 3ms, 3s or the like (a number alone is ms in the header delay-for only)"},
		{"pace", 0, "error: 0 is no value: leave it out for the default, 2s"},
		{"copies", 0, "0"},
		{"bytes", "1MiB", "1048576"},
		{"way", "FAST", "fast"},
		{"way", "quick", `error: "quick" is not one of slow, fast`},
		{"login.pass", 12, "12"},
		{"items.N.name", "a", "a"},
		{"names", "a, b", "[a b]"},
		{"names", "", "[]"},
		{"kinds", []any{"a"}, "[a]"},
		{"kinds", []any{}, "error: an empty list is no value: write none, or leave it out for all"},
		{"kinds", " , ", "error: an empty list is no value: write none, or leave it out for all"},
		{"even", 3, "error: 3 is odd"},
		{"even", "0", "error: 0 is no value: leave it out"},
	} {
		for _, s := range Of[sample]() {
			if s.Key != test.key {
				continue
			}
			in := &sample{Items: make([]item, 2)}
			got := ""
			if err := s.Set(in, 1, test.v); err != nil {
				got = "error: " + err.Error()
			} else {
				got = fmt.Sprint(s.field(reflect.ValueOf(in).Elem(), 1).Interface())
			}
			if got != test.want {
				t.Errorf("%s=%v: got %s, want %s", test.key, test.v, got, test.want)
			}
		}
	}
}

// What is set stays, what is not gets its default, and defaults are within their bounds.
func TestFillAndCheck(t *testing.T) {
	in := sample{Way: "fast"}
	Fill(&in)
	if in.Pace != 2*time.Second || in.Bytes != 1024 || in.Way != "fast" {
		t.Errorf("got %+v", in)
	}
	if outside := Check(&in); len(outside) > 0 {
		t.Errorf("defaults are outside: %+v", outside)
	}
	in.Pace, in.Copy, in.Bytes, in.Way = time.Minute+1, -1, 0, "FAST"
	var got []string
	for _, o := range Check(&in) {
		got = append(got, fmt.Sprintf("%s is %v: %s", o.Key, o.Value, o.May))
	}
	want := []string{"pace is 1m0.000000001s: 1s to 1m", "copies is -1: 0 to 9", "bytes is 0: at least 1", "way is FAST: slow or fast"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What is not zero was said, also in a struct within.
func TestGiven(t *testing.T) {
	s := sample{Names: []string{"a"}, Items: []item{{Name: "b"}}, embedded: embedded{Pace: time.Second}}
	s.Login.Pass = "x"
	if got, want := Given(s), []string{"pace", "login.pass", "names"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Given(sample{}); got != nil {
		t.Errorf("of nothing: %q", got)
	}
}
