package topics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestHandle(t *testing.T) {
	h := Handle{Partition: 3, Offset: 8812, Due: T}
	equal(t, h.String(), "3-8812-1767225605123")
	got, ok := ParseHandle([]byte(h.String()))
	if equal(t, got, h); !ok {
		t.Error("it is not taken")
	}
	for _, bad := range []string{"", "3", "3-8812", "3-8812-", "3--1", "03-8812-1", "3-08812-1", "3-8812-01", "3-8812-0", "-3-8812-1", "+3-8812-1", "3-8812-1-1",
		"2147483648-1-1", "3-9223372036854775808-1", "3-1-100000000000001", " 3-1-1", "3-1-1 ", "a-b-c", "３-1-1"} {
		if h, ok := ParseHandle([]byte(bad)); ok {
			t.Errorf("%q is taken for %v", bad, h)
		}
	}
}

// What a record names is told by its header alone, and a cancel does nothing else.
func TestParseNames(t *testing.T) {
	here, there := Handle{3, 8, T}, Handle{4, 8, T}
	for _, tt := range []struct {
		name    string
		headers []kgo.RecordHeader
		want    Request
	}{
		{"a cancel", headers("delay-cancel", here.String()), Request{Kind: KindCancel, Partition: -1, Handle: here, Here: true}},
		{"in white space", headers("delay-cancel", " "+here.String()+"\n"), Request{Kind: KindCancel, Partition: -1, Handle: here, Here: true}},
		{"of another partition", headers("delay-cancel", there.String()), Request{Kind: KindCancel, Partition: -1, Handle: there}},
		{"beside all else", headers("delay-until", "soon", "delay-target-topic", "a b", "delay-cancel", here.String(), "delay-replace", "x"), Request{Kind: KindCancel, Partition: -1, Handle: here, Here: true}},
		{"the last one counts", headers("delay-cancel", "x", "delay-cancel", here.String()), Request{Kind: KindCancel, Partition: -1, Handle: here, Here: true}},
		{"forwarded by us", headers("delay-cancel", here.String(), "delay-forwarded", "a8098c1a:billing:3:4:41:700"), Request{Kind: KindCancel, Partition: -1, Handle: here, Here: true, Forwarded: true, WrittenBy: 700}},
		{"forwarded by us, in a form that is not ours", headers("delay-cancel", here.String(), "delay-forwarded", "a8098c1a:billing:3:4:41"), Request{Kind: KindCancel, Partition: -1, Handle: here, Here: true}},
		{"forwarded by another group", headers("delay-cancel", here.String(), "delay-forwarded", "a8098c1a:orders:3:4:41:700"), Request{Kind: KindOfAnotherGroup, Partition: -1}},
		{"forwarded by another group, which has other names", headers("x-wheel-cancel", here.String(), "delay-forwarded", "a8098c1a:orders:3:4:41:700"), Request{Kind: KindOfAnotherGroup, Partition: -1}},
		{"forwarded in another topic", headers("delay-cancel", here.String(), "delay-forwarded", "a8098c1b:billing:3:4:41:700"), Request{Kind: KindCancel, Partition: -1, Handle: here, Here: true}},
		{"a replacement", headers("delay-until", "1767225605123", "delay-replace", here.String()), Request{Due: T, Partition: -1, Handle: here, Here: true, Replaces: true}},
		{"a replacement that is tried again", headers("delay-until", "1", "delay-replace", here.String(), "delay-retry", "a8098c1a:billing:3:7:1:1:1:1767225605123"),
			Request{Due: T, Partition: -1, Retry: true, Attempt: 1, Origin: Origin{7, 1, 1}}},
		{"with an expiry", headers("delay-until", "1767225605123", "delay-expires", "2026-01-01T00:00:05.123Z"), Request{Due: T, Partition: -1, Expires: T}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parser(t, "p1").Parse(tt.headers, Stamp{Millis: T}, 42, ours)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, got, tt.want)
		})
	}
	for _, name := range []string{"delay-cancel", "delay-replace"} {
		_, err := parser(t, "p1+1000").Parse(headers(name, here.String()), Stamp{Millis: T}, 42, ours)
		var r *Refusal
		if !errors.As(err, &r) || r.Code != CodeUnsupportedHeader || r.Header != name {
			t.Errorf("%s with a fixed delay: %v", name, err)
		}
	}
}

