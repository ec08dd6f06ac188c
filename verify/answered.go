package verify

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answered tells what of the fetches of a client brokers have answered: where nothing comes, that says whether nothing is there. A broker that
// wants to be left alone for a quota answers at once, and with nothing (KIP-219).
type answered struct {
	mu      sync.Mutex
	brokers map[int32]*fetched
}

// fetched is what is known of one broker. A client has one fetch on its way to each.
type fetched struct {
	sent  time.Time // the last fetch
	waits bool      // for its answer
	told  time.Time // when the one was sent that was answered last; zero: none was, or the answer was a quota's, which is known when the next one is sent
	asked time.Time // when the last one was sent that was answered in earnest; zero: none was
	until time.Time // it wants to be left alone
}

func (a *answered) of(b kgo.BrokerMetadata) *fetched {
	if a.brokers == nil {
		a.brokers = map[int32]*fetched{}
	}
	if a.brokers[b.NodeID] == nil {
		a.brokers[b.NodeID] = &fetched{}
	}
	return a.brokers[b.NodeID]
}

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (a *answered) OnBrokerWrite(b kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.Fetch) && err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		f := a.of(b)
		if !f.told.IsZero() {
			f.asked, f.told = f.told, time.Time{}
		}
		f.sent, f.waits = time.Now(), true
	}
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (a *answered) OnBrokerRead(b kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.Fetch) {
		a.mu.Lock()
		defer a.mu.Unlock()
		f := a.of(b)
		if f.waits = false; err == nil {
			f.told = f.sent
		}
	}
}

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (a *answered) OnBrokerThrottle(b kgo.BrokerMetadata, d time.Duration, _ bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.of(b)
	f.told, f.until = time.Time{}, time.Now().Add(d)
}

// since reports whether what a partition has would have come, if it was there at some time: its leader was reached, all brokers that are asked
// have answered in earnest what they were asked since then, and one of them was asked. It may be a follower that is asked for it (KIP-392).
func (a *answered) since(at time.Time, leader int32) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.brokers[leader]; f == nil || f.asked.IsZero() {
		return false
	}
	any := false
	for _, f := range a.brokers {
		switch {
		case f.asked.After(at):
			any = true
		case f.sent.After(at), f.waits, f.until.After(at):
			return false
		}
	}
	return any
}
