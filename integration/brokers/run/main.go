// Command run starts Kafka for trying things by hand, prints its address and runs until it is interrupted.
//
//	go run ./integration/brokers/run -nodes 3 -version 3.9.1
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

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

func run(ctx context.Context) error {
	o := brokers.Options{Config: map[string]string{}, Logf: log.Printf}
	flag.IntVar(&o.Nodes, "nodes", 1, "1 or 3")
	flag.StringVar(&o.Version, "version", brokers.Latest, "any release since 3.3.0, such as "+brokers.Latest+" or "+brokers.Old)
	flag.BoolVar(&o.Measure, "measure", false, "full compiler and a larger heap: for benchmarks")
	flag.Func("config", "a server property, name=value; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("%q has no =", s)
		}
		o.Config[name] = value
		return nil
	})
	have := flag.String("have", "", "only say whether this provider is there: external, docker or jvm")
	flag.Parse()
	if *have != "" {
		return brokers.Have(ctx, brokers.Provider(*have))
	}

	c, err := brokers.New(ctx, o)
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(c.Addrs(), ","))
	<-ctx.Done()
	return c.Close()
}
