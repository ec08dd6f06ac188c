package group

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// lookAgain has it looked which topics the member may name.
func (s *Stay) lookAgain() {
	select {
	case s.refused <- struct{}{}:
	default:
	}
}

// nameShown has the member of a group of the consumer protocol leave topics out that its user may not describe, until it may: brokers refuse a member
// that names one (KIP-848), and nothing of the other topics would be delivered. In the classic protocol the members alone go by the names.
func (s *Stay) nameShown() {
	var out []string
	for {
		var again <-chan time.Time
		if len(out) > 0 {
			again = time.After(entrancePause)
		}
		select {
		case <-s.ended:
			return
		case <-s.refused:
		case <-again:
		}
		denied, err := s.denied()
		if err != nil || len(denied) == len(s.g.cfg.Topics) { // what is left is to wait
			continue
		}
		for _, topic := range s.g.cfg.Topics {
			switch was, is := slices.Contains(out, topic), slices.Contains(denied, topic); {
			case is && !was:
				s.g.cfg.Log.Warn("a delay topic is not shown to this user, and is not asked of the group until it is, which would take no member otherwise", "topic", topic)
				s.cl.PurgeTopicsFromConsuming(topic)
			case was && !is:
				s.g.cfg.Log.Info("a delay topic is asked of the group again", "topic", topic)
				s.cl.PauseFetchTopics(topic)
				s.cl.AddConsumeTopics(topic)
			}
		}
		out = denied
	}
}

// denied are the topics that the member's user may not describe.
func (s *Stay) denied() (topics []string, err error) {
	ctx, cancel := context.WithTimeout(s.cl.Context(), entrancePatience)
	defer cancel()
	var resp *kmsg.MetadataResponse
	if resp, err = kafka.MetadataOf(s.g.cfg.Topics).RequestWith(ctx, s.cl); err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		if t.Topic != nil && t.ErrorCode == kerr.TopicAuthorizationFailed.Code {
			topics = append(topics, *t.Topic)
		}
	}
	return topics, nil
}
