package peers

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Presence tells other replicas that this one is there, for as long as it is.
type Presence struct {
	name  atomic.Pointer[string]
	heard atomic.Int64 // how many listen
	ended chan struct{}
	once  sync.Once // of End
}

// NewPresence makes one that has nothing to say until Begin.
func NewPresence() *Presence { return &Presence{ended: make(chan struct{})} }

// Begin names the replica.
func (p *Presence) Begin(replica string) { p.name.Store(&replica) }

// End tells those who listen that the replica has stopped in order.
func (p *Presence) End() { p.once.Do(func() { close(p.ended) }) }

const (
	// beatInterval is the time between two beats.
	beatInterval = 250 * time.Millisecond
	// beat is a line that says nothing else.
	beat = ""
	// lastWord is the line with which a replica stops in order.
	lastWord = "bye"
	// listenersMost is how many may listen at a time; one more hears the name and has to ask again. Each replica has a few.
	listenersMost = 64
	// writePatience is how long one that listens may take nothing.
	writePatience = 5 * time.Second
)

// ServeHTTP implements http.Handler: lines of text, the first of which is the replica's name.
func (p *Presence) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := p.name.Load()
	if name == nil {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	defer p.heard.Add(-1)
	crowded := p.heard.Add(1) > listenersMost // the name alone says that it is there, however many strangers listen
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := http.NewResponseController(w)
	say := func(line string) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writePatience)) // not every writer can
		_, err := io.WriteString(w, line+"\n")
		return err == nil && out.Flush() == nil
	}
	tick := time.NewTicker(beatInterval)
	defer tick.Stop()
	for said := say(*name); said && !crowded; {
		select {
		case <-tick.C:
			said = say(beat)
		case <-p.ended:
			say(lastWord)
			return
		case <-r.Context().Done():
			return
		}
	}
}
