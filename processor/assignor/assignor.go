package assignor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Assignor shares partitions out as cooperative-sticky does (KIP-429), and of all that have to
// move it gives each to a replica whose store knows most of it, as far as the balance allows. Each
// member says in its subscription what its replica's store holds; members of other versions need
// not understand it, because it stands behind what they read of the user data.
type Assignor struct {
	kgo.GroupBalancer // cooperative-sticky
	says              Says

	mu     sync.Mutex
	last   map[kafka.TopicPartition]bool // what the member had when it joined last
	counts map[string]count              // what the member has shared out, as the leader
}

// count is how many partitions a topic had.
type count struct {
	id kafka.TopicID
	n  int32
}

// Stored is a partition of a topic with a certain id: a store may hold what is left of a topic that
// was deleted, and made anew by the same name.
type Stored struct {
	TP kafka.TopicPartition
	ID kafka.TopicID
}

// Says is what a member says of its replica. All of it is needed, and what is called may be at each join, from any goroutine.
type Says struct {
	Replica  string
	Address  func() string // where other replicas find the presence of this one; empty: nowhere
	Standbys int
	Holds    func() map[Stored]int64       // up to which offset its store knows partitions
	Alone    func() []kafka.TopicPartition // partitions of the member whose logs have lost what is pending: no other replica could deliver it
}

// New makes the assignor of one member.
func New(says Says) *Assignor {
	return &Assignor{GroupBalancer: kgo.CooperativeStickyBalancer(), says: says, counts: map[string]count{}}
}

// ProtocolName is a name of our own, so that brokers let nobody else into the group, who would get partitions and do nothing with what is due, or commit
// offsets without checkpoints: consumers of Kafka's own tools offer cooperative-sticky.
func (b *Assignor) ProtocolName() string { return "duewheel" }

// warmth is what a member says of its replica.
type warmth struct {
	Replica  string                     `json:"replica"`
	Address  string                     `json:"address,omitempty"`
	Standbys int                        `json:"standbys,omitempty"`
	Holds    map[string]map[int32]int64 `json:"holds"` // by topic and id, and partition
	GaveUp   map[string][]int32         `json:"gave_up,omitempty"`
	Alone    map[string][]int32         `json:"alone,omitempty"`
}

// warmthMark begins what stands behind the sticky user data. It cannot stand within that: "{" is no
// part of a topic's name, and a number of partitions does not begin with it. What follows may hold it again.
const warmthMark = "dw1{"

// maxWarmth keeps subscriptions small; a member that has more to say says only who it is and where, and what it must not lose.
const maxWarmth = 64 << 10

// JoinGroupMetadata is called for each join, so what it says is as of the rebalance.
func (b *Assignor) JoinGroupMetadata(interests []string, current map[string][]int32, generation int32) []byte {
	plain := b.GroupBalancer.JoinGroupMetadata(interests, current, generation)
	meta := kmsg.NewConsumerMemberMetadata()
	if err := meta.ReadFrom(plain); err != nil {
		return plain
	}
	w := warmth{Replica: b.says.Replica, Address: b.says.Address(), Standbys: b.says.Standbys, Holds: map[string]map[int32]int64{}, GaveUp: b.gaveUp(current), Alone: map[string][]int32{}}
	for _, tp := range b.says.Alone() {
		w.Alone[tp.Topic] = append(w.Alone[tp.Topic], tp.Partition)
	}
	for h, position := range b.says.Holds() {
		topic := fmt.Sprintf("%s/%x", h.TP.Topic, h.ID)
		if w.Holds[topic] == nil {
			w.Holds[topic] = map[int32]int64{}
		}
		w.Holds[topic][h.TP.Partition] = position
	}
	said, err := json.Marshal(w)
	if err == nil && len(said) > maxWarmth {
		said, err = json.Marshal(warmth{Replica: w.Replica, Address: w.Address, Alone: w.Alone})
	}
	if err != nil {
		return plain
	}
	meta.UserData = append(append(meta.UserData, warmthMark[:3]...), said...)
	return meta.AppendTo(nil)
}

// gaveUp is what the member had at its last join and has not any more. A leader must know it from
// what a dead member had: it is on its way to another member, for the sake of balance.
func (b *Assignor) gaveUp(current map[string][]int32) map[string][]int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.last
	b.last = map[kafka.TopicPartition]bool{}
	for _, tp := range kafka.Flatten(current) {
		b.last[tp] = true
		delete(was, tp)
	}
	out := map[string][]int32{}
	for _, tp := range slices.SortedFunc(maps.Keys(was), kafka.Compare) {
		out[tp.Topic] = append(out[tp.Topic], tp.Partition)
	}
	return out
}

// parseWarmth reads what a member says. One that says nothing is a replica of its own that holds
// nothing.
func parseWarmth(memberID string, userData []byte) warmth {
	w := warmth{}
	if i := bytes.Index(userData, []byte(warmthMark)); i >= 0 {
		if json.Unmarshal(userData[i+3:], &w) != nil {
			w = warmth{}
		}
	}
	if w.Replica == "" {
		w.Replica = "member " + memberID
	}
	return w
}

