package assignor

import (
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// described is what a coordinator says of a group: of members by client id, of which two may have one, the partitions that they have.
type described struct {
	state   string
	err     *kerr.Error
	members [][2]string

	addresses map[string]string // by replica
}

func (d described) answer(req kmsg.Request) (kmsg.Response, error, bool) {
	code := int16(0)
	if d.err != nil {
		code = d.err.Code
	}
	switch req := req.(type) {
	case *kmsg.DescribeGroupsRequest:
		resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.State, g.ErrorCode, g.ProtocolType = req.Groups[0], d.state, code, "consumer"
		for _, m := range d.members {
			gm := kmsg.NewDescribeGroupsResponseGroupMember()
			gm.ClientID = m[0]
			var a kmsg.ConsumerMemberAssignment
			for _, tp := range what(m[1]) {
				a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: tp.Topic, Partitions: []int32{tp.Partition}})
			}
			gm.MemberAssignment = a.AppendTo(nil)
			replica := ReplicaOf(m[0])
			gm.ClientHost, gm.ProtocolMetadata = "/10.0.0.9", New(Says{replica, func() string { return d.addresses[replica] }, 0, func() map[Stored]int64 { return nil }, nothing}).JoinGroupMetadata([]string{"t"}, nil, 1)
			g.Members = append(g.Members, gm)
		}
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	case *kmsg.ConsumerGroupDescribeRequest:
		resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
		g := kmsg.NewConsumerGroupDescribeResponseGroup()
		g.Group, g.State, g.ErrorCode = req.Groups[0], d.state, code
		for _, m := range d.members {
			gm := kmsg.NewConsumerGroupDescribeResponseGroupMember()
			gm.ClientID, gm.ClientHost = m[0], d.addresses[ReplicaOf(m[0])]
			for _, tp := range what(m[1]) {
				at := kmsg.NewAssignmentTopicPartition()
				at.Topic, at.Partitions = tp.Topic, []int32{tp.Partition}
				gm.Assignment.TopicPartitions = append(gm.Assignment.TopicPartitions, at)
			}
			g.Members = append(g.Members, gm)
		}
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	}
	return nil, nil, false
}

// describing runs a broker that describes groups as it is told to.
func describing(t *testing.T, d *described) *kgo.Client {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for _, key := range []kmsg.Key{kmsg.DescribeGroups, kmsg.ConsumerGroupDescribe} {
		c.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			return d.answer(req)
		})
	}
	return cl
}

// Where replicas are to be found is what they say of themselves, all of it; in the consumer protocol it is their host, as brokers write it.
func TestDescribeTellsAddresses(t *testing.T) {
	var d described
	cl := describing(t, &d)
	members := [][2]string{{"dw-b-0", "t0"}, {"dw-a-1", "t2"}, {"dw-c-0", "t3"}}
	for _, c := range []struct {
		consumer   bool
		says, want map[string]string
	}{
		{false, map[string]string{"dw-a": "10.0.0.1:9464", "dw-b": "[fe80::1]:80"}, map[string]string{"dw-a": "10.0.0.1:9464", "dw-b": "[fe80::1]:80"}},
		{true, map[string]string{"dw-a": "/10.0.0.1", "dw-b": "/fe80::1"}, map[string]string{"dw-a": "10.0.0.1", "dw-b": "fe80::1"}},
	} {
		d = described{state: "Stable", members: members, addresses: c.says}
		v, err := Describe(t.Context(), cl, "g", c.consumer)
		if err != nil || !maps.Equal(v.Addresses, c.want) {
			t.Errorf("consumer protocol %v: %+v, %v; want %v", c.consumer, v, err, c.want)
		}
	}
}

// The view of a group is that of its coordinator, in both protocols: replicas by the client ids of their lanes, each once and in order. While the
// group is being rebalanced there is none, and what cannot be described is an error.
func TestDescribe(t *testing.T) {
	var d described
	cl := describing(t, &d)
	for _, consumer := range []bool{false, true} {
		d = described{state: "Stable", members: [][2]string{{"dw-b-0", "t0 t1"}, {"dw-a-1", "t2"}, {"dw-b-0", "t3"}, {"dw-a-0", "u0"}}}
		v, err := Describe(t.Context(), cl, "g", consumer)
		if err != nil {
			t.Fatal(err)
		}
		owners := map[kafka.TopicPartition]string{}
		for _, tp := range what("t0 t1 t3") {
			owners[tp] = "dw-b"
		}
		for _, tp := range what("t2 u0") {
			owners[tp] = "dw-a"
		}
		if !slices.Equal(v.Replicas, []string{"dw-a", "dw-b"}) || !maps.Equal(v.Owners, owners) ||
			!maps.Equal(v.Members, map[string]int{"dw-b-0": 3, "dw-a-0": 1, "dw-a-1": 1}) {
			t.Errorf("consumer protocol %v: %+v", consumer, v)
		}
		d.state = "PreparingRebalance"
		if v, err := Describe(t.Context(), cl, "g", consumer); v != nil || err != nil {
			t.Errorf("consumer protocol %v, while it is rebalanced: %+v, %v", consumer, v, err)
		}
		d = described{state: "Dead", err: kerr.InvalidGroupID}
		if v, err := Describe(t.Context(), cl, "g", consumer); v != nil || err == nil {
			t.Errorf("consumer protocol %v, refused: %+v, %v", consumer, v, err)
		}
	}
}
