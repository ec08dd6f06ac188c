package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// made is something that has to be deleted again. One of the three is set.
type made struct {
	topic, group, dir string
}

// cleanLimit bounds how long the cluster may take to delete what a case has made.
const cleanLimit = 30 * time.Second

// clean deletes what was made after the mark, which is a length that made had. It has time of its own:
// most of all a run that was interrupted must not leave topics behind. The error names what is left.
func (r *runner) clean(ctx context.Context, mark int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	var topics []string
	var errs []error
	for _, m := range r.made[mark:] {
		switch {
		case m.topic != "":
			topics = append(topics, m.topic)
		case m.group != "":
			errs = append(errs, r.deleteGroup(ctx, m.group))
		default:
			errs = append(errs, os.RemoveAll(m.dir))
		}
	}
	r.made = r.made[:mark]
	return errors.Join(append(errs, r.deleteTopics(ctx, topics))...)
}

func (r *runner) deleteTopics(ctx context.Context, topics []string) error {
	rs, err := r.adm.DeleteTopics(ctx, topics...)
	if err != nil {
		return fmt.Errorf("delete topics %q: %w", topics, err)
	}
	var errs []error
	for _, t := range rs {
		if t.Err != nil && !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			errs = append(errs, fmt.Errorf("delete topic %s: %w", t.Topic, t.Err))
		}
	}
	return errors.Join(errs...)
}

// deleteGroup waits for members that are just leaving, and for a coordinator that is just being made.
func (r *runner) deleteGroup(ctx context.Context, group string) error {
	for {
		rs, err := r.adm.DeleteGroups(ctx, group)
		if err == nil {
			err = rs[group].Err
		}
		switch {
		case err == nil, errors.Is(err, kerr.GroupIDNotFound):
			return nil
		case !errors.Is(err, kerr.NonEmptyGroup) && !kerr.IsRetriable(err) || !sleep(ctx, 100*time.Millisecond):
			return fmt.Errorf("delete group %s: %w", group, err)
		}
	}
}

// sleep reports whether the time has passed; false means that ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sleepUntil returns the error of ctx if that ends first.
func sleepUntil(ctx context.Context, at time.Time) error {
	sleep(ctx, time.Until(at))
	return ctx.Err()
}
