package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/answers"
)

// commits has a broker that answers offset commits, plain and in transactions, as it is told to.
func commits(t *testing.T, answer func(kmsg.Request) (kmsg.Response, error)) (*Coordinator, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, key := range []kmsg.Key{kmsg.OffsetCommit, kmsg.TxnOffsetCommit} {
		c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			resp, err := answer(req)
			return resp, err, true
		})
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return NewCoordinator("g"), cl
}

// inBothWays commits the same plainly and in a transaction.
func inBothWays(t *testing.T, co *Coordinator, cl *kgo.Client, m Member, entries []Commit) map[string]error {
	t.Helper()
	return map[string]error{
		"plain":            co.Commit(t.Context(), cl, m, entries),
		"in a transaction": co.CommitIn(t.Context(), cl, "writer-0", ProducerID{}, m, entries),
	}
}

// One partition of many that is refused is an error, and that names it and no other. New brokers tell topics by id alone.
func TestCommitRefusedOfOne(t *testing.T) {
	for _, byID := range []bool{false, true} {
		co, cl := commits(t, func(req kmsg.Request) (kmsg.Response, error) {
			name := entries[1].TP.Topic
			if byID {
				name = ""
			}
			resp := answers.Commit(req, 0)
			switch resp := resp.(type) {
			case *kmsg.OffsetCommitResponse:
				resp.Topics[1].Topic, resp.Topics[1].Partitions[0].ErrorCode = name, kerr.OffsetMetadataTooLarge.Code
			case *kmsg.TxnOffsetCommitResponse:
				resp.Topics[1].Topic, resp.Topics[1].Partitions[0].ErrorCode = name, kerr.OffsetMetadataTooLarge.Code
			}
			return resp, nil
		})
		for way, err := range inBothWays(t, co, cl, someone, entries) {
			refused := RefusedOf(err)
			if !errors.Is(err, kerr.OffsetMetadataTooLarge) || len(refused) != 1 || refused[entries[1].TP] != kerr.OffsetMetadataTooLarge {
				t.Errorf("%s, by id %v: %v, of %v", way, byID, err, refused)
			}
		}
	}
}

// What is not answered may have been carried out, so it is refused of no partition.
func TestCommitUnansweredIsNotRefused(t *testing.T) {
	silent := false
	co, cl := commits(t, func(req kmsg.Request) (kmsg.Response, error) {
		if !silent {
			return answers.Commit(req, 0), nil
		}
		return nil, errNoAnswer
	})
	for way, err := range inBothWays(t, co, cl, someone, entries) { // on a connection that has been used
		if err != nil {
			t.Fatal(way, err)
		}
	}
	silent = true
	if err := co.Commit(t.Context(), cl, someone, entries); !errors.Is(err, ErrUnanswered) || RefusedOf(err) != nil {
		t.Errorf("%v, refused of %v", err, RefusedOf(err))
	}
	if _, known := co.last(); known {
		t.Error("the coordinator that does not answer is asked again without a look where it is")
	}
}

// Of a static member (KIP-345) brokers have to know the instance, or they do not tell it from the one in whose place it is.
func TestCommitNamesTheInstance(t *testing.T) {
	var got []*string
	co, cl := commits(t, func(req kmsg.Request) (kmsg.Response, error) {
		switch req := req.(type) {
		case *kmsg.OffsetCommitRequest:
			got = append(got, req.InstanceID)
		case *kmsg.TxnOffsetCommitRequest:
			got = append(got, req.InstanceID)
		}
		return answers.Commit(req, 0), nil
	})
	instance := "i"
	for way, err := range inBothWays(t, co, cl, Member{ID: "m", Generation: 1, Instance: &instance}, entries) {
		if err != nil {
			t.Fatal(way, err)
		}
	}
	if len(got) != 2 || got[0] == nil || *got[0] != instance || got[1] == nil || *got[1] != instance {
		t.Errorf("the instance is %v", got)
	}
}

// A request commits no more than a coordinator can write at once, and all together commit everything once.
func TestCommitsArePortioned(t *testing.T) {
	co := NewCoordinator(strings.Repeat("g", 200))
	size := func(of []Commit) (n int) {
		for _, e := range of {
			n += len(e.Metadata) + len(e.TP.Topic) + len(co.group)
		}
		return n
	}
	for _, metadata := range []int{0, 10, 4096, CommitBytes} {
		var all []Commit
		for i := range 3000 {
			if metadata == CommitBytes && i > 3 {
				break
			}
			all = append(all, Commit{TP: TopicPartition{strings.Repeat("t", 200), int32(i)}, Metadata: strings.Repeat("m", metadata)})
		}
		next, portions := int32(0), co.portions(all)
		for _, p := range portions {
			if len(p) == 0 || len(p) > 1 && size(p) > CommitBytes {
				t.Errorf("metadata of %d bytes: a portion has %d partitions, of %d bytes", metadata, len(p), size(p))
			}
			for _, e := range p {
				if e.TP.Partition != next {
					t.Fatalf("metadata of %d bytes: partition %d follows %d", metadata, e.TP.Partition, next-1)
				}
				next++
			}
		}
		if most := 2*size(all)/CommitBytes + 1; int(next) != len(all) || metadata < CommitBytes && len(portions) > most {
			t.Errorf("metadata of %d bytes: %d of %d partitions, in %d portions of %d at most", metadata, next, len(all), len(portions), most)
		}
	}
}

// Some refusals are for what one partition wants to commit; the others mean that of no partition anything was committed.
func TestIsPartitions(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.OffsetMetadataTooLarge: true, kerr.InvalidCommitOffsetSize: true, kerr.TopicAuthorizationFailed: true,
		kerr.IllegalGeneration: false, kerr.NotCoordinator: false, kerr.GroupAuthorizationFailed: false, kerr.UnknownTopicOrPartition: false,
	} {
		if got := IsPartitions(fmt.Errorf("claim: %w", err)); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
