package assignor

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/processor/kafka"
)

// A group that has no member yet is one that is being formed, not one that cannot be asked.
func TestDescribeBeforeTheFirstMember(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, consumer := range []bool{false, true} {
		if v, err := Describe(t.Context(), cl, "new", consumer); v != nil || err != nil {
			t.Errorf("of the consumer protocol: %v: got %v, %v", consumer, v, err)
		}
	}
}

// view is a group in which replicas own partitions in turn.
func view(replicas, partitions int) *View {
	v := &View{Owners: map[kafka.TopicPartition]string{}}
	for i := range replicas {
		v.Replicas = append(v.Replicas, fmt.Sprintf("duewheel-%c", 'a'+i))
	}
	for i := range partitions {
		v.Owners[kafka.TopicPartition{Topic: "t", Partition: int32(i)}] = v.Replicas[i%replicas]
	}
	return v
}

// Every partition has as many standbys as are wanted and possible, none of them with its owner,
// and those of one owner are spread evenly over the others.
func TestAllot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas, partitions := rapid.IntRange(1, 6).Draw(t, "replicas"), rapid.IntRange(0, 40).Draw(t, "partitions")
		v := view(replicas, partitions)
		for i := range partitions {
			tp := kafka.TopicPartition{Topic: "t", Partition: int32(i)}
			v.Owners[tp] = rapid.SampledFrom(v.Replicas).Draw(t, tp.String())
		}
		n := rapid.IntRange(0, 3).Draw(t, "standbys")
		copies := map[kafka.TopicPartition]int{}
		share := map[[2]string]int{} // by owner and standby
		owned := map[string]int{}
		for _, owner := range v.Owners {
			owned[owner]++
		}
		for _, replica := range v.Replicas {
			follows := v.Allot(replica, n)
			if len(slices.Compact(slices.Clone(follows))) < len(follows) {
				t.Fatalf("%s is to follow one twice: %v", replica, follows)
			}
			for _, tp := range follows {
				if v.Owners[tp] == replica {
					t.Fatalf("%s is to follow %v, which it owns", replica, tp)
				}
				copies[tp]++
				share[[2]string{v.Owners[tp], replica}]++
			}
		}
		want := min(n, replicas-1)
		for tp := range v.Owners {
			if copies[tp] != want {
				t.Fatalf("%v has %d standbys, want %d", tp, copies[tp], want)
			}
		}
		for pair, got := range share {
			if most := (owned[pair[0]] + replicas - 2) / (replicas - 1); want == 1 && got > most {
				t.Fatalf("%s follows %d of the %d partitions of %s, more than %d", pair[1], got, owned[pair[0]], pair[0], most)
			}
		}
	})
}

// When a replica goes, the standbys of partitions that stay where they are mostly stay, too.
func TestAllotMovesFew(t *testing.T) {
	v := view(4, 64)
	before := map[kafka.TopicPartition]string{}
	for _, replica := range v.Replicas {
		for _, tp := range v.Allot(replica, 1) {
			before[tp] = replica
		}
	}
	gone := v.Replicas[3]
	v.Replicas = v.Replicas[:3]
	moved, stayed := 0, 0
	for tp, owner := range v.Owners {
		if owner == gone {
			v.Owners[tp] = before[tp] // to where it is warm
		}
	}
	for _, replica := range v.Replicas {
		for _, tp := range v.Allot(replica, 1) {
			if before[tp] == gone || v.Owners[tp] == before[tp] {
				continue // it had to move
			}
			if before[tp] == replica {
				stayed++
			} else {
				moved++
			}
		}
	}
	if moved > stayed {
		t.Errorf("%d standbys moved and %d stayed", moved, stayed)
	}
}

// A replica that the group does not know follows no other one, and neither does a single one.
func TestAllotAlone(t *testing.T) {
	if got := view(1, 8).Allot("duewheel-a", 1); len(got) > 0 {
		t.Errorf("a single replica follows %v", got)
	}
	if got := view(3, 8).Allot("duewheel-x", 1); len(got) > 0 {
		t.Errorf("a stranger follows %v", got)
	}
}

// The name of a replica is found in the client ids of its lanes.
func TestReplicaOf(t *testing.T) {
	for _, instance := range []string{"a", "pod-3", "x-0-1"} {
		var got []string
		for lane := range 12 {
			got = append(got, ReplicaOf(ClientID("duewheel", instance, lane)))
		}
		if got = slices.Compact(got); len(got) != 1 || got[0] != Replica("duewheel", instance) {
			t.Errorf("instance %s: %v", instance, got)
		}
	}
}

// A member asks for a rebalance when it has two partitions less than another one, and not before.
func TestUneven(t *testing.T) {
	v := view(3, 0)
	for _, c := range []struct {
		name string
		has  []int
		want bool
	}{
		{"its share", []int{2, 2, 2}, false},
		{"one less", []int{2, 3, 3}, false},
		{"two less", []int{1, 2, 3}, true},
		{"another has less", []int{3, 1, 2}, false},
	} {
		v.Members = map[string]int{}
		for i, n := range c.has {
			v.Members[fmt.Sprintf("%s-0", v.Replicas[i])] = n
		}
		if got := v.Uneven(v.Replicas[0]); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
