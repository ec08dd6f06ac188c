package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/setting"
	"github.com/duewheel/duewheel/processor/wait"
)

// Options are what a run of the benchmark needs to know. Only Client has no default.
type Options struct {
	// Client says how to reach the cluster: brokers, TLS, SASL.
	Client []kgo.Opt
	// Cases are the names of those to run, as Cases, AskCases, LookAheadCases or FailoverCases lists them; Scale and Size have one each. Defaults to all.
	Cases []string
	// Records of a throughput case. Defaults to 1,000,000, those of Ask to 500,000. With fewer, starts and ends count more.
	Records int
	// Rate is how many records are due in a second of a lateness case, of writes and floor; the case carry takes half of it, and window a quarter.
	// Defaults to 10,000, of Size to 5,000 and of Soak to 2,000.
	Rate int
	// For is how long a lateness case is measured, after a warm-up of a quarter of it. Defaults to 20 s.
	For time.Duration
	// Burst is how many records are due at one instant. Defaults to 100,000, in the case hot to 1,000,000.
	Burst int
	// Spread is for how long the burst of the case hot is due. Defaults to one instant.
	Spread time.Duration
	// Rounds is how often whatever has medians is run. Defaults to 3.
	Rounds int
	// Partitions of every topic. Defaults to 4; those of Failover's delay topics to 12.
	Partitions int
	// Lanes of the processor. Defaults to the processor's own default. Failover gives one to each of several replicas.
	Lanes int
	// Pending is how many records of a failover case, one of LookAhead or ids-pending are due only hours later; the case standby-many has ten times as many.
	// Defaults to 1,000,000, of Scale to 2,000,000 and of Size to 20,000,000.
	Pending int
	// FillRate is how many of them a second Size writes. Defaults to 100,000.
	FillRate int
	// MemoryBudget is that of replicas in processes of their own, in bytes. Defaults to the processor's own default.
	MemoryBudget int64
	// Replica makes the command that is this program as a replica: a call of ServeReplica with the same cluster.
	// Failover, Size and Soak need it, and the cases hot and ids-pending.
	Replica func() *exec.Cmd
	// Command makes the command that is duewheel with arguments, on the same cluster. LookAhead needs it.
	Command func(args ...string) *exec.Cmd
	// Dir is where the processor's state directory is made. Defaults to the system's directory for
	// temporary files, which is in memory on some machines: then the store's disk is not measured.
	Dir string
	// BrokerCPU is what the brokers have used so far, if that is known.
	BrokerCPU func() time.Duration
	// Progress is told what happens. Defaults to none.
	Progress io.Writer
	// Logger is the processor's. Defaults to none.
	Logger *slog.Logger

	hot     int           // records of the case hot that are due at one instant
	wave    time.Duration // how far ahead waves of the case window are due, at least, and half as far as at most
	pairs   int           // rounds of the case floor
	settle  time.Duration // between what has been prepared and the first due time
	targets int           // partitions of target topics
	session time.Duration // session timeout of Failover's replicas
	soonest time.Duration // how far ahead Failover's requests are due, at least
	latest  time.Duration // and at most
	pause   time.Duration // of the case retry
}

func (o Options) withDefaults() Options {
	o.Records = cmp.Or(o.Records, 1_000_000)
	o.Rate = cmp.Or(o.Rate, 10_000)
	o.For = cmp.Or(o.For, 20*time.Second)
	o.hot = cmp.Or(o.hot, o.Burst, 1_000_000)
	o.Burst = cmp.Or(o.Burst, 100_000)
	o.Pending = cmp.Or(o.Pending, 1_000_000)
	o.FillRate = cmp.Or(o.FillRate, 100_000)
	o.Rounds = cmp.Or(o.Rounds, 3)
	o.Partitions = cmp.Or(o.Partitions, 4)
	o.wave = cmp.Or(o.wave, 8*time.Second)
	o.pairs = cmp.Or(o.pairs, 5)
	o.settle = cmp.Or(o.settle, 2*time.Second)
	o.targets = cmp.Or(o.targets, o.Partitions)
	o.session = cmp.Or(o.session, 6*time.Second)
	o.soonest = cmp.Or(o.soonest, 2*time.Second)
	o.latest = cmp.Or(o.latest, 5*time.Second)
	o.pause = cmp.Or(o.pause, time.Second)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// budget is what replicas in processes of their own have as memory.budget, and batchRecords what they have as batch.records.
func (o Options) budget() int64 { return o.filled().MemoryBudget }

func (o Options) batchRecords() int { return o.filled().BatchRecords }

func (o Options) filled() processor.Config {
	c := processor.Config{MemoryBudget: o.MemoryBudget}
	setting.Fill(&c)
	return c
}

// validate reports everything that is wrong with options whose defaults are filled in. Known are the cases there are.
func (o Options) validate(known []string) error {
	var errs []error
	if len(o.Client) == 0 {
		errs = append(errs, errors.New("bench: no client options: brokers are missing"))
	}
	for _, name := range o.Cases {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("bench: no case %q; there are %s", name, strings.Join(known, ", ")))
		}
	}
	for _, n := range []struct {
		name string
		is   int
		max  int
	}{
		// Indices of records are kept in 32 bits, and a cluster should survive a mistyped number.
		{"records", o.Records, 1 << 30},
		{"rate", o.Rate, 1_000_000},
		{"burst", o.Burst, 1 << 30},
		{"fill", o.FillRate, 10_000_000},
		{"pending", o.Pending, 100_000_000}, // ten times as many must fit, too
		{"rounds", o.Rounds, 1000},
		{"partitions", o.Partitions, 1000},
	} {
		if n.is < 1 || n.is > n.max {
			errs = append(errs, fmt.Errorf("bench: %s is %d: 1 to %d", n.name, n.is, n.max))
		}
	}
	if o.For < 100*time.Millisecond || o.For > 24*time.Hour {
		errs = append(errs, fmt.Errorf("bench: a lateness case of %v: 100ms to 24h", o.For))
	}
	if len(errs) > 0 {
		return &OptionsError{errors.Join(errs...)}
	}
	return nil
}

