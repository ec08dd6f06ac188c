//go:build synctests

package processor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (p *process) hear(e Event) {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.events = append(p.events, e)
}

// told counts the events of a kind.
func (p *process) told(kind EventKind) (n int) {
	p.telling.Lock()
	defer p.telling.Unlock()
	for _, e := range p.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// story is what a process has told of partition 0, the checkpoints that it has written between two other events as one.
func (p *process) story() string {
	p.telling.Lock()
	defer p.telling.Unlock()
	var words []string
	for _, e := range p.events {
		if !slices.Contains(e.Partitions, TopicPartition{Topic: testTopic}) {
			continue
		}
		word := string(e.Kind)
		switch {
		case e.Kind == EventCommitted && e.Records > 0:
			word = fmt.Sprintf("delivered %d", e.Records)
		case e.Kind == EventFenced:
			word += " " + e.Writer
		}
		if len(words) == 0 || word != string(EventCommitted) || words[len(words)-1] != word {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

// What a lane tells of a partition is its life there, from assignment to its end.
func TestSimEvents(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		w.send(request("k", in(0)), request("k", in(0)))
		w.within(time.Second, "delivered", func() bool { return w.outstanding() == 0 })
		killed := a.killAt(kmsg.TxnOffsetCommit, true)
		w.send(request("k", in(0)))
		w.hit(killed)
		b := w.start("b", nil)
		w.within(soonEnough, "delivered by b", func() bool { return w.outstanding() == 0 })
		w.expel()
		w.until("b has it again", func() bool { return b.told(EventLive) == 2 })
		b.shut()
		w.finish()
		for _, of := range []struct {
			p    *process
			want []string
		}{
			{a, []string{"assigned, restored, live, ", "delivered"}},
			{b, []string{"assigned, fenced g-0@a-0, restored, live, ", "delivered 1, ", "lost, dropped, assigned, restored, live, leaving"}},
		} {
			story := of.p.story()
			if !strings.HasPrefix(story, of.want[0]) || slices.ContainsFunc(of.want, func(part string) bool { return !strings.Contains(story, part) }) {
				t.Errorf("%s: %s, and %q is wanted", of.p.name, story, of.want)
			}
		}
	})
}
