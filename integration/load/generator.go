package load

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Generator makes requests. It belongs to one goroutine.
type Generator struct {
	config Config
	random *rand.Rand
	number int // of this generator
	made   int
	bad    int
	weight float64 // of all due times
	filler []byte  // what values are filled with; does not compress
}

// NewGenerator returns the generator of one producer of several, or says what is wrong with a configuration. Number sets it
// apart from the others.
func NewGenerator(c Config, number int) (*Generator, error) {
	c.fill()
	if err := c.validate(); err != nil {
		return nil, err
	}
	g := &Generator{config: c, number: number, random: rand.New(rand.NewPCG(c.Seed, uint64(number)))}
	for _, d := range c.Due {
		g.weight += d.Weight
	}
	g.filler = make([]byte, 2*max(c.ValueBytes, c.LargeBytes))
	for i := range g.filler {
		g.filler[i] = byte(g.random.Uint32())
	}
	return g, nil
}

// Next makes a request that is written now.
func (g *Generator) Next(now time.Time) (*kgo.Record, Bad) {
	g.made++
	r := &kgo.Record{Topic: pick(g, g.config.Topics), Timestamp: now.Truncate(time.Millisecond)}
	bad := Good
	if g.random.Float64() < g.config.Bad {
		bad = g.config.BadKinds[g.bad%len(g.config.BadKinds)]
		g.bad++
	}
	g.content(r, bad)
	due := g.due(r.Timestamp)
	if bad == TooFarAhead {
		due = now.Add(g.config.TooFar)
	}
	if g.config.IDs {
		add(r, "delay-id", fmt.Sprintf("id-%d-%d-%d", g.config.Seed, g.number, g.made))
	}
	// Headers of the request stand among those of the user, not always before them.
	if g.random.IntN(2) == 0 {
		g.ask(r, bad, due)
		g.headers(r)
	} else {
		g.headers(r)
		g.ask(r, bad, due)
	}
	return r, bad
}

func pick[T any](g *Generator, from []T) T { return from[g.random.IntN(len(from))] }

// content: values begin with what no other record has, so that no two are alike.
func (g *Generator) content(r *kgo.Record, bad Bad) {
	if g.config.Bare || g.random.IntN(50) > 0 {
		r.Key = strconv.AppendInt([]byte("key-"), int64(g.random.IntN(g.config.Keys)), 10)
	}
	size := g.config.ValueBytes
	switch {
	case bad == TooLarge:
		size = g.config.LargeBytes
	case !g.config.Bare && g.random.IntN(50) == 0:
		return
	}
	r.Value = make([]byte, 0, size)
	r.Value = strconv.AppendInt(r.Value, int64(g.number), 10)
	r.Value = strconv.AppendInt(append(r.Value, '-'), int64(g.made), 10)
	if fill := size - len(r.Value) - 1; fill > 0 {
		from := g.random.IntN(len(g.filler) - fill)
		r.Value = append(append(r.Value, ' '), g.filler[from:from+fill]...)
	}
}

// due chooses a due time of whole milliseconds.
func (g *Generator) due(now time.Time) time.Time {
	chosen, at := g.config.Due[len(g.config.Due)-1], g.random.Float64()*g.weight
	for _, d := range g.config.Due {
		if at -= d.Weight; at < 0 {
			chosen = d
			break
		}
	}
	if !chosen.At.IsZero() {
		return chosen.At
	}
	ahead := chosen.From
	if span := chosen.To - chosen.From; span > 0 {
		ahead += time.Duration(g.random.Int64N(int64(span)))
	}
	due := now.Add(ahead).Truncate(time.Millisecond)
	if grid := g.config.Grid; g.random.IntN(2) == 0 && grid > 0 {
		due = due.Add(grid - 1).Truncate(grid)
	}
	return due
}

