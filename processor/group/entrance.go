package group

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// Entrance looks what keeps members out of their group as long as the group itself has not refused them.
// The clients that try to get in say little: they go on trying, and what they met on the way is lost
// when time is up. So here every broker that is configured is asked once, without repetition, for what
// a member needs first: an answer, the delay topics, the group's coordinator. And while all are in, it
// looks whether brokers still show the topics: a member that is not shown one asks for none of its
// partitions, and nothing else would tell, since what has no partitions has no trouble.
type Entrance struct {
	group  string
	topics []string
	waits  func() bool
	log    *slog.Logger
	why    atomic.Pointer[string]           // nil: nothing is known of it
	hidden atomic.Pointer[map[string]error] // the delay topics that brokers do not show, and why

	said string // of Run: what was logged last
}

// NewEntrance makes one for the members of this process. waits reports whether one of them is not in the group, which has not said why.
func NewEntrance(group string, topics []string, waits func() bool, log *slog.Logger) *Entrance {
	return &Entrance{group: group, topics: topics, waits: waits, log: log}
}

// Why is why no member can get into the group; empty: nothing is known of it.
func (e *Entrance) Why() string {
	if why := e.why.Load(); why != nil {
		return *why
	}
	return ""
}

// Hidden is why brokers do not show a delay topic, as they were asked last; nil: they do, or it is not known.
func (e *Entrance) Hidden(topic string) error {
	if hidden := e.hidden.Load(); hidden != nil {
		return (*hidden)[topic]
	}
	return nil
}

const (
	// entranceFirst is how long a member may take to get in before anything is asked.
	entranceFirst = time.Second
	// entrancePause is the time between two looks.
	entrancePause = 5 * time.Second
	// hiddenPause is the time between two looks for topics that are not shown.
	hiddenPause = 10 * time.Second
	// entrancePatience is how long one broker may take to answer.
	entrancePatience = 2 * time.Second
	// coordinatorPatience is how long a cluster takes to make __consumer_offsets for its first group, or to find another coordinator when it has lost
	// a broker. Until then it is no error to have none.
	coordinatorPatience = 15 * time.Second
)

// Run looks until ctx ends.
func (e *Entrance) Run(ctx context.Context, cl *kgo.Client) {
	var waited, within time.Duration
	for pause := entranceFirst; wait.For(ctx, pause); {
		waited, within = waited+pause, within+pause
		if pause = entranceFirst; !e.waits() {
			if within >= hiddenPause {
				e.lookForHidden(ctx, cl)
				within = 0
			}
			e.why.Store(nil)
			e.said, waited = "", 0
			continue
		}
		pause = entrancePause
		err := e.examine(ctx, cl)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			e.why.Store(nil)
			continue
		}
		why := err.Error()
		e.why.Store(&why)
		e.tell(err, waited)
	}
}

// lookForHidden asks which topics brokers do not show, and logs what is news of that.
func (e *Entrance) lookForHidden(ctx context.Context, cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, entrancePatience)
	defer cancel()
	resp, err := kafka.MetadataOf(e.topics).RequestWith(ctx, cl)
	if err != nil {
		return // others tell
	}
	hidden := map[string]error{}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		why, before := notShown(*t.Topic, kerr.ErrorForCode(t.ErrorCode)), e.Hidden(*t.Topic)
		switch {
		case why != nil:
			hidden[*t.Topic] = why
			if before == nil {
				e.log.Warn("a delay topic is not shown to this user; a replica that is shown none of it gets none of its partitions when the group shares them out", "topic", *t.Topic, "error", why)
			}
		case before != nil:
			e.log.Info("a delay topic is shown again", "topic", *t.Topic)
		}
	}
	e.hidden.Store(&hidden)
}

// tell logs what keeps members away, once.
func (e *Entrance) tell(err error, waited time.Duration) {
	why := err.Error()
	level, message, key := slog.LevelError, "cannot get into the group; trying again", "error"
	if errors.Unwrap(err) == error(kerr.CoordinatorNotAvailable) && waited < coordinatorPatience { // and that alone
		level, message, key = slog.LevelInfo, "waiting for a coordinator of the group, as the first group of a cluster does for some seconds", "answer"
	}
	if said := level.String() + why; said != e.said {
		e.log.Log(context.Background(), level, message, key, err)
		e.said = said
	}
}

// examine asks the brokers in turn until one answers, and returns what is wrong by that.
func (e *Entrance) examine(ctx context.Context, cl *kgo.Client) error {
	names, _ := cl.OptValue(kgo.SeedBrokers).([]string)
	var errs []error
	for i, b := range cl.SeedBrokers() {
		resp, err := ask[*kmsg.MetadataResponse](ctx, b, kafka.MetadataOf(e.topics))
		if err == nil {
			missing, none := e.missing(resp), e.askForGroup(ctx, b)
			if missing == nil {
				return none
			}
			return errors.Join(missing, none)
		}
		if i < len(names) {
			err = fmt.Errorf("broker %s: %w", names[i], explainBroker(err))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (e *Entrance) missing(resp *kmsg.MetadataResponse) error {
	var errs []error
	for _, t := range resp.Topics {
		name := ""
		if t.Topic != nil {
			name = *t.Topic
		}
		if err := notShown(name, kerr.ErrorForCode(t.ErrorCode)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// notShown says what is wrong with a delay topic by what brokers say of it; nil: nothing.
func notShown(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("delay topic %s does not exist, or may not be described: `duewheel topics create` makes it: %w", name, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("not allowed to describe delay topic %s: %w", name, err)
	}
	return fmt.Errorf("delay topic %s: %w", name, err)
}

func (e *Entrance) askForGroup(ctx context.Context, b *kgo.Broker) error {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = e.group, []string{e.group}
	resp, err := ask[*kmsg.FindCoordinatorResponse](ctx, b, req)
	if err == nil {
		_, err = kafka.CoordinatorIn(resp)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("not allowed to read group %s: %w", e.group, err)
	}
	return fmt.Errorf("group %s has no coordinator: %w", e.group, err)
}

// ask sends a request to one broker, once.
func ask[R kmsg.Response](ctx context.Context, b *kgo.Broker, req kmsg.Request) (resp R, err error) {
	ctx, cancel := context.WithTimeout(ctx, entrancePatience)
	defer cancel()
	got, err := kafka.Ask(ctx, b, req)
	if err != nil {
		return resp, err
	}
	return got.(R), nil
}

// explainBroker says what a person can do about a broker that does not answer.
func explainBroker(err error) error {
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("it does not answer within %v; kafka.tls must be what its listener expects: %w", entrancePatience, err)
	case kafka.IsAny(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("it refuses kafka.sasl.username or kafka.sasl.password: %w", err)
	case kafka.IsAny(err, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState):
		return fmt.Errorf("its listener does not take kafka.sasl.mechanism: %w", err)
	case errors.As(err, &record):
		return fmt.Errorf("its listener does not speak TLS; kafka.tls must be what it expects: %w", err)
	case errors.As(err, &alert), errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &host):
		return fmt.Errorf("look at kafka.tls: %w", err)
	}
	if _, ok := errors.AsType[*kgo.ErrFirstReadEOF](err); ok || errors.Is(err, io.EOF) {
		return fmt.Errorf("it hangs up; kafka.tls and kafka.sasl must be what its listener expects: %w", err)
	}
	return err
}
