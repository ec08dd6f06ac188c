package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Sample is what was seen of a soak at one moment. Sizes are in bytes.
type Sample struct {
	At        float64                  `json:"at_s"` // seconds since the first
	Resident  int64                    `json:"resident"`
	Heap      int64                    `json:"heap"`    // what is in use, by the Go runtime
	Disk      int64                    `json:"disk"`    // of the files in the state directory
	Weight    int64                    `json:"weight"`  // of the pending records
	Seen      int64                    `json:"seen"`    // delivered records, by a read_committed consumer
	P50       float64                  `json:"p50_ms"`  // lateness of those that were seen since the sample before; 0: none were
	P99       float64                  `json:"p99_ms"`  //
	Topics    [soakTopics]SampledTopic `json:"topics"`  // far, kept, mixed
	CountedAt time.Time                `json:"counted"` // by the process: heap, and what is pending
}

// SampledTopic is a delay topic in a Sample, in records or offsets of all its partitions.
type SampledTopic struct {
	Pending int64 `json:"pending"`
	Carried int64 `json:"carried"` // copies so far, but for those of the second before a kill
	Open    int64 `json:"open"`    // O - L
	Start   int64 `json:"start"`   // of the log
	End     int64 `json:"end"`
}

// Log is how long the log is.
func (t SampledTopic) Log() int64 { return t.End - t.Start }

func (s Sample) pending() int64 { return s.sum(func(t SampledTopic) int64 { return t.Pending }) }
func (s Sample) carried() int64 { return s.sum(func(t SampledTopic) int64 { return t.Carried }) }
func (s Sample) log() int64     { return s.sum(SampledTopic.Log) }

func (s Sample) sum(of func(SampledTopic) int64) int64 { return total(s.Topics[:], of) }

func (s Sample) String() string {
	return fmt.Sprintf("%d MiB resident, %d MiB heap, %d MiB disk, %s pending, log %s, %s carried, p50 %.1f ms, p99 %.1f ms",
		s.Resident/mib, s.Heap/mib, s.Disk/mib, thousands(s.pending()), thousands(s.log()), thousands(s.carried()), s.P50, s.P99)
}

// sampleSoak is how often a soak is looked at.
const sampleSoak = time.Second

// sampler looks at a soak on a goroutine of its own.
type sampler struct {
	k     *soak
	began time.Time
	stop  context.CancelFunc
	done  chan struct{} // closed when it has ended
	seen  int           // of the observer, as of the last sample
	err   error         // the last; set before done is closed

	of      *replica          // that was sampled last
	carried [soakTopics]int64 // by it, as of then
	before  [soakTopics]int64 // by those before it

	mu      sync.Mutex
	samples []Sample
}

// sample begins to sample, until ctx ends or end is called.
func (k *soak) sample(ctx context.Context) *sampler {
	p := &sampler{k: k, began: time.Now(), done: make(chan struct{})}
	ctx, p.stop = context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		for tick := p.began; sleepUntil(ctx, tick) == nil; tick = tick.Add(sampleSoak) {
			if late := time.Since(tick); late > sampleSoak {
				tick = tick.Add(late) // what was missed is not made up for
			}
			if s, err := p.look(ctx); err == nil {
				p.mu.Lock()
				p.samples = append(p.samples, s)
				p.mu.Unlock()
			} else if ctx.Err() == nil {
				p.err = err
			}
		}
	}()
	return p
}

// end ends it and returns what it has seen. It may be called again.
func (p *sampler) end() []Sample {
	p.stop()
	<-p.done
	return p.samples
}

// last is the newest sample, if there is one.
func (p *sampler) last() (Sample, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.samples) == 0 {
		return Sample{}, false
	}
	return p.samples[len(p.samples)-1], true
}

func (p *sampler) look(ctx context.Context) (s Sample, err error) {
	running := p.k.f.running()
	if len(running) == 0 {
		return s, errors.New("no replica runs")
	}
	replica := running[0]
	for _, list := range []struct {
		ask func(context.Context, ...string) (kadm.ListedOffsets, error)
		to  func(*SampledTopic) *int64
	}{
		{p.k.r.adm.ListStartOffsets, func(t *SampledTopic) *int64 { return &t.Start }},
		{p.k.r.adm.ListEndOffsets, func(t *SampledTopic) *int64 { return &t.End }},
	} {
		listed, err := list.ask(ctx, p.k.delays...)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return s, err
		}
		for i, topic := range p.k.delays {
			for _, at := range listed[topic] {
				*list.to(&s.Topics[i]) += at.Offset
			}
		}
	}
	c := p.k.f.countsOf(replica)
	if all := int64(p.k.partitions); c.Live < all {
		return s, fmt.Errorf("%d of %d partitions are live", c.Live, all)
	}
	if p.of != replica {
		for i, n := range p.carried {
			p.before[i] += n
		}
		p.of = replica
	}
	for i, topic := range p.k.delays {
		of := c.Topics[topic]
		p.carried[i] = of.Carried
		s.Topics[i].Pending, s.Topics[i].Carried, s.Topics[i].Open = of.Pending, p.before[i]+of.Carried, of.Open
		s.Weight += of.Bytes
	}
	s.CountedAt, s.Heap = c.At, c.Heap
	s.Resident, s.Disk = residentOf(replica.Pid()), sizeOf(replica.Order.StateDir)
	late := p.k.o.lateFrom(p.seen)
	if p.seen += len(late); len(late) > 0 {
		l := summarize(late)
		s.P50, s.P99 = ms(l.p50), ms(l.p99)
	}
	s.Seen, s.At = int64(p.seen), time.Since(p.began).Seconds()
	return s, nil
}

// residentOf is what a process has in memory, in bytes; 0: this system does not tell.
func residentOf(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// cpuOfProcess is what time a process has taken on the CPU, in steps of 10 ms; 0: this system does not tell.
func cpuOfProcess(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third on
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// sizeOf is how large the files below a directory are. What goes away meanwhile is not counted.
func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}
