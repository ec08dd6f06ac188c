package topics

import "testing"

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
