package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// atOnce is how long a poll may wait for records.
	atOnce = 250 * time.Millisecond
	// quiet is how long nothing may come before it is asked why.
	quiet = 2 * time.Second
	// metadataAge is how old what a client knows of topics may be: a pass must not take one that was made anew for the one that it was.
	metadataAge = 100 * time.Millisecond
	// silence is how long nothing may come although there is something to come.
	silence = 30 * time.Second
)

// readOpts are those of a client that reads partitions that are added one by one.
func readOpts(opts []kgo.Opt) []kgo.Opt {
	return append(opts[:len(opts):len(opts)],
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),       // so that a log that ends in a marker is seen to its end
		kgo.KeepRetryableFetchErrors(), // so that what cannot be read is not taken for what a log does not have
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(8<<20),
		kgo.FetchMaxPartitionBytes(2<<20),
		kgo.FetchMaxWait(atOnce),
		kgo.MetadataMinAge(metadataAge),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
	)
}

// reader reads partitions that are added one by one, each up to its goal.
type reader struct {
	cl         *kgo.Client
	adm        *kadm.Client
	patience   time.Duration // Config.Patience
	deliveries *deliveries
	progress   func() // called several times a second

	parts map[place]*part
	take  func(*part, *kgo.Record)
	cut   func(p *part, start int64) // what lay below start was removed before it was read

	answers    *answered // of cl
	outOfRange map[place]bool
	trouble    map[place]trouble
	stable     map[place]time.Time // since when no transaction keeps back what is read
	barred     map[string]bool     // topics that may be described, and not be read; nil: such a one is an error
}

// trouble is the last error of a partition.
type trouble struct {
	error
	at time.Time
}

// of is a reader of other partitions, with a client of its own.
func (r reader) of(cl *kgo.Client, answers *answered, parts map[place]*part, take func(*part, *kgo.Record), cut func(*part, int64)) *reader {
	r.cl, r.answers, r.parts, r.take, r.cut = cl, answers, parts, take, cut
	r.outOfRange, r.trouble = make(map[place]bool), make(map[place]trouble)
	return &r
}

// close ends the client. It gives up all topics first: what has been added just now would begin to be read while fetch sessions are ended.
func (r *reader) close() {
	r.cl.PurgeTopicsFromConsuming(r.cl.GetConsumeTopics()...)
	r.cl.Close()
}

// add begins to read partitions, each from its next offset on.
func (r *reader) add(fresh []*part) {
	added, resume := make(map[string]map[int32]kgo.Offset), make(map[string][]int32)
	for _, p := range fresh {
		r.parts[p.place], p.rests = p, false
		resume[p.topic] = append(resume[p.topic], p.partition) // one of that name may rest that was forgotten
		if added[p.topic] == nil {
			added[p.topic] = make(map[int32]kgo.Offset)
		}
		added[p.topic][p.partition] = kgo.NewOffset().At(p.next)
	}
	r.cl.AddConsumePartitions(added)
	if len(resume) > 0 {
		r.cl.ResumeFetchPartitions(resume)
	}
}

// rest reads no more of what has been read to its goal, until that has another one: what is written there all the time would hide that nothing comes of the others,
// and keep brokers busy.
func (r *reader) rest() {
	pause, resume := make(map[string][]int32), make(map[string][]int32)
	for _, p := range r.parts {
		switch done := p.done(); {
		case done && !p.rests:
			pause[p.topic] = append(pause[p.topic], p.partition)
		case !done && p.rests:
			resume[p.topic] = append(resume[p.topic], p.partition)
		default:
			continue
		}
		p.rests = !p.rests
	}
	if len(pause) > 0 { // else kgo tells what is paused, which costs as much
		r.cl.PauseFetchPartitions(pause)
	}
	if len(resume) > 0 {
		r.cl.ResumeFetchPartitions(resume)
	}
}

// every tells whether all partitions are as asked.
func (r *reader) every(is func(*part) bool) bool {
	for _, p := range r.parts {
		if !is(p) {
			return false
		}
	}
	return true
}

func (r *reader) allDone() bool { return r.every((*part).done) }

// read polls until enough has been read.
func (r *reader) read(ctx context.Context, enough func() bool) error {
	r.stable = make(map[place]time.Time)
	last, told := time.Now(), time.Time{} // of this machine: how long it takes, whatever Config.Now says
	for !enough() {
		r.rest()
		polling, cancel := context.WithTimeout(ctx, atOnce)
		fetches := r.cl.PollFetches(polling)
		cancel()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		came, inVain := false, false
		var failed error
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			p := r.parts[place{f.Topic, f.Partition}]
			if p == nil {
				return
			}
			if err := r.sort(p, f.Err); err != nil {
				failed = err
			}
			inVain = inVain || f.Err != nil
			for _, rec := range f.Records {
				if rec.Offset < p.next {
					continue // read again after a failure
				}
				came = true
				p.pass(rec, r.deliveries)
				if !rec.Attrs.IsControl() {
					r.take(p, rec)
				}
			}
		})
		if failed != nil {
			return failed
		}
		r.leaveBarred()
		if since := time.Since(last); came {
			last = time.Now()
		} else if since > quiet {
			if err := r.explain(ctx, last); err != nil {
				return err
			}
		}
		if inVain && !came { // else it would be asked again at once
			select {
			case <-ctx.Done():
			case <-time.After(atOnce):
			}
		}
		if time.Since(told) > atOnce {
			told = time.Now()
			r.progress()
		}
	}
	r.progress()
	return nil
}