// A cancel that is forwarded is read as one there, and is written as it was where it ends in vain.
func TestForward(t *testing.T) {
	in := headers("a", "b", "delay-cancel", "4-8-1767225605123", "c", "")
	there := ours.In(4)
	hs, _ := AppendForward(nil, in, there, 3, 41, 1767225605000, nil)
	equal(t, show(hs[len(in):]), "delay-forwarded=a8098c1a:billing:4:3:41:1767225605000\n")
	q, err := parser(t, "p1").Parse(hs, Stamp{Millis: T}, 7, there)
	if err != nil || !q.Forwarded || !q.Here {
		t.Errorf("read as %+v, %v", q, err)
	}
	written, _, retried := there.Written(hs, 7)
	if equal(t, show(written), show(in)); retried {
		t.Error("it is taken for a retry")
	}
	if written, _, _ := ours.Written(hs, 7); len(written) != len(hs) {
		t.Errorf("elsewhere it is %s", show(written))
	}
	if written, _, _ := NewMark(ourID, "orders", 4).Written(hs, 7); len(written) != len(hs) {
		t.Errorf("for another group it is %s", show(written))
	}
}

func TestExpired(t *testing.T) {
	r := route(t, Route{Target: "orders", ExpireAfter: time.Second})
	for _, tt := range []struct {
		expires, due, now int64
		says              string
	}{
		{0, T, T + 1000, ""},
		{0, T, T + 1001, "expire_after is 1s"},
		{T + 5, T, T + 5, ""},
		{T + 5, T, T + 6, "it expired at 2026-01-01T00:00:05.128Z"},
	} {
		got := r.Expired(&Request{Expires: tt.expires}, tt.due, tt.now)
		if (got == nil) != (tt.says == "") || got != nil && (got.Code != CodeExpired || !strings.Contains(got.Message, tt.says)) {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	if got := route(t, Route{Target: "orders"}).Expired(&Request{}, 1, T); got != nil {
		t.Errorf("nothing expires: %v", got)
	}
}

// What a request asks for that expires before it is due is refused as it is read. A retry of one that was due in time is judged in its turn.
func TestExpiresBeforeItIsDue(t *testing.T) {
	asked := headers("delay-until", "1767225605123", "delay-expires", "1767225605122")
	var refusal *Refusal
	if _, err := parser(t, "p1").Parse(asked, Stamp{Millis: T}, 42, ours); !errors.As(err, &refusal) || refusal.Code != CodeExpired {
		t.Errorf("refused with %v", err)
	}
	retry := headers("delay-until", "1767225605123", "delay-expires", "1767225605200", "delay-retry", "a8098c1a:billing:3:7:1:1767225605123:1:1767225605300")
	q, err := parser(t, "p1").Parse(retry, Stamp{Millis: T}, 42, ours)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, q.Due, int64(T+177))
	equal(t, q.Expires, int64(T+77))

	// What a jitter puts beyond that is judged by configuration, when its turn comes: what was accepted is understood again.
	p := parser(t, "p1~300000")
	asked = headers("delay-until", "1767225605123", "delay-expires", "1767225605123")
	if q, err = p.Parse(asked, Stamp{Millis: T}, 42, ours); err != nil || q.Due <= q.Expires {
		t.Fatalf("due at %d, expires at %d: %v", q.Due, q.Expires, err)
	}
	again, err := readAgain(p, asked, Stamp{}, q.Due, 42, ours)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, again, q)
}
