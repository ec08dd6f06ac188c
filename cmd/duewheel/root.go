package main

import (
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// flags are those that every command takes which talks to a cluster.
type flags struct {
	file          string
	brokers       []string
	x             []string
	commandConfig string
	group         string
	logLevel      string
}

func newRootCommand() *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:   "duewheel",
		Short: "Hold Kafka records and deliver each to its target topic when it is due",
		Long: `duewheel reads records from delay topics and delivers each to its target topic
when it is due, exactly once. It needs nothing but Kafka.

Settings come from a YAML file (-c, or DUEWHEEL_CONFIG), the environment
(DUEWHEEL_KAFKA_BROKERS ...) and flags, in rising order. -X and --command-config take
the names of the Java client and of librdkafka, and ours.

The exit code is 0 when all is well, 1 when a command has found that it is not, and 2 when
it could not tell or do what it was asked for: a mistake in flags or settings, brokers that
do not answer, a right that is missing.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			err := notEmpty(cmd, "config", "bootstrap-server", "command-config", "group", "log-level")
			f.file = cmp.Or(f.file, os.Getenv(envFile))
			return err
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.Version = readBuild().String()
	root.SetVersionTemplate("{{.Version}}")
	root.Flags().Bool("version", false, "print the version") // cobra's own would take -v, which is a value where records are written
	p := root.PersistentFlags()
	p.SortFlags = false
	p.StringVarP(&f.file, "config", "c", "", "YAML `file` with settings; else DUEWHEEL_CONFIG names it")
	p.StringSliceVarP(&f.brokers, "bootstrap-server", "b", nil, "brokers to begin with, `host:port[,host:port]`")
	p.StringArrayVarP(&f.x, "property", "X", nil, "one setting, `name=value`; may be repeated")
	p.StringVar(&f.commandConfig, "command-config", "", "a client.properties `file`")
	p.StringVarP(&f.group, "group", "g", "", "consumer `group`")
	p.StringVar(&f.logLevel, "log-level", "", "debug, info, warn or error")
	root.AddCommand(
		newRunCommand(&f),
		newDemoCommand(),
		newProduceCommand(&f),
		newListCommand(&f),
		newAgendaCommand(&f),
		newGetCommand(&f),
		newCancelCommand(&f),
		newRescheduleCommand(&f),
		newDeliverNowCommand(&f),
		newExplainCommand(&f),
		newDLQCommand(&f),
		newVerifyCommand(&f),
		newCheckpointsCommand(&f),
		newTopicsCommand(&f),
		newLeaveCommand(&f),
		newBenchCommand(&f),
		newVersionCommand(),
	)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = oneToExplain // else it says so, and that all is well
	}
	hideNoDefaults(root)
	return root
}

// hideNoDefaults keeps -1 out of the help where it stands for a flag that was not given.
func hideNoDefaults(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.DefValue == "-1" {
			f.DefValue = "0" // which is not shown
		}
	})
	for _, part := range cmd.Commands() {
		hideNoDefaults(part)
	}
}

// load puts the settings of a command together.
func (f *flags) load() (settings, error) {
	layer := map[string]any{}
	if len(f.brokers) > 0 {
		var brokers []any
		for _, b := range f.brokers {
			brokers = append(brokers, b)
		}
		layer["kafka.brokers"] = brokers
	}
	if f.group != "" {
		layer["group.id"] = f.group
	}
	if f.logLevel != "" {
		layer["log.level"] = f.logLevel
	}
	return load(sources{File: f.file, Env: os.Environ(), CommandConfig: f.commandConfig, X: f.x, Flags: layer})
}

// connect returns a client for a command that asks or writes something and ends.
func (f *flags) connect(more ...kgo.Opt) (*kgo.Client, settings, error) {
	s, err := f.load()
	opts, clientErr := s.clientOpts()
	if err := joinLines(err, clientErr); err != nil {
		return nil, s, err
	}
	cl, err := kgo.NewClient(append(opts, more...)...)
	return cl, s, err
}

// reach asks all brokers of the configuration for an answer, so that a command that cannot have one says so first, and leaves the client the one that was first:
// it would ask any of them next, and again now and then, and wait for one that is frozen. From the first it learns which brokers there are.
func reach(ctx context.Context, cl *kgo.Client, brokers []string) error {
	type answer struct {
		of  int
		err error
	}
	seeds := cl.SeedBrokers()
	answered := make(chan answer, len(seeds))
	for i, seed := range seeds {
		go func() {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would be all
			_, err := seed.Request(ctx, req)
			answered <- answer{i, err}
		}()
	}
	last := answer{of: -1}
	for range seeds {
		var a answer
		select {
		case a = <-answered:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if a.err == nil {
			if len(seeds) == 1 {
				return nil
			}
			return cl.UpdateSeedBrokers(brokers[a.of])
		}
		if a.of > last.of {
			last = a
		}
	}
	hint := ""
	if errors.Is(last.err, kerr.IllegalSaslState) {
		hint = "; nobody logs in there: leave kafka.sasl out, or give the port of a listener that is SASL_PLAINTEXT or SASL_SSL"
	}
	return fmt.Errorf("reach %s: %w%s", strings.Join(brokers, ","), last.err, hint)
}

// logJSON is the log.format for programs.
const logJSON = "json"

func (s *settings) logger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: s.LogLevel, ReplaceAttr: asText}
	if s.LogFormat == logJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// asText makes text of what is logged: slog prints errors with all they have, stack traces too, and in
// JSON durations and times to the nanosecond and other values by their fields.
func asText(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case time.Time:
		a.Value = slog.StringValue(v.Format("2006-01-02T15:04:05.000Z07:00"))
	case slog.Level, json.Marshaler, encoding.TextMarshaler:
	case error:
		a.Value = slog.StringValue(v.Error())
	case fmt.Stringer:
		a.Value = slog.StringValue(v.String())
	}
	return a
}
