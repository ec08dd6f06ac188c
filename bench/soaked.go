package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/duewheel/duewheel/bench/plot"
)

// Soaked is what was seen in a soak, and how it was set up.
type Soaked struct {
	Where
	For          time.Duration `json:"for"`
	Pending      int           `json:"pending"` // from the beginning
	Rate         int           `json:"rate"`    // requests a second
	Budget       int64         `json:"budget"`  // memory.budget, in bytes
	BatchRecords int           `json:"batch_records"`
	Partitions   int           `json:"partitions"`  // of each delay topic
	Trim         time.Duration `json:"trim"`        // trim_interval
	Kept         time.Duration `json:"kept"`        // retention.ms of the topic kept
	CheckEvery   time.Duration `json:"check_every"` // how often brokers cut logs
	Filled       float64       `json:"filled_s"`    // when all that is pending from the beginning was written, and the stream began
	Written      int           `json:"written"`     // requests of the stream
	Records      Records       `json:"records"`
	Faults       string        `json:"faults,omitempty"` // that the checker has found
	Restarts     []Restart     `json:"restarts"`
	Samples      []Sample      `json:"samples"`
}

// Records are what the checker counts.
type Records struct {
	Requested    int64 `json:"requested"`
	Delivered    int64 `json:"delivered"`
	Later        int64 `json:"later"` // due later than the end, and not delivered
	DeadLettered int64 `json:"dead_lettered"`
	Left         int64 `json:"left"` // pending at the end by checkpoints and logs
}

// few are the records that are carried for their age from the beginning, and fewUntil is until when all of them are due. The first one is
// due half of the retention after they were written.
func (s *Soaked) few() int { return max(s.Pending/100, 1) }

func (s *Soaked) fewUntil() time.Duration { return s.Kept/2 + 2*s.For }

// fewLeft is how many of them are not due so long after they were written.
func (s *Soaked) fewLeft(after time.Duration) float64 {
	due := float64(after-s.Kept/2) / float64(2*s.For)
	return float64(s.few()) * (1 - min(max(due, 0), 1))
}

// Verdict is one thing that must be.
type Verdict struct {
	Name string
	Says string
	Held bool
}

const (
	// spare is what a process may take beside its budget: the program itself, and what the collector has not given back.
	spare = 256 * mib
	// stillMost is how long nothing may be delivered.
	stillMost = 10 * time.Second
	// backMost is how long it may take a process to deliver again that has started.
	backMost = 5 * time.Second
	// sampledLeast is the share of seconds that must have been sampled.
	sampledLeast = 0.5
)

// Verdicts judges a soak.
func (s *Soaked) Verdicts() []Verdict {
	return []Verdict{s.judgeRecords(), s.judgeMemory(), s.judgeDisk(), s.judgeTrimmed(soakFar), s.judgeTrimmed(soakMixed), s.judgeKept(), s.judgeCarried(), s.judgeStill(), s.judgeRestarts(), s.judgeSamples()}
}

// judgeSamples: what was seldom looked at is not judged by it.
func (s *Soaked) judgeSamples() Verdict {
	n := len(s.steady())
	return Verdict{Name: "samples", Held: float64(n) >= sampledLeast*s.For.Seconds(), Says: fmt.Sprintf("%d in %v", n, s.For)}
}

// steady are the samples from when the stream began.
func (s *Soaked) steady() []Sample {
	i := sort.Search(len(s.Samples), func(i int) bool { return s.Samples[i].At >= s.Filled })
	return s.Samples[i:]
}

// judgeRecords: what is not delivered is pending still, as far as the topics alone say.
func (s *Soaked) judgeRecords() Verdict {
	r := s.Records
	v := Verdict{Name: "records", Says: fmt.Sprintf("%s requested, %s delivered, %s due later and %s pending by the topics", thousands(r.Requested), thousands(r.Delivered), thousands(r.Later), thousands(r.Left))}
	v.Held = s.Faults == "" && r.Delivered > 0 && r.DeadLettered == 0 && r.Delivered+r.Later == r.Requested && r.Left == r.Later
	if r.DeadLettered > 0 {
		v.Says += fmt.Sprintf(", %s dead-lettered", thousands(r.DeadLettered))
	}
	if s.Faults != "" {
		v.Says += "; " + s.Faults
	}
	return v
}

