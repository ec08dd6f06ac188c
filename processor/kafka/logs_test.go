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
)

// logsClient is for a cluster of one broker and one topic, whose answers to one request are changed.
func logsClient(t *testing.T, key kmsg.Key, change func(kmsg.Request) kmsg.Response) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequestRetries(0), kgo.DefaultProduceTopic(testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := change(req)
		return resp, nil, resp != nil
	})
	return c, cl
}

// A topic is gone when brokers say that they do not know it, and for no other answer: what is kept of one that is gone is deleted.
func TestFindTopics(t *testing.T) {
	id := TopicID{1}
	for _, test := range []struct {
		name string
		id   TopicID
		code int16
		want *TopicID
	}{
		{"it is there", id, 0, &id},
		{"it is unknown", TopicID{}, kerr.UnknownTopicOrPartition.Code, &TopicID{}},
		{"forbidden", TopicID{}, kerr.TopicAuthorizationFailed.Code, nil},
		{"without a leader", id, kerr.LeaderNotAvailable.Code, nil},
		{"a broker that tells no ids", TopicID{}, 0, nil},
	} {
		_, cl := logsClient(t, kmsg.Metadata, func(req kmsg.Request) kmsg.Response {
			resp, topic := req.ResponseKind().(*kmsg.MetadataResponse), kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.TopicID, topic.ErrorCode = kmsg.StringPtr(testTopic), test.id, test.code
			resp.Topics = append(resp.Topics, topic)
			return resp
		})
		found, err := FindTopics(t.Context(), cl, []string{testTopic})
		if got, is := found[testTopic]; err != nil || is != (test.want != nil) || is && got != *test.want {
			t.Errorf("%s: %x, %v, %v", test.name, got, is, err)
		}
	}
}

// An id is not known of a topic that brokers refuse, whose id they do not tell, or that has not got the partition; and that says which of these it is.
func TestTopicIDs(t *testing.T) {
	tp := TopicPartition{Topic: testTopic}
	for _, test := range []struct {
		name string
		id   TopicID
		code int16
		tp   TopicPartition
		want error
	}{
		{"it is there", TopicID{1}, 0, tp, nil},
		{"refused", TopicID{1}, kerr.TopicAuthorizationFailed.Code, tp, kerr.TopicAuthorizationFailed},
		{"a broker that tells no ids", TopicID{}, 0, tp, ErrBrokersTooOld},
		{"fewer partitions", TopicID{1}, 0, TopicPartition{testTopic, 7}, ErrNoPartition},
	} {
		_, cl := logsClient(t, kmsg.Metadata, func(req kmsg.Request) kmsg.Response {
			resp, topic, p := req.ResponseKind().(*kmsg.MetadataResponse), kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
			topic.Topic, topic.TopicID, topic.ErrorCode, topic.Partitions = kmsg.StringPtr(testTopic), test.id, test.code, append(topic.Partitions, p)
			resp.Topics = append(resp.Topics, topic)
			return resp
		})
		ids, err := TopicIDs(t.Context(), cl, []TopicPartition{test.tp})
		if id, is := ids[test.tp]; !errors.Is(err, test.want) || (err == nil) != (test.want == nil) || is != (err == nil) || is && id != test.id {
			t.Errorf("%s: %x, %v", test.name, ids, err)
		}
	}
}

