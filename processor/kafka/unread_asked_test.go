package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// What was not asked for is not well: its owner was busy when the rest was over, or has paused it for want of room.
func TestUnreadIsNotWellUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u Unread
		l := &leaders{}
		refuseUntil(&u, l, kerr.TopicAuthorizationFailed, 3*time.Second)
		for !u.Rests(l, unreadTP) {
			u.Refused(l, unreadTP, kerr.TopicAuthorizationFailed)
		}
		time.Sleep(10 * time.Second) // a turn is waited for
		if u.Rests(l, unreadTP); u.Why(0) == nil {
			t.Error("it is well, and was not asked for")
		}
	})
}
