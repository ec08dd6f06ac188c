package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/duewheel/duewheel/processor/setting"
	"github.com/duewheel/duewheel/topics"
)

// atMostOne is an error when both flags are given.
func atMostOne(cmd *cobra.Command, a, b string) error {
	if cmd.Flags().Changed(a) && cmd.Flags().Changed(b) {
		return fmt.Errorf("--%s and --%s: give one of them", a, b)
	}
	return nil
}

// textOnly refuses flags that say how something is shown to people where JSON is asked for: it always has all, in one form.
func textOnly(cmd *cobra.Command, output string, names ...string) error {
	for _, name := range names {
		if output == "json" && cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s and -o json: give one of them", name)
		}
	}
	return nil
}

// notEmpty refuses flags that were given without a value: mostly an unset variable of a script, without which something else would be asked for.
func notEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && (f.Value.String() == "" || f.Value.String() == "[]") {
			return fmt.Errorf("--%s is empty", name)
		}
	}
	return nil
}

// chosenPartition refuses a --partition that is none: without the flag all of them are looked at.
func chosenPartition(cmd *cobra.Command, p int) error {
	if cmd.Flags().Changed("partition") && p < 0 {
		return fmt.Errorf("--partition %d: a partition is a number from 0", p)
	}
	return nil
}

// partitionOfName refuses a --partition that is not the one of a handle: that would be said not to be there.
func partitionOfName(cmd *cobra.Command, p int, name string) error {
	if h, is := topics.ParseHandle([]byte(strings.TrimSpace(name))); is && cmd.Flags().Changed("partition") && int(h.Partition) != p {
		return fmt.Errorf("--partition %d: the handle %s is of partition %d", p, h, h.Partition)
	}
	return chosenPartition(cmd, p)
}

// topicNames refuses flags that name topics and hold no name, or one that no topic can have: nothing would be found, or something else be asked for.
func topicNames(cmd *cobra.Command, names ...string) error {
	errs := []error{notEmpty(cmd, names...)}
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		given := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			given = list.GetSlice()
		}
		for _, topic := range given {
			if err := topics.CheckTopic(topic); err != nil && (topic != "" || len(given) > 1) {
				errs = append(errs, fmt.Errorf("--%s %w", name, err))
			}
		}
	}
	return joinLines(errs...)
}

// noArguments is for commands that are told everything by flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, and %q was given", cmd.Name(), args[0])
	}
	return nil
}

// oneCommand is for commands that have others below them.
func oneCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownCommand(cmd, args)
}

// oneToExplain is for help, which is given the names of a command.
func oneToExplain(help *cobra.Command, args []string) error {
	cmd, rest, err := help.Root().Find(args)
	if err == nil && cmd.HasSubCommands() && len(rest) > 0 {
		err = unknownCommand(cmd, rest)
	}
	return err
}

// unknownCommand says that a command has none below it of a name.
func unknownCommand(cmd *cobra.Command, args []string) error {
	unknown := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2 // as that of duewheel itself
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		unknown += "\n\nDid you mean this?\n\t" + strings.Join(near, "\n\t") + "\n"
	}
	return errors.New(unknown)
}

// oneName is for commands that are about one record.
func oneName(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errNoName
	case 1:
		return nil
	}
	return fmt.Errorf("one handle or id, and %d were given", len(args))
}

// someNames is for commands that are about one record or more.
func someNames(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errNoName
	}
	return nil
}

var errNoName = errors.New("which record? Give its handle or its id")

// flagError says what is wrong with a flag in the words of its own kind, and where to read on. What stands behind a command that there is not is a flag of that.
func flagError(cmd *cobra.Command, err error) error {
	before := cmd.Flags().Args()
	if cmd.HasSubCommands() && len(before) > 0 {
		return unknownCommand(cmd, before)
	}
	if cmd.Name() == "help" && cmd.ValidateArgs(before) != nil {
		return cmd.ValidateArgs(before)
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("%w; `%s --help` lists the flags", err, cmd.CommandPath())
	}
	what := ""
	switch invalid.GetFlag().Value.Type() {
	case "int", "int32", "int64":
		what = "a whole number"
	case "intSlice":
		what = "whole numbers with commas between them"
	case "bool":
		what = "true or false"
	default:
		what = errors.Unwrap(invalid).Error()
	}
	return fmt.Errorf("--%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), what)
}

// length is a flag that is a length of time, as settings have it: with a unit, of which days and weeks are two, or 0.
type length time.Duration

func lengthFlag(p *pflag.FlagSet, d *time.Duration, name string, usual time.Duration, usage string) {
	*d = usual
	p.Var((*length)(d), name, usage)
}

// Set implements pflag.Value.
func (l *length) Set(text string) error {
	d, err := setting.Duration(text)
	if err == nil {
		*l = length(d)
	}
	return err
}

func (l *length) String() string {
	if *l == 0 {
		return ""
	}
	return topics.FormatDelay(time.Duration(*l))
}

// Type implements pflag.Value.
func (l *length) Type() string { return "duration" }

// asJSON is the flag -o of a command that prints text, or all that it has as one JSON document.
type asJSON bool

func jsonFlag(p *pflag.FlagSet, is *bool) { p.VarP((*asJSON)(is), "output", "o", "text or json") }

// objectsFlag is jsonFlag of a command that prints an object for each of several.
func objectsFlag(p *pflag.FlagSet, is *bool) {
	p.VarP((*asJSON)(is), "output", "o", "text, or json: an object a line")
}

// Set implements pflag.Value.
func (f *asJSON) Set(text string) error {
	switch text {
	case "text", "json":
		*f = text == "json"
		return nil
	}
	return errors.New("text or json")
}

func (f *asJSON) String() string {
	if *f {
		return "json"
	}
	return "text"
}

// Type implements pflag.Value.
func (f *asJSON) Type() string { return "string" }
