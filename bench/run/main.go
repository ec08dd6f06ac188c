// Command run starts a Kafka on this machine, or takes the external one that DUEWHEEL_TEST_BROKERS names, runs the
// benchmark on it and puts the table into a document.
//
//	go run ./bench/run -update docs/benchmarks.md
//	go run ./bench/run -ask -update docs/benchmarks.md
//	go run ./bench/run -look -update docs/benchmarks.md
//	go run ./bench/run -scale -pending 10000000 -update docs/sizing.md
//	go run ./bench/run -size -pending 20000000 -update docs/sizing.md
//	go run ./bench/run -failover -update docs/benchmarks.md
//	go run ./bench/run -soak -pending 20000000 -for 30m -samples soak.json
//	go run ./bench/run -plot soak.json -svg docs/soak.svg -update docs/sizing.md
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench"
	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/setting"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if addrs, ok := os.LookupEnv(asReplica); ok {
		err = bench.ServeReplica(ctx, seeds(strings.Split(addrs, ",")), os.Stdin, os.Stdout, os.Stderr)
	} else {
		err = run(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// memoryBudget is the flag -memory.budget.
func memoryBudget(o *bench.Options) {
	flag.Func("memory.budget", "memory.budget of replicas in processes of their own, such as 512MiB (default 256MiB)", func(s string) (err error) {
		o.MemoryBudget, err = setting.Size(s)
		return err
	})
}

// asReplica holds the brokers of a process that is to be a replica.
const asReplica = "DUEWHEEL_TEST_BENCH_REPLICA"

func seeds(addrs []string) []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(addrs...), kgo.WithCompressor(kafka.LargeOnly())}
}

// replica makes the command that is this program as a replica.
func replica(addrs []string) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asReplica+"="+strings.Join(addrs, ","))
		return cmd
	}
}

// build makes the duewheel command.
func build() (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "duewheel-bench-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	path = filepath.Join(dir, "duewheel")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/duewheel/duewheel/cmd/duewheel").CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build duewheel: %w\n%s", err, out)
	}
	return path, remove, nil
}

