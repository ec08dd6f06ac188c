package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/wait"
)

// cluster is where a run plays. It knows what was made there, and in the file system, and deletes it again.
type cluster struct {
	opts []kgo.Opt // reach it
	adm  *kadm.Client
	dir  string // where state directories are made
	made []made // what is to be deleted, in the order in which it was made
}

// made is something that has to be deleted again. One of the three is set.
type made struct {
	topic, group, dir string
}

// client makes one with further options.
func (c *cluster) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(slices.Clip(c.opts), more...)...)
}

// newTopics makes topics of one kind, whose names begin with one name.
func (c *cluster) newTopics(ctx context.Context, name string, n, partitions int) (topics []string, err error) {
	for i := range n {
		topic := name
		if i > 0 {
			topic += "-" + strconv.Itoa(i)
		}
		topics = append(topics, topic)
		if err := c.newTopic(ctx, topic, partitions); err != nil {
			return nil, err
		}
	}
	return topics, nil
}

// newTopic makes a topic with the durability that `duewheel topics create` gives to delay topics, and
// waits until it can be used.
func (c *cluster) newTopic(ctx context.Context, topic string, partitions int) error {
	md, err := c.adm.BrokerMetadata(ctx)
	if err != nil {
		return fmt.Errorf("list brokers: %w", err)
	}
	replicas := min(3, len(md.Brokers))
	insync := "1"
	if replicas >= 3 {
		insync = "2"
	}
	c.made = append(c.made, made{topic: topic})
	// What has begun is waited for, whether ctx ends or not: a broker that does not know of a topic yet does not delete it
	// either, and it would be left behind.
	making, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	_, err = c.adm.CreateTopic(making, int32(partitions), int16(replicas), map[string]*string{
		"cleanup.policy": kadm.StringPtr("delete"), "retention.ms": kadm.StringPtr("-1"), "min.insync.replicas": &insync,
	}, topic)
	if err != nil {
		return fmt.Errorf("make topic %s: %w", topic, err)
	}
	for {
		offsets, err := c.adm.ListEndOffsets(making, topic)
		if err == nil && offsets.Error() == nil && len(offsets[topic]) == partitions {
			return ctx.Err()
		}
		if !wait.For(making, 20*time.Millisecond) {
			return fmt.Errorf("wait for topic %s: %w", topic, making.Err())
		}
	}
}

// newDir makes an empty state directory.
func (c *cluster) newDir() (string, error) {
	dir, err := os.MkdirTemp(c.dir, namePrefix)
	if err != nil {
		return "", fmt.Errorf("make a state directory: %w", err)
	}
	c.made = append(c.made, made{dir: dir})
	return dir, nil
}

// cleanLimit bounds how long the cluster may take to delete what a case has made.
const cleanLimit = 30 * time.Second

// tidy is clean for what has gone well; what has failed is deleted at the end of the case, which says what is left.
func (c *cluster) tidy(ctx context.Context, mark int, err *error) {
	if *err == nil {
		*err = c.clean(ctx, mark)
	}
}

// clean deletes what was made after the mark, which is a length that made had. It has time of its own:
// most of all a run that was interrupted must not leave topics behind. The error names what is left.
func (c *cluster) clean(ctx context.Context, mark int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	var topics []string
	var errs []error
	for _, m := range c.made[mark:] {
		switch {
		case m.topic != "":
			topics = append(topics, m.topic)
		case m.group != "":
			errs = append(errs, c.deleteGroup(ctx, m.group))
		default:
			errs = append(errs, os.RemoveAll(m.dir))
		}
	}
	c.made = c.made[:mark]
	return errors.Join(append(errs, c.deleteTopics(ctx, topics))...)
}

func (c *cluster) deleteTopics(ctx context.Context, topics []string) error {
	rs, err := c.adm.DeleteTopics(ctx, topics...)
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
func (c *cluster) deleteGroup(ctx context.Context, group string) error {
	for {
		rs, err := c.adm.DeleteGroups(ctx, group)
		if err == nil {
			err = rs[group].Err
		}
		switch {
		case err == nil, errors.Is(err, kerr.GroupIDNotFound):
			return nil
		case !errors.Is(err, kerr.NonEmptyGroup) && !kerr.IsRetriable(err) || !wait.For(ctx, 100*time.Millisecond):
			return fmt.Errorf("delete group %s: %w", group, err)
		}
	}
}
