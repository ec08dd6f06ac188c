package topics

import (
	"testing"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A refusal is told of when the memory of its record is used again.
func TestRefusalOutlivesItsRecord(t *testing.T) {
	r := route(t, Route{Topic: "delays", Allow: []string{"orders"}, DeadLetter: "delays.dead"})
	for _, tt := range []struct{ name, value string }{{HeaderUntil, "next week"}, {HeaderTargetTopic, "elsewhere"}} {
		key, value := []byte(tt.name), []byte(tt.value)
		headers := []kgo.RecordHeader{{Key: unsafe.String(&key[0], len(key)), Value: value}}
		if tt.name != HeaderUntil {
			headers = append(headers, kgo.RecordHeader{Key: HeaderUntil, Value: []byte("1767225605123")})
		}
		q, err := r.Parser().Parse(headers, Stamp{}, 7, ours)
		refusal, _ := err.(*Refusal)
		if err == nil {
			refusal = r.Refuse(&q, 0)
		}
		if refusal == nil {
			t.Fatalf("%s: %s is not refused", tt.name, tt.value)
		}
		clear(key)
		clear(value)
		equal(t, refusal.Header, tt.name)
		equal(t, string(refusal.Value), tt.value)
	}
}

// A cancel or a replacement in vain is told of by the header that its route has for it, with what that says and why.
func TestInVain(t *testing.T) {
	r := route(t, Route{Topic: "delays", DeadLetter: "delays.dead", Target: "orders", Prefix: "x-wheel-"})
	hs := headers("x-wheel-cancel", "3-7-1767225605123", "x-wheel-replace", "3-8-1767225605123", "delay-cancel", "x", "delay-replace", "y")
	for _, tt := range []struct {
		late bool
		code Code
		why  string
	}{
		{true, CodeTooLate, "what it names was delivered or dead-lettered before, or was about to be"},
		{false, CodeUnknownHandle, "nothing of that name is pending: it was cancelled or replaced, or never was"},
	} {
		cancel, replace := r.NotCancelled(hs, tt.late), r.TooLateToReplace(hs, tt.late)
		equal(t, *cancel, Refusal{Code: tt.code, Stage: StageStore, Header: "x-wheel-cancel", Value: []byte("3-7-1767225605123"), Message: tt.why})
		equal(t, *replace, Refusal{Code: CodeTooLate, Stage: StageStore, Header: "x-wheel-replace", Value: []byte("3-8-1767225605123"), Message: tt.why})
		former := r.NotCancelled(headers("acme.cancel", "3-7-1767225605123", "acme.for", "1s", "wheel.cancel", "x"), tt.late)
		equal(t, *former, Refusal{Code: tt.code, Stage: StageStore, Header: "acme.cancel", Value: []byte("3-7-1767225605123"), Message: tt.why})
	}
}
