package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

func newDLQShowCommand(f *flags) *cobra.Command {
	var c choice
	var output string
	var much shows
	cmd := &cobra.Command{
		Use:   "show [<topic>/]<partition>@<offset>...",
		Short: "Show dead letters with all that they hold",
		Long: `Print what each of the dead letters tells: why the request could not be delivered, which
one it was, its headers, its key and its value. A value is shown as JSON or text where it
is one, and in hexadecimal otherwise.`,
		Example: "  duewheel dlq show -c duewheel.yaml delay-requests.dead/0@17\n  duewheel dlq show -b localhost:9092 -t delay-requests.dead 0@17 -o json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("which dead letter? Give its place, as duewheel dlq ls prints it")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := joinLines(topicNames(cmd, "topic"), checkOutput(output), checkPlaces(args...)); err != nil {
				return err
			}
			for _, text := range args {
				p, _ := parsePlace(text)
				c.named = append(c.named, p.topic)
			}
			return c.withLetters(f, func(l *letters) error {
				found, err := l.all(cmd.Context(), args, len(c.topics) > 0 || l.boxes.routes == nil)
				if err != nil {
					return err
				}
				return showLetters(cmd.OutOrStdout(), found, output, much.most(cmd.OutOrStdout()))
			})
		},
	}
	c.addTopics(cmd)
	addOutput(cmd, &output)
	much.addTo(cmd)
	return cmd
}

// all returns the dead letters at some places, each once; the error names every place where there is none.
func (l *letters) all(ctx context.Context, places []string, mustExist bool) ([]*letter, error) {
	var errs []error
	var wanted []position
	for _, text := range places {
		p, err := l.resolve(text)
		if errs = append(errs, err); !slices.Contains(wanted, p) {
			wanted = append(wanted, p)
		}
	}
	if err := joinLines(errs...); err != nil {
		return nil, err
	}
	all, _, err := l.spans(ctx, mustExist)
	if err != nil {
		return nil, err
	}
	var found []*letter
	for _, p := range wanted {
		one, err := l.at(ctx, all, p)
		found, errs = append(found, one), append(errs, err)
	}
	return found, joinLines(errs...)
}

func showLetters(w io.Writer, all []*letter, output string, most int) error {
	if output == "json" {
		enc := newJSON(w)
		for _, l := range all {
			if err := enc.Encode(fullRowOf(l)); err != nil {
				return err
			}
		}
		return nil
	}
	for i, l := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := l.show(w, most); err != nil {
			return err
		}
	}
	return nil
}

// fullRow is letterRow with what ls leaves out.
type fullRow struct {
	letterRow
	Headers    []headerRow `json:"headers"`
	Value      *string     `json:"value"` // null, also where it is not text
	ValueBytes []byte      `json:"value_base64,omitempty"`
}

func fullRowOf(l *letter) fullRow {
	row := fullRow{letterRow: rowOf(l), Headers: headerRows(l.written())}
	row.Value, row.ValueBytes = textOrBytes(l.record.Value)
	return row
}

// written are the headers of the request as it was written.
func (l *letter) written() []kgo.RecordHeader {
	return topics.AppendReplayed(nil, l.record.Headers, "", l.prefix)
}

// show prints a dead letter for people, with so many bytes of its key and of its value at most.
func (l *letter) show(w io.Writer, most int) error {
	fmt.Fprintf(w, "%s, written %s\n", l.place(), formatTime(l.record.Timestamp))
	t := newDescription(w)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "  %s\t%s\n", name, textInLine(value, most))
		}
	}
	row("code", string(l.Refusal.Code))
	row("message", l.Refusal.Message)
	row("header", l.Blamed)
	row("stage", string(l.Refusal.Stage))
	row("request", l.request()+", written "+formatMillis(l.Letter.Timestamp))
	row("target", l.target)
	if l.Attempts > 0 { // of duewheel; those of a retry route are in its message and headers
		row("attempts", fmt.Sprint(l.Attempts))
	}
	row("instance", l.Instance)
	if l.Cut != "" {
		row("cut", "it is not whole; it was "+l.Cut)
	}
	if headers := l.written(); len(headers) > 0 {
		fmt.Fprintln(t, "headers")
		for _, h := range headers {
			fmt.Fprintf(t, "  %s\t%s\n", textInLine(h.Key, most), inLine(h.Value, most))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := showBytes(w, "key", l.record.Key, most); err != nil {
		return err
	}
	return showBytes(w, "value", l.record.Value, most)
}

// mostInLine is how many columns a terminal gets of what stands in a line.
const mostInLine = 1024

// inLine is a header's value in one line, for a reader who gets so many bytes of a value; 0: all.
func inLine(b []byte, most int) string { return cutLine(brief(b, max(2*len(b), 1)+16), len(b), most) }

// textInLine is text in one line, for such a reader.
func textInLine(s string, most int) string { return cutLine(visible(s), len(s), most) }

// cutLine cuts what was made of so many bytes, and says how to see the rest.
func cutLine(line string, length, most int) string {
	if most == 0 {
		return line
	}
	if cut := clipped(line, mostInLine, "…"); cut != line {
		return cut + " cut, of " + topics.Plural(length, "byte") + "; --whole shows all"
	}
	return line
}

// shows is how much of a key and of a value is shown.
type shows struct{ whole bool }

func (s *shows) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.whole, "whole", false, "show all of a long value or header on a terminal, too")
}

// mostOnScreen is how much of a value a terminal gets, some 50 lines of hexadecimal.
const mostOnScreen = 4096

// most is how many bytes are to be written of a key or a value, as it is shown; 0: all.
func (s *shows) most(w io.Writer) int {
	if s.whole || !isScreen(w) {
		return 0
	}
	return mostOnScreen
}

// shortened is what is shown of a long text, and how to see the rest.
func shortened(text string, most int) string {
	if most == 0 || len(text) <= most {
		return text
	}
	text = text[:most]
	if i := strings.LastIndexByte(text, '\n'); i > 0 {
		text = text[:i]
	}
	for !utf8.ValidString(text) { // but for the last character it is
		text = text[:len(text)-1]
	}
	return text + "\n… cut; --whole shows all"
}

// showBytes prints a key or a value, so many bytes of it at most: JSON, text, or hexadecimal.
func showBytes(w io.Writer, name string, b []byte, most int) error {
	var text, form string
	var pretty bytes.Buffer
	const inText = "\n\t"
	lines := strings.ReplaceAll(string(b), "\r\n", "\n")
	switch {
	case b == nil:
		_, err := fmt.Fprintf(w, "%s null\n", name)
		return err
	case len(b) == 0:
		_, err := fmt.Fprintf(w, "%s empty\n", name)
		return err
	case isShown(lines, inText) && (b[0] == '{' || b[0] == '[') && json.Indent(&pretty, b, "", "  ") == nil:
		text, form = pretty.String(), "JSON"
	case isShown(lines, inText):
		text, form = lines, "text"
	default:
		text, form = hex.Dump(b), "hex"
	}
	text = strings.ReplaceAll(shortened(strings.TrimSuffix(text, "\n"), most), "\n", "\n  ")
	_, err := fmt.Fprintf(w, "%s (%s, %s)\n  %s\n", name, form, topics.Plural(len(b), "byte"), text)
	return err
}
