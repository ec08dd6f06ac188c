package producer

import "testing"

// The transactional ids of two groups must be different ones, whatever their processes are called: else each fences the other with every turn.
func TestAtkWritersOfTwoGroups(t *testing.T) {
	if a, b := Writer("orders", "eu-1", 0), Writer("orders-eu", "1", 0); a == b {
		t.Errorf("group orders, instance eu-1, and group orders-eu, instance 1, both are %s", a)
	}
}