func (s *Soaked) judgeMemory() Verdict {
	most := s.most(s.Samples, func(x Sample) int64 { return x.Resident })
	return Verdict{
		Name: "memory", Held: most > 0 && most <= s.Budget+spare,
		Says: fmt.Sprintf("%d MiB resident at most, of %d MiB and %d MiB", most/mib, s.Budget/mib, spare/mib),
	}
}

// judgeDisk: what is pending and 40 bytes for each, as much again for compactions, and what the store keeps in any case.
func (s *Soaked) judgeDisk() Verdict {
	return s.within("disk", s.Samples, "MiB", mib, func(x Sample) int64 { return x.Disk }, func(i int) int64 {
		x := s.Samples[i]
		return 2*(x.Weight+40*x.pending()) + s.Budget/2
	})
}

// judgeTrimmed: the log of a trimmed topic is as long as docs/sizing.md says, and what was written while it was not looked.
func (s *Soaked) judgeTrimmed(topic int) Verdict {
	return s.within("log of "+soakNames[topic], s.Samples, "offsets", 1, func(x Sample) int64 { return x.Topics[topic].Log() }, func(i int) int64 {
		x := s.Samples[i]
		held := 2*x.Topics[topic].Pending + int64(s.BatchRecords/2*s.Partitions)
		return held + held/4 + s.written(i, topic, 3*s.Trim)
	})
}

// judgeKept: the log of a topic that keeps it for a time is what was written in that, and until brokers had looked.
func (s *Soaked) judgeKept() Verdict {
	keeps := s.Kept + s.Kept/soakKeeps + s.CheckEvery + 15*time.Second // a segment is rolled, and deleted at the next look
	i := sort.Search(len(s.Samples), func(i int) bool { return s.Samples[i].At >= s.Filled+keeps.Seconds() })
	return s.within("log of "+soakNames[soakKept], s.Samples[i:], "offsets", 1, func(x Sample) int64 { return x.Topics[soakKept].Log() }, func(j int) int64 {
		return s.written(i+j, soakKept, keeps)
	})
}

// judgeCarried: what is pending in that topic is carried once in half of its retention, and goes on being.
func (s *Soaked) judgeCarried() Verdict {
	half, meant := s.Kept/2, 0.0
	samples := s.steady()
	from := sort.Search(len(samples), func(i int) bool { return samples[i].At >= s.Filled+half.Seconds() })
	v := Verdict{Name: "carried"}
	if from+1 >= len(samples) {
		v.Says = "the soak was too short for anything to be carried"
		return v
	}
	for i := from + 1; i < len(samples); i++ {
		after := time.Duration((samples[i].At - s.Filled) * float64(time.Second))
		meant += s.fewLeft(after) * (samples[i].At - samples[i-1].At) / half.Seconds()
	}
	first, last := samples[0].Topics[soakKept].Carried, samples[len(samples)-1].Topics[soakKept].Carried
	mixed := samples[len(samples)-1].Topics[soakMixed].Carried
	ratio := float64(last-first) / meant
	v.Held = ratio >= 0.5 && ratio <= 1.25
	v.Says = fmt.Sprintf("%s copies for their age, %.2f of what is pending in every half of the retention; %s in mixed", thousands(last-first), ratio, thousands(mixed))
	return v
}

// judgeStill: intake and delivery never stand still.
func (s *Soaked) judgeStill() Verdict {
	longest, since := 0.0, 0.0
	for i, x := range s.steady() {
		if i > 0 { // there is no sample while a partition is not live
			longest = max(longest, x.At-since)
		}
		if i == 0 || x.Seen != s.steady()[i-1].Seen {
			since = x.At
		}
	}
	return Verdict{Name: "deliveries", Held: longest <= stillMost.Seconds(), Says: fmt.Sprintf("the longest time without one: %.0f s", longest)}
}

// judgeRestarts: whatever is pending, a process that has started again delivers again soon.
func (s *Soaked) judgeRestarts() Verdict {
	killed, first, all := 0, 0.0, 0.0
	for _, c := range s.Restarts {
		if c.Killed {
			killed++
		}
		first, all = max(first, c.First), max(all, c.All)
	}
	return Verdict{
		Name: "restarts", Held: killed > 0 && first <= backMost.Seconds(),
		Says: fmt.Sprintf("%d, %d of them by kill -9; delivering again within %.2f s of the start, all partitions within %.2f s", len(s.Restarts), killed, first, all),
	}
}

