package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// atOnce is how long a poll may wait for records.
	atOnce = 250 * time.Millisecond
	// quiet is how long nothing may come before it is asked why.
	quiet = 2 * time.Second
	// silence is how long nothing may come although there is something to come.
	silence = 30 * time.Second
)

// readOpts are those of a client that reads partitions that are added one by one.
func readOpts(opts []kgo.Opt) []kgo.Opt {
	return append(opts[:len(opts):len(opts)],
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // so that a log that ends in a marker is seen to its end
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(8<<20),
		kgo.FetchMaxPartitionBytes(2<<20),
		kgo.FetchMaxWait(atOnce),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
	)
}

// read polls a client until enough has been read of some partitions.
func (v *Verifier) read(ctx context.Context, cl *kgo.Client, parts map[place]*part, enough func() bool, take func(*part, *kgo.Record)) error {
	last, told := time.Now(), time.Time{} // of this machine: how long it takes, whatever Config.Now says
	for !enough() {
		polling, cancel := context.WithTimeout(ctx, atOnce)
		fetches := cl.PollFetches(polling)
		cancel()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		came := false
		var trouble error
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			p := parts[place{f.Topic, f.Partition}]
			if p == nil {
				return
			}
			if err := v.sort(p, f.Err); err != nil {
				trouble = err
			}
			for _, r := range f.Records {
				if r.Offset < p.next {
					continue // read again after a failure
				}
				came = true
				p.pass(r, &v.deliveries)
				if !r.Attrs.IsControl() {
					take(p, r)
				}
			}
		})
		if trouble != nil {
			return trouble
		}
		if since := time.Since(last); came {
			last = time.Now()
		} else if since > quiet {
			if err := v.explain(ctx, parts, since); err != nil {
				return err
			}
		}
		if time.Since(told) > atOnce {
			told = time.Now()
			v.tellProgress()
		}
	}
	v.tellProgress()
	return nil
}

// sort looks at an error of a partition: nil where it mends itself.
func (v *Verifier) sort(p *part, err error) error {
	switch {
	case err == nil:
	case errors.Is(err, kerr.OffsetOutOfRange):
		v.outOfRange[p.place] = true
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("read %s/%d: %w", p.topic, p.partition, err)
	default:
		v.trouble[p.place] = err
	}
	return nil
}

// explain finds out why nothing comes: an open transaction, records that were removed, or nothing more to come.
func (v *Verifier) explain(ctx context.Context, parts map[place]*part, since time.Duration) error {
	var names []string
	for _, p := range parts {
		if !p.done() {
			names = append(names, p.topic)
		}
	}
	starts, err := list(v.adm.ListStartOffsets(ctx, names...))
	if err != nil {
		return err
	}
	stable, err := list(v.adm.ListCommittedOffsets(ctx, names...))
	if err != nil {
		return err
	}
	for _, p := range parts {
		switch {
		case p.done():
		case starts[p.place] > p.next:
			v.lose(p, starts[p.place])
		case v.outOfRange[p.place]:
			return fmt.Errorf("%s/%d is shorter than it was: it was made anew", p.topic, p.partition)
		case stable[p.place] >= p.goal && since > 2*quiet:
			p.next = p.goal // what lies there is neither a record nor a marker
		case stable[p.place] <= p.next && since > v.config.Patience:
			p.waits = true
		case since > silence:
			said := ""
			if err := v.trouble[p.place]; err != nil {
				said = ": " + err.Error()
			}
			return fmt.Errorf("%w for %v from %s/%d at offset %d of %d%s", ErrSilent, since.Round(time.Second), p.topic, p.partition, p.next, p.goal, said)
		}
	}
	return nil
}

// lose goes on where a log begins now: what lay below it was removed before it was read.
func (v *Verifier) lose(p *part, start int64) {
	delete(v.outOfRange, p.place)
	cl := v.arrivals
	if v.delays[p.place] == p {
		cl = v.requests
		p.start, p.next, p.from = start, start, start
		v.checker.Window(p.topic, p.partition, start, never)
	} else {
		p.start = start
		p.shrink(start)
	}
	cl.RemoveConsumePartitions(map[string][]int32{p.topic: {p.partition}})
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{p.topic: {p.partition: kgo.NewOffset().At(start)}})
}

// tellProgress counts what has been read of this pass.
func (v *Verifier) tellProgress() {
	var done, of int64
	for _, parts := range []map[place]*part{v.delays, v.arriving} {
		for _, p := range parts {
			if p.goal > p.begun {
				done += min(p.next, p.goal) - p.begun
				of += p.goal - p.begun
			}
		}
	}
	v.config.Progress(done, of)
}
