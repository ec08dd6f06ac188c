package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/wait"
)

// leaders is what a client knows of one partition.
type leaders struct {
	node, epoch int32
	err         error
	lookedUp    int
}

func (l *leaders) PartitionLeader(string, int32) (int32, int32, error) { return l.node, l.epoch, l.err }
func (l *leaders) ForceMetadataRefresh()                               { l.lookedUp++ }

var unreadTP = TopicPartition{Topic: "t", Partition: 3}

// refuseUntil refuses a partition whenever it is asked for, and returns how often that was. It is looked at every 10 ms.
func refuseUntil(u *Unread, l *leaders, why error, d time.Duration) (asked int, longest time.Duration) {
	began, last := time.Now(), time.Now()
	for time.Since(began) < d {
		if !u.Rests(l, unreadTP) {
			asked++
			longest, last = max(longest, time.Since(last)), time.Now()
			u.Refused(l, unreadTP, why)
		}
		u.Refused(l, unreadTP, why) // what was under way
		time.Sleep(10 * time.Millisecond)
	}
	return asked, longest
}

// A partition that is refused is asked for again at once, then after rests that grow, and its leader is looked up meanwhile.
func TestUnreadRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u Unread
		l := &leaders{}
		if u.Rests(l, unreadTP) {
			t.Error("what was never refused rests")
		}
		u.Refused(l, unreadTP, kerr.CorruptMessage)
		if u.Rests(l, unreadTP) {
			t.Error("what was refused once rests")
		}
		asked, longest := refuseUntil(&u, l, kerr.CorruptMessage, time.Minute)
		if asked < 12 || asked > 25 || longest > wait.MostRest+50*time.Millisecond || longest < wait.MostRest/2 {
			t.Errorf("asked for %d times in a minute, %v apart at most", asked, longest)
		}
		if l.lookedUp < 150 || l.lookedUp > 240 {
			t.Errorf("its leader was looked up %d times in a minute", l.lookedUp)
		}
		time.Sleep(wait.MostRest)
		if u.Rests(l, unreadTP) {
			t.Error("its rest has no end")
		}
		time.Sleep(2 * wellAgain) // in which it is asked for
		if u.Rests(l, unreadTP) || u.Why(0) != nil {
			t.Errorf("it is not well: %v", u.Why(0))
		}
	})
}

// A rest ends with what the client has known of the leader: another one, another epoch, or that there is one again.
func TestUnreadUntilItsLeaderChanges(t *testing.T) {
	for name, change := range map[string]func(*leaders){
		"node":  func(l *leaders) { l.node++ },
		"epoch": func(l *leaders) { l.epoch++ },
		"error": func(l *leaders) { l.err = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var u Unread
				l := &leaders{err: kerr.LeaderNotAvailable}
				refuseUntil(&u, l, kerr.NotLeaderForPartition, 20*time.Second)
				for !u.Rests(l, unreadTP) {
					u.Refused(l, unreadTP, kerr.NotLeaderForPartition)
				}
				change(l)
				if u.Rests(l, unreadTP) {
					t.Error("it rests on")
				}
				if u.Refused(l, unreadTP, kerr.NotLeaderForPartition); !u.Rests(l, unreadTP) {
					t.Error("it does not rest when the next leader refuses, too")
				}
			})
		})
	}
}

// What mends itself is told of when it lasts, and what does not at once; the log has it once.
func TestUnreadIsTold(t *testing.T) {
	const lasting = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var u Unread
		l := &leaders{}
		refuseUntil(&u, l, kerr.NotLeaderForPartition, lasting-time.Second)
		if u.Why(lasting) != nil || u.News(lasting) != nil {
			t.Error("told too soon")
		}
		refuseUntil(&u, l, kerr.NotLeaderForPartition, 2*time.Second)
		if u.Why(lasting) != kerr.NotLeaderForPartition || u.News(lasting) != kerr.NotLeaderForPartition || u.News(lasting) != nil {
			t.Errorf("told: %v", u.Why(lasting))
		}
		u.Read()
		if u.Why(0) != nil {
			t.Errorf("what was read is well, but for %v", u.Why(0))
		}
		u.Refused(l, unreadTP, kerr.TopicAuthorizationFailed)
		if u.News(lasting) != kerr.TopicAuthorizationFailed {
			t.Error("what only a person can mend is not told")
		}
	})
}

// A topic is gone when brokers go on not to know it by its id.
func TestUnreadTopicIsGone(t *testing.T) {
	for why, gone := range map[error]bool{kerr.UnknownTopicID: true, kerr.UnknownTopicOrPartition: false, kerr.InconsistentTopicID: false} {
		synctest.Test(t, func(t *testing.T) {
			var u Unread
			l := &leaders{}
			refuseUntil(&u, l, why, 500*time.Millisecond)
			if u.Gone() {
				t.Errorf("gone too soon: %v", why)
			}
			refuseUntil(&u, l, why, 20*time.Second)
			if u.Gone() != gone {
				t.Errorf("%v: gone %v", why, u.Gone())
			}
		})
	}
}
