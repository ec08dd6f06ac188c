package assignor

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/processor/kafka"
)

const testTopic = "requests"

var testID = kafka.TopicID{1, 2, 3, 4, 5}

// crew is a group whose leader is asked to share out the partitions of one topic.
type crew struct {
	partitions int32
	topic      kgo.TopicMetadata // what brokers say; zero: nothing
	standbys   int
	members    map[string]*seat
	generation int32
}

// seat is one member.
type seat struct {
	balancer *Assignor
	has      []int32
	alone    []int32 // of these, what no other replica could deliver
	holds    map[kafka.TopicPartition]int64
}

func (c *crew) add(id, replica string, holds map[kafka.TopicPartition]int64, has ...int32) {
	s := &seat{has: has, holds: holds}
	s.balancer = New(Says{replica, nowhere, c.standbys, func() map[Stored]int64 { return ofTestTopic(s.holds) }, s.holdsAlone})
	if c.members == nil {
		c.members = map[string]*seat{}
	}
	c.members[id] = s
	s.balancer.JoinGroupMetadata([]string{testTopic}, map[string][]int32{testTopic: slices.Clone(has)}, c.generation)
}

func (s *seat) holdsAlone() (tps []kafka.TopicPartition) {
	for _, p := range s.alone {
		tps = append(tps, kafka.TopicPartition{Topic: testTopic, Partition: p})
	}
	return tps
}

// round is one rebalance; it reports whether a member has to give something up for the next.
func (c *crew) round(t fataler) (again bool) {
	var joined []kmsg.JoinGroupResponseMember
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID = id
		m.ProtocolMetadata = c.members[id].balancer.JoinGroupMetadata([]string{testTopic}, map[string][]int32{testTopic: slices.Clone(c.members[id].has)}, c.generation)
		joined = append(joined, m)
	}
	b, _, err := c.members[joined[0].MemberID].balancer.MemberBalancer(joined)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if c.topic.Topic != "" {
		b.(kgo.GroupMemberBalancerInfo).SetBalanceInfo(kgo.BalanceInfo{Topics: func() map[string]kgo.TopicMetadata { return map[string]kgo.TopicMetadata{testTopic: c.topic} }})
	}
	into, err := b.(kgo.GroupMemberBalancerOrError).BalanceOrError(map[string]int32{testTopic: c.partitions})
	if err != nil {
		t.Fatalf("%v", err)
	}
	c.generation++
	gets := map[*seat][]int32{}
	for _, a := range into.IntoSyncAssignment() {
		got, err := kgo.ParseConsumerSyncAssignment(a.MemberAssignment)
		if err != nil {
			t.Fatalf("%v", err)
		}
		m := c.members[a.MemberID]
		for _, p := range m.has {
			again = again || !slices.Contains(got[testTopic], p)
		}
		for id, other := range c.members {
			for _, p := range got[testTopic] {
				if id != a.MemberID && slices.Contains(other.has, p) {
					t.Fatalf("%s gets partition %d, which %s has not let go: %v", a.MemberID, p, id, c)
				}
			}
		}
		gets[m] = got[testTopic]
	}
	for m, has := range gets {
		m.has = has
	}
	return again
}

type fataler interface {
	Fatalf(format string, args ...any)
}

// settle rebalances until no member gives anything up, and checks that each partition has an owner.
func (c *crew) settle(t fataler) {
	for rounds := 1; c.round(t); rounds++ {
		if rounds > 3 {
			t.Fatalf("no end of rebalances: %v", c)
		}
	}
	owners := map[int32]int{}
	least, most := int(c.partitions), 0
	for _, m := range c.members {
		for _, p := range m.has {
			owners[p]++
		}
		least, most = min(least, len(m.has)), max(most, len(m.has))
	}
	for p := range c.partitions {
		if owners[p] != 1 {
			t.Fatalf("partition %d has %d owners: %v", p, owners[p], c)
		}
	}
	share := (int(c.partitions) + len(c.members) - 1) / len(c.members)
	off := c.standbys // by how much it may be uneven until a member asks for a rebalance
	if least < min(share-1, max(share-1-off, 1)) || most > share+off {
		t.Fatalf("members have between %d and %d partitions: %v", least, most, c)
	}
}

func (c *crew) String() string {
	s := ""
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		s += fmt.Sprintf("%s %v ", id, c.members[id].has)
	}
	return s
}

// ofTestTopic says of which topic something is held.
func ofTestTopic(holds map[kafka.TopicPartition]int64) map[Stored]int64 {
	out := map[Stored]int64{}
	for tp, position := range holds {
		out[Stored{tp, testID}] = position
	}
	return out
}

func know(position int64, ps ...int32) map[kafka.TopicPartition]int64 {
	m := map[kafka.TopicPartition]int64{}
	for _, p := range ps {
		m[kafka.TopicPartition{Topic: testTopic, Partition: p}] = position
	}
	return m
}

