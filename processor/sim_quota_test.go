//go:build synctests

package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/turn"
)

// quotaOf is a producer_byte_rate for what goes over a link, as Kafka enforces it (KIP-219): a
// produce request is carried out and answered at once, the answer says for how long the client is
// to wait so that the rate holds over about ten seconds, and for so long nothing more is read from
// its connection.
type quotaOf struct {
	rate   int       // bytes a second; 0: no quota
	paid   time.Time // until when the rate has been used up
	waited time.Duration
	sent   int // bytes of produce requests
}

const quotaWindow = 10 * time.Second

// charge counts what a produce request has used, and writes into its answer how long to wait.
func (w *wire) charge(f *frame, b []byte) []byte {
	l := w.link
	l.mu.Lock()
	q := &l.quota
	if q.rate == 0 {
		l.mu.Unlock()
		return b
	}
	if least := time.Now().Add(-quotaWindow); q.paid.Before(least) {
		q.paid = least
	}
	q.sent += len(f.bytes)
	q.paid = q.paid.Add(time.Duration(len(f.bytes)) * time.Second / time.Duration(q.rate))
	wait := max(time.Until(q.paid), 0)
	q.waited = max(q.waited, wait)
	l.mu.Unlock()
	if wait == 0 {
		return b
	}
	w.mu.Lock()
	w.muted = time.Now().Add(wait)
	w.mu.Unlock()
	return changed(f, b, func(resp *kmsg.ProduceResponse) { resp.ThrottleMillis = int32(wait.Milliseconds()) })
}

// unmute waits until the broker reads from the connection again.
func (w *wire) unmute() bool {
	w.mu.Lock()
	muted := time.Until(w.muted)
	w.mu.Unlock()
	if muted <= 0 {
		return true
	}
	t := time.NewTimer(muted)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.cut:
		return false
	}
}

// limit sets a producer_byte_rate for a process, or ends it: 0.
func (p *process) limit(rate int) {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	p.link.quota = quotaOf{rate: rate, paid: time.Now().Add(-quotaWindow)}
	p.w.note("---- %s may produce %d bytes a second", p.name, rate)
}

// throttled is the longest that the process was told to wait.
func (p *process) throttled() time.Duration {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	return p.link.quota.waited
}

// produced is how many bytes the process has produced under its quota.
func (p *process) produced() int {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	return p.link.quota.sent
}

// A quota is met with patience: batches shrink to what it allows, hardly a turn is given up, and
// everything is delivered about as fast as the quota allows.
func TestSimQuota(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			const records, size, rate = 16_000, 800, 100_000
			big := func(c *Config) { c.MemoryBudget = 256 << 20 }
			scenario(t, worldConfig{guarantee: guarantee, tune: big}, func(w *world) {
				a := w.live("a")
				due := in(10 * time.Second)
				var rs []*kgo.Record
				for i := range records {
					r := request(fmt.Sprint(i), due)
					r.Value = []byte(noise(w, size))
					rs = append(rs, r)
				}
				w.send(rs...)
				a.limit(rate)
				time.Sleep(time.Until(due))
				began := time.Now()
				w.arrived()
				took, least := time.Since(began), time.Second*records*size/rate-quotaWindow
				// Besides what is delivered, a twentieth of which is headers, the quota pays for what the first turn sends in vain,
				// before it knows of it: what the quota lends, one request (2 MB: a batch for each partition of the target) that
				// it is charged for, and one that is in the connection by then. How much of the loan goes to a request of
				// its own is chance: the client sends what has been handed over when it begins. 5 s are for a second turn
				// that is given up, and for all that is not produced.
				inVain := quotaWindow + time.Second*2*2_000_000/rate
				if most := least*21/20 + inVain + 5*time.Second; took > most {
					t.Errorf("it took %v; the quota allows for %v, and the limit is %v", took, least, most)
				}
				if waited := a.throttled(); waited < time.Second {
					t.Errorf("the client was never told to wait for longer than %v", waited)
				}
				if aborted := a.p.Stats().Transactions[turn.Aborted.String()]; aborted > 2 {
					t.Errorf("%d turns were given up", aborted)
				}
				if doubled := w.watch.Counts().Doubled; doubled > 0 {
					t.Errorf("%d records were doubled", doubled)
				}
				// At least once no turn is given up, so nothing is sent in vain. What lies in a connection that the broker does not
				// read for the moment is not sent once more.
				if sent, most := a.produced(), records*size*21/20; guarantee == AtLeastOnce && sent > most {
					t.Errorf("%d bytes were sent, and the limit is %d", sent, most)
				}
				t.Logf("%v of at least %v; turns %v", took, least, a.p.Stats().Transactions)
				a.limit(0)
				w.finish()
			})
		})
	}
}

// noise is text that does not compress.
func noise(w *world, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(byte(33 + w.rng.IntN(94)))
	}
	return b.String()
}
