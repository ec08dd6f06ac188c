// Command run starts a Kafka on this machine, or takes the external one that DUEWHEEL_TEST_BROKERS names, runs the
// benchmark on it and puts the table into a document.
//
//	go run ./bench/run -update README.md
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench"
	"github.com/duewheel/duewheel/integration/brokers"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	o := bench.Options{Progress: os.Stderr}
	update := flag.String("update", "", "document to put the table into, between its lines bench:begin and bench:end")
	flag.Func("case", "cases to run, separated by commas (default all)", func(s string) error {
		o.Cases = strings.Split(s, ",")
		return nil
	})
	flag.IntVar(&o.Records, "records", 0, "records of the cases throughput and store (default 1000000)")
	flag.IntVar(&o.Rate, "rate", 0, "records a second of the cases lateness and writes (default 10000)")
	flag.DurationVar(&o.For, "for", 0, "how long the lateness cases are measured (default 20s)")
	flag.IntVar(&o.Burst, "burst", 0, "records of the case instant (default 100000)")
	flag.IntVar(&o.Rounds, "rounds", 0, "how often cases with medians are run (default 3)")
	flag.IntVar(&o.Lanes, "lanes", 0, "lanes of the processor (default: CPUs, at most 4)")
	flag.StringVar(&o.Dir, "dir", "", "where the state directory is made")
	flag.Parse()
	if *update != "" && o.Cases != nil {
		return errors.New("-update wants every case: a document has whole tables only")
	}

	c, err := brokers.New(ctx, brokers.Options{Measure: true, Logf: log.Printf})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	o.Client = []kgo.Opt{kgo.SeedBrokers(c.Addrs()...)}
	where, err := bench.Look(ctx, o.Client)
	if err != nil {
		return err
	}
	if os.Getenv("DUEWHEEL_TEST_BROKERS") == "" {
		where.Note = "on the same CPUs"
	}
	results, err := bench.Run(ctx, o)
	fmt.Println(where)
	if err := errors.Join(err, bench.WriteTable(os.Stdout, results)); err != nil {
		return err
	}
	if *update == "" {
		return nil
	}
	return bench.UpdateDocument(*update, bench.Markdown(where, results))
}
