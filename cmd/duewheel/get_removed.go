package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/duewheel/duewheel/topics"
)

// removedIn are those of an error's parts that are about a record which its log has no more: one for each topic that the handle may be of.
func removedIn(err error) (all []*removedError) {
	switch e := err.(type) {
	case *removedError:
		return []*removedError{e}
	case interface{ Unwrap() error }:
		return removedIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			all = append(all, removedIn(part)...)
		}
	}
	return all
}

// toldOfRemoved is what the audit topic tells of a record that the log has no more.
type toldOfRemoved struct {
	*removedError
	audit []auditRow
}

// says tells what was told last. What stands for a record that waits to be tried again would have been found, if it was looked for in all of the log.
func (r *toldOfRemoved) says(last *auditRow) string {
	text := "the audit topic says " + last.Event + last.more()
	if last.Event == topics.AuditRetried.String() {
		text += "; what stands for it was not found, so it was resolved since, or the topic has lost pending records"
	}
	return text
}

// auditOfRemoved reads what an audit topic tells of records that are not in the log any more. When they were written is not known; most have an
// outcome when they were due, so what was told since then is read first.
func (v *view) auditOfRemoved(ctx context.Context, topic string, failed error, until time.Time) (all []toldOfRemoved) {
	if topic == "" {
		return nil
	}
	for _, r := range removedIn(failed) {
		v.others = map[string]auditRow{}
		var rows []auditRow
		for _, since := range []time.Time{time.UnixMilli(r.handle.Due), time.UnixMilli(0)} {
			rows, _ = auditing{v}.of(ctx, topic, r.from.Topic, r.handle.String(), auditPart{since: since}, until)
			if outcomeOf(rows) != nil {
				all = append(all, toldOfRemoved{r, rows})
				break
			}
		}
		auditing{v}.noteOthers(rows)
	}
	return all
}

// showRemoved prints what is known of records that are not in the log any more.
func (o *getting) showRemoved(w io.Writer, v *view, all []toldOfRemoved) error {
	for i, r := range all {
		last := outcomeOf(r.audit)
		row := recordRow{Topic: r.from.Topic, Partition: r.handle.Partition, Offset: r.handle.Offset, Handle: r.handle.String(), State: last.Event,
			Says: r.says(last), Due: r.handle.Due, Headers: []readHeaderRow{}, Audit: r.audit}
		if o.output == "json" {
			if err := newJSON(w).Encode(row); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s/%d@%d, which is not in the log any more\n", row.Topic, row.Partition, row.Offset)
		t := newDescription(w)
		fmt.Fprintf(t, "  state\t%s\n  handle\t%s\n  due\t%s\n", visible(row.Says), row.Handle, formatMillis(row.Due))
		printAudit(t, r.audit, v.Now.Location())
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// plainID is one that a shell and JSON take as it is.
var plainID = regexp.MustCompile(`^[A-Za-z0-9._:@/+=-]+$`)

// searchFor is a command that finds what the audit topic tells of an id. Its records have handles for keys, so it is read as a whole.
func searchFor(id string, brokers []string, audit string) string {
	if !plainID.MatchString(id) || len(brokers) == 0 {
		return ""
	}
	return fmt.Sprintf(": kcat -C -q -e -b %s -t %s | grep -F '\"id\":\"%s\"'", brokers[0], audit, id)
}
