package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/state"
)

// fill writes n records to each partition of a topic.
func fill(t *testing.T, addr, topic string, partitions, n int) {
	t.Helper()
	cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range partitions {
		for range n {
			r := &kgo.Record{Topic: topic, Partition: int32(p), Value: []byte("x"), Headers: []kgo.RecordHeader{
				{Key: "delay-for", Value: []byte("1ms")}, {Key: "delay-target-topic", Value: []byte("orders")},
			}}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func commit(t *testing.T, addr, topic string, partition int32, offset int64, metadata string) {
	t.Helper()
	o := kadm.Offsets{}
	o.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset, LeaderEpoch: -1, Metadata: metadata})
	if err := kadm.NewClient(client(t, addr)).CommitAllOffsets(t.Context(), "g", o); err != nil {
		t.Fatal(err)
	}
}

// metadataOf is a sound checkpoint of a topic.
func metadataOf(t *testing.T, c *kfake.Cluster, topic string, low int64) string {
	t.Helper()
	id := c.TopicInfo(topic).TopicID
	m, err := state.Checkpoint{
		TopicID: [4]byte(id[:4]), Offset: 4, LowWater: low, Watermark: state.Key{Due: 1_800_000_000_123, Seq: 2},
		Writer: "g-abc-0", Parsers: []state.ParserEpoch{{From: 0, Spec: "p1"}},
	}.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rowsOf(t *testing.T, addr string, more ...string) map[int32]checkpointRow {
	t.Helper()
	out, err := command(t, "", append([]string{"checkpoints", "-b", addr, "-g", "g", "-t", "delays", "-o", "json"}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	var rows []checkpointRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	m := map[int32]checkpointRow{}
	for _, r := range rows {
		m[r.Partition] = r
	}
	return m
}

func TestCheckpoints(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 6})
	fill(t, addr, "delays", 6, 6)
	commit(t, addr, "delays", 1, 4, metadataOf(t, c, "delays", 3))
	commit(t, addr, "delays", 2, 4, "set by hand")
	commit(t, addr, "delays", 3, 4, "dw2 t=00000000")
	commit(t, addr, "delays", 4, 4, "dw1 t=00000000 w=0:0 l=3")
	commit(t, addr, "delays", 5, 4, metadataOf(t, c, "delays", 0))
	if err := c.DeleteRecords("delays", 5, 2); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, addr)
	for p, want := range map[int32]string{
		0: "",
		1: "",
		2: "not a checkpoint of ours: `duewheel checkpoints reset` chooses the way on",
		3: "unreadable: state: unknown version of commit metadata: it is dw2, and this release reads dw1; a newer one wrote it: run one that reads dw2 " +
			"(see `duewheel version`), and the partition goes on where it is assigned to one; a rollout must not skip a release",
		4: "of another topic of this name: the topic was made anew",
		5: "the log begins at 2: it has lost pending records",
	} {
		if got := rows[p].Problem; got != want {
			t.Errorf("partition %d: problem %q, want %q", p, got, want)
		}
	}
	if r := rows[0]; r.Offset != nil || r.Behind != 6 {
		t.Errorf("nothing committed: %+v", r)
	}
	if r := rows[1]; *r.Offset != 4 || r.Behind != 2 || r.LowWater != 3 || r.WatermarkDue != 1_800_000_000_123 || r.WatermarkSeq != 2 ||
		r.Writer != "g-abc-0" || fmt.Sprint(r.Parsers) != "[0:p1]" || r.LogEnd != 6 {
		t.Errorf("a sound checkpoint: %+v", r)
	}
	if r := rows[2]; r.Metadata != "set by hand" {
		t.Errorf("foreign metadata: %+v", r)
	}
	out, err := command(t, "", "checkpoints", "-b", addr, "-g", "g")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
TOPIC   PARTITION  OFFSET  BEHIND  WATERMARK                   LOW WATER  LOG   WRITER   NOTE
delays  0          -       6       -                           -          0..6           nothing committed: begins where its state directory stands, or at the start of the log
delays  1          4       2       2027-01-15T08:00:00.123Z:2  3          0..6  g-abc-0  `, "\n")
	if !strings.HasPrefix(out, want) {
		t.Errorf("got:\n%s\nwant it to begin:\n%s", out, want)
	}
}

// A checkpoint is written by whoever may commit for the group.
func TestCheckpointsAreShownToATerminal(t *testing.T) {
	var out strings.Builder
	if err := printCheckpoints(&out, []checkpointRow{{Topic: "t", Writer: "w\x1b[2J"}}); err != nil || !strings.Contains(out.String(), `"w\x1b[2J"`) {
		t.Errorf("%v: %q", err, out.String())
	}
}

func TestReset(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 3})
	fill(t, addr, "delays", 3, 6)
	if err := c.DeleteRecords("delays", 2, 1); err != nil {
		t.Fatal(err)
	}
	sound := metadataOf(t, c, "delays", 3)
	commit(t, addr, "delays", 0, 4, sound)
	commit(t, addr, "delays", 1, 4, "")
	commit(t, addr, "delays", 2, 5, "mirrored")
	reset := func(args ...string) (string, error) {
		return command(t, "", append([]string{"checkpoints", "reset", "-b", addr, "-g", "g", "-X", "routes[0].topic=delays", "-X", "routes[0].delay=5m", "-t", "delays"}, args...)...)
	}
	for _, test := range []struct {
		name, want string
		args       []string
	}{
		{"no way chosen", "say where to go on from: --to-beginning or --to-offset", nil},
		{"both ways", "--to-beginning and --to-offset: give one of them", []string{"--to-beginning", "--to-offset", "3"}},
		{"a partition that is not there", "delays has no partition 9", []string{"--to-beginning", "-p", "9"}},
		{"outside of the log", "delays/2: offset 0 is outside of the log, 1 to 6", []string{"--to-offset", "0", "-p", "2"}},
		{"a sound one by name", "delays/0 has a sound checkpoint, or none, and begins where a state directory stands or at the start of the log anyway; --force resets it all the same", []string{"--to-beginning", "-p", "0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := reset(test.args...); errText(err) != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
	if out, err := reset("--to-offset", "3", "-p", "1"); err != nil || out != "delays/1: was 4, goes on from 3\n" {
		t.Fatalf("printed %q, %v", out, err)
	}
	if out, err := reset("--to-beginning"); err != nil || out != "delays/2: was 5, goes on from 1\n" {
		t.Fatalf("printed %q, %v", out, err)
	}
	rows := rowsOf(t, addr)
	for p, want := range map[int32]int64{0: 4, 1: 3, 2: 1} {
		r := rows[p]
		if r.Problem != "" || *r.Offset != want {
			t.Errorf("partition %d goes on from %d (%s), want %d", p, *r.Offset, r.Problem, want)
		}
		if p > 0 && (r.LowWater != want || r.WatermarkDue != 0 || !r.Appended || r.GivenUp != want || fmt.Sprint(r.Parsers) != fmt.Sprintf("[%d:p1+300000]", want)) {
			t.Errorf("partition %d: %+v", p, r)
		}
	}
	if out, err := reset("--to-beginning"); err != nil || !strings.HasPrefix(out, "every checkpoint is sound: nothing was changed") {
		t.Errorf("printed %q, %v", out, err)
	}
	// The writer stays named: it may have left a transaction open.
	if _, err := reset("--to-beginning", "--force", "-p", "0"); err != nil {
		t.Fatal(err)
	}
	if r := rowsOf(t, addr)[0]; *r.Offset != 0 || r.Writer != "g-abc-0" {
		t.Errorf("forced: %+v", r)
	}
}

// A partition is reset for the name by which its group goes in the others, whether or not the configuration says that.
func TestResetKeepsTheIdentity(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 2})
	fill(t, addr, "delays", 2, 6)
	id := c.TopicInfo("delays").TopicID
	former, err := state.Checkpoint{TopicID: [4]byte(id[:4]), Offset: 4, Identity: "former"}.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	commit(t, addr, "delays", 0, 4, former)
	commit(t, addr, "delays", 1, 4, "mirrored")
	if _, err := command(t, "", "checkpoints", "reset", "-b", addr, "-g", "g", "-t", "delays", "--to-beginning"); err != nil {
		t.Fatal(err)
	}
	if r := rowsOf(t, addr)[1]; r.Problem != "" || r.Identity != "former" {
		t.Errorf("it goes by %q: %+v", r.Identity, r)
	}
}

func TestResetRefusesAnActiveGroup(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1})
	commit(t, addr, "delays", 0, 0, "")
	member := client(t, addr, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("delays"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	adm := newPatient(client(t, addr))
	for mustBeEmpty(ctx, adm, "g") == nil && ctx.Err() == nil {
		polling, stop := context.WithTimeout(ctx, patience/1000)
		member.PollFetches(polling)
		stop()
	}
	_, err := command(t, "", "checkpoints", "reset", "-b", addr, "-g", "g", "-t", "delays", "--to-beginning")
	if err == nil || !strings.HasPrefix(err.Error(), "group g is active (") {
		t.Errorf("got %v", err)
	}
}

// A group of the consumer protocol (KIP-848) is not in the answer to a request for groups of the classic protocol, and is as active.
func TestResetRefusesAGroupOfTheOtherProtocol(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1})
	fill(t, addr, "delays", 1, 6)
	c.ControlKey(int16(kmsg.DescribeGroups), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.DescribeGroupsResponse)
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.State, g.ErrorCode = "g", "Dead", kerr.GroupIDNotFound.Code
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	c.ControlKey(int16(kmsg.ConsumerGroupDescribe), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
		g := kmsg.NewConsumerGroupDescribeResponseGroup()
		g.Group, g.State, g.Members = "g", "Stable", make([]kmsg.ConsumerGroupDescribeResponseGroupMember, 2)
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	_, err := command(t, "", "checkpoints", "reset", "-b", addr, "-g", "g", "-t", "delays", "--to-beginning", "--force")
	if want := "group g is active (Stable, 2 members): stop its processors first"; errText(err) != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// A processor that was started meanwhile is seen before anything is written: the broker would take it all the same.
func TestResetAsksOnceMore(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1})
	fill(t, addr, "delays", 1, 6)
	commit(t, addr, "delays", 0, 3, "")
	asked := 0
	c.ControlKey(int16(kmsg.DescribeGroups), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if asked++; asked == 1 {
			return nil, nil, false
		}
		req := kreq.(*kmsg.DescribeGroupsRequest)
		resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.State, g.Members = "g", "Stable", []kmsg.DescribeGroupsResponseGroupMember{kmsg.NewDescribeGroupsResponseGroupMember()}
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	_, err := command(t, "", "checkpoints", "reset", "-b", addr, "-g", "g", "-t", "delays", "--to-beginning")
	if want := "group g is active (Stable, 1 member): stop its processors first"; errText(err) != want || asked != 2 {
		t.Errorf("asked %d times, and got %v\nwant %s", asked, err, want)
	}
	if r := rowsOf(t, addr)[0]; *r.Offset != 3 {
		t.Errorf("it goes on from %d", *r.Offset)
	}
}

// What the coordinator refuses is said, and the exit code is not that of a success.
func TestResetSaysWhatIsRefused(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1})
	fill(t, addr, "delays", 1, 6)
	commit(t, addr, "delays", 0, 3, "")
	c.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.OffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, topic := range req.Topics {
			answer := kmsg.NewOffsetCommitResponseTopic()
			answer.Topic, answer.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				refused := kmsg.NewOffsetCommitResponseTopicPartition()
				refused.Partition, refused.ErrorCode = p.Partition, kerr.OffsetMetadataTooLarge.Code
				answer.Partitions = append(answer.Partitions, refused)
			}
			resp.Topics = append(resp.Topics, answer)
		}
		return resp, nil, true
	})
	out, err := command(t, "", "checkpoints", "reset", "-b", addr, "-g", "g", "-t", "delays", "--to-beginning")
	if !errors.Is(err, kerr.OffsetMetadataTooLarge) || !strings.HasPrefix(errText(err), "commit offset of delays/0: ") {
		t.Errorf("printed %q and got %v", out, err)
	}
}

// The whole way: a partition stops at an offset set by a tool, reset chooses, and it goes on.
func TestResetLetsAStoppedPartitionGoOn(t *testing.T) {
	for _, test := range []struct {
		way  []string
		want int
	}{
		{[]string{"--to-beginning"}, 6},
		{[]string{"--to-offset", "4"}, 2},
	} {
		t.Run(strings.Join(test.way, " "), func(t *testing.T) {
			_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
			fill(t, addr, "delays", 1, 6)
			commit(t, addr, "delays", 0, 3, "")
			if _, err := command(t, "", append([]string{"checkpoints", "reset", "-b", addr, "-g", "g", "-t", "delays"}, test.way...)...); err != nil {
				t.Fatal(err)
			}
			stop, log := start(t, addr, t.TempDir())
			defer func() {
				if err := stop(); err != nil {
					t.Errorf("run ended with %v\n%s", err, log)
				}
			}()
			records := fetch(t, addr, "orders", test.want)
			if got := headers(records[0])["delay-source"]; !strings.HasSuffix(got, fmt.Sprint("/", 6-test.want)) {
				t.Errorf("the first delivered is from offset %s", got)
			}
			if len(records) != test.want {
				t.Errorf("%d records delivered, want %d", len(records), test.want)
			}
		})
	}
}

// A cluster that has never had a group has no coordinator for some seconds: that is not worth an error.
func TestCheckpointsWaitForACoordinator(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1})
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 3})
	out, err := command(t, "", "checkpoints", "-b", addr, "-g", "g", "-t", "delays")
	if err != nil || !strings.Contains(out, "nothing committed") {
		t.Errorf("got %v\n%s", err, out)
	}
	if n := fault.Hits(); n != 3 {
		t.Errorf("%d requests were refused", n)
	}
}

// What brokers do not tell of one partition is no checkpoint that is missing, and no log that has ended: nothing is reset by it.
func TestCheckpointsOfWhatIsNotTold(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1})
	fill(t, addr, "delays", 1, 6)
	commit(t, addr, "delays", 0, 4, metadataOf(t, c, "delays", 3))
	c.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked, resp := req.(*kmsg.ListOffsetsRequest), req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, topic := range asked.Topics {
			told := kmsg.NewListOffsetsResponseTopic()
			told.Topic = topic.Topic
			for _, p := range topic.Partitions {
				told.Partitions = append(told.Partitions, kmsg.ListOffsetsResponseTopicPartition{Partition: p.Partition, ErrorCode: kerr.UnknownServerError.Code, Offset: -1})
			}
			resp.Topics = append(resp.Topics, told)
		}
		return resp, nil, true
	})
	for _, args := range [][]string{{}, {"reset", "--to-beginning"}} {
		out, err := command(t, "", append(append([]string{"checkpoints"}, args...), "-b", addr, "-g", "g", "-t", "delays")...)
		if err == nil || !strings.Contains(err.Error(), "delays/0: UNKNOWN_SERVER_ERROR") {
			t.Errorf("%v: printed %q, %v", args, out, err)
		}
	}
	var row checkpointRow
	if row.judge(kadm.OffsetResponse{Offset: kadm.Offset{At: -1}, Err: kerr.TopicAuthorizationFailed}, true, kadm.TopicID{}); row.Problem == "" {
		t.Error("a checkpoint that is refused counts as none")
	}
}

// A checkpoint of another release does not keep what another partition has from being shown, and is told.
func TestGetBesideAnUnreadableCheckpoint(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 2, "orders": 1})
	if out, err := command(t, "", "produce", "-b", addr, "-t", "delays", "--to", "orders", "--for", "1h", "-v", "payload", "--id", "reminder-1", "-p", "1"); err != nil {
		t.Fatal(out, err)
	}
	commit(t, addr, "delays", 0, 0, "dw2 t=00000000")
	out, _, err := both(t, "get", "reminder-1", "-b", addr, "-g", "g", "-t", "delays")
	if err == nil || !strings.Contains(err.Error(), "checkpoint of delays/0") || !strings.Contains(out, "payload") {
		t.Errorf("printed %q, %v", out, err)
	}
}

// How far behind a checkpoint is that lies in a log which cannot be asked is not known, and is not said to be nothing.
func TestBehindIsNotKnown(t *testing.T) {
	for _, committed := range []bool{false, true} {
		r := checkpointRow{LogStart: -1, LogEnd: -1}
		r.judge(kadm.OffsetResponse{Offset: kadm.Offset{At: 7, Metadata: "-"}}, committed, kadm.TopicID{})
		if r.Behind != -1 {
			t.Errorf("committed: %v: it is %d behind", committed, r.Behind)
		}
	}
}