// written is how many offsets were written to a topic in a time before a sample.
func (s *Soaked) written(i, topic int, in time.Duration) int64 {
	from := sort.Search(i, func(j int) bool { return s.Samples[j].At > s.Samples[i].At-in.Seconds() })
	end := s.Samples[i].Topics[topic].End
	if from == 0 {
		return end
	}
	return end - s.Samples[from-1].Topics[topic].End
}

func (s *Soaked) most(samples []Sample, of func(Sample) int64) (most int64) {
	for _, x := range samples {
		most = max(most, of(x))
	}
	return most
}

// within says whether a value was within its bound in each sample, and where it came nearest.
func (s *Soaked) within(name string, samples []Sample, unit string, per int64, value func(Sample) int64, bound func(i int) int64) Verdict {
	nearest, at := -1.0, 0
	for i, x := range samples {
		if share := float64(value(x)) / math.Max(float64(bound(i)), 1); share > nearest {
			nearest, at = share, i
		}
	}
	if nearest < 0 {
		return Verdict{Name: name, Says: "the soak was too short to see it"}
	}
	return Verdict{
		Name: name, Held: nearest <= 1,
		Says: fmt.Sprintf("%.2f of its bound at most: %s of %s %s after %.0f s", nearest, thousands(value(samples[at])/per), thousands(bound(at)/per), unit, samples[at].At),
	}
}

// Err is nil when all is as it should be.
func (s *Soaked) Err() error {
	var not []string
	for _, v := range s.Verdicts() {
		if !v.Held {
			not = append(not, v.Name)
		}
	}
	if len(not) == 0 {
		return nil
	}
	return fmt.Errorf("soak: not as it should be: %s", strings.Join(not, ", "))
}

// soakedRow is one value of a soak: as it was when the stream began, at the end, and at most.
type soakedRow struct{ name, first, last, most string }

func (s *Soaked) rows() (rows []soakedRow) {
	steady := s.steady()
	if len(steady) == 0 {
		return nil
	}
	add := func(name string, of func(Sample) float64, write func(float64) string) {
		most := math.Inf(-1)
		for _, x := range steady {
			most = max(most, of(x))
		}
		rows = append(rows, soakedRow{name, write(of(steady[0])), write(of(steady[len(steady)-1])), write(most)})
	}
	inMiB := func(v float64) string { return thousands(int64(v / mib)) }
	count := func(v float64) string { return thousands(int64(v)) }
	inMillis := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	add("resident memory, MiB", func(x Sample) float64 { return float64(x.Resident) }, inMiB)
	add("Go heap, MiB", func(x Sample) float64 { return float64(x.Heap) }, inMiB)
	add("store on disk, MiB", func(x Sample) float64 { return float64(x.Disk) }, inMiB)
	for i, topic := range soakNames {
		add("pending in "+topic, func(x Sample) float64 { return float64(x.Topics[i].Pending) }, count)
		add("log of "+topic+", offsets", func(x Sample) float64 { return float64(x.Topics[i].Log()) }, count)
		add("O - L of "+topic, func(x Sample) float64 { return float64(x.Topics[i].Open) }, count)
		add("copies in "+topic, func(x Sample) float64 { return float64(x.Topics[i].Carried) }, count)
	}
	add("delivered", func(x Sample) float64 { return float64(x.Seen) }, count)
	add("lateness p50, ms", func(x Sample) float64 { return x.P50 }, inMillis)
	add("lateness p99, ms", func(x Sample) float64 { return x.P99 }, inMillis)
	return rows
}

// What says what was done.
func (s *Soaked) What() string {
	return fmt.Sprintf("%s records of 100 B pending in one process with memory.budget %d MiB and %d partitions of each of three topics, and %s more a second for %v, due within %v, but for one in thirty, which is due in hours. "+
		"The topic far holds nearly all of them, due within a day, and is trimmed, as is mixed, where one in ten records stays; kept has a retention.ms of %v, so that what is pending there, one in a hundred, is carried once in %v. trim_interval is %v, defaults otherwise. The process is killed or ended in order by turns, %d times in all, and started again. "+
		"Each second counts for itself: lateness is of the records that a read_committed consumer saw in it.",
		thousands(int64(s.Pending)), s.Budget/mib, s.Partitions, thousands(int64(s.Rate)), s.For, soakLatest, s.Kept, s.Kept/2, s.Trim, len(s.Restarts))
}

