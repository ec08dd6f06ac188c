package clock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// Keeper asks brokers what time it is: when the process starts, once a minute, and whenever the
// wall clock steps. No request of Kafka's protocol asks for that, but a transaction coordinator
// notes when a transaction begins, and tells (KIP-664). So a transactional id that is there for
// nothing else begins an empty transaction, asks when that was, and aborts it. The answer lies
// between the moments at which the request to begin was sent and answered, so it is wrong by one
// round trip at most.
//
// Several brokers are asked, each by an id of which it is the coordinator, and the lower median of
// their answers counts: one wrong clock of three decides nothing, and of two the earlier one counts,
// because what is late can still be delivered, and what was early stays early.
type Keeper struct {
	clock   *Clock
	cl      *kgo.Client
	group   string
	ids     string        // what its transactional ids begin with
	timeout time.Duration // of its transactions
	log     *slog.Logger

	coordinators map[int32]string // an id for each broker that is asked; nil: to be looked up
	reached      time.Time        // since when brokers have answered anything
	wrong        bool             // the clock of this machine was, when it was last compared
	apart        []int32          // brokers whose clocks were
}

// NewKeeper makes what asks by a client for a clock. Its transactional ids are those of a group's process, and of no other (producer.Writer has the form); they
// never have a record in what they begin: a timeout that every broker grants will do.
func NewKeeper(c *Clock, cl *kgo.Client, group, instance string, timeout time.Duration, log *slog.Logger) *Keeper {
	return &Keeper{clock: c, cl: cl, group: group, ids: fmt.Sprintf("%s-clock@%s-", group, instance), timeout: timeout, log: log}
}

const (
	// AskInterval is how often brokers are asked.
	AskInterval = time.Minute
	// AskPause is the least time between two rounds of questions; it doubles as long as they fail.
	AskPause = time.Second
	// AskPatience bounds one round, and mostPatience those that follow some that have failed: brokers may be slow to answer.
	AskPatience  = 3 * time.Second
	mostPatience = 4 * AskPatience
	// SettleAfter is how long deliveries wait for brokers that answer, but not this.
	SettleAfter = 10 * time.Second
	// askBrokers is how many brokers are asked, and askIDs how many ids are tried to find one for
	// each: of three brokers, 16 ids leave one out in one process of 200.
	askBrokers = 3
	askIDs     = 16
)

// answer is what one broker says.
type answer struct {
	broker int32
	span
}

// Run asks until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	pause := AskPause
	for ctx.Err() == nil {
		wait := AskInterval
		if err := k.round(ctx, min(AskPatience+pause-AskPause, mostPatience)); err == nil {
			pause = AskPause
		} else {
			k.failed(ctx, err)
			wait, pause = pause, min(2*pause, AskInterval)
		}
		k.rest(ctx, wait)
	}
}

// rest waits until brokers are to be asked again: sooner when the wall clock steps, never at once.
func (k *Keeper) rest(ctx context.Context, pause time.Duration) {
	if !wait.For(ctx, AskPause) {
		return
	}
	t := time.NewTimer(pause - AskPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-k.clock.stepped:
	case <-ctx.Done():
	}
}

// failed says once that brokers' time is not to be had, when that is clear.
func (k *Keeper) failed(ctx context.Context, err error) {
	k.log.Debug("brokers have not said what time it is", "error", err)
	patient := k.reached.IsZero() || time.Since(k.reached) < SettleAfter // what cannot be reached takes no delivery either
	if ctx.Err() != nil || patient && !isNeverTold(err) {
		return
	}
	if k.clock.goWithout(err) {
		k.log.Warn("brokers do not say what time it is, so the clock of this machine cannot be compared with theirs", "error", err, "todo", k.todo(err))
	}
}

// todo is what a person has to do about it. A transaction names the group, so it takes the right to that, too.
func (k *Keeper) todo(err error) string {
	right := "Write and Describe on transactional ids that begin with " + k.group + "-"
	if errors.Is(err, kerr.GroupAuthorizationFailed) {
		right = "Read on the group " + k.group
	}
	return "allow " + right + ", and see to it that this machine keeps time"
}

// isNeverTold reports an error that brokers go on giving until a person has acted.
func isNeverTold(err error) bool {
	return kafka.IsAny(err, errNotTold, kerr.TransactionalIDAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.UnsupportedVersion, kerr.InvalidTransactionTimeout) || kafka.IsTooOld(err)
}