// ask adds what a request asks for, or fails to.
func (g *Generator) ask(r *kgo.Record, bad Bad, due time.Time) {
	if bad == Good && !g.config.Plain && !g.config.Bare && len(g.config.Targets) > 0 && g.random.IntN(8) == 0 {
		g.askOtherwise(r, due)
		return
	}
	switch {
	case g.config.Plain || bad == NoDue:
	case bad == Unparsable:
		add(r, pick(g, []string{"delay-until", "delay-for"}), pick(g, []string{"soon", "5 minutes", "2026-13-01T00:00:00Z", "1h 30", "-"}))
	case bad == OutOfRange:
		add(r, "delay-until", pick(g, []string{"20454", "1", "99999999"}))
	default:
		g.askDue(r, due)
	}
	switch {
	case bad == NoTarget:
	case bad == NotAllowed:
		add(r, "delay-target-topic", g.config.Forbidden)
	case bad == UnknownTarget:
		add(r, "delay-target-topic", g.config.Unknown)
	case len(g.config.Targets) > 0:
		add(r, "delay-target-topic", pick(g, g.config.Targets))
	}
	if bad == UnsupportedHeader {
		add(r, pick(g, []string{"delay-every", "delay-cron", "delay-zone", "delay-untill", "Delay-Until"}), "7")
	}
	if g.config.Bare {
		return
	}
	if g.random.IntN(20) == 0 {
		add(r, "delay-target-key", fmt.Sprint("other-", g.random.IntN(g.config.Keys)))
	}
	if n := g.config.TargetPartitions; n > 0 && g.random.IntN(20) == 0 {
		add(r, "delay-target-partition", strconv.Itoa(g.random.IntN(n)))
	}
}

// askOtherwise asks by headers of another tool, and by nothing else: etf1's scheduler.
func (g *Generator) askOtherwise(r *kgo.Record, due time.Time) {
	add(r, "scheduler-epoch", fmt.Sprintf("%d.%03d", due.Unix(), due.UnixMilli()%1000))
	add(r, "scheduler-target-topic", pick(g, g.config.Targets))
	if g.random.IntN(20) == 0 {
		add(r, "scheduler-target-key", fmt.Sprint("other-", g.random.IntN(g.config.Keys)))
	}
}

// askDue says the same due time in one of several ways.
func (g *Generator) askDue(r *kgo.Record, due time.Time) {
	form := 0
	if !g.config.Bare {
		form = g.random.IntN(10)
	}
	wait := due.Sub(r.Timestamp)
	switch form {
	case 1:
		add(r, "delay-until", due.UTC().Format(time.RFC3339Nano))
	case 2:
		add(r, "delay-for", strconv.FormatInt(wait.Milliseconds(), 10))
	case 3:
		add(r, "delay-for", wait.String())
	case 5:
		add(r, "delay-until", strconv.Quote(due.UTC().Format("2006-01-02T15:04:05.999999999Z07:00")))
	case 6:
		add(r, "delay-until", due.In(time.FixedZone("", 19800)).Format("2006-01-02T15:04:05.000-0700"))
	case 7:
		add(r, "delay-until", string(big.NewInt(due.UnixMilli()).Bytes())) // as Java's BigInteger, so Spring
	case 8:
		wait := max(wait, 0)
		add(r, "delay-for", fmt.Sprintf("%d:%02d:%06.3f", int(wait.Hours()), int(wait.Minutes())%60, (wait%time.Minute).Seconds()))
	case 9:
		add(r, "delay-for", strconv.FormatInt(wait.Milliseconds(), 10)+" ms")
	case 4: // delay-until wins
		add(r, "delay-for", "1h")
		fallthrough
	default:
		add(r, "delay-until", strconv.FormatInt(due.UnixMilli(), 10))
	}
}

// headers adds headers of the user.
func (g *Generator) headers(r *kgo.Record) {
	if g.config.Bare {
		return
	}
	for range g.random.IntN(g.config.Headers + 1) {
		h := kgo.RecordHeader{Key: pick(g, []string{"trace", "h", "X-Delay-Until", "ce_expirytime", "scheduler-target-partition", "__connect.errors.topic"})}
		switch g.random.IntN(10) {
		case 0:
		case 1:
			h.Value = []byte{}
		default:
			h.Value = strconv.AppendInt(nil, g.random.Int64(), 36)
		}
		r.Headers = append(r.Headers, h)
	}
}

func add(r *kgo.Record, name, value string) {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
}
