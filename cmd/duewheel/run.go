package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/admin"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/setting"
)

func newRunCommand(f *flags) *cobra.Command {
	var acceptLoss bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the processor until SIGTERM",
		Long: `Run the processor. SIGTERM, SIGINT and SIGHUP end it in order: it stops polling, finishes the
open transaction, commits, leaves the group and flushes its store. Another signal, a
second later or more, ends it at once; what was open is then aborted by the process
that takes over.`,
		Example: "  duewheel run -c duewheel.yaml\n" +
			"  DUEWHEEL_KAFKA_BROKERS=kafka:9092 duewheel run -c duewheel.yaml -X lanes=2",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.load()
			s.AcceptLoss = s.AcceptLoss || acceptLoss
			return runProcessor(cmd.Context(), s, err, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "go on although a delay topic has lost records")
	return cmd
}

// runProcessor runs until ctx ends. loadErr is what was wrong with the settings so far: it is
// reported together with what the processor has to say of them. A log for programs has nothing else on its stream: what ends the process is a line of
// it, and is not printed again.
func runProcessor(ctx context.Context, s settings, loadErr error, stderr io.Writer) error {
	logger := s.logger(stderr)
	if s.LogFormat != logJSON {
		_, err := startProcessor(ctx, s, loadErr, logger)
		return err
	}
	lastWords.Store(logger)
	defer lastWords.Store(nil)
	begun, err := startProcessor(ctx, s, loadErr, logger)
	if err != nil && !begun {
		logger.Error("not started", "error", err)
	}
	if err != nil {
		return logged{err}
	}
	return nil
}

// startProcessor is runProcessor with a log. begun: that has begun, and so has said how it ended.
func startProcessor(ctx context.Context, s settings, loadErr error, logger *slog.Logger) (begun bool, err error) {
	registry := newRegistry()
	config, configErr := s.processorConfig(logger)
	opts, clientErr := s.clientOpts()
	config.Client = append(opts, kgo.WithHooks(admin.NewClientMetrics(registry)))
	// The first New is there for its judgement: nothing is written to disk before the settings are good.
	_, err = processor.New(config)
	if err := joinLines(loadErr, clientErr, configErr, err); err != nil {
		return false, err
	}
	setting.Fill(&config)
	dir, lock, err := claimStateDir(config.StateDir)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	above := config.StateDir
	config.StateDir = dir
	p, err := processor.New(config)
	if err != nil {
		return false, err
	}
	if err := notMoved(ctx, s, opts); err != nil {
		return false, err
	}
	registry.MustRegister(admin.NewCollector(p.Stats, time.Now))
	listener, err := listenAdmin(string(s.AdminListen), logger)
	if err != nil {
		return false, fmt.Errorf("admin.listen: %w", err)
	}
	limitMemory(config.MemoryBudget, availableMemory(), logger)
	processor.Parallelize()
	at := listenOff
	if listener != nil {
		at = "http://" + listener.Addr().String()
	}
	logger.Info("starting", "version", version(), "group", s.Group, "state", dir, "admin", at)
	defer context.AfterFunc(ctx, func() { logger.Info("stopping", "why", context.Cause(ctx)) })()
	tidying, stopTidying := context.WithCancel(ctx)
	defer stopTidying()
	go tidyStateDir(tidying, above, dir, logger) // not waited for: a disk that hangs must not keep the process from its end
	var presence http.Handler
	if listener != nil {
		presence = p.Presence(listener.Addr().String())
	}
	err = serveAndRun(ctx, p, listener, admin.Options{Source: p, Gatherer: registry, Presence: presence, Stopping: ctx.Done()}, func(ctx context.Context) { warnOfTopics(ctx, s, opts, logger) })
	sayStopped(ctx, logger, err)
	return true, err
}

// sayStopped writes the last line of the log. What the command returns is for the person who has started
// it; the reader of the log finds it only here.
func sayStopped(ctx context.Context, logger *slog.Logger, err error) {
	if err != nil {
		logger.Error("stopped", "error", err)
		return
	}
	logger.Info("stopped", "why", context.Cause(ctx))
}

// listenAdmin opens the admin port; nil where there is to be none.
func listenAdmin(address string, logger *slog.Logger) (net.Listener, error) {
	if address == listenOff {
		return nil, nil
	}
	listener, err := admin.Listen(address)
	if err == nil && isReachable(listener.Addr()) {
		logger.Warn("other hosts can reach the admin port, which asks for no password and shows topic names; keep it inside your network, or set admin.listen",
			"address", listener.Addr().String())
	}
	return listener, err
}

// serveAndRun keeps the admin port open as long as the processor runs, so that a probe sees it stop.
// l is nil where there is none.
func serveAndRun(ctx context.Context, p *processor.Processor, l net.Listener, o admin.Options, beside func(context.Context)) error {
	handler := admin.NewHandler(o)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	running, stopRunning := context.WithCancel(ctx)
	defer stopRunning()
	var g errgroup.Group
	if l != nil {
		g.Go(func() error {
			defer stopRunning() // a processor without its port is not what was asked for
			return admin.Serve(serving, l, handler)
		})
	}
	g.Go(func() error {
		defer stopServing()
		defer stopRunning()
		return p.Run(running)
	})
	g.Go(func() error { beside(running); return nil })
	return g.Wait()
}

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	b := readBuild()
	r.MustRegister(admin.NewBuildInfo(b.Version, b.Revision, b.Go), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