// round asks once, and tells the clock.
func (k *Keeper) round(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if k.coordinators == nil {
		if err := k.find(ctx); err != nil {
			return fmt.Errorf("look for transaction coordinators: %w", err)
		}
	}
	var mu sync.Mutex
	var answers []answer
	var errs []error
	var wg sync.WaitGroup
	for broker, id := range k.coordinators {
		wg.Go(func() {
			s, err := k.ask(ctx, broker, id)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				answers = append(answers, answer{broker, s})
			} else {
				errs = append(errs, fmt.Errorf("broker %d: %w", broker, err))
			}
		})
	}
	wg.Wait()
	if len(errs) > 0 {
		k.coordinators = nil // they may have moved
	}
	if len(answers) == 0 {
		return errors.Join(errs...)
	}
	k.settle(answers)
	return nil
}

// find looks for ids of which different brokers are the coordinators.
func (k *Keeper) find(ctx context.Context) error {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType = 1
	for i := range askIDs {
		req.CoordinatorKeys = append(req.CoordinatorKeys, fmt.Sprintf("%s%d", k.ids, i))
	}
	resp, err := req.RequestWith(ctx, k.cl)
	if err != nil {
		return err
	}
	if k.reached.IsZero() {
		k.reached = time.Now()
	}
	found := map[int32]string{}
	for _, c := range resp.Coordinators {
		switch {
		case c.ErrorCode != 0:
			err = kerr.ErrorForCode(c.ErrorCode)
		case len(found) < askBrokers && found[c.NodeID] == "":
			found[c.NodeID] = c.Key
		}
	}
	if len(found) == 0 {
		return cmp.Or(err, error(kerr.CoordinatorNotAvailable))
	}
	kafka.RefreshBrokers(ctx, k.cl) // for those that it has not heard of
	k.coordinators = found
	return nil
}

// ask asks one broker, which is the coordinator of id.
func (k *Keeper) ask(ctx context.Context, broker int32, id string) (span, error) {
	t := timeProbe{b: k.cl.Broker(int(broker)), id: id, group: k.group}
	if err := t.start(ctx, k.timeout); err != nil {
		return span{}, err
	}
	from, to, err := t.begin(ctx, k.clock.mono)
	if err != nil {
		return span{}, err
	}
	began, err := t.began(ctx)
	if err := t.abort(ctx); err != nil {
		k.log.Debug("a transaction that was begun for its time was not aborted", "id", id, "error", err)
	}
	if err != nil {
		return span{}, err
	}
	if took := to - from; took > k.clock.most {
		return span{}, fmt.Errorf("the answer took %v, which makes it worth no more than that", took)
	}
	return span{low: began - to, high: began + time.Millisecond - from, at: to}, nil
}

// settle draws from the answers of one round what time it is, and whose clocks are apart.
func (k *Keeper) settle(answers []answer) {
	counts := lowerMedian(answers)
	var clocks []Broker
	var apart []string
	var which []int32
	for _, a := range answers {
		by := a.middle() - counts.middle()
		clocks = append(clocks, Broker{Broker: a.broker, Skew: by})
		if by.Abs() > k.clock.most {
			which = append(which, a.broker)
			apart = append(apart, fmt.Sprintf("the clock of broker %d is %s", a.broker, offBy(by, fmt.Sprintf("that of broker %d", counts.broker))))
		}
	}
	k.clock.tell(counts.span, clocks, strings.Join(apart, "; "))
	if !slices.Equal(which, k.apart) {
		if k.apart = which; len(which) > 0 {
			k.log.Error("the brokers' clocks differ: set them right", "error", strings.Join(apart, "; "), "counts", counts.broker)
		} else {
			k.log.Info("the brokers' clocks agree again")
		}
	}
	p := k.clock.Picture()
	if wrong := p.Trouble != ""; wrong != k.wrong {
		if k.wrong = wrong; wrong {
			k.log.Error("the clock of this machine is wrong", "error", p.Trouble)
		} else {
			k.log.Info("the clock of this machine agrees with the brokers' again", "skew", p.Skew)
		}
	}
}

// lowerMedian is the answer that counts. It sorts them.
func lowerMedian(answers []answer) answer {
	slices.SortFunc(answers, func(a, b answer) int {
		return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(a.broker, b.broker))
	})
	return answers[(len(answers)-1)/2]
}
