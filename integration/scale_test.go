package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor"
)

const (
	manyPartitions = 64
	manyReplicas   = 5 // of two lanes each
)

// Many partitions are shared by many replicas. Each has its share; what a replica had that is killed goes to all others; and when one
// is added, no partition stops that stays where it is.
func TestScale(t *testing.T) {
	for _, protocol := range []processor.Protocol{processor.ProtocolClassic, processor.ProtocolConsumer} {
		t.Run(string(protocol), func(t *testing.T) {
			s := newTenant(t, shared(t), setting{partitions: manyPartitions, targets: 2, seed: newSeed(t)})
			f := &fleet{tenant: s, protocol: protocol}
			for range manyReplicas - 1 {
				f.replicas = append(f.replicas, s.start(f.config()))
			}
			f.await("4 replicas start", manyReplicas-1, time.Now())
			stop := s.keepLoading(soon())
			began := time.Now()
			victim := s.spawn(f.config())
			f.await("one is added", manyReplicas, began)
			s.awaitDelivery(victim)
			began = time.Now()
			victim.Kill()
			f.await("it is killed", manyReplicas-1, began)
			s.awaitDelivered(300)

			for tries := 1; !f.addUndisturbed(); tries++ {
				if tries == 3 {
					t.Fatal("partitions were lost or started over each time that a replica was added")
				}
			}
			stop()
			s.arrive()
			for _, r := range f.replicas {
				r.stop()
			}
			s.judge()
		})
	}
}

// fleet is many replicas of one group.
type fleet struct {
	*tenant
	protocol processor.Protocol
	replicas []*running
	made     int
}

func (f *fleet) config() replicaConfig {
	f.made++
	return f.replica(func(c *replicaConfig) {
		c.Protocol, c.Lanes, c.SessionTimeout, c.StateDir = f.protocol, 2, 3*time.Second, filepath.Join(f.dir, fmt.Sprint(f.made))
	})
}

// await waits until every replica of this process has its share of the partitions, one of so many replicas, all of them live.
func (f *fleet) await(what string, of int, began time.Time) {
	f.t.Helper()
	// A lane has a partition more than another one or not.
	least, most := manyPartitions/(2*of)*2, (manyPartitions+2*of-1)/(2*of)*2
	var shares []int
	eventually(f.t, func() string {
		shares = shares[:0]
		for _, r := range f.replicas {
			ready, not := r.Ready()
			n := len(r.Stats().Partitions)
			if shares = append(shares, n); !ready || len(not) > 0 || n < least || n > most {
				return fmt.Sprintf("shares %v of %d to %d partitions; not live: %v", shares, least, most, not)
			}
		}
		if sum := total(shares); of == len(f.replicas) && sum != manyPartitions {
			return fmt.Sprintf("shares %v are %d partitions", shares, sum)
		}
		return ""
	})
	f.t.Logf("%s: shares %v are live after %v; %s", what, shares, time.Since(began).Round(time.Millisecond), f.watch.Counts().Summary())
}

func total(shares []int) (sum int) {
	for _, n := range shares {
		sum += n
	}
	return sum
}

// where tells the replica, by its name, that has each partition.
func (f *fleet) where() map[int32]string {
	where := map[int32]string{}
	for _, r := range f.replicas {
		stats := r.Stats()
		for _, p := range stats.Partitions {
			where[p.Partition] = fmt.Sprintf("%s lane=%d", stats.Instance, p.Lane)
		}
	}
	return where
}

// addUndisturbed adds a replica and checks what moves. It reports false, and takes the replica away, where something else has moved partitions
// meanwhile: a machine that stalls costs members their sessions, and turns their outcome.
func (f *fleet) addUndisturbed() bool {
	f.t.Helper()
	disturbances := func() int {
		return f.log.count("partitions revoked", "lost=true") + f.log.count("start over from their checkpoints") + f.log.count("starts over from its checkpoint")
	}
	before, where, from, began := disturbances(), f.where(), f.events.len(), time.Now()
	added := f.tenant.start(f.config())
	f.replicas = append(f.replicas, added)
	f.await("another one is added", manyReplicas, began)
	if disturbances() == before {
		f.checkMoves(where, from)
		return true
	}
	f.replicas = f.replicas[:len(f.replicas)-1]
	added.stop()
	f.await("it is taken away", manyReplicas-1, time.Now())
	return false
}

// checkMoves checks that no partition was restored, after a place in what was told, that is where it was before.
func (f *fleet) checkMoves(before map[int32]string, from int) {
	f.t.Helper()
	var moved []int32
	for p, where := range f.where() {
		restored := f.events.restored(from, p)
		switch stays := where == before[p]; {
		case stays && restored > 0:
			f.t.Errorf("partition %d has stayed, and was restored %d times", p, restored)
		case !stays:
			moved = append(moved, p)
		}
	}
	slices.Sort(moved)
	f.t.Logf("%d of %d partitions have moved: %v", len(moved), manyPartitions, moved)
	if most := manyPartitions/manyReplicas + 2; len(moved) > most {
		f.t.Errorf("more than %d partitions have moved", most)
	}
}

// restored counts how often a partition was restored, after a place in what was told.
func (t *told) restored(from int, partition int32) (n int) {
	for _, e := range t.from(from, processor.EventRestored) {
		if e.Partitions[0].Partition == partition {
			n++
		}
	}
	return n
}
