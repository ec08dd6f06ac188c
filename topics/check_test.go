package topics

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// An audit topic that is there holds what is told for long enough, takes it, and is not a bottleneck.
func TestCheckAuditTopic(t *testing.T) {
	for _, c := range []struct {
		partitions int32
		configs    map[string]string
		problems   []string
	}{
		{3, nil, nil},
		{3, map[string]string{"retention.ms": "-1"}, nil},
		{3, map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "86400000"}, nil},
		{3, map[string]string{"cleanup.policy": "compact"}, []string{"warning audit: cleanup.policy is compact"}},
		{3, map[string]string{"retention.ms": "86399999", "retention.bytes": "1000000000"}, []string{"warning audit: retention.ms is 86399999", "warning audit: retention.bytes is 1000000000"}},
		{3, map[string]string{"max.message.bytes": "8191"}, []string{"error audit: max.message.bytes is 8191"}},
		{3, map[string]string{"max.message.bytes": "131071"}, []string{"warning audit: max.message.bytes is 131071"}},
		{3, map[string]string{"compression.type": "uncompressed"}, []string{"warning audit: compression.type is uncompressed"}},
		{3, map[string]string{"min.insync.replicas": "1"}, []string{"warning audit: min.insync.replicas is 1"}},
		{1, nil, []string{"warning audit: it has 1 partition, and a delay topic 5"}},
	} {
		t.Run(fmt.Sprint(c.partitions, c.configs), func(t *testing.T) {
			adm, cl := admin(t, 3)
			want := expect(t, Route{Topic: "d", DeadLetter: "dead"})
			want.Audit, want.Partitions = "audit", 5
			configs := map[string]*string{"min.insync.replicas": kadm.StringPtr("2")}
			for name, value := range c.configs {
				configs[name] = &value
			}
			if _, err := adm.CreateTopic(t.Context(), c.partitions, 3, configs, "audit"); err != nil {
				t.Fatal(err)
			}
			if _, err := Create(t.Context(), adm, want); err != nil {
				t.Fatal(err)
			}
			check(t, client(t, cl), want, c.problems...)
		})
	}
}