func run(ctx context.Context) (err error) {
	o := bench.Options{Progress: os.Stderr}
	failover := flag.Bool("failover", false, "kill, restart and add replicas, instead of measuring one process")
	ask := flag.Bool("ask", false, "cancel, retry and the like, instead of only delivering")
	scale := flag.Bool("scale", false, "have very many records pending, without a Kafka")
	size := flag.Bool("size", false, "have very many records pending, on a Kafka, beside a process in which none are")
	soak := flag.Bool("soak", false, "have very many records pending for long, sample each second what that takes, and judge it")
	samples := flag.String("samples", "", "file to put what was sampled of a soak into")
	drawn := flag.String("plot", "", "file with what was sampled of a soak; nothing is measured")
	svg := flag.String("svg", "", "file to draw a soak into")
	look := flag.Bool("look", false, "tell what is pending, instead of delivering")
	update := flag.String("update", "", "document to put the table into, between its lines bench:begin and bench:end, or bench-ask, bench-look, bench-scale, bench-size, bench-failover and soak instead of bench")
	flag.Func("case", "cases to run, separated by commas (default all)", func(s string) error {
		o.Cases = strings.Split(s, ",")
		return nil
	})
	flag.IntVar(&o.Records, "records", 0, "records of the cases throughput and store (default 1000000), and of cancels, ids and audit (default 500000)")
	flag.IntVar(&o.Rate, "rate", 0, "records a second of the cases lateness, writes and floor (carry takes half, and window a quarter), and failures a second of retry (default 10000); of size (default 5000), and of a soak (default 2000)")
	flag.DurationVar(&o.For, "for", 0, "how long the lateness cases and retry are measured (default 20s), and how long a soak takes (default 30m)")
	flag.IntVar(&o.Burst, "burst", 0, "records of the cases instant (default 100000) and hot (default 1000000)")
	flag.DurationVar(&o.Spread, "spread", 0, "for how long those of the case hot are due (default: one instant)")
	flag.IntVar(&o.Rounds, "rounds", 0, "how often cases with medians are run (default 3)")
	flag.IntVar(&o.Lanes, "lanes", 0, "lanes of the processor (default: 1)")
	flag.IntVar(&o.Pending, "pending", 0, "records of the failover and look cases and of ids-pending that are due only hours later; standby-many has ten times as many (default 1000000); of scale (default 2000000); of size and of a soak (default 20000000)")
	flag.IntVar(&o.FillRate, "fill", 0, "how many of the pending records a second size writes (default 100000)")
	memoryBudget(&o)
	flag.StringVar(&o.Dir, "dir", "", "where the state directory is made")
	logTo := flag.String("log", "", "file for the log of the processors")
	flag.Parse()
	if *update != "" && o.Cases != nil {
		return errors.New("-update wants every case: a document has whole tables only")
	}

	if *logTo != "" {
		file, err := os.Create(*logTo)
		if err != nil {
			return err
		}
		defer file.Close()
		o.Logger = slog.New(slog.NewTextHandler(file, nil))
	}
	if *scale {
		return report(ctx, bench.Scale, o, bench.Here(), "bench-scale", *update)
	}
	if *drawn != "" {
		s, err := bench.ReadSoaked(*drawn)
		if err != nil {
			return err
		}
		return present(s, *svg, *update)
	}
	// The case carry has a topic that keeps its log for seconds, and is checked by that afterwards; retention of minutes is to be seen within minutes.
	config := map[string]string{"log.retention.check.interval.ms": "86400000"}
	if *soak {
		config["log.retention.check.interval.ms"] = "5000"
	}
	c, err := brokers.New(ctx, brokers.Options{Measure: true, Logf: log.Printf, Config: config})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	o.Client, o.Replica, o.BrokerCPU = seeds(c.Addrs()), replica(c.Addrs()), c.CPU()
	where, err := bench.Look(ctx, o.Client)
	if err != nil {
		return err
	}
	if os.Getenv("DUEWHEEL_TEST_BROKERS") == "" {
		where.Note = "on the same CPUs"
	}
	if *soak {
		s, err := bench.Soak(ctx, o)
		if s == nil || len(s.Samples) == 0 {
			return err
		}
		s.Note = where.Note
		if *samples != "" {
			err = errors.Join(err, bench.WriteSoaked(*samples, s))
		}
		return errors.Join(err, present(s, *svg, *update), s.Err())
	}
	measure, table := bench.Run, "bench"
	switch {
	case *failover:
		measure, table = bench.Failover, "bench-failover"
	case *size:
		measure, table = bench.Size, "bench-size"
	case *ask:
		measure, table = bench.Ask, "bench-ask"
	case *look:
		measure, table = bench.LookAhead, "bench-look"
		program, remove, err := build()
		if err != nil {
			return err
		}
		defer remove()
		o.Command = func(args ...string) *exec.Cmd {
			return exec.Command(program, append(args, "-b", strings.Join(c.Addrs(), ","))...)
		}
	}
	return report(ctx, measure, o, where, table, *update)
}

// report measures, prints the table and puts it into a document, if there is one.
func report(ctx context.Context, measure func(context.Context, bench.Options) ([]bench.Result, error), o bench.Options, where bench.Where, table, document string) error {
	results, err := measure(ctx, o)
	fmt.Println(where)
	if err := errors.Join(err, bench.WriteTable(os.Stdout, results)); err != nil {
		return err
	}
	if document == "" {
		return nil
	}
	return bench.UpdateDocument(document, table, bench.Markdown(where, results))
}

// present prints a soak, draws it, and puts its table into a document.
func present(s *bench.Soaked, svg, document string) error {
	err := s.Write(os.Stdout)
	if svg != "" {
		err = errors.Join(err, draw(s, svg))
	}
	if document != "" {
		err = errors.Join(err, bench.UpdateDocument(document, "soak", s.Markdown()))
	}
	return err
}

func draw(s *bench.Soaked, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(s.Plot().Write(file), file.Close())
}
