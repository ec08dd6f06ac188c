package topics

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A record that was written when our headers had another prefix is renewed by those of today: what it asked by would be delivered.
func TestRenewWithAnotherPrefix(t *testing.T) {
	written := headers("delay-until", "1767225605123", "trace", "17", "delay-target-topic", "orders", "delay-id", "a")
	by, p := parser(t, "p1"), parser(t, "p1^x-wheel-")
	q, err := by.Parse(written, Stamp{}, 7, ours)
	if err != nil {
		t.Fatal(err)
	}
	as := p.Renew(by, &q, written, "a", headers(HeaderUntil, "1767225605124")[0])
	equal(t, show(as), "x-wheel-replace=a\nx-wheel-until=1767225605124\nx-wheel-target-topic=orders\nx-wheel-id=a\ntrace=17\n")
}

// An id that is written again is read as the same id: also where what is around it looks like what a converter puts around one.
func TestNameOf(t *testing.T) {
	for _, id := range []string{"a", " a ", `"`, `null`, `"a"`, `{"schema":null,"payload":"a"}`, `{"payload":"null"}`, `{"payload":"\"a\""}`, "\xff\"", `<&>"`, "{}", `"\u00e9"`} {
		if got := NameOf(&Parser{keyed: true}, []byte(id)); string(got) != id {
			t.Errorf("%q is %q where ids are keys", id, got)
		}
		name := NameOf(&Parser{}, []byte(id))
		q, err := new(Parser).Parse([]kgo.RecordHeader{{Key: HeaderCancel, Value: name}}, Stamp{}, 7, ours)
		if err != nil || q.Kind != KindCancel || string(q.NamedID) != id {
			t.Errorf("%q is written as %q, and read as %q: %+v, %v", id, name, q.NamedID, q, err)
		}
	}
}