func TestCheck(t *testing.T) {
	type configs = map[string]string
	day := 24 * time.Hour
	plainRoute := Route{Topic: "d", DeadLetter: "dead", MaxDelay: 3 * day}
	good := configs{"retention.ms": "-1", "min.insync.replicas": "2", "max.message.bytes": "1000000"}
	goodDead := configs{"min.insync.replicas": "2", "max.message.bytes": "1065536"}
	with := func(base configs, pairs ...string) configs {
		c := configs{}
		for k, v := range base {
			c[k] = v
		}
		for i := 0; i < len(pairs); i += 2 {
			c[pairs[i]] = pairs[i+1]
		}
		return c
	}
	for _, tt := range []struct {
		name        string
		route       Route
		delay, dead configs
		replication int16 // 0: 3
		want        []string
	}{
		{name: "as it should be", delay: good, dead: goodDead},
		{name: "compacted", delay: with(good, "cleanup.policy", "compact,delete"), dead: with(goodDead, "cleanup.policy", "compact"),
			want: []string{"error d: cleanup.policy is compact,delete", "error dead: cleanup.policy is compact"}},
		{name: "a dead letter topic that is compacted as well", delay: good, dead: with(goodDead, "cleanup.policy", "compact,delete"),
			want: []string{"error dead: cleanup.policy is compact,delete"}},
		{name: "a retention", delay: with(good, "retention.ms", "259200000"), dead: goodDead,
			want: []string{"note d: retention.ms is 259200000"}},
		{name: "retention below max_delay where nothing is carried", route: Route{Topic: "d", DeadLetter: "dead", MaxDelay: 3 * day, Carry: new(bool)}, delay: with(good, "retention.ms", "259200000"), dead: goodDead,
			want: []string{"error d: retention.ms is 259200000"}},
		{name: "retention above max_delay where nothing is carried", route: Route{Topic: "d", DeadLetter: "dead", MaxDelay: 3 * day, Carry: new(bool)}, delay: with(good, "retention.ms", "259200001"), dead: goodDead,
			want: []string{"warning d: retention.ms is 259200001"}},
		{name: "retention below what is remembered", route: Route{Topic: "d", DeadLetter: "dead", MaxDelay: 7 * day, Remember: day}, delay: with(good, "retention.ms", "172800000"), dead: goodDead,
			want: []string{"error d: retention.ms is 172800000"}},
		{name: "retention above a fixed delay, which counts and not max_delay", route: Route{Topic: "d", DeadLetter: "dead", Delay: 2 * day, MaxDelay: 366 * day},
			delay: with(good, "retention.ms", "259200000"), dead: goodDead, want: []string{"warning d: retention.ms is 259200000"}},
		{name: "a retention that is hardly enough for a restart", delay: with(good, "retention.ms", "599999", "min.insync.replicas", "4"), dead: with(goodDead, "min.insync.replicas", "1"),
			want: []string{"error d: min.insync.replicas is 4 of 3 replicas", "warning d: retention.ms is 599999", "warning dead: min.insync.replicas is 1"}},
		{name: "notes come last", delay: with(good, "retention.ms", "259200000", "min.insync.replicas", "4"), dead: with(goodDead, "min.insync.replicas", "1"),
			want: []string{"error d: min.insync.replicas is 4 of 3 replicas", "warning dead: min.insync.replicas is 1", "note d: retention.ms is 259200000"}},
		{name: "retention below a fixed delay", route: Route{Topic: "d", DeadLetter: "dead", Delay: 2 * day, MaxDelay: 366 * day}, delay: with(good, "retention.ms", "86400000"), dead: goodDead,
			want: []string{"error d: retention.ms is 86400000"}},
		{name: "retention by size", delay: with(good, "retention.bytes", "1000000000"), dead: goodDead,
			want: []string{"error d: retention.bytes is 1000000000"}},
		{name: "dead letter topic too narrow", delay: good, dead: with(goodDead, "max.message.bytes", "1065535"),
			want: []string{"error dead: max.message.bytes is 1065535"}},
		{name: "one replica", delay: with(good, "min.insync.replicas", "1"), dead: with(goodDead, "min.insync.replicas", "1"), replication: 1,
			want: []string{"warning d: it has 1 replica", "warning dead: it has 1 replica"}},
		{name: "one in sync is enough", delay: with(good, "min.insync.replicas", "1"), dead: goodDead,
			want: []string{"warning d: min.insync.replicas is 1"}},
		{name: "all must be in sync", delay: with(good, "min.insync.replicas", "3"), dead: goodDead,
			want: []string{"warning d: min.insync.replicas is 3 of 3 replicas"}},
		{name: "more in sync than there are", delay: with(good, "min.insync.replicas", "4"), dead: goodDead,
			want: []string{"error d: min.insync.replicas is 4 of 3 replicas"}},
		{name: "errors come first", delay: with(good, "min.insync.replicas", "1"), dead: with(goodDead, "cleanup.policy", "compact"),
			want: []string{"error dead: cleanup.policy is compact", "warning d: min.insync.replicas is 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			adm, _ := admin(t, 3)
			replication := tt.replication
			if replication == 0 {
				replication = 3
			}
			for topic, set := range map[string]configs{"d": tt.delay, "dead": tt.dead} {
				ptrs := make(map[string]*string)
				for k, v := range set {
					ptrs[k] = &v
				}
				if _, err := adm.CreateTopic(t.Context(), 2, replication, ptrs, topic); err != nil {
					t.Fatal(err)
				}
			}
			if tt.route.Topic == "" {
				tt.route = plainRoute
			}
			want := expect(t, tt.route)
			want.Bootstrap = "localhost:9092"
			for _, p := range check(t, adm, want, tt.want...) {
				if !strings.Contains(p.Mend, "--bootstrap-server localhost:9092") {
					t.Errorf("the command names no broker: %s", p.Mend)
				}
				// What the command of a setting says mends it.
				_, change, ok := strings.Cut(p.Mend, " --add-config ")
				if !ok {
					continue
				}
				name, value, _ := strings.Cut(change, "=")
				if _, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: name, Value: &value}}, p.Topic); err != nil {
					t.Fatal(err)
				}
				after, err := Check(t.Context(), adm, want)
				if err != nil || slices.Contains(lines(after), lines([]Problem{p})[0]) {
					t.Errorf("%s does not mend it: %v, %v", p.Mend, lines(after), err)
				}
			}
		})
	}
}