// A topic that is forbidden keeps the ids, and the ends of logs and of leader epochs, of no other from being known.
func TestForbiddenTopicHoldsUpNoOther(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, testTopic, "others", "more"), kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "some", "some",
		allow(kmsg.ACLResourceTypeTopic, "others", kmsg.ACLOperationRead), allow(kmsg.ACLResourceTypeTopic, "more", kmsg.ACLOperationRead)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl := groupsClient(t, c, "some")
	forbidden, others := TopicPartition{Topic: testTopic}, []TopicPartition{{Topic: "others"}, {Topic: "more"}}
	all := append([]TopicPartition{forbidden}, others...)
	ids, err := TopicIDs(t.Context(), cl, all)
	if !errors.Is(err, kerr.TopicAuthorizationFailed) || len(ids) != 2 {
		t.Errorf("ids are %v, %v", ids, err)
	}
	bounds, err := AskBounds(t.Context(), cl, all)
	if err != nil || !errors.Is(bounds[forbidden].Err, kerr.TopicAuthorizationFailed) || !strings.Contains(fmt.Sprint(bounds[forbidden].Err), testTopic) {
		t.Errorf("the ends of the log that is forbidden are %+v, %v", bounds[forbidden], err)
	}
	for _, tp := range others {
		if b, is := bounds[tp]; !is || b.Err != nil || ids[tp] != TopicID(c.TopicInfo(tp.Topic).TopicID) {
			t.Errorf("%s has id %x, and its log ends at %+v", tp, ids[tp], b)
		}
	}
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetForLeaderEpoch}, Topic: "more", Err: kerr.TopicAuthorizationFailed, Count: -1}) // a right that is taken away while the client knows of the topic
	for range 20 {                                                                                                                  // it is asked for first, or last
		ends, err := AskEpochs(t.Context(), cl, map[TopicPartition]int32{others[0]: 0, others[1]: 0})
		if err != nil || ends[others[0]] != 0 || ends[others[1]] != -1 {
			t.Fatalf("epoch 0 ends at %v, %v", ends, err)
		}
	}
	if _, err := AskBounds(t.Context(), cl, all[:1]); err == nil || !strings.Contains(err.Error(), testTopic) {
		t.Errorf("what is forbidden is not named: %v", err)
	}
}

// Of no partition nothing is asked: a request without topics is for all that the cluster has.
func TestNothingIsAskedOfNoPartition(t *testing.T) {
	_, cl := logsClient(t, kmsg.Metadata, func(kmsg.Request) kmsg.Response {
		t.Error("it asks for topics")
		return nil
	})
	if ids, err := TopicIDs(t.Context(), cl, nil); err != nil || len(ids) != 0 {
		t.Errorf("%v, %v", ids, err)
	}
	if bounds, err := AskBounds(t.Context(), cl, nil); err != nil || len(bounds) != 0 {
		t.Errorf("%v, %v", bounds, err)
	}
}

// listed is the answer to a question where a log begins or ends: which of the three that were asked it is.
func listed(kreq kmsg.Request, answer func(which string, p *kmsg.ListOffsetsResponseTopicPartition)) *kmsg.ListOffsetsResponse {
	req, resp := kreq.(*kmsg.ListOffsetsRequest), kreq.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, rt := range req.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.Timestamp, p.Offset = rp.Partition, -1, 5
			which := "high"
			if rp.Timestamp == -2 {
				which = "start"
			} else if req.IsolationLevel == 1 {
				which = "stable"
			}
			answer(which, &p)
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// What is refused of one of the three ends of a log is not known of that partition; it is of the others. Answers that were given one after the other do not contradict
// each other.
func TestBoundsOfOneAreLacking(t *testing.T) {
	tps := []TopicPartition{{testTopic, 0}, {testTopic, 1}}
	for _, lacking := range []string{"start", "stable", "high"} {
		_, cl := logsClient(t, kmsg.ListOffsets, func(req kmsg.Request) kmsg.Response {
			if timeout := req.(*kmsg.ListOffsetsRequest).TimeoutMillis; timeout > int32(BrokerPatience.Milliseconds()) {
				t.Errorf("a broker may take %d ms, in which all that follows on the connection waits", timeout)
			}
			return listed(req, func(which string, p *kmsg.ListOffsetsResponseTopicPartition) {
				if which == lacking && p.Partition == 0 {
					p.Offset, p.ErrorCode = -1, kerr.UnknownTopicOrPartition.Code
				}
			})
		})
		all, err := AskBounds(t.Context(), cl, tps)
		if err != nil || !errors.Is(all[tps[0]].Err, kerr.UnknownTopicOrPartition) || all[tps[1]].Err != nil {
			t.Errorf("without %s: %+v, %v", lacking, all, err)
		}
		leader, err := LeaderOf(t.Context(), cl, tps[0])
		if err != nil {
			t.Fatal(err)
		}
		if b, err := BoundsOf(t.Context(), leader, tps[0]); !errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.Errorf("without %s, by itself: %+v, %v", lacking, b, err)
		}
		if _, err := BoundsOf(t.Context(), leader, tps[1]); err != nil {
			t.Errorf("without %s of another one: %v", lacking, err)
		}
	}
	_, cl := logsClient(t, kmsg.ListOffsets, func(req kmsg.Request) kmsg.Response {
		return listed(req, func(which string, p *kmsg.ListOffsetsResponseTopicPartition) {
			p.Offset = map[string]int64{"start": 9, "stable": 7, "high": 5}[which]
		})
	})
	all, err := AskBounds(t.Context(), cl, tps[:1])
	if b := all[tps[0]]; err != nil || b.Err != nil || b.Start > b.Stable || b.Stable > b.High {
		t.Errorf("%+v, %v", b, err)
	}
}