// Write writes a soak as a table for a terminal, and the verdicts.
func (s *Soaked) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tFIRST\tLAST\tMOST")
	for _, r := range s.rows() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.name, r.first, r.last, r.most)
	}
	fmt.Fprintln(t)
	for _, v := range s.Verdicts() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", v.Name, map[bool]string{true: "ok", false: "NOT OK"}[v.Held], v.Says)
	}
	return t.Flush()
}

// Markdown is the same for a document.
func (s *Soaked) Markdown() string {
	var b strings.Builder
	b.WriteString("| | first | last | most |\n|---|---|---|---|\n")
	for _, r := range s.rows() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name, r.first, r.last, r.most)
	}
	b.WriteString("\n| must be | | |\n|---|---|---|\n")
	for _, v := range s.Verdicts() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", v.Name, map[bool]string{true: "yes", false: "no"}[v.Held], cell(v.Says))
	}
	fmt.Fprintf(&b, "\n%s %s\n", s.Where, s.What())
	return b.String()
}

// Plot draws a soak.
func (s *Soaked) Plot() plot.Plot {
	at := make([]float64, len(s.Samples))
	for i, x := range s.Samples {
		at[i] = x.At
	}
	line := func(name string, of func(Sample) float64) plot.Line {
		l := plot.Line{Name: name, At: at}
		for _, x := range s.Samples {
			l.Values = append(l.Values, of(x))
		}
		return l
	}
	marks := []float64{s.Filled}
	for _, c := range s.Restarts {
		marks = append(marks, c.At)
	}
	bound := line("budget + 256 MiB", func(Sample) float64 { return float64(s.Budget+spare) / mib })
	bound.Dashed = true
	logs := plot.Panel{Title: "length of the logs", Unit: "offsets (by logarithm)", Log: true}
	for i, topic := range soakNames {
		logs.Lines = append(logs.Lines, line(topic, func(x Sample) float64 { return float64(x.Topics[i].Log()) }))
	}
	return plot.Plot{
		Title: fmt.Sprintf("%s records pending in one process for %v", thousands(int64(s.Pending)), s.For),
		Note:  fmt.Sprintf("%s requests a second from the first dotted line on; at the others the process was killed or ended, and started again; %s", thousands(int64(s.Rate)), s.Where),
		Marks: marks,
		Panels: []plot.Panel{
			{Title: "memory", Unit: "MiB", Lines: []plot.Line{line("resident", func(x Sample) float64 { return float64(x.Resident) / mib }), line("Go heap", func(x Sample) float64 { return float64(x.Heap) / mib }), bound}},
			{Title: "store on disk", Unit: "MiB", Lines: []plot.Line{line("", func(x Sample) float64 { return float64(x.Disk) / mib })}},
			logs,
			{Title: "carried", Unit: "copies a second", Lines: []plot.Line{s.carriedLine()}},
			{Title: "lateness", Unit: "ms (by logarithm)", Log: true, Lines: []plot.Line{line("p50", func(x Sample) float64 { return x.P50 }), line("p99", func(x Sample) float64 { return x.P99 })}},
		},
	}
}

// carriedOver is the time over which copies a second are counted.
const carriedOver = 10 // seconds

func (s *Soaked) carriedLine() (l plot.Line) {
	from := 0
	for i, x := range s.Samples {
		if passed := x.At - s.Samples[from].At; passed >= carriedOver {
			l.At = append(l.At, x.At)
			l.Values = append(l.Values, float64(x.carried()-s.Samples[from].carried())/passed)
			from = i
		}
	}
	return l
}

// WriteSoaked writes a soak to a file, which ReadSoaked reads.
func WriteSoaked(path string, s *Soaked) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// ReadSoaked reads what WriteSoaked has written.
func ReadSoaked(path string) (*Soaked, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &Soaked{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(s.Samples) == 0 {
		return nil, fmt.Errorf("%s has no samples", path)
	}
	return s, nil
}