// of is what a replica holds of topics as they are now, as far as the leader knows them.
func (w *warmth) of(topics map[string]kgo.TopicMetadata) map[kafka.TopicPartition]int64 {
	out := map[kafka.TopicPartition]int64{}
	for name, ps := range w.Holds {
		topic, id, _ := strings.Cut(name, "/")
		if now, ok := topics[topic]; ok && now.ID != [16]byte{} && fmt.Sprintf("%x", now.ID) != id {
			continue
		}
		for p, position := range ps {
			out[kafka.TopicPartition{Topic: topic, Partition: p}] = position
		}
	}
	return out
}

func (b *Assignor) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	c, err := kgo.NewConsumerBalancer(b, members)
	return c, c.MemberTopics(), err
}

// Balance makes the plan of the sticky balancer warm, and takes back for now what another member
// still has.
func (b *Assignor) Balance(c *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	b.recount(topics, c.Info().Topics())
	sticky := kgo.StickyBalancer().(kgo.ConsumerBalancerBalance)
	plan, ok := sticky.Balance(c, topics).(*kgo.BalancePlan)
	if !ok {
		return nil // the balancer carries the error
	}
	h := newWarmPlan(c, plan.AsMemberIDMap())
	h.warm()
	h.keep()
	for id, of := range plan.AsMemberIDMap() {
		clear(of)
		for _, tp := range h.planned[id] {
			of[tp.Topic] = append(of[tp.Topic], tp.Partition)
		}
		for _, ps := range of {
			slices.Sort(ps)
		}
	}
	plan.AdjustCooperative(c)
	return plan
}

// recount corrects how many partitions topics have. A client goes on with those that it has seen when a topic is deleted and made anew with fewer of them. That it has
// fewer says a broker as well that has not heard yet of partitions that were added; so it counts of another topic id only.
func (b *Assignor) recount(topics map[string]int32, now map[string]kgo.TopicMetadata) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, n := range topics {
		t, ok := now[name]
		if !ok || t.Err != nil || t.ID == [16]byte{} || len(t.Partitions) == 0 {
			continue
		}
		has, was := int32(len(t.Partitions)), b.counts[name]
		if was.id == t.ID {
			has = max(has, was.n)
		}
		b.counts[name], topics[name] = count{t.ID, has}, has
		if was.n == 0 { // nothing is known of it yet; who gets what is gone asks once more
			topics[name] = max(has, n)
		}
	}
}

// warmPlan is a plan of which partitions are exchanged until each goes to a replica that has most of it.
type warmPlan struct {
	members []string                                  // ids, in order
	says    map[string]warmth                         // by member
	reads   map[string][]string                       // the topics of each member
	owner   map[kafka.TopicPartition]string           // the member that has it now
	gaveUp  map[kafka.TopicPartition]bool             // by a member that is still there
	planned map[string][]kafka.TopicPartition         // by member
	holds   map[string]map[kafka.TopicPartition]int64 // by member: how far its replica knows partitions
	best    map[kafka.TopicPartition]int64            // the furthest that any replica knows it
}

const (
	// asWarm is how many records a store may be behind the best one and count as good as it: two
	// standbys of one partition look at its checkpoint at different moments.
	asWarm = 1000
	// NearlyAsWarm is how many it may be behind before that is worth an uneven balance: they are
	// read within some 100 ms.
	NearlyAsWarm = 50_000
)

func newWarmPlan(c *kgo.ConsumerBalancer, plan map[string]map[string][]int32) *warmPlan {
	h := &warmPlan{says: map[string]warmth{}, reads: map[string][]string{}, owner: map[kafka.TopicPartition]string{}, gaveUp: map[kafka.TopicPartition]bool{}, planned: map[string][]kafka.TopicPartition{}, holds: map[string]map[kafka.TopicPartition]int64{}, best: map[kafka.TopicPartition]int64{}}
	claimed := map[kafka.TopicPartition]int32{} // in which generation
	c.EachMember(func(m *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		h.members = append(h.members, m.MemberID)
		w := parseWarmth(m.MemberID, meta.UserData)
		h.says[m.MemberID], h.reads[m.MemberID] = w, meta.Topics
		for _, tp := range kafka.Flatten(w.GaveUp) {
			h.gaveUp[tp] = true
		}
		h.holds[m.MemberID] = w.of(c.Info().Topics())
		for tp, position := range h.holds[m.MemberID] {
			h.best[tp] = max(h.best[tp], position)
		}
		for _, t := range meta.OwnedPartitions {
			for _, p := range t.Partitions {
				tp := kafka.TopicPartition{Topic: t.Topic, Partition: p}
				if g, ok := claimed[tp]; !ok || meta.Generation > g {
					claimed[tp], h.owner[tp] = meta.Generation, m.MemberID
				}
			}
		}
	})
	slices.Sort(h.members)
	for id, of := range plan {
		for topic, ps := range of {
			for _, p := range ps {
				h.planned[id] = append(h.planned[id], kafka.TopicPartition{Topic: topic, Partition: p})
			}
		}
		slices.SortFunc(h.planned[id], kafka.Compare)
	}
	return h
}

