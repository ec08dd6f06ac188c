package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// scene is all that a screen of the demo shows, at one time.
type scene struct {
	now      time.Time
	broker   string
	program  string // how this one is called
	begun    bool
	elapsed  time.Duration // since the traffic began
	rows     []agendaRow   // by agendaSteps; the first is what is overdue
	tally    demoTally
	rate     float64 // deliveries a second
	replicas []replicaState
	told     [storyCount]string
	kill     killState
	said     string // to the person at the keys
	keys     bool   // there are keys
	held     bool   // the picture stands still
	trying   bool   // what to try is shown instead
}

// killState is how the last takeover stands.
type killState struct {
	going bool
	since time.Duration // of one that is going on
	well  bool          // of one that is over
}

// agendaSteps are how far ahead the rows of the agenda reach. What is due later is in one more row.
var agendaSteps = []struct {
	label string
	ahead time.Duration
}{{"overdue", 0}, {"in 2 s", 2 * time.Second}, {"in 5 s", 5 * time.Second}, {"in 15 s", 15 * time.Second}, {"in 2 min", 2 * time.Minute}, {"in a day", 24 * time.Hour}, {"later", 0}}

// onTime is how long after it was due a record counts as about to come, not as overdue.
const onTime = 100 * time.Millisecond

// agendaOf counts what waits, by how far ahead it is due.
func (w *watch) agendaOf(now time.Time) []agendaRow {
	rows := make([]agendaRow, len(agendaSteps))
	for i := range rows {
		rows[i].Targets = map[string]int64{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.waiting {
		i, ahead := 0, time.UnixMilli(q.due).Sub(now)
		for ahead > -onTime && i < len(rows)-1 && (i == 0 || ahead > agendaSteps[i].ahead) {
			i++
		}
		rows[i].Records++
		rows[i].Targets[q.target]++
	}
	return rows
}

// comes reports whether anything waits that is not overdue.
func (s *scene) comes() bool {
	return slices.ContainsFunc(s.rows[1:], func(r agendaRow) bool { return r.Records > 0 })
}

// scene takes a picture of the demo.
func (d *demo) scene(now time.Time) *scene {
	s := &scene{now: now, broker: d.broker, program: thisProgram(), rows: d.watch.agendaOf(now), tally: d.watch.tally(), replicas: d.crew.states(now), told: d.watch.stories.newest()}
	d.mu.Lock()
	if s.begun = !d.started.IsZero(); s.begun {
		s.elapsed = now.Sub(d.started)
	}
	if now.Sub(d.said.at) < 3*time.Second {
		s.said = d.said.text
	}
	d.mu.Unlock()
	d.watch.mu.Lock()
	defer d.watch.mu.Unlock()
	if t := d.watch.takeover; t != nil {
		s.kill = killState{going: t.report == nil, since: now.Sub(t.began)}
		s.kill.well = t.report != nil && t.report.Faults == 0
	}
	return s
}

// page is the whole screen.
func (s *scene) page(k look) []painted {
	if s.trying {
		return fitted(s.try(), k.height)
	}
	lines := []painted{s.title(k), {}}
	lines = append(lines, s.agenda(k)...)
	lines = append(append(lines, painted{}), s.came(k)...)
	lines = append(append(lines, painted{}), s.stories()...)
	lines = append(append(lines, painted{}), s.crew(k)...)
	if more := s.others(); len(lines)+len(more)+3 <= k.height {
		lines = append(append(lines, painted{}), more...)
	}
	return fitted(append(lines, painted{}, s.foot(k)), k.height)
}

func (s *scene) title(k look) painted {
	clock := "starting"
	if s.begun {
		clock = fmt.Sprintf("%d:%02d", int(s.elapsed.Minutes()), int(s.elapsed.Seconds())%60)
	}
	l := painted{}.add(bold, " duewheel demo").add(faint, fmt.Sprintf("   broker %s, 2 replicas", s.broker))
	return l.fill(k.width-len(clock)-1).add(bold, clock)
}

// heading begins a part of the screen.
func heading(text string) painted { return painted{}.add(bold, " "+text) }

// agenda draws what comes when, a bar for each step.
func (s *scene) agenda(k look) []painted {
	g := k.glyphs()
	head := heading(fmt.Sprintf("WHAT COMES  %s", thousands(int64(s.tally.waiting))))
	var legend painted
	for i, t := range demoTargets {
		ink, look := g.ink[i], unpainted
		if k.colours {
			ink, look = g.solid, inks[i]
		}
		legend = legend.add(look, ink).add(unpainted, " "+t+strings.Repeat(" ", 2*min(len(demoTargets)-1-i, 1)))
	}
	lines := []painted{append(head.add(unpainted, "  ").fill(k.width-legend.width()-1), legend...)}
	most := int64(1)
	for _, r := range s.rows {
		most = max(most, r.Records)
	}
	for i := range s.rows {
		lines = append(lines, s.bar(i, most, k))
	}
	return lines
}

// bar is one row of the agenda.
func (s *scene) bar(i int, most int64, k look) painted {
	const labels, figures = 9, 8
	r, g := &s.rows[i], k.glyphs()
	look := unpainted
	if i == 0 && r.Records > 0 {
		look = red
	}
	l := painted{}.add(look, fmt.Sprintf("  %-*s%*s  ", labels, agendaSteps[i].label, figures, thousands(r.Records)))
	if r.Records == 0 {
		return l
	}
	shares := r.shares(demoTargets, k.width-l.width()-1, most)
	for j, cells := range shares {
		ink, look := g.ink[min(j, len(g.ink)-1)], unpainted
		if k.colours {
			ink, look = g.solid, append(inks, faint)[j]
		}
		l = l.add(look, strings.Repeat(ink, cells))
	}
	return l
}

// came tells what was delivered, and how late.
func (s *scene) came(k look) []painted {
	t := s.tally
	head := heading("WHAT CAME  ").add(bold, fmt.Sprintf("%s, %.0f/s", thousands(int64(t.delivered)), s.rate)).
		add(unpainted, fmt.Sprintf("   late: p50 %s, p99 %s, max %s", millis(t.p50), millis(t.p99), millis(t.max)))
	if t.delivered == 0 {
		head = heading("WHAT CAME  0")
	}
	now := painted{}.add(faint, "  just now")
	for i, a := range t.latest {
		name, sep := a.target, ", "
		if i == 0 {
			sep = "  "
		}
		if a.yours {
			name = "yours, to " + name
		}
		if one := sep + name + " " + millis(a.late); now.width()+len(one) < k.width {
			now = now.add(faint, one)
		}
	}
	return []painted{head, now}
}

// storyHints say what a story is about before it is told.
var storyHints = [storyCount]string{
	"a record that is asked for, and cancelled by its id", "a record that its consumer fails to process twice", "a record for a target that the route does not allow",
	"kill -9 of one of the replicas",
}

// stories are the newest lines of what is to be followed. Each has as many lines as it ever needs, so that nothing jumps.
func (s *scene) stories() []painted {
	var lines []painted
	for i, told := range s.told {
		look := unpainted
		switch {
		case told == "" && i == storyKill && s.keys:
			told, look = "press k: "+storyHints[i], faint
		case told == "":
			told, look = storyHints[i], faint
		case i == storyKill:
			told, look = s.killed()
		}
		first, second, _ := strings.Cut(told, "\n")
		lines = append(lines, painted{}.add(bold, fmt.Sprintf(" %-8s", storyNames[i])).add(look, first))
		if i == storyDead || i == storyKill {
			lines = append(lines, painted{}.add(faint, strings.Repeat(" ", 9)+second))
		}
	}
	if y := s.tally.yours; y.any() {
		lines = append(lines, painted{}.add(bold, " yours   ").add(unpainted, y.String()))
	}
	return lines
}

// String tells what became of them, such as "1 waiting, 2 came, the last 2.1 ms late".
func (y yours) String() string {
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{{y.waiting, "waiting"}, {y.cancelled, "cancelled"}, {y.dead, "dead-lettered"}, {y.came, "came"}} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	if y.came > 0 {
		parts = append(parts, fmt.Sprintf("the last %s late", millis(y.last)))
	}
	return strings.Join(parts, ", ")
}

// killed is how the story of the kill stands.
func (s *scene) killed() (told string, look style) {
	told = s.told[storyKill]
	switch {
	case s.kill.going:
		return fmt.Sprintf("%s\n%.1f s ago; the other one takes over", told, s.kill.since.Seconds()), yellow
	case s.kill.well:
		return told, green
	}
	return told, red
}

// crew tells how the replicas are.
func (s *scene) crew(k look) []painted {
	g := k.glyphs()
	var lines []painted
	for _, r := range s.replicas {
		l := painted{}.add(bold, fmt.Sprintf(" %-8s", r.name))
		switch {
		case !r.killed.IsZero():
			l = l.add(red, g.dead+" killed")
		case r.partitions == 0:
			l = l.add(yellow, g.runs).add(unpainted, " joins the group")
		default:
			l = l.add(green, g.runs).add(unpainted, fmt.Sprintf(" %3.0f/s, %s live, %s pending, a warm copy of %d more", r.perSecond, count(int64(r.partitions), "partition"), thousands(r.pending), r.warm))
		}
		lines = append(lines, l)
	}
	return lines
}

// foot names the keys.
func (s *scene) foot(k look) painted {
	l := painted{}
	if !s.keys {
		return l.add(faint, " Ctrl-C ends")
	}
	hold := "hold"
	if s.held {
		hold = "go on"
	}
	for _, key := range []struct{ key, does string }{{"k", "kill a replica"}, {"c", "cancel the next"}, {"t", "try it"}, {"space", hold}, {"q", "quit"}} {
		cap := " " + key.key + " "
		if !k.colours {
			cap = "[" + key.key + "]"
		}
		l = l.add(unpainted, " ").add(turned, cap).add(unpainted, " "+key.does)
	}
	if s.said != "" {
		return painted{}.add(yellow, " "+s.said)
	}
	return l
}

// try is the page with what to try from another terminal.
func (s *scene) try() []painted {
	lines := append([]painted{painted{}.add(bold, " duewheel demo"), {}}, s.others()...)
	return append(lines, painted{}, painted{}.add(faint, " any key goes back"))
}

// others is what else there is to be seen, from another terminal.
func (s *scene) others() []painted {
	var lines []painted
	for _, text := range demoAdvice(s.program, s.broker) {
		lines = append(lines, painted{}.add(unpainted, " "+text))
	}
	for _, r := range s.replicas {
		if r.admin != "" && r.killed.IsZero() {
			lines = append(lines, painted{}.add(unpainted, fmt.Sprintf("   curl http://%s/metrics   # of replica %s; /readyz, /livez", r.admin, r.name)))
		}
	}
	return lines
}