// What a dead replica had goes to those that have it warm.
func TestOrphansGoWhereTheyAreWarm(t *testing.T) {
	for _, warm := range [][2][]int32{{{6, 7}, {8}}, {{8}, {6, 7}}, {{6, 8}, {7}}} {
		c := &crew{partitions: 9, standbys: 1, generation: 3}
		c.add("a", "A", know(1e6, warm[0]...), 0, 1, 2)
		c.add("b", "B", know(1e6, warm[1]...), 3, 4, 5)
		c.settle(t)
		for i, id := range []string{"a", "b"} {
			for _, p := range warm[i] {
				if !slices.Contains(c.members[id].has, p) {
					t.Errorf("warm %v: partition %d is not with %s: %v", warm, p, id, c)
				}
			}
		}
	}
}

// A new replica that knows nothing gets its share all the same; one that comes back gets what it
// knows, although something else would do for the balance.
func TestBalanceComesBeforeWarmth(t *testing.T) {
	c := &crew{partitions: 2, generation: 3}
	c.add("a", "A", know(1e6, 0, 1), 0, 1)
	c.add("b", "B", nil)
	c.settle(t)
	if len(c.members["b"].has) != 1 {
		t.Errorf("the new replica has not got its share: %v", c)
	}
	c = &crew{partitions: 6, generation: 3}
	c.add("a", "A", know(1e6, 0, 1, 2, 3, 4, 5), 0, 1, 2, 3, 4, 5)
	c.add("b", "B", know(1e6, 1, 3, 5))
	c.settle(t)
	if !slices.Equal(c.members["b"].has, []int32{1, 3, 5}) {
		t.Errorf("the replica that knows 1, 3 and 5: %v", c)
	}
}

// Who joins gets nothing of which one that is there holds alone what is pending, until that is delivered.
func TestWhatIsHeldAloneStays(t *testing.T) {
	c := &crew{partitions: 2}
	c.add("a", "A", nil, 0, 1)
	c.members["a"].alone = []int32{0, 1}
	c.add("b", "B", know(2, 1e6))
	c.round(t)
	if a, b := c.members["a"].has, c.members["b"].has; len(a) != 2 || len(b) != 0 {
		t.Errorf("a has %v, and b %v", a, b)
	}
	c.members["a"].alone = nil
	c.settle(t)
}

// Without standbys no rebalance would even out what a takeover left uneven, so the balance is kept.
func TestBalanceWithoutStandbys(t *testing.T) {
	c := &crew{partitions: 12, generation: 3}
	c.add("a", "A", know(1e6, 8, 9, 10, 11), 0, 1, 2, 3) // from long ago
	c.add("b", "B", know(1e6, 8, 9, 10, 11), 4, 5, 6, 7)
	c.add("c", "C", nil)
	c.settle(t)
	for id, m := range c.members {
		if len(m.has) != 4 {
			t.Errorf("%s has %d partitions, want 4: %v", id, len(m.has), c)
		}
	}
}

// What is left of a topic that was deleted says nothing of the one that has its name now.
func TestWarmthOfAnOldTopic(t *testing.T) {
	old := testID
	old[0] ^= 0xff
	other := fmt.Sprintf("other/%x", testID) // which brokers tell nothing of
	w := warmth{Holds: map[string]map[int32]int64{
		fmt.Sprintf("%s/%x", testTopic, testID): {1: 5},
		fmt.Sprintf("%s/%x", testTopic, old):    {2: 1e9},
		other:                                   {3: 7},
	}}
	got := w.of(map[string]kgo.TopicMetadata{testTopic: {ID: testID}})
	if len(got) != 2 || got[kafka.TopicPartition{Topic: testTopic, Partition: 1}] != 5 || got[kafka.TopicPartition{Topic: "other", Partition: 3}] != 7 {
		t.Errorf("holds %v", got)
	}
	if got := w.of(map[string]kgo.TopicMetadata{testTopic: {}}); len(got) != 3 {
		t.Errorf("where brokers tell no ids it holds %v", got)
	}
}

// A client goes on with all partitions of a topic that was made anew with fewer of them. Of the same topic fewer are told by a broker that has not heard
// yet of those that were added.
func TestBalanceCountsAnew(t *testing.T) {
	says := func(id byte, n int) kgo.TopicMetadata {
		return kgo.TopicMetadata{Topic: testTopic, ID: kafka.TopicID{id}, Partitions: make([]kgo.PartitionMetadata, n)}
	}
	type step struct {
		name  string
		knows int32 // the client
		says  kgo.TopicMetadata
		want  int // partitions that are shared out
		once  bool
	}
	for _, steps := range [][]step{{
		{"at first", 4, says(1, 4), 4, false},
		{"by a broker that has not heard of all", 4, says(1, 2), 4, false},
		{"made anew with fewer", 4, says(2, 1), 1, false},
		{"once more", 4, says(2, 1), 1, false},
		{"with some added", 4, says(2, 3), 3, false},
		{"by a broker that has not heard of these", 4, says(2, 1), 3, false},
		{"while nothing is known of it", 4, kgo.TopicMetadata{Topic: testTopic}, 4, false},
		{"with more than ever", 5, says(2, 5), 5, false},
		{"while it cannot be described", 5, kgo.TopicMetadata{Topic: testTopic, ID: kafka.TopicID{3}, Partitions: make([]kgo.PartitionMetadata, 2), Err: kerr.TopicAuthorizationFailed}, 5, false},
		{"while none of its partitions is told", 5, says(3, 0), 5, true},
		{"by a broker that tells no ids", 5, says(0, 2), 5, false},
	}, {
		{"at first, by a broker that has not heard of all", 4, says(1, 2), 4, false},
		{"and of all", 4, says(1, 4), 4, false},
	}, {
		{"by another leader, which has not shared it out yet", 4, says(2, 1), 4, true},
		{"when that is asked once more", 4, says(2, 1), 1, false},
	}} {
		c := crew{}
		c.add("a", "ra", nil)
		c.add("b", "rb", nil)
		for _, step := range steps {
			c.partitions, c.topic = step.knows, step.says
			for c.round(t) && !step.once {
			}
			got := 0
			for _, m := range c.members {
				got += len(m.has)
			}
			if got != step.want {
				t.Errorf("%s: %d partitions are shared out, want %d: %v", step.name, got, step.want, &c)
			}
		}
	}
}

