package kafka

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A follower that has stopped replicating is not read from for half an hour, which is the client's default.
func TestReaderAsksItsLeaderAgain(t *testing.T) {
	cl, closes, err := NewReader([]kgo.Opt{kgo.SeedBrokers("127.0.0.1:1"), kgo.Rack("r")}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer closes()
	if got, _ := cl.OptValue(kgo.RecheckPreferredReplicaInterval).(time.Duration); got <= 0 || got > time.Minute {
		t.Errorf("it reads from a follower for %v", got)
	}
}

// The first fetch is bounded, although nothing is known of what it takes.
func TestFirstFetchIsBounded(t *testing.T) {
	cl, closes, err := NewReader([]kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer closes()
	all, _ := cl.OptValue(kgo.FetchMaxBytes).(int32)
	one, _ := cl.OptValue(kgo.FetchMaxPartitionBytes).(int32)
	if all <= 0 || all > 1<<20 || one <= 0 || one > all/2 {
		t.Errorf("a fetch has %d bytes, and %d of a partition", all, one)
	}
}

// What a reader passes on is committed, its position moves over the ends of transactions, and it does not go on from elsewhere by itself where its offset is not in the log.
func TestReaderOptions(t *testing.T) {
	cl, closes, err := NewReader([]kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer closes()
	if got, _ := cl.OptValue(kgo.FetchIsolationLevel).(int8); got != 1 {
		t.Errorf("its isolation level is %d", got)
	}
	if got, _ := cl.OptValue(kgo.KeepControlRecords).(bool); !got {
		t.Error("it drops control records")
	}
	if got, _ := cl.OptValue(kgo.KeepRetryableFetchErrors).(bool); !got {
		t.Error("it is not told what is refused")
	}
	if got, _ := cl.OptValue(kgo.ConsumeResetOffset).(kgo.Offset); got != kgo.NoResetOffset() {
		t.Errorf("it goes on from %v", got)
	}
}
