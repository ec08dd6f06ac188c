package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/setting"
)

// asks is every case of Ask, in the order in which they run.
var asks = []benchCase{
	{"cancels", cancels},
	{"retry", retrying},
	{"retry-dlq", retryingDLQ},
	{"ids", ids},
	{"ids-pending", pendingIDs},
	{"audit", audit},
}

// AskCases names every case of Ask in the order in which they run.
func AskCases() []string { return namesOf(asks) }

// askRecords is how many records a case of Ask has that goes as fast as it can.
const askRecords = 500_000

// Ask measures what requests may ask for besides a delay: that they are cancelled, delivered again when a consumer has failed, known by an
// id, and told of in an audit topic. Like Run it makes topics and groups of its own and deletes them, and like Run it has every record judged.
func Ask(ctx context.Context, o Options) ([]Result, error) {
	o.Records = cmp.Or(o.Records, askRecords)
	return runAll(ctx, o.withDefaults(), asks)
}

// ids measures what it costs that each record has an id.
func ids(ctx context.Context, r *runner) ([]Result, error) {
	return versus(ctx, r, "ids", "a delay-id of 20 bytes, all distinct", 1, func(s *stage) error {
		s.ids = true
		return nil
	})
}

// idOf is an id of 20 bytes.
func idOf(st stamp) []byte { return fmt.Appendf(nil, "order-%d-%012d", st.mark, st.index) }

// auditWarmUps is how many rounds it takes until a fresh broker is not faster with each: some four million records of an audit topic.
const auditWarmUps = 8

// audit measures what it costs that what becomes of each record is told.
func audit(ctx context.Context, r *runner) ([]Result, error) {
	return versus(ctx, r, "audit", "audit.topic (all are due soon, so the outcome of each is what is told)", auditWarmUps, func(s *stage) error {
		topic := s.name + ".audit"
		if err := r.newTopic(ctx, topic, r.o.Partitions); err != nil {
			return err
		}
		at := slices.IndexFunc(settings, func(s setting.Setting) bool { return s.Key == "audit.topic" })
		if at < 0 {
			return errors.New("this release has no audit.topic")
		}
		s.change = func(c *processor.Config) {
			if err := settings[at].Set(c, 0, topic); err != nil {
				panic("bench: BUG: " + err.Error())
			}
		}
		return nil
	})
}

var settings = setting.Of[processor.Config]()

// versus compares the throughput of records that have something with that of records that do not. Both run in each round, and take turns
// to be the first: a machine may get slower meanwhile. The first rounds are for warm-up: a broker compiles what it has not done before while it does it, on the
// same CPUs, and what only one of the two asks of it would pay for that.
func versus(ctx context.Context, r *runner, name, what string, warmUps int, with func(*stage) error) ([]Result, error) {
	var ratios, rates, plain []float64
	var checked string
	for round := range warmUps + r.o.Rounds {
		var took [2]time.Duration // without, with
		for i := range took {
			which := (round + i) % 2
			s, err := r.newStage(ctx, name, 1, r.o.Partitions)
			if err == nil && which == 1 {
				err = with(s)
			}
			if err != nil {
				return nil, err
			}
			p, says, err := passNear(ctx, s)
			if err != nil {
				return nil, err
			}
			took[which], checked = p.total, says
			r.progress("%s: %s: %s %s/s", name, roundName(max(round-warmUps+1, 0)), []string{"without", "with"}[which], thousands(int64(r.perSecond(p.total))))
			if err := r.clean(ctx, 0); err != nil {
				return nil, err
			}
		}
		if round < warmUps {
			continue
		}
		ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
		plain, rates = append(plain, r.perSecond(took[0])), append(rates, r.perSecond(took[1]))
	}
	f := Figures{"ratio": median(ratios), "ratio_max": most(ratios), "records_per_s": median(rates), "without_per_s": median(plain)}
	return []Result{{
		Case: name,
		What: fmt.Sprintf("%s records of 100 B as in the case throughput, with %s and without, the one after the other in each round: how many times as long they take with it. exactly_once, defaults. Medians of %d rounds after %d for warm-up.",
			thousands(int64(r.o.Records)), what, r.o.Rounds, warmUps),
		Measured: fmt.Sprintf("%.2f times as long (worst round %.2f): %s/s, without %s/s", f["ratio"], f["ratio_max"], thousands(int64(f["records_per_s"])), thousands(int64(f["without_per_s"]))),
		Figures:  f, Checked: checked,
	}}, nil
}

func (r *runner) perSecond(took time.Duration) float64 { return float64(r.o.Records) / took.Seconds() }
