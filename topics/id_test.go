package topics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// An id is what a header says, or the key.
func TestParseIDs(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		headers    []kgo.RecordHeader
		key        string
		null       bool
		want       Request
	}{
		{"an id", "p1", headers("delay-until", "1767225605123", "delay-id", "x"), "k", false, Request{Due: T, Partition: -1, ID: []byte("x")}},
		{"an absent id", "p1", headers("delay-until", "1767225605123", "delay-id", ""), "k", false, Request{Due: T, Partition: -1}},
		{"as long as may be", "p1", headers("delay-until", "1767225605123", "delay-id", strings.Repeat("x", 256)), "k", false, Request{Due: T, Partition: -1, ID: []byte(strings.Repeat("x", 256))}},
		{"a cancel of an id", "p1", headers("delay-cancel", "x"), "k", false, Request{Kind: KindCancel, Partition: -1, NamedID: []byte("x")}},
		{"a cancel that is forwarded", "p1", headers("delay-cancel", "x", "delay-forwarded", "a8098c1a:billing:3:4:41:700"), "", true, Request{Kind: KindCancel, Partition: -1, NamedID: []byte("x"), Forwarded: true, WrittenBy: 700}},
		{"the same without a timestamp", "p1", headers("delay-cancel", "x", "delay-forwarded", "a8098c1a:billing:3:4:41:-1"), "", true, Request{Kind: KindCancel, Partition: -1, NamedID: []byte("x"), Forwarded: true}},
		{"a replacement of an id", "p1", headers("delay-until", "1767225605123", "delay-replace", "x"), "k", false, Request{Due: T, Partition: -1, NamedID: []byte("x"), ID: []byte("x"), Replaces: true}},
		{"a replacement of its own id", "p1", headers("delay-until", "1767225605123", "delay-replace", "x", "delay-id", "x"), "k", false, Request{Due: T, Partition: -1, NamedID: []byte("x"), ID: []byte("x"), Replaces: true}},
		{"what is tried again has none", "p1", headers("delay-until", "1", "delay-id", "x", "delay-retry", "a8098c1a:billing:3:7:1:1:1:1767225605123"), "k", false,
			Request{Due: T, Partition: -1, Retry: true, Attempt: 1, Origin: Origin{7, 1, 1}}},
		{"nor has one of a retry route", "r1+1000+2000+60000+0", headers("delay-id", "x"), "k", false, Request{Due: AtOnce, Partition: -1, AtOnce: true, Pause: 1000}},
		{"a null value is to be delivered", "p1", headers("delay-until", "1767225605123"), "k", true, Request{Due: T, Partition: -1}},
		{"a key", "p1/k", headers("delay-until", "1767225605123"), "k", false, Request{Due: T, Partition: -1, ID: []byte("k"), KeyIsID: true}},
		{"a key with a null value", "p1/kr", nil, "k", true, Request{Kind: KindCancel, Partition: -1, NamedID: []byte("k")}},
		{"a cancel by handle there", "p1/kr", headers("delay-cancel", "3-8-1767225605123"), "k", true, Request{Kind: KindCancel, Partition: -1, Handle: Handle{3, 8, T}, Here: true}},
		{"what is tried again there", "p1/k", headers("delay-until", "1", "delay-retry", "a8098c1a:billing:3:7:1:1:1:1767225605123"), "k", false,
			Request{Due: T, Partition: -1, Retry: true, Attempt: 1, Origin: Origin{7, 1, 1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stamp := Stamp{Millis: T, Key: []byte(tt.key), NoValue: tt.null}
			got, err := parser(t, tt.spec).Parse(tt.headers, stamp, 42, ours)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, got, tt.want)
			if got.Kind == KindRequest {
				again, err := readAgain(parser(t, tt.spec), tt.headers, stamp, got.Due, 42, ours)
				if equal(t, again, tt.want); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, tt := range []struct {
		name, spec string
		headers    []kgo.RecordHeader
		key        string
		null       bool
		code       Code
		says       string
	}{
		{"no key", "p1/k", headers("delay-for", "1s"), "", false, CodeInvalidID, "this one has none"},
		{"no key to cancel", "p1/k", nil, "", true, CodeInvalidID, "this one has none"},
		{"a long key", "p1/k", headers("delay-for", "1s"), strings.Repeat("k", 257), false, CodeInvalidID, "256 bytes"},
		{"a key like a handle, which a cancel would take for one", "p1/k", headers("delay-for", "1s"), " 3-8-1767225605123 ", false, CodeInvalidID, "like a handle"},
		{"the same in quotes, as a JSON serializer writes it", "p1/k", headers("delay-for", "1s"), `"3-8-1767225605123"`, false, CodeInvalidID, "like a handle"},
		{"that of a cancel, which other partitions would take for one of the handle", "p1/k", nil, `"3-8-1767225605123"`, true, CodeInvalidID, "like a handle"},
		{"an id beside the key", "p1/k", headers("delay-for", "1s", "delay-id", "x"), "k", false, CodeInvalidID, "is its key"},
		{"a key beside a handle", "p1/k", headers("delay-for", "1s", "delay-replace", "3-8-1767225605123"), "k", false, CodeInvalidID, "name the key"},
		{"another key than that which is replaced", "p1/k", headers("delay-for", "1s", "delay-replace", "x"), "k", false, CodeInvalidID, "no other"},
		{"a fixed delay", "p1+1000", headers("delay-id", "x"), "k", false, CodeUnsupportedHeader, "have no ids"},
	} {
		_, err := parser(t, tt.spec).Parse(tt.headers, Stamp{Millis: T, Key: []byte(tt.key), NoValue: tt.null}, 42, ours)
		var r *Refusal
		if !errors.As(err, &r) || r.Code != tt.code || !strings.Contains(r.Message, tt.says) {
			t.Errorf("%s: %v, want %s with %q", tt.name, err, tt.code, tt.says)
		}
	}
}

// What a parser does with ids is in its spec, and there is one spec for each.
func TestSpecsOfIDs(t *testing.T) {
	for spec, route := range map[string]Route{
		"p1":        {},
		"p1/r":      {OnDuplicate: DuplicateReplaces},
		"p1/i":      {OnDuplicate: DuplicateIgnored},
		"p1/k":      {Keyed: true},
		"p1/kr":     {Keyed: true, OnDuplicate: DuplicateReplaces},
		"p1~500/ki": {Keyed: true, OnDuplicate: DuplicateIgnored, Jitter: 500e6},
		"p1/m1000":  {Remember: time.Second},
		"p1/kim5":   {Keyed: true, OnDuplicate: DuplicateIgnored, Remember: 5e6},
	} {
		route.Topic, route.Target, route.DeadLetter = "t", "orders", "t.dead"
		equal(t, route.Spec(), spec)
		p, err := ParserFor(spec)
		if err != nil || p.keyed != route.Keyed || p.onDuplicate != route.OnDuplicate || p.jitter != route.Jitter.Milliseconds() || p.Remember() != route.Remember.Milliseconds() {
			t.Errorf("%s: %+v, %v", spec, p, err)
		}
	}
	for _, bad := range []string{"p1/", "p1/x", "p1/rk", "p1/kk", "p1~/k", "p1~0/k", "p1~05", "p1+1000/k", "p1k", "p1/k/r", "p2", "p1/m", "p1/m0", "p1/m05", "p1/mk", "p1/5m", "p1/m-5", "p1/m99999999999999"} {
		if _, err := ParserFor(bad); !errors.Is(err, ErrUnknownParser) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What replaces remembers nothing, also where another spec remembers.
func TestNamingAs(t *testing.T) {
	for _, c := range [][3]string{
		{"p1/r", "p1/m1000", "p1/r"}, {"p1/ki", "p1/m1000", "p1/kim1000"}, {"p1/k", "p1~5/rm7", "p1~5/km7"}, {"p1/k", "p1~5/i", "p1~5/k"},
		{"p1", "p1/kr", "p1"}, {"p1+5", "p1/k", "p1/k"}, {"p1/k", "p1+5", "p1+5"}, {"p7", "p1/k", "p1/k"},
	} {
		equal(t, NamingAs(c[0], c[1]), c[2])
	}
}

// Where an id usually stands, it is found without parsing the record.
func TestLikelyIDs(t *testing.T) {
	for _, tt := range []struct {
		spec, prefix, want string
		headers            []kgo.RecordHeader
	}{
		{"p1", "", "x", headers("delay-for", "1s", "delay-id", "x")},
		{"p1", "", "x", headers("delay-id", "y", "delay-id", "\"x\"")},
		{"p1", "", "", headers("delay-for", "1s")},
		{"p1", "", "", headers("delay-id", strings.Repeat("x", 257))},
		{"p1", "later-", "x", headers("delay-id", "y", "later-id", "x")},
		{"p1/k", "", "k", headers("delay-id", "x")},
		{"r1+1000+2000+60000+0", "", "", headers("delay-id", "x")},
	} {
		p := parser(t, tt.spec)
		p.prefix = tt.prefix
		got := map[int]string{}
		for i, id := range LikelyIDs(p, []*kgo.Record{{}, {Key: []byte("k"), Headers: tt.headers}}) {
			got[i] = string(id)
		}
		if len(got) > 1 || got[1] != tt.want {
			t.Errorf("%s %q %v: %v, want %q", tt.spec, tt.prefix, tt.headers, got, tt.want)
		}
	}
}
