package assignor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
)

// View is which replica owns which partition, as the group's coordinator tells it.
type View struct {
	Replicas  []string // in order
	Owners    map[kafka.TopicPartition]string
	Members   map[string]int    // by client id: how many partitions it has
	Addresses map[string]string // by replica: where it says that its presence is (host:port), or in the consumer protocol, where members say nothing, only its host
}

// Uneven reports whether a member of a replica has so much less than another one that a rebalance
// would even it out. It comes about when what a dead replica had goes to where it is warm.
func (v *View) Uneven(replica string) bool {
	most := 0
	for _, n := range v.Members {
		most = max(most, n)
	}
	for id, n := range v.Members {
		if ReplicaOf(id) == replica && n+2 <= most {
			return true
		}
	}
	return false
}

// Allot says of which partitions a replica keeps a standby when each partition is to have n of
// them. Every replica computes it for itself, from the same description of the group, so nothing
// has to be agreed upon; where two of them look at different moments, a partition has one standby
// more or less for a while.
//
// A partition prefers the replicas in an order of its own (rendezvous hashing), so that few
// standbys move when a replica comes or goes. The partitions of one owner are spread evenly over
// the others, so that each of them finds its share of a dead replica's partitions warm.
func (v *View) Allot(self string, n int) []kafka.TopicPartition {
	others := len(v.Replicas) - 1
	if others < 1 {
		return nil
	}
	owned := map[string]int{}
	for _, owner := range v.Owners {
		owned[owner]++
	}
	type pair struct{ owner, standby string }
	load := map[pair]int{}
	chosen := map[kafka.TopicPartition][]string{}
	var mine []kafka.TopicPartition
	tps := slices.SortedFunc(maps.Keys(v.Owners), kafka.Compare)
	for round := range min(n, others) {
		for _, tp := range tps {
			owner := v.Owners[tp]
			room := (owned[owner]*(round+1) + others - 1) / others
			prefers := v.preference(tp, owner, chosen[tp])
			standby := prefers[0]
			if i := slices.IndexFunc(prefers, func(r string) bool { return load[pair{owner, r}] < room }); i >= 0 {
				standby = prefers[i]
			}
			load[pair{owner, standby}]++
			chosen[tp] = append(chosen[tp], standby)
			if standby == self {
				mine = append(mine, tp)
			}
		}
	}
	slices.SortFunc(mine, kafka.Compare)
	return mine
}

// preference is the order in which a partition would have replicas for standbys.
func (v *View) preference(tp kafka.TopicPartition, owner string, taken []string) []string {
	out := slices.DeleteFunc(slices.Clone(v.Replicas), func(r string) bool { return r == owner || slices.Contains(taken, r) })
	score := func(replica string) uint64 {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s\x00%s\x00%d", replica, tp.Topic, tp.Partition)
		x := h.Sum64()
		x ^= x >> 33 // fnv alone leaves the scores of neighbouring partitions in nearly the same order
		x *= 0xff51afd7ed558ccd
		return x ^ x>>33
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(score(b), score(a)), cmp.Compare(a, b)) })
	return out
}

// ClientID is what a lane calls itself in the group: client id, instance and lane, so that
// every tool that describes a group shows which replica has what, and replicas know each other.
func ClientID(base, instance string, lane int) string {
	return fmt.Sprintf("%s-%d", Replica(base, instance), lane)
}

// Replica is what all lanes of one process have in common of that.
func Replica(base, instance string) string { return base + "-" + instance }

// ReplicaOf is the replica of a member: its client id less the lane.
func ReplicaOf(clientID string) string {
	if i := strings.LastIndexByte(clientID, '-'); i > 0 {
		return clientID[:i]
	}
	return clientID
}

// Describe asks who owns what in a group, of the consumer protocol (KIP-848) or the classic one. The answer is nil while the group is being rebalanced,
// and before it has its first member, when Kafka 4 knows no group of that name (KIP-1043).
func Describe(ctx context.Context, cl *kgo.Client, group string, consumer bool) (*View, error) {
	var members []groupMember
	var stable bool
	var err error
	if consumer {
		members, stable, err = describeConsumer(ctx, kadm.NewClient(cl), group)
	} else {
		members, stable, err = describeClassic(ctx, kadm.NewClient(cl), group)
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("describe group %s: %w", group, err)
	}
	if !stable {
		return nil, nil
	}
	v := &View{Owners: map[kafka.TopicPartition]string{}, Members: map[string]int{}, Addresses: map[string]string{}}
	for _, m := range members {
		v.Members[m.clientID] += len(m.owns)
		replica := ReplicaOf(m.clientID)
		v.Replicas = append(v.Replicas, replica)
		if m.address != "" {
			v.Addresses[replica] = m.address
		}
		for _, tp := range m.owns {
			v.Owners[tp] = replica
		}
	}
	slices.Sort(v.Replicas)
	v.Replicas = slices.Compact(v.Replicas)
	return v, nil
}

type groupMember struct {
	clientID string
	address  string
	owns     []kafka.TopicPartition
}

func describeClassic(ctx context.Context, adm *kadm.Client, group string) (members []groupMember, stable bool, err error) {
	described, err := adm.DescribeGroups(ctx, group)
	if err != nil {
		return nil, false, err
	}
	g := described[group]
	for _, m := range g.Members {
		gm := groupMember{clientID: m.ClientID}
		if c, ok := m.Join.AsConsumer(); ok {
			gm.address = parseWarmth(m.MemberID, c.UserData).Address
		}
		if c, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range c.Topics {
				for _, p := range t.Partitions {
					gm.owns = append(gm.owns, kafka.TopicPartition{Topic: t.Topic, Partition: p})
				}
			}
		}
		members = append(members, gm)
	}
	return members, g.State == "Stable", g.Err
}

func describeConsumer(ctx context.Context, adm *kadm.Client, group string) (members []groupMember, stable bool, err error) {
	described, err := adm.DescribeConsumerGroups(ctx, group)
	if err != nil {
		return nil, false, err
	}
	g := described[group]
	for _, m := range g.Members {
		gm := groupMember{clientID: m.ClientID, address: strings.TrimPrefix(m.ClientHost, "/")}
		for topic, ps := range m.Assignment {
			for p := range ps {
				gm.owns = append(gm.owns, kafka.TopicPartition{Topic: topic, Partition: p})
			}
		}
		members = append(members, gm)
	}
	return members, g.State == "Stable", g.Err
}