// A route that keeps the number of a partition needs targets that have it.
func TestCheckOfKeptPartitions(t *testing.T) {
	adm, _ := admin(t, 1)
	for topic, partitions := range map[string]int32{"d": 3, "dead": 1, "narrow": 1, "two": 2, "wide": 3} {
		size := map[string]string{"dead": "1065536"}[topic]
		if size == "" {
			size = "1000000"
		}
		one := "1"
		never := "-1"
		if _, err := adm.CreateTopic(t.Context(), partitions, 1, map[string]*string{"max.message.bytes": &size, "min.insync.replicas": &one, "retention.ms": &never}, topic); err != nil {
			t.Fatal(err)
		}
	}
	r := Route{Topic: "d", DeadLetter: "dead", Target: "narrow", Allow: []string{"two", "wide", "gone", "w*"}}
	check(t, adm, expect(t, r), "warning gone: it does not exist")
	r.Partitioner = PartitionerSource
	for _, p := range check(t, adm, expect(t, r), "warning narrow: it has 1 partition, and the delay topic d 3", "warning two: it has 2 partitions, and the delay topic d 3", "warning gone: it does not exist") {
		if p.Topic == "two" && p.Mend != "kafka-topics.sh --bootstrap-server $BROKERS --alter --topic two --partitions 3" {
			t.Errorf("mended by %s", p.Mend)
		}
	}
}

// The fake broker has no such setting, and no topic without a leader.
func TestCheckOfWhatOnlyRealBrokersHave(t *testing.T) {
	x := examination{brokers: 1}
	x.durability("d", facts{replication: 1, settings: map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}})
	x.facts = map[string]facts{"d": {partitions: 3, leaderless: 2}}
	x.present("d", Error, "", "", "")
	equal(t, lines(x.problems), []string{"warning d: unclean.leader.election.enable is true", "error d: 2 of 3 partitions have no leader"})

	x.problems = nil
	x.facts = map[string]facts{"d": {partitions: 3, leaderless: 1}}
	x.present("d", Error, "", "", "")
	x.rights("d", Error, facts{}, kadm.OpRead, kadm.OpWrite) // not told
	equal(t, lines(x.problems), []string{"error d: 1 of 3 partitions have no leader"})

	yes, no := true, false
	all := map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}
	for _, c := range []struct {
		trim     *bool
		settings map[string]string
		rights   []kadm.ACLOperation
		said     bool
	}{
		{nil, all, []kadm.ACLOperation{kadm.OpRead, kadm.OpWrite}, true},
		{nil, all, []kadm.ACLOperation{kadm.OpRead, kadm.OpWrite, kadm.OpDelete}, false},
		{nil, all, nil, false}, // not told
		{nil, map[string]string{"retention.ms": "9223372036854775807", "retention.bytes": "-1"}, []kadm.ACLOperation{kadm.OpRead, kadm.OpWrite}, true}, // for ever
		{nil, map[string]string{"retention.ms": "-1", "retention.bytes": "1"}, []kadm.ACLOperation{kadm.OpRead, kadm.OpWrite}, false},
		{nil, map[string]string{"retention.ms": "1", "retention.bytes": "-1"}, []kadm.ACLOperation{kadm.OpRead, kadm.OpWrite}, false},
		{&yes, nil, []kadm.ACLOperation{kadm.OpRead, kadm.OpWrite}, true},
		{&no, all, []kadm.ACLOperation{kadm.OpRead, kadm.OpWrite}, false},
	} {
		x := examination{brokers: 1, facts: map[string]facts{"d": {partitions: 3, replication: 1, rights: c.rights, settings: c.settings}}}
		x.delayTopic(&Route{Topic: "d", Trim: c.trim})
		if said := slices.Contains(lines(x.problems), "warning d: duewheel may not delete from it"); said != c.said {
			t.Errorf("%+v: %q", c, lines(x.problems))
		}
	}

	partitions := kadm.PartitionDetails{0: {Leader: -1, Replicas: []int32{2, 3}}}
	for p := range int32(30) {
		partitions[p+1] = kadm.PartitionDetail{Leader: 1, Replicas: []int32{1, 2, 3}}
	}
	if f := factsOf(kadm.TopicDetail{Partitions: partitions}); f.partitions != 31 || f.replication != 2 || f.leaderless != 1 {
		t.Errorf("got %+v", f)
	}
}

