package main

import (
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// twoCheckpoints are those of group g in two partitions; it has read another topic, too.
func twoCheckpoints(t *testing.T) (*kfake.Cluster, string) {
	t.Helper()
	c, addr := cluster(t, map[string]int32{"delays": 2, "reminders": 1, "notes": 1})
	fill(t, addr, "delays", 2, 6)
	for p := range int32(2) {
		commit(t, addr, "delays", p, 4, metadataOf(t, c, "delays", 3))
	}
	commit(t, addr, "notes", 0, 0, "")
	return c, addr
}

func move(t *testing.T, addr, from, to string, more ...string) (string, error) {
	t.Helper()
	return command(t, "", append([]string{"checkpoints", "move", "-b", addr, "--from", from, "-g", to}, more...)...)
}

const bothMoved = "delays/0: goes on from 4\ndelays/1: goes on from 4\n"

// What ls and agenda cannot tell of a group that has given its checkpoints is said once for each topic, whatever partitions it has.
func TestLookAtAGroupThatGaveItsCheckpoints(t *testing.T) {
	_, addr := twoCheckpoints(t)
	if _, err := move(t, addr, "g", "h"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ls", "agenda"} {
		_, err := command(t, "", name, "-b", addr, "-g", "g", "-t", "delays")
		const want = "checkpoints of delays: state: the checkpoint was given to another group: group h takes the place of this one, so that is the one to start, and to ask for (-g)"
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestMove(t *testing.T) {
	_, addr := twoCheckpoints(t)
	is := func(group, identity string) {
		t.Helper()
		for p, r := range rowsOf(t, addr, "-g", group) {
			if r.Problem != "" || r.Offset == nil || *r.Offset != 4 || r.LowWater != 3 || r.WatermarkSeq != 2 || r.Writer != "g-abc-0" || r.Identity != identity || !slices.Equal(r.Parsers, []string{"0:p1"}) {
				t.Errorf("partition %d of group %s: %+v", p, group, r)
			}
		}
	}
	for _, s := range []struct{ from, to, says, identity string }{
		{"g", "h", "group.identity: g\nis what the configuration of group h must say before it is started\n", "g"},
		{"h", "i", "group.identity: g\nis what the configuration of group i must say before it is started\n", "g"},
		{"i", "g", "group g goes by its own name: its configuration must not say group.identity\n", ""},
	} {
		if out, err := move(t, addr, s.from, s.to); err != nil || out != bothMoved+s.says {
			t.Fatalf("printed %s, %v", out, err)
		}
		is(s.to, s.identity)
		for _, r := range rowsOf(t, addr, "-g", s.from) {
			if r.GivenTo != s.to || r.Problem != "given to group "+s.to+", which takes the place of this one" || r.LowWater != 0 || r.Identity != "" {
				t.Errorf("group %s has a checkpoint still: %+v", s.from, r)
			}
		}
	}
	got, err := kadm.NewClient(client(t, addr)).FetchOffsets(t.Context(), "g")
	if o, ok := got.Lookup("notes", 0); err != nil || !ok || o.At != 0 {
		t.Errorf("what is no checkpoint: %+v, %v", o, err)
	}
}

// A group does not begin in the place of another one that has its checkpoints still. It does when these were moved, and where it may not be told.
func TestRunBeforeTheMove(t *testing.T) {
	_, addr := twoCheckpoints(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := run(ctx, []string{"run", "-b", addr, "-g", "h", "-X", "group.identity=g", "-X", "routes[0].topic=delays", "-X", "routes[0].targets.allow=orders",
		"-X", "state.dir=" + t.TempDir(), "-X", "admin.listen=off"}, nil, io.Discard, io.Discard)
	const want = "group.identity is g, and that group has the checkpoints of delays still: this one would begin anew, and deliver once more what has been delivered. Stop the processors of group g, and then: duewheel checkpoints move --from g -g h"
	if errText(err) != want {
		t.Fatalf("got %v\nwant %s", err, want)
	}
	if _, err := move(t, addr, "g", "h"); err != nil {
		t.Fatal(err)
	}
	for _, s := range [][2]string{{"h", "g"}, {"i", "nobody"}} {
		stop, log := start(t, addr, t.TempDir(), "-g", s[0], "-X", "group.identity="+s[1])
		log.await(t, `partition is live`)
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// So it is where the group that had the name first has given its checkpoints on: the one that has them now is named.
func TestRunBeforeTheSecondMove(t *testing.T) {
	_, addr := twoCheckpoints(t)
	for _, s := range [][2]string{{"g", "h"}, {"h", "i"}} {
		if _, err := move(t, addr, s[0], s[1]); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := run(ctx, []string{"run", "-b", addr, "-g", "j", "-X", "group.identity=g", "-X", "routes[0].topic=delays", "-X", "routes[0].targets.allow=orders",
		"-X", "state.dir=" + t.TempDir(), "-X", "admin.listen=off"}, nil, io.Discard, io.Discard)
	const want = "group.identity is g, and group i, which takes its place, has the checkpoints of delays still: this one would begin anew, and deliver once more what has been delivered. Stop the processors of group i, and then: duewheel checkpoints move --from i -g j"
	if errText(err) != want {
		t.Fatalf("got %v\nwant %s", err, want)
	}
	if _, err := move(t, addr, "i", "j"); err != nil {
		t.Fatal(err)
	}
	stop, log := start(t, addr, t.TempDir(), "-g", "j", "-X", "group.identity=g")
	log.await(t, `partition is live`)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A former group that has begun anew all the same, as when brokers have forgotten it, does not keep from its work the one that has taken its place.
func TestRunBesideTheFormerGroup(t *testing.T) {
	c, addr := twoCheckpoints(t)
	if _, err := move(t, addr, "g", "h"); err != nil {
		t.Fatal(err)
	}
	commit(t, addr, "delays", 0, 4, metadataOf(t, c, "delays", 3))
	stop, log := start(t, addr, t.TempDir(), "-g", "h", "-X", "group.identity=g")
	log.await(t, `partition is live`, `and the same group.identity`)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// What was given to another group is not reset by the way: both would go by one name.
func TestResetOfWhatWasGiven(t *testing.T) {
	_, addr := twoCheckpoints(t)
	if _, err := move(t, addr, "g", "h"); err != nil {
		t.Fatal(err)
	}
	const want = "delays/0 was given to group h, which takes the place of this one"
	if _, err := command(t, "", "checkpoints", "reset", "-b", addr, "-g", "g", "-t", "delays", "--to-beginning"); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if out, err := command(t, "", "checkpoints", "reset", "-b", addr, "-g", "g", "-t", "delays", "--to-beginning", "--force"); err != nil || !strings.Contains(out, "delays/0: was 4, goes on from 0") {
		t.Errorf("printed %s, %v", out, err)
	}
}

// What is no checkpoint, of a topic of a route, is not left behind in silence.
func TestMoveOfARouteThatAToolHasSet(t *testing.T) {
	_, addr := twoCheckpoints(t)
	const want = "checkpoint of notes/0 in group g: state: commit metadata is not ours"
	if _, err := move(t, addr, "g", "h", "-X", "routes[0].topic=notes", "-X", "routes[0].target=orders"); errText(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, said, err := both(t, "checkpoints", "move", "-b", addr, "--from", "g", "-g", "h")
	if err != nil || !strings.Contains(said, "notes stays with group g: what that has committed there is no checkpoint of ours") {
		t.Errorf("it says %q, %v", said, err)
	}
}

func TestMoveInVain(t *testing.T) {
	c, addr := twoCheckpoints(t)
	for _, s := range []struct {
		name, from, to, want string
		more                 []string
	}{
		{"from nowhere", "", "h", "the checkpoints of which group? Give it with --from", nil},
		{"to itself", "g", "g", "--from g is the group itself", nil},
		{"of a group that is not there", "nobody", "h", "group nobody has no checkpoint", nil},
		{"of a topic that it has not read", "g", "h", "group g has no checkpoint of others", []string{"-t", "others"}},
		{"of a topic more that it has not read", "g", "h", "group g has no checkpoint of other", []string{"-t", "delays,other"}},
		{"of what is no checkpoint", "g", "h", "checkpoint of notes/0 in group g: state: commit metadata is not ours", []string{"-t", "notes"}},
	} {
		if _, err := move(t, addr, s.from, s.to, s.more...); errText(err) != s.want {
			t.Errorf("%s: %v\nwant %s", s.name, err, s.want)
		}
	}
	for _, s := range []struct {
		topic, want string
		partition   int32
	}{
		{"reminders", "group h goes by h in reminders/0, and would go by g in delays/0: a group has one group.identity, so only one that has read nothing, or goes by g, can take the place of group g", 0},
		{"delays", "group h has a checkpoint of delays/1 of its own, at 5, which is not that of group g: only a group that has not read a topic can take the place of another one there. " +
			"If that was moved before, and group g has gone on since, take it away first: kafka-consumer-groups.sh --delete-offsets --group h --topic delays", 1},
	} {
		o := kadm.Offsets{}
		o.Add(kadm.Offset{Topic: s.topic, Partition: s.partition, At: 5, LeaderEpoch: -1, Metadata: metadataOf(t, c, s.topic, 3)})
		adm := kadm.NewClient(client(t, addr))
		if err := adm.CommitAllOffsets(t.Context(), "h", o); err != nil {
			t.Fatal(err)
		}
		if _, err := move(t, addr, "g", "h"); errText(err) != s.want {
			t.Errorf("%v\nwant %s", err, s.want)
		}
		if _, err := adm.DeleteOffsets(t.Context(), "h", o.TopicsSet()); err != nil {
			t.Fatal(err)
		}
	}
	if r := rowsOf(t, addr)[0]; r.Offset == nil {
		t.Error("it has taken away a checkpoint all the same")
	}
}

// A move that was interrupted goes on when it is run again.
func TestMoveAgain(t *testing.T) {
	c, addr := twoCheckpoints(t)
	refuseCommit(c, "g", kerr.UnknownMemberID)
	if _, err := move(t, addr, "g", "h"); err == nil || !strings.HasPrefix(err.Error(), "the checkpoints were moved, and group g has them still, so run this again before any of both groups is started: ") {
		t.Errorf("got %v", err)
	}
	const says = "group.identity: g\nis what the configuration of group h must say before it is started\n"
	for _, want := range []string{bothMoved + says, "group g has given its checkpoints to group h before\n" + says} {
		if out, err := move(t, addr, "g", "h", "-t", "delays"); err != nil || out != want {
			t.Fatalf("printed %s, %v, want %s", out, err, want)
		}
	}
	if _, err := move(t, addr, "g", "i"); errText(err) != "group g has no checkpoint any more: it has given them to h" {
		t.Errorf("to a third one: %v", err)
	}
	if r := rowsOf(t, addr)[0]; r.GivenTo != "h" {
		t.Errorf("group g has a checkpoint still: %+v", r)
	}
}

// refuseCommit has a broker refuse the next commit of a group.
func refuseCommit(c *kfake.Cluster, group string, why *kerr.Error) {
	c.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.OffsetCommitRequest)
		if req.Group != group {
			c.KeepControl()
			return nil, nil, false
		}
		c.DropControl()
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, asked := range req.Topics {
			topic := kmsg.NewOffsetCommitResponseTopic()
			topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
			for _, p := range asked.Partitions {
				refused := kmsg.NewOffsetCommitResponseTopicPartition()
				refused.Partition, refused.ErrorCode = p.Partition, why.Code
				topic.Partitions = append(topic.Partitions, refused)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
}

// heldOpen has brokers say for some time that a transaction holds the checkpoint of a partition of the topic delays.
func heldOpen(c *kfake.Cluster, group string, partition int32, still func() bool) {
	c.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if !req.RequireStable || !still() {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.ErrorCode = partition, -1, kerr.UnstableOffsetCommit.Code
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = "delays", c.TopicInfo("delays").TopicID
		topic.Partitions = append(topic.Partitions, p)
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.Topics = group, append(g.Topics, topic)
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
}

// What a transaction holds comes to the group that it began in, so it is ended before anything is moved.
func TestMoveEndsWhatIsOpen(t *testing.T) {
	c, addr := twoCheckpoints(t)
	var fenced []string
	c.ControlKey(int16(kmsg.InitProducerID), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		fenced = append(fenced, *kreq.(*kmsg.InitProducerIDRequest).TransactionalID)
		return nil, nil, false
	})
	heldOpen(c, "g", 1, func() bool { return len(fenced) == 0 })
	if out, err := move(t, addr, "g", "h"); err != nil || !strings.Contains(out, bothMoved) {
		t.Fatalf("printed %s, %v", out, err)
	}
	slices.Sort(fenced)
	if want := "g-abc-0-0 g-abc-0-1 g-abc-0-2 g-abc-0-3 g-abc-0-4 g-abc-0-5 g-abc-0-6 g-abc-0-7"; strings.Join(fenced, " ") != want {
		t.Errorf("fenced %v\nwant %s", fenced, want)
	}
}

// What the group has carried by its former name is its own for those who look, and for the processor, whose former name its configuration says.
func TestLookAfterAMove(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "delays.dead": 1})
	keepShortly(t, addr, "delays")
	out, err := command(t, "", "produce", "-b", addr, "-g", "g", "-t", "delays", "--to", "orders", "--for", "1h", "-v", "first")
	if err != nil {
		t.Fatal(err)
	}
	handle := strings.TrimSpace(out[strings.LastIndex(out, " "):])
	dir := t.TempDir()
	stop, _ := start(t, addr, dir, "-X", "near_window=1s")
	outlive(t, c, addr, "delays", 1)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := move(t, addr, "g", "h"); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) string {
		t.Helper()
		out, err := command(t, "", append(args, "-b", addr, "-g", "h")...)
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	if list := ask("ls", "-t", "delays", "-o", "json"); strings.Count(list, "\n") != 1 || !strings.Contains(list, `"handle":"`+handle+`"`) {
		t.Errorf("pending is\n%s", list)
	}
	if got := ask("get", handle, "-t", "delays"); !strings.Contains(got, "pending, due") || strings.Contains(got, "delay-seq") {
		t.Errorf("it is shown so:\n%s", got)
	}
	if got := ask("verify", "-X", "routes[0].topic=delays", "-X", "routes[0].targets.allow=orders", "-o", "json"); !strings.Contains(got, `"pending":1`) {
		t.Errorf("verify says\n%s", got)
	}
	stop, log := start(t, addr, dir, "-X", "near_window=1s", "-g", "h", "-X", "group.identity=g")
	ask("deliver-now", handle, "-t", "delays")
	if r := fetch(t, addr, "orders", 1)[0]; string(r.Value) != "first" {
		t.Errorf("delivered was %s", r.Value)
	}
	if restored := regexp.MustCompile(`low_water=(\d+) start=(\d+)`).FindStringSubmatch(log.String()); restored == nil || restored[1] == restored[2] {
		t.Errorf("the store that it had by its former name spares it nothing: %v", restored)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