// sort looks at an error of a partition: nil where it mends itself.
func (r *reader) sort(p *part, err error) error {
	switch {
	case err == nil:
	case errors.Is(err, kerr.OffsetOutOfRange):
		r.outOfRange[p.place] = true
	case errors.Is(err, kerr.TopicAuthorizationFailed) && r.barred != nil:
		r.barred[p.topic] = true
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return denied(fmt.Errorf("read %s/%d: %w", p.topic, p.partition, err), p.topic, "")
	case errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("read %s/%d: %w", p.topic, p.partition, err)
	default:
		r.trouble[p.place] = trouble{err, time.Now()}
	}
	return nil
}

// leaveBarred reads no more of topics that may not be read.
func (r *reader) leaveBarred() {
	left := make(map[string][]int32)
	for at := range r.parts {
		if r.barred[at.topic] {
			delete(r.parts, at)
			left[at.topic] = append(left[at.topic], at.partition)
		}
	}
	if len(left) > 0 {
		r.cl.RemoveConsumePartitions(left)
	}
}

// forget reads no more of a topic that is not the one that it was.
func (r *reader) forget(topic string) {
	before := len(r.parts)
	maps.DeleteFunc(r.parts, func(at place, _ *part) bool { return at.topic == topic })
	if len(r.parts) < before {
		r.cl.PurgeTopicsFromConsuming(topic)
	}
}

// explain finds out why nothing has come since the last records did: an open transaction, records that were removed, or nothing more to come.
func (r *reader) explain(ctx context.Context, last time.Time) error {
	since := time.Since(last)
	var names []string
	for _, p := range r.parts {
		if !p.done() {
			names = append(names, p.topic)
		}
	}
	starts, err := list(ctx, r.adm.ListStartOffsets, names...)
	if err != nil {
		return err
	}
	stable, err := list(ctx, r.adm.ListCommittedOffsets, names...)
	if err != nil {
		return err
	}
	for _, p := range r.parts {
		if stable[p.place] < p.goal {
			delete(r.stable, p.place)
		} else if r.stable[p.place].IsZero() {
			r.stable[p.place] = time.Now()
		} else if r.stable[p.place].Before(last) {
			r.stable[p.place] = last // an answer with records tells nothing of what lies behind those
		}
		switch {
		case p.done():
		case starts[p.place] > p.next:
			r.lose(p, starts[p.place])
		case r.outOfRange[p.place]:
			return fmt.Errorf("%s/%d is shorter than it was: it was made anew", p.topic, p.partition)
		case time.Since(r.trouble[p.place].at) <= quiet:
			if since > silence {
				return r.silent(p, since)
			}
		case stable[p.place] >= p.goal && since > 2*quiet && time.Since(r.stable[p.place]) > quiet && r.answers.since(r.stable[p.place], r.leader(p)):
			p.next = p.goal // what lies there is neither a record nor a marker, nor has a transaction ended just now that had kept it back
		case stable[p.place] <= p.next && since > r.patience:
			p.waits = true
		case since > silence:
			return r.silent(p, since)
		}
	}
	return nil
}

// silent says that nothing has come of a partition for some time, and the last error of it, if any.
func (r *reader) silent(p *part, since time.Duration) error {
	said := ""
	if why := r.trouble[p.place]; why.error != nil {
		said = ": " + why.Error()
	}
	return fmt.Errorf("%w for %v from %s/%d at offset %d of %d%s", ErrSilent, since.Round(time.Second), p.topic, p.partition, p.next, p.goal, said)
}

// leader is the broker that leads a partition; -1 where that is not known.
func (r *reader) leader(p *part) int32 {
	leader, _, err := r.cl.PartitionLeader(p.topic, p.partition)
	if err != nil {
		return -1
	}
	return leader
}

// lose goes on where a log begins now.
func (r *reader) lose(p *part, start int64) {
	delete(r.outOfRange, p.place)
	r.cut(p, start)
	r.cl.RemoveConsumePartitions(map[string][]int32{p.topic: {p.partition}})
	r.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{p.topic: {p.partition: kgo.NewOffset().At(start)}})
}
