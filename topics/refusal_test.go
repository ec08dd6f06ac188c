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