// A leader that refuses to tell of leader epochs, has none, or says 0 of all, does not tell, and that is for good; what passes is an error.
func TestTellsEpochs(t *testing.T) {
	tp := TopicPartition{Topic: testTopic}
	for _, test := range []struct {
		name  string
		end   int64
		code  int16
		tells bool
		err   error
	}{
		{"as it is", 5, 0, true, nil},
		{"the log goes on", 6, 0, true, nil},
		{"0 of all", 0, 0, false, nil},
		{"of a leader that is none any more", 4, 0, false, kerr.NotLeaderForPartition},
		{"fenced", -1, kerr.FencedLeaderEpoch.Code, false, kerr.FencedLeaderEpoch},
		{"refused", -1, kerr.TopicAuthorizationFailed.Code, false, nil},
	} {
		fenced := false // by its epoch, a leader that is none any more does not answer
		c, cl := logsClient(t, kmsg.OffsetForLeaderEpoch, func(kreq kmsg.Request) kmsg.Response {
			resp, topic, p := kreq.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse), kmsg.NewOffsetForLeaderEpochResponseTopic(), kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			of := kreq.(*kmsg.OffsetForLeaderEpochRequest).Topics[0].Partitions[0]
			fenced = fenced || of.CurrentLeaderEpoch >= 0 && of.CurrentLeaderEpoch == of.LeaderEpoch
			topic.Topic, p.EndOffset, p.ErrorCode = testTopic, test.end, test.code
			topic.Partitions = append(topic.Partitions, p)
			resp.Topics = append(resp.Topics, topic)
			return resp
		})
		tells, err := TellsEpochs(t.Context(), cl, tp, 5)
		if tells != test.tells || !errors.Is(err, test.err) || (err == nil) != (test.err == nil) || !fenced {
			t.Errorf("%s: %v, %v, and a leader of before is fenced: %v", test.name, tells, err, fenced)
		}
		var e Epochs
		if until, lost, err := e.Lost(t.Context(), cl, tp, 0, 9, 5); lost || err != nil {
			t.Errorf("%s: it is lost from %d on, %v, and brokers cannot be asked", test.name, until, err)
		}
		e.Tell(true)
		epoch := c.PartitionInfo(testTopic, 0).Epoch
		until, lost, err := e.Lost(t.Context(), cl, tp, epoch, 9, 5)
		if lost != (test.tells && err == nil) || lost && until != test.end {
			t.Errorf("%s: lost from %d on: %v, %v", test.name, until, lost, err)
		}
		if _, lost, err := e.Lost(t.Context(), cl, tp, epoch, test.end, 5); lost || test.end >= 0 && err != nil {
			t.Errorf("%s: what lies below the end of its epoch is lost: %v, %v", test.name, lost, err)
		}
	}
}

// An end of an epoch that is worth another try is not known, and the error says so; one that is refused is none.
func TestAskEpochsOfOne(t *testing.T) {
	tps := []TopicPartition{{testTopic, 0}, {testTopic, 1}}
	for code, known := range map[int16]bool{kerr.NotLeaderForPartition.Code: false, kerr.InvalidRequest.Code: true} {
		_, cl := logsClient(t, kmsg.OffsetForLeaderEpoch, func(kreq kmsg.Request) kmsg.Response {
			resp, topic := kreq.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse), kmsg.NewOffsetForLeaderEpochResponseTopic()
			for _, rp := range kreq.(*kmsg.OffsetForLeaderEpochRequest).Topics[0].Partitions {
				p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				if p.Partition, p.EndOffset = rp.Partition, 5; p.Partition == 0 {
					p.EndOffset, p.ErrorCode = -1, code
				}
				topic.Partitions = append(topic.Partitions, p)
			}
			topic.Topic = testTopic
			resp.Topics = append(resp.Topics, topic)
			return resp
		})
		ends, err := AskEpochs(t.Context(), cl, map[TopicPartition]int32{tps[0]: 0, tps[1]: 0})
		if end, is := ends[tps[0]]; is != known || is && end != -1 || (err == nil) != known || ends[tps[1]] != 5 {
			t.Errorf("code %d: %v, %v", code, ends, err)
		}
	}
}