// OptionsError says what is wrong with options: nothing was measured.
type OptionsError struct{ what error }

func (e *OptionsError) Error() string { return e.what.Error() }

// benchCase is one thing that is measured; it may have several results.
type benchCase struct {
	name string
	run  func(context.Context, *runner) ([]Result, error)
}

// all is every case of Run, in the order in which they run: throughput first, which also leaves a broker
// with a compiler behind it warm.
var all = []benchCase{
	{"throughput", throughput},
	{"store", store},
	{"writes", writes},
	{"lateness", lateness("lateness", processor.ExactlyOnce)},
	{"lateness-alo", lateness("lateness-alo", processor.AtLeastOnce)},
	{"instant", instant},
	{"hot", hotInstant},
	{"window", windowed},
	{"floor", floor},
	{"carry", carrying},
	{"idle", idle},
}

// Cases names every case of Run in the order in which they run.
func Cases() []string { return namesOf(all) }

func namesOf(cases []benchCase) []string {
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

// namePrefix begins every name that a run makes.
const namePrefix = "duewheel-bench-"

// runner holds what the cases share.
type runner struct {
	*cluster
	o      Options
	id     string        // begins every name of this run
	stages int           // how many there were: a client remembers the id of a topic that was made anew with the same name
	slack  time.Duration // how often a case had to be given more time, as a factor of lead
}

// newRunner makes a runner for options whose defaults are filled in. Its client is the caller's to close.
func newRunner(o Options) (*runner, error) {
	cl, err := kgo.NewClient(o.Client...)
	if err != nil {
		return nil, err
	}
	id := namePrefix + strings.ToLower(rand.Text()[:6])
	return &runner{cluster: &cluster{opts: o.Client, adm: kadm.NewClient(cl), dir: o.Dir}, o: o, id: id, slack: 1}, nil
}

// Run runs the cases and returns what they measured. An error of one does not keep the others
// from running; the end of ctx does.
func Run(ctx context.Context, o Options) ([]Result, error) { return runAll(ctx, o.withDefaults(), all) }

func runAll(ctx context.Context, o Options, cases []benchCase) ([]Result, error) {
	if err := o.validate(namesOf(cases)); err != nil {
		return nil, err
	}
	r, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	defer r.adm.Close()
	var results []Result
	var errs []error
	for _, c := range cases {
		if len(o.Cases) > 0 && !slices.Contains(o.Cases, c.name) || ctx.Err() != nil {
			continue
		}
		rs, err := r.inTime(ctx, c)
		for i := range rs {
			rs[i].judge()
		}
		results = append(results, rs...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	if ctx.Err() != nil {
		errs = append(errs, fmt.Errorf("interrupted: %w", ctx.Err()))
	}
	return results, errors.Join(errs...)
}

// errDueTooSoon ends a case that has not been prepared before its records are due: it would measure something else.
var errDueTooSoon = errors.New("not all records were accepted before the first was due")

// tries is how often a case is begun that ends with errDueTooSoon, with twice the time each time.
const tries = 5

// inTime runs a case, again if need be, and deletes what it has made.
func (r *runner) inTime(ctx context.Context, c benchCase) ([]Result, error) {
	for try := 1; ; try++ {
		results, err := c.run(ctx, r)
		again := errors.Is(err, errDueTooSoon) && try < tries
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = nil // Run says so
		}
		if cleanErr := r.clean(ctx, 0); cleanErr != nil || !again {
			return results, errors.Join(err, cleanErr)
		}
		r.slack *= 2
		r.progress("%s: %v; once more, with more time", c.name, err)
	}
}

// lead is how long before they are due n records are begun to be written: 100,000 a second are written and accepted by
// anything that is worth measuring.
func (r *runner) lead(n int) time.Duration {
	return r.slack * (r.o.settle + time.Duration(n)*10*time.Microsecond)
}

// progress tells the person who waits.
func (r *runner) progress(format string, args ...any) {
	fmt.Fprintf(r.o.Progress, format+"\n", args...)
}

// sleepUntil returns the error of ctx if that ends first.
func sleepUntil(ctx context.Context, at time.Time) error {
	wait.For(ctx, time.Until(at))
	return ctx.Err()
}