// Members of an earlier version, which say nothing of what they hold, are in the same group.
func TestBalanceWithOthers(t *testing.T) {
	plain := kgo.CooperativeStickyBalancer()
	joined := []kmsg.JoinGroupResponseMember{
		{MemberID: "old", ProtocolMetadata: plain.JoinGroupMetadata([]string{testTopic}, map[string][]int32{testTopic: {0, 1}}, 3)},
		{MemberID: "new", ProtocolMetadata: New(Says{"A", nowhere, 1, func() map[Stored]int64 { return ofTestTopic(know(5, 2)) }, nothing}).
			JoinGroupMetadata([]string{testTopic}, map[string][]int32{testTopic: {2}}, 3)},
	}
	for _, leader := range []kgo.GroupBalancer{plain, New(Says{"A", nowhere, 1, func() map[Stored]int64 { return nil }, nothing})} {
		b, _, err := leader.MemberBalancer(joined)
		if err != nil {
			t.Fatal(err)
		}
		into, err := b.(kgo.GroupMemberBalancerOrError).BalanceOrError(map[string]int32{testTopic: 4})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]int32{}
		for _, a := range into.IntoSyncAssignment() {
			m, err := kgo.ParseConsumerSyncAssignment(a.MemberAssignment)
			if err != nil {
				t.Fatal(err)
			}
			got[a.MemberID] = m[testTopic]
		}
		if !slices.Equal(got["old"], []int32{0, 1}) || !slices.Equal(got["new"], []int32{2, 3}) {
			t.Errorf("shared out as %v", got)
		}
	}
}

// Whatever replicas hold: every partition gets one owner within a few rebalances, in balance but
// for one or two, and a group in which nothing happens does not go on moving partitions.
func TestBalanceSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &crew{partitions: int32(rapid.IntRange(1, 24).Draw(t, "partitions")), standbys: rapid.IntRange(0, 1).Draw(t, "standbys"), generation: 3}
		members := rapid.IntRange(1, 6).Draw(t, "members")
		has := make([][]int32, members)
		holds := make([]map[kafka.TopicPartition]int64, members)
		for i := range holds {
			holds[i] = map[kafka.TopicPartition]int64{}
		}
		for p := range c.partitions {
			if owner := rapid.IntRange(-1, members-1).Draw(t, "owner"); owner >= 0 {
				has[owner] = append(has[owner], p)
			}
			for i := range holds {
				if position := rapid.SampledFrom([]int64{0, 0, 1000, 1e6}).Draw(t, "holds"); position > 0 {
					holds[i][kafka.TopicPartition{Topic: testTopic, Partition: p}] = position
				}
			}
		}
		for i := range members {
			c.add(fmt.Sprintf("m%d", i), fmt.Sprintf("r%d", i/2), holds[i], has[i]...)
		}
		c.settle(t)
		c.settle(t) // what went to the warm instead of the idle may be made good
		before := c.String()
		if c.round(t); c.String() != before {
			t.Fatalf("at rest %s, and then %s", before, c)
		}
	})
}

// No consumer of another kind offers the protocol by which members share partitions out, so brokers do not let one in.
func TestProtocolIsOurOwn(t *testing.T) {
	b := New(Says{"a", nowhere, 0, func() map[Stored]int64 { return nil }, nothing})
	for _, other := range []kgo.GroupBalancer{kgo.CooperativeStickyBalancer(), kgo.StickyBalancer(), kgo.RangeBalancer(), kgo.RoundRobinBalancer()} {
		if b.ProtocolName() == other.ProtocolName() {
			t.Errorf("it is called %s, as others are", b.ProtocolName())
		}
	}
	if !b.IsCooperative() {
		t.Error("it is not cooperative")
	}
}

// nowhere is the address of a replica that is not to be found.
func nowhere() string { return "" }

// nothing is what a replica holds alone whose logs have all that is pending.
func nothing() []kafka.TopicPartition { return nil }