// isWarm reports whether a member could go on with a partition at once, as one can that has it. Where no replica
// knows anything of it, all are equally warm.
func (h *warmPlan) isWarm(member string, tp kafka.TopicPartition, behind int64) bool {
	if owner, ok := h.owner[tp]; ok && h.says[owner].Replica == h.says[member].Replica {
		return true // lanes of a process share the store
	}
	position, ok := h.holds[member][tp]
	if !ok {
		return h.best[tp] == 0
	}
	return position >= h.best[tp]-behind
}

// warm exchanges partitions until none is left that moves to a cold member and could go to a warm
// one. Each exchange makes one more of them warm and none colder, so it comes to an end.
func (h *warmPlan) warm() {
	for _, member := range h.members {
		for i := range h.planned[member] {
			if !h.isWarm(member, h.planned[member][i], asWarm) {
				h.exchange(member, i)
			}
		}
	}
	h.relieve()
}

// keep leaves partitions with the members that have them, and whose replicas alone hold what their logs have lost. Another one goes in the place of each, where there is one.
func (h *warmPlan) keep() {
	alone := map[kafka.TopicPartition]bool{}
	for _, member := range h.members {
		for _, tp := range kafka.Flatten(h.says[member].Alone) {
			alone[tp] = alone[tp] || h.owner[tp] == member && slices.Contains(h.reads[member], tp.Topic)
		}
	}
	for _, member := range h.members {
		for i := 0; i < len(h.planned[member]); i++ {
			tp := h.planned[member][i]
			owner := h.owner[tp]
			if owner == member || !alone[tp] {
				continue
			}
			back := slices.IndexFunc(h.planned[owner], func(back kafka.TopicPartition) bool {
				return !alone[back] && slices.Contains(h.reads[member], back.Topic)
			})
			if back >= 0 {
				h.planned[member][i], h.planned[owner][back] = h.planned[owner][back], tp
				continue
			}
			h.planned[owner] = append(h.planned[owner], tp)
			h.planned[member] = slices.Delete(h.planned[member], i, i+1)
			i--
		}
	}
}

// exchange gives away the i-th partition of a member, to which it moves cold.
func (h *warmPlan) exchange(member string, i int) {
	tp := h.planned[member][i]
	for _, other := range h.members {
		if other == member || !slices.Contains(h.reads[other], tp.Topic) || !h.isWarm(other, tp, asWarm) {
			continue
		}
		for j, back := range h.planned[other] {
			// What comes back has to move anyway, or is let go by the owner of tp in its stead.
			moves := h.owner[back] != other || h.owner[tp] == other
			colder := !h.isWarm(member, back, asWarm)
			if moves && slices.Contains(h.reads[member], back.Topic) && (!colder || h.owner[tp] != other && !h.isWarm(other, back, asWarm)) {
				h.planned[member][i], h.planned[other][j] = back, tp
				return
			}
		}
	}
}

// relieve moves what a dead member had from a cold member to a warm one that has no more than it:
// one partition more or less costs nothing, and a rebuild might take long. The cold one asks for its
// share when its standbys are warm, so without standbys nothing is moved.
func (h *warmPlan) relieve() {
	partitions := 0
	for _, tps := range h.planned {
		partitions += len(tps)
	}
	most := (partitions + len(h.members) - 1) / len(h.members)
	keeps := max(most-2, 1)
	for _, member := range h.members {
		for i := len(h.planned[member]) - 1; i >= 0 && len(h.planned[member]) > keeps; i-- {
			tp := h.planned[member][i]
			if _, owned := h.owner[tp]; owned || h.gaveUp[tp] || h.says[member].Standbys == 0 || h.isWarm(member, tp, NearlyAsWarm) {
				continue
			}
			if to := h.leastWarm(member, tp); to != "" && len(h.planned[to]) <= most {
				h.planned[to] = append(h.planned[to], tp)
				h.planned[member] = slices.Delete(h.planned[member], i, i+1)
			}
		}
	}
}

// leastWarm is the member with the fewest partitions of those that could take tp warm from a
// member, and have no more than it; empty when there is none.
func (h *warmPlan) leastWarm(member string, tp kafka.TopicPartition) (least string) {
	for _, other := range h.members {
		if other == member || !slices.Contains(h.reads[other], tp.Topic) || !h.isWarm(other, tp, NearlyAsWarm) || len(h.planned[other]) > len(h.planned[member]) {
			continue
		}
		if least == "" || len(h.planned[other]) < len(h.planned[least]) {
			least = other
		}
	}
	return least
}
