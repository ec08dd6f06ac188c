package verify

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// While partitions change their leaders, brokers do not say for a moment where logs begin and end: that is no reason to give up.
func TestLeadersChange(t *testing.T) {
	for _, why := range []*kerr.Error{kerr.OffsetNotAvailable, kerr.NotLeaderForPartition} {
		t.Run(why.Message, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.many(0, 3)
			s.resolve("delays", 0, 3, 60, 3)
			s.config.From, s.config.To = s.at(0), s.at(50) // times are asked for, too
			refused := make(map[int64]int)                 // how often what is asked for was
			s.fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
				s.fake.KeepControl()
				asked := req.(*kmsg.ListOffsetsRequest).Topics
				what := asked[0].Partitions[0].Timestamp
				if refused[what]++; refused[what] > 2 {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
				for _, topic := range asked {
					answer := kmsg.NewListOffsetsResponseTopic()
					answer.Topic = topic.Topic
					for _, p := range topic.Partitions {
						one := kmsg.NewListOffsetsResponseTopicPartition()
						one.Partition, one.ErrorCode = p.Partition, why.Code
						answer.Partitions = append(answer.Partitions, one)
					}
					resp.Topics = append(resp.Topics, answer)
				}
				return resp, nil, true
			})
			r, err := s.verifier().Pass(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if s.expect(r, nil, "all is well"); r.Counts.Delivered != 3 || len(r.Blind) > 0 {
				t.Errorf("%+v, %q", r.Counts, r.Blind)
			}
		})
	}
}