// Each right that is lacking is named, and what can be seen is still checked.
func TestCheckWithoutRights(t *testing.T) {
	allow := func(topic string, ops ...kmsg.ACLOperation) (acls []kfake.ACL) {
		for _, op := range ops {
			acls = append(acls, kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: topic,
				Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true})
		}
		return acls
	}
	const read, write, describe, configs, remove = kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationDelete
	for _, tt := range []struct {
		name string
		acls []kfake.ACL
		want []string

		audit bool
	}{
		{
			name: "every right that is needed",
			acls: slices.Concat(allow("d", remove, read, write, describe, configs), allow("dead", write, describe, configs), allow("out", write, describe, configs)),
		},
		{
			name: "no writing",
			acls: slices.Concat(allow("d", remove, read, describe, configs), allow("dead", describe, configs), allow("out", describe, configs)),
			want: []string{"error d: duewheel may not write it", "error dead: duewheel may not write it", "warning out: duewheel may not write it"},
		},
		{
			name: "no deleting",
			acls: slices.Concat(allow("d", read, write, describe, configs), allow("dead", write, describe, configs), allow("out", write, describe, configs)),
			want: []string{"warning d: duewheel may not delete from it"},
		},
		{
			name: "no reading",
			acls: slices.Concat(allow("d", remove, write, describe, configs), allow("dead", write, describe, configs), allow("out", write, configs)),
			want: []string{"error d: duewheel may not read it"},
		},
		{
			name: "an audit topic that is only seen", audit: true,
			acls: slices.Concat(allow("d", remove, read, write, describe, configs), allow("dead", write, describe, configs), allow("out", write, describe, configs), allow("audit", describe, configs)),
			want: []string{"error audit: duewheel may not write it"},
		},
		{
			name: "not even seeing",
			acls: slices.Concat(allow("dead", write, describe, configs), allow("out", write, describe, configs)),
			want: []string{"error d: duewheel may not describe it"},
		},
		{
			name: "a target unseen",
			acls: slices.Concat(allow("d", remove, read, write, describe, configs), allow("dead", write, describe, configs)),
			want: []string{"warning out: duewheel may not describe it"},
		},
		{
			name: "no configuration",
			acls: slices.Concat(allow("d", remove, read, write, describe), allow("dead", write, describe, configs), allow("out", write, describe, configs)),
			want: []string{"warning d: its configuration cannot be read: " + kerr.TopicAuthorizationFailed.Error()},
		},
		{
			name: "no configuration of a target",
			acls: slices.Concat(allow("d", remove, read, write, describe, configs), allow("dead", write, describe, configs), allow("out", write, describe)),
			want: []string{"warning out: its configuration cannot be read: " + kerr.TopicAuthorizationFailed.Error()},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, c := admin(t, 1, kfake.EnableSASL(), kfake.EnableACLs(),
				kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "wheel", "wheel", tt.acls...))
			as := func(name string) *kadm.Client {
				return client(t, c, kgo.SASL(plain.Auth{User: name, Pass: name}.AsMechanism()))
			}
			want := expect(t, Route{Topic: "d", DeadLetter: "dead", Target: "out"})
			if tt.audit {
				want.Audit = "audit"
			}
			root := as("root")
			if _, err := Create(t.Context(), root, want); err != nil {
				t.Fatal(err)
			}
			if _, err := root.CreateTopic(t.Context(), 1, 1, nil, "out"); err != nil {
				t.Fatal(err)
			}
			check(t, as("wheel"), want, tt.want...)
		})
	}
}
