package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// Source is what the port reports on: a *processor.Processor.
type Source interface {
	Stats() processor.Stats
	Ready() (bool, []processor.PartitionStats)
	Alive() bool
}

// Options is what a handler needs.
type Options struct {
	Source   Source
	Gatherer prometheus.Gatherer
	Presence http.Handler // what other replicas ask for; nil: nothing
	// Stopping is closed when the process begins to stop: from then on it is not ready. It may be nil.
	Stopping <-chan struct{}
}

// NewHandler returns the handler of the admin port.
func NewHandler(o Options) http.Handler {
	h := &handler{Options: o}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", h.live)
	mux.HandleFunc("GET /healthz", h.live)
	mux.HandleFunc("GET /readyz", h.ready)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "duewheel: /metrics /livez /readyz /healthz")
	})
	if o.Presence != nil {
		mux.Handle("GET "+processor.PresencePath, o.Presence)
	}
	return mux
}

type handler struct{ Options }

func (h *handler) live(w http.ResponseWriter, _ *http.Request) {
	if !h.Source.Alive() {
		http.Error(w, "a lane has not taken a step for a while", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// readiness is the body of /readyz.
type readiness struct {
	Ready      bool        `json:"ready"`
	Reason     string      `json:"reason,omitempty"`
	Degraded   string      `json:"degraded,omitempty"`   // what it goes on without, or what every replica would have, and what to do
	Partitions []partition `json:"partitions,omitempty"` // those that are not live, or not as they should be
	// DeadLetters are records that were not delivered in the last minute or two, and why. They keep no
	// process from being ready: others would fare no better with them.
	DeadLetters []string `json:"dead_letters,omitempty"`
}

type partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Phase     string `json:"phase"`
	Error     string `json:"error,omitempty"`
	Reason    string `json:"reason,omitempty"` // what it is waiting for
	// Position and End tell how far a catch-up has come.
	Position int64 `json:"position,omitempty"`
	End      int64 `json:"end,omitempty"`
}

func (h *handler) ready(w http.ResponseWriter, _ *http.Request) {
	var r readiness
	var rest []processor.PartitionStats
	r.Ready, rest = h.Source.Ready()
	stats := h.Source.Stats()
	what, own := degraded(&stats), 0
	r.DeadLetters = stats.Refusing
	for _, p := range rest {
		if !p.Anywhere {
			own++
		}
		r.Partitions = append(r.Partitions, partition{
			Topic: p.Topic, Partition: p.Partition, Phase: string(p.Phase), Error: p.Error, Reason: p.Reason, Position: p.Position, End: logEnd(&p),
		})
	}
	if n := len(rest) - own; n > 0 {
		what = append(what, "what is wrong with "+topics.Plural(int64(n), "partition")+" would be so on every replica")
	}
	r.Degraded = strings.Join(what, "; ")
	select {
	case <-h.Stopping:
		r.Ready, r.Reason = false, "stopping"
	default:
		if !r.Ready {
			r.Reason = strings.Join(reasons(&stats, own, h.Source.Alive()), "; ")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false) // people read it: <partition>, and not \u003cpartition\u003e
	_ = enc.Encode(r)        // the client has gone
}

// reasons are why a process is not ready, the widest first.
func reasons(s *processor.Stats, partitions int, alive bool) (why []string) {
	if !alive {
		why = append(why, "a lane has not taken a step for a while")
	}
	if len(s.Outside) > 0 {
		why = append(why, "not in the group: "+strings.Join(s.Outside, "; "))
	}
	switch partitions {
	case 0:
	case 1:
		why = append(why, "1 partition is not live, or held up")
	default:
		why = append(why, fmt.Sprintf("%d partitions are not live, or held up", partitions))
	}
	works := func(p processor.PartitionStats) bool { return p.Phase != processor.PhaseStopped }
	switch {
	case len(why) > 0:
	case len(s.Partitions) > 0 && !slices.ContainsFunc(s.Partitions, works):
		why = append(why, "all partitions that it has are stopped")
	default:
		why = append(why, "joining the group")
	}
	return why
}

// degraded is what a process goes on without.
func degraded(s *processor.Stats) (what []string) {
	if s.ClockTrouble != "" {
		what = append(what, s.ClockTrouble)
	}
	for _, d := range []struct{ what, why string }{
		{"no local store", s.StoreTrouble},
		{"the brokers' clocks differ", s.BrokersApart},
		{"the clock of this machine is not compared with the brokers'", s.ClockUnknown},
	} {
		if d.why != "" {
			what = append(what, d.what+": "+d.why)
		}
	}
	for _, t := range s.Topics {
		if t.Hidden != "" {
			what = append(what, "the topic "+t.Topic+" is not shown to this process, which gets none of its partitions when the group shares them out: "+t.Hidden)
		}
		if t.Unseen != "" {
			what = append(what, "it is not known whether the topic "+t.Topic+" keeps what is pending: "+t.Unseen)
		}
		if t.Untrimmed != "" {
			what = append(what, "the topic "+t.Topic+" is not trimmed: "+t.Untrimmed)
		}
		if t.Uncarried != "" {
			what = append(what, "what is pending in the topic "+t.Topic+" is not carried for its age: "+t.Uncarried)
		}
	}
	return append(append(what, inTrouble(s.Targets)...), heldBack(s.Partitions)...)
}

// namedMost is of how many topics or partitions it is said why they are as they should not be: a broker leads many, and one transaction may be open in many.
const namedMost = 3

// theFirst are the first of them, and how many more there are.
func theFirst(all []string, and, more string) []string {
	if rest := len(all) - namedMost; rest > 0 {
		return append(all[:namedMost], "and so it is "+and+" "+topics.Plural(int64(rest), more))
	}
	return all
}

// inTrouble is which topics do not take what is written to them.
func inTrouble(ts []processor.TargetStats) (all []string) {
	for _, t := range ts {
		if t.Trouble != "" {
			all = append(all, "the topic "+t.Target+" does not take its records: "+t.Trouble)
		}
	}
	return theFirst(all, "with", "more topic")
}

// heldBack is what open transactions keep from being read.
func heldBack(ps []processor.PartitionStats) (all []string) {
	for i := range ps {
		if ps[i].HeldBack != "" {
			all = append(all, ps[i].HeldBack)
		}
	}
	return theFirst(all, "in", "more partition")
}
