package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/setting"
	"github.com/duewheel/duewheel/topics"
)

func newDLQCommand(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "List, show and replay dead letters",
		Long: `Read the dead letter topics of a configuration (dead_letter and retry.parking of its
routes), or those that -t names, and ask again for what could not be delivered. It takes
no part in the group, and removes nothing from a dead letter topic.`,
		Args: oneCommand, // which counts for commands that can be run only
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDLQListCommand(f), newDLQShowCommand(f), newDLQReplayCommand(f))
	return cmd
}

// choice is which dead letters a command was asked for, as its flags say it.
type choice struct {
	topics       []string // dead letter topics
	named        []string // those of the places that are to be shown, "" of one without: they count where nothing else says which
	codes        []string
	headers      []string
	since, until string
	targets      []string
	routes       []string
	from         string
}

// addTopics adds the one flag that all commands of dlq have.
func (c *choice) addTopics(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringSliceVarP(&c.topics, "topic", "t", nil, "dead letter `topics`; without it those of the configuration")
}

func (c *choice) addFilters(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringSliceVar(&c.codes, "code", nil, "only those refused with one of these `codes`")
	p.StringArrayVarP(&c.headers, "header", "H", nil, "only those with this header, `name=value`, or a name alone; may be repeated, and all must be there")
	p.StringVar(&c.since, "since", "", "only those written at or after this `time`, in any form that delay-until takes, or so long ago, such as 1h or 2d")
	p.StringVar(&c.until, "until", "", "only those written before this `time`")
	p.StringSliceVar(&c.targets, "target", nil, "only those for one of these target `topics`")
	p.StringSliceVar(&c.routes, "route", nil, "only those of one of these delay `topics`")
	p.StringVar(&c.from, "from", "", "begin with this one, in the order of ls: `[topic/]partition@offset`")
}

// none says that there are no dead letters, or none of those that the flags choose.
func (c *choice) none() string {
	if len(c.codes)+len(c.headers)+len(c.since)+len(c.until)+len(c.targets)+len(c.routes)+len(c.from) > 0 {
		return "no dead letters that were asked for"
	}
	return "no dead letters"
}

// filter is what of a dead letter must hold for it to be chosen.
type filter struct {
	codes        []topics.Code
	headers      []kgo.RecordHeader // a null value: any
	since, until time.Time          // zero: no bound
	targets      []string
	routes       []string
}

// filter reads the flags. The error names everything that is wrong with them. A target may be what no topic can be called: that is why its record
// was dead-lettered.
func (c *choice) filter(cmd *cobra.Command, now time.Time) (filter, error) {
	w := filter{targets: c.targets, routes: c.routes}
	errs := []error{topicNames(cmd, "topic", "route"), notEmpty(cmd, "code", "since", "until", "target", "from")}
	for _, code := range c.codes {
		if w.codes = append(w.codes, topics.Code(code)); !slices.Contains(topics.Codes, topics.Code(code)) {
			errs = append(errs, fmt.Errorf("--code %s: there is no such code; the nearest is %s, and all are %s", code, nearestCode(code), allCodes()))
		}
	}
	for _, h := range c.headers {
		name, value, hasValue := strings.Cut(h, "=")
		if name == "" {
			errs = append(errs, fmt.Errorf("--header %q: name=value, or a name alone", h))
		}
		wanted := kgo.RecordHeader{Key: name}
		if hasValue {
			wanted.Value = append([]byte{}, value...)
		}
		w.headers = append(w.headers, wanted)
	}
	var err error
	if w.since, err = instant("since", c.since, now); err != nil {
		errs = append(errs, err)
	}
	if w.until, err = instant("until", c.until, now); err != nil {
		errs = append(errs, err)
	}
	if !w.since.IsZero() && !w.until.IsZero() && !w.since.Before(w.until) {
		errs = append(errs, fmt.Errorf("--since %s is not before --until %s: nothing lies between them", c.since, c.until))
	}
	return w, joinLines(errs...)
}

// instant reads a time, or how long ago it was.
func instant(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	ago, err := setting.Duration(text)
	if err != nil {
		return readInstant(flag, text, "how long ago, such as 90s, 1h or 2d")
	}
	return now.Add(-ago), nil
}

func nearestCode(code string) string {
	var all []string
	for _, c := range topics.Codes {
		all = append(all, string(c))
	}
	return nearest(code, all)
}

func allCodes() string {
	var all []string
	for _, c := range topics.Codes {
		all = append(all, string(c))
	}
	return strings.Join(all, ", ")
}

// takes tells whether a dead letter is chosen.
func (w *filter) takes(l *letter) bool {
	switch at := l.record.Timestamp; {
	case len(w.codes) > 0 && !slices.Contains(w.codes, l.Refusal.Code),
		len(w.routes) > 0 && !slices.Contains(w.routes, l.Topic),
		len(w.targets) > 0 && !slices.Contains(w.targets, l.target),
		!w.since.IsZero() && at.Before(w.since),
		!w.until.IsZero() && !at.Before(w.until):
		return false
	}
	for _, wanted := range w.headers {
		if !slices.ContainsFunc(l.record.Headers, func(h kgo.RecordHeader) bool {
			return h.Key == wanted.Key && (wanted.Value == nil || string(h.Value) == string(wanted.Value))
		}) {
			return false
		}
	}
	return true
}

// boxes are the dead letter topics to read, and what is known of the routes that write them.
type boxes struct {
	topics []string                 // in order
	routes map[string]*topics.Route // by delay topic; nil: there is no configuration
}

// boxes finds the dead letter topics: those asked for, else the routes'.
func (c *choice) boxes(s settings) (boxes, error) {
	var b boxes
	var delays []string
	if len(s.Routes) > 0 {
		want, err := s.expectation()
		if err != nil {
			return b, err
		}
		b.routes = map[string]*topics.Route{}
		for _, r := range want.Routes {
			b.routes[r.Topic] = r
			delays = append(delays, r.Topic)
			if len(c.topics) == 0 && (len(c.routes) == 0 || slices.Contains(c.routes, r.Topic)) {
				b.topics = append(b.topics, r.LetterBoxes()...)
			}
		}
	}
	for _, topic := range c.topics {
		if r := b.routes[topic]; r != nil {
			return b, fmt.Errorf("-t %s is a delay topic; its dead letters are in %s", topic, strings.Join(r.LetterBoxes(), " and "))
		}
		b.topics = append(b.topics, topic)
	}
	for _, route := range c.routes {
		if len(c.topics) == 0 && b.routes != nil && b.routes[route] == nil {
			return b, fmt.Errorf("--route %s is not the delay topic of any route of the configuration; those are %s", route, orNone(delays))
		}
	}
	if len(b.topics) == 0 && !slices.Contains(c.named, "") {
		b.topics = append(b.topics, c.named...)
	}
	if len(b.topics) == 0 {
		return b, errors.New("which dead letter topic? Name a configuration that has routes with -c, or the topic with -t")
	}
	slices.Sort(b.topics)
	b.topics = slices.Compact(b.topics)
	return b, nil
}

// withLetters calls fn with what reads the dead letters that a command was asked for.
func (c *choice) withLetters(f *flags, fn func(*letters) error, more ...kgo.Opt) error {
	cl, s, err := f.connect(more...)
	if err != nil {
		return err
	}
	defer cl.Close()
	b, err := c.boxes(s)
	if err != nil {
		return err
	}
	return fn(&letters{cl: cl, adm: newPatient(cl), boxes: b, brokers: s.Brokers})
}
