package group

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/kafka"
)

// A member that joins anew has not given up what it had in the stay before: that was free when the stay ended, and is for the one who has it warm.
func TestStaysHaveBalancersOfTheirOwn(t *testing.T) {
	g := New(Config{
		Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Group: "g", Topics: []string{testTopic}, Protocol: Classic, ClientID: "me",
		Balancer: func() kgo.GroupBalancer {
			return assignor.New(assignor.Says{
				Replica: "me", Address: func() string { return "" }, Standbys: 1,
				Holds: func() map[assignor.Stored]int64 { return nil }, Alone: func() []kafka.TopicPartition { return nil },
			})
		},
		SessionTimeout: 9 * time.Second, HeartbeatInterval: 700 * time.Millisecond, RebalanceTimeout: 11 * time.Second,
		Until: context.Background(), Log: slog.New(slog.DiscardHandler),
	}, &Standing{})
	// says is what the member says when it joins last in a stay, of which it is given what it has at each join.
	says := func(has ...map[string][]int32) (said []byte) {
		t.Helper()
		s, err := g.Join()
		if err != nil {
			t.Fatal(err)
		}
		for generation, current := range has {
			said = s.cl.OptValue(kgo.Balancers).([]kgo.GroupBalancer)[0].JoinGroupMetadata([]string{testTopic}, current, int32(generation))
		}
		s.Leave()
		<-s.Left()
		return said
	}
	gaveUp := []byte("gave_up")
	if said := says(map[string][]int32{testTopic: {0, 1}}, map[string][]int32{testTopic: {0}}); !bytes.Contains(said, gaveUp) {
		t.Errorf("it has given one up and says %q", said)
	}
	if said := says(nil); bytes.Contains(said, gaveUp) {
		t.Errorf("it has had nothing in this stay and says %q", said)
	}
	g.Wait()
}
