package turn

import (
	"fmt"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/targets"
)

const (
	// slow is after what time a turn begins to ask what is wrong with the targets that it waits for.
	slow = 300 * time.Millisecond
	// quick is how often it looks once a target has refused, or is on trial.
	quick = 10 * time.Millisecond
	// inVain is how many answers may acknowledge nothing.
	inVain = producer.RecordRetries
	// silence is how long a target may acknowledge nothing when others have acknowledged all, or as long as coldTrips take.
	silence = time.Second
	// coldTrips is how many answers a target may take when all others have acknowledged: it has to be looked up by the producer,
	// and its broker connected to, with TLS and SASL, before it can acknowledge anything.
	coldTrips = 10
)

// watch looks after a turn whose records are on their way, and says when it is in vain to wait on.
// It belongs to the turn's goroutine.
type watch struct {
	t     *Turn
	acks  *acks
	broke <-chan struct{}
	tick  *time.Ticker

	topics  map[string]int   // records for each that were sent
	later   []map[string]int // and by stage those for each that wait for others
	stage   int              // up to which they were sent
	settled int              // acknowledged or refused at the last look
	moved   time.Time        // when that last changed
	answers int64            // that the producer had had then
}

func (t *Turn) watch(w *acks) *watch {
	every := slow
	if len(t.Trials) > 0 {
		every = quick
	}
	later := make([]map[string]int, lastStage+1)
	for stage := range later {
		later[stage] = map[string]int{}
	}
	outs := t.Renderer.Outputs
	for i := 0; i < len(outs); { // neighbours mostly go to the same topic
		stage, topic, n := t.stage(&outs[i]), outs[i].Record.Topic, 1
		for i+n < len(outs) && outs[i+n].Record.Topic == topic && t.stage(&outs[i+n]) == stage {
			n++
		}
		later[stage][topic] += n
		i += n
	}
	return &watch{t: t, acks: w, broke: w.broke, tick: time.NewTicker(every), topics: later[stageRecords], later: later, moved: time.Now(), answers: t.Producer.Answers()}
}

func (w *watch) stop() { w.tick.Stop() }

// hasten is called when a target has refused: the others are waited for, and nothing else.
func (w *watch) hasten() {
	w.broke = nil
	w.tick.Reset(quick)
}

// hopeless returns an error when what is still missing will not come, or not soon: it belongs to
// targets that have refused a part of it, that are known to be in trouble, or that stay silent.
func (w *watch) hopeless() error {
	waiting, refused := w.look()
	if len(waiting) == 0 {
		return nil // all are settled: done says so
	}
	if refused == len(waiting) {
		return fmt.Errorf("produce to %s: refused", waiting[0])
	}
	if w.t.Quota.Recently(w.t.TurnTimeout) {
		return nil // the brokers keep it waiting
	}
	quiet := time.Since(w.moved)
	if quiet >= slow {
		for _, topic := range waiting {
			if st := w.t.Targets.Suspect(topic); !st.Writable() {
				return fmt.Errorf("produce to %s: %s", topic, st.Why)
			}
		}
	}
	if quiet >= slow && w.t.Producer.Answers()-w.answers >= inVain {
		return fmt.Errorf("produce to %s: answered and not acknowledged", waiting[0])
	}
	if patience := w.patience(waiting); quiet >= patience {
		return fmt.Errorf("produce to %s: nothing acknowledged for %v, when others have acknowledged all", waiting[0], patience)
	}
	return nil
}

// look returns the topics that have not acknowledged everything, and how many of them have refused.
func (w *watch) look() (waiting []string, refused int) {
	w.acks.mu.Lock()
	defer w.acks.mu.Unlock()
	if settled := len(w.t.Renderer.Outputs) - w.acks.left; settled != w.settled {
		w.settled, w.moved, w.answers = settled, time.Now(), w.t.Producer.Answers()
	}
	for w.stage < w.acks.stage { // no topic is slow to acknowledge what was not sent
		w.stage++
		for topic, records := range w.later[w.stage] {
			w.topics[topic] += records
		}
	}
	acked := map[string]int{}
	for _, r := range w.acks.acked {
		acked[r.Topic]++
	}
	for topic, records := range w.topics {
		if acked[topic] < records {
			waiting = append(waiting, topic)
			if w.acks.failed[topic] != nil {
				refused++
			}
		}
	}
	return waiting, refused
}

// patience is how long the topics that are still waited for may be silent. Where no other has
// acknowledged all, the trouble may as well be the transaction's.
func (w *watch) patience(waiting []string) time.Duration {
	patience, trips := time.Duration(0), coldTrips*w.t.Targets.Trip()
	for _, topic := range waiting {
		target := w.t.Targets.Of([]byte(topic))
		switch st := target.State.Load(); {
		case st.Status == targets.OnTrial && slices.Contains(w.t.Trials, target):
			patience = max(patience, targets.PatienceAfter(st.Failures), trips)
		case len(waiting) == len(w.topics):
			return w.t.timeout()
		default:
			patience = max(patience, silence, trips)
		}
	}
	return patience
}

// EndTrials lets other turns try the targets that this one had on trial.
func (t *Turn) EndTrials() {
	for _, target := range t.Trials {
		target.Trying.Store(false)
	}
	t.Trials = nil
}
