package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// groupsCluster has three brokers, and the groups g, a and b, which have committed offsets of the topic.
func groupsCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(3), kfake.SeedTopics(1, testTopic, OffsetsTopic), kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "root"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	adm := kadm.NewClient(groupsClient(t, c, "root"))
	for _, group := range []string{"g", "a", "b"} {
		var o kadm.Offsets
		o.AddOffset(testTopic, 0, 0, -1)
		if err := adm.CommitAllOffsets(t.Context(), group, o); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func groupsClient(t *testing.T, c *kfake.Cluster, user string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(Options(append(opts, kgo.SeedBrokers(c.ListenAddrs()...), kgo.RequestRetries(1), kgo.SASL(plain.Auth{User: user, Pass: user}.AsMechanism())))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func allow(of kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
	return kfake.ACL{Resource: of, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
}

// Brokers list what a user may describe. Whether there is more is known by the right to Describe the cluster alone; and a group that is listed, and does not tell what
// it has committed, counts as one that may have.
func TestReadersAsFarAsTheyAreSeen(t *testing.T) {
	topic, own := allow(kmsg.ACLResourceTypeTopic, testTopic, kmsg.ACLOperationAll), allow(kmsg.ACLResourceTypeGroup, "g", kmsg.ACLOperationRead)
	cluster, groups := allow(kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLOperationDescribe), allow(kmsg.ACLResourceTypeGroup, "*", kmsg.ACLOperationDescribe)
	a := allow(kmsg.ACLResourceTypeGroup, "a", kmsg.ACLOperationDescribe)
	c := groupsCluster(t, kfake.EnableACLs(), kfake.User("PLAIN", "documented", "documented", topic, own), kfake.User("PLAIN", "groups", "groups", topic, own, groups),
		kfake.User("PLAIN", "all", "all", topic, own, cluster, groups), kfake.User("PLAIN", "listing", "listing", topic, own, cluster, a))
	for _, test := range []struct {
		user   string
		known  []string
		reads  []string
		hidden string
	}{
		{"root", nil, []string{"a", "b"}, ""},
		{"all", nil, []string{"a", "b"}, ""},
		{"groups", nil, []string{"a", "b"}, "brokers list only those groups that this user may describe: give this user the right to Describe the cluster and all groups (kafka-acls.sh --add --operation Describe --cluster --group '*')"},
		{"documented", nil, nil, "--cluster --group '*'"},
		{"listing", []string{"b"}, []string{"a"}, "what the groups b read is not told (GROUP_AUTHORIZATION_FAILED"},
	} {
		r, err := AskReaders(t.Context(), groupsClient(t, c, test.user), "g", test.known, RequestTimeout)
		if err != nil {
			t.Errorf("%s: %v", test.user, err)
		}
		if got := readersOf(r); !slices.Equal(got, test.reads) {
			t.Errorf("%s: %v read the topic, and not %v", test.user, got, test.reads)
		}
		if why := hiddenWhy(r); !strings.Contains(why, test.hidden) || (why == "") != (test.hidden == "") {
			t.Errorf("%s: hidden is %q, and not %q", test.user, why, test.hidden)
		}
	}
}

func readersOf(r Readers) (groups []string) {
	for group, committed := range r.Committed {
		if len(committed[testTopic]) > 0 {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}

func hiddenWhy(r Readers) string {
	if r.Hidden == nil {
		return ""
	}
	return r.Hidden.Error()
}

// Brokers without an authorizer tell that everything may be done; those that do not tell are asked for ACLs, and say then that there is no authorizer. What neither
// tells is not taken for a right; and that brokers are asked in vain is an error.
func TestHiddenAsBrokersTell(t *testing.T) {
	const untold = -1 << 31
	for _, test := range []struct {
		name       string
		operations int32
		refused    *kerr.Error // DescribeCluster
		acls       *kerr.Error
		hidden     string
		err        error
	}{
		{"everything", 0x1f00, nil, nil, "", nil},
		{"nothing", 0, nil, nil, "brokers list only", nil},
		{"all but that", 0x1e00, nil, nil, "brokers list only", nil},
		{"refused", untold, kerr.ClusterAuthorizationFailed, nil, "brokers list only", nil},
		{"untold, without an authorizer", untold, nil, kerr.SecurityDisabled, "", nil},
		{"untold, with the right", untold, nil, nil, "", nil},
		{"untold, without the right", untold, nil, kerr.ClusterAuthorizationFailed, "brokers list only", nil},
		{"untold by both", untold, nil, kerr.UnsupportedVersion, "do not say whether", nil},
		{"not spoken", untold, kerr.UnsupportedVersion, kerr.SecurityDisabled, "", nil},
		{"in vain", untold, kerr.BrokerNotAvailable, nil, "brokers list only", kerr.BrokerNotAvailable},
		{"ACLs in vain", untold, nil, kerr.BrokerNotAvailable, "brokers list only", kerr.BrokerNotAvailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := groupsCluster(t)
			c.ControlKey(int16(kmsg.DescribeCluster), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if !req.(*kmsg.DescribeClusterRequest).IncludeClusterAuthorizedOperations {
					t.Error("it was not asked what may be done")
				}
				resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
				resp.ErrorCode, resp.ClusterAuthorizedOperations = code(test.refused), test.operations
				return resp, nil, true
			})
			c.ControlKey(int16(kmsg.DescribeACLs), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
				resp.ErrorCode = code(test.acls)
				return resp, nil, true
			})
			r, err := AskReaders(t.Context(), groupsClient(t, c, "root"), "g", nil, RequestTimeout)
			if why := hiddenWhy(r); !strings.Contains(why, test.hidden) || (why == "") != (test.hidden == "") || !errors.Is(err, test.err) {
				t.Errorf("hidden is %q, %v, and not %q, %v", why, err, test.hidden, test.err)
			}
		})
	}
}

func code(err *kerr.Error) int16 {
	if err == nil {
		return 0
	}
	return err.Code
}

// What a broker, or the coordinator of a group, does not answer is an error, and so is a partition of groups without a leader: no broker knows those then. A
// group that is gone has committed nothing.
func TestReadersUnanswered(t *testing.T) {
	for _, test := range []struct {
		name string
		key  kmsg.Key
		code int16
		want string
	}{
		{"one broker is loading groups", kmsg.ListGroups, kerr.CoordinatorLoadInProgress.Code, "list groups: "},
		{"no coordinator of a group", kmsg.OffsetFetch, kerr.CoordinatorNotAvailable.Code, "ask group a what it has committed: COORDINATOR_NOT_AVAILABLE"},
		{"no leader of a partition of groups", kmsg.Metadata, 0, "partition 0 of __consumer_offsets has no leader"},
		{"gone", kmsg.OffsetFetch, kerr.GroupIDNotFound.Code, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := groupsCluster(t)
			cl := groupsClient(t, c, "root")
			if err := cl.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			silent := int32(-1) // the broker that does not answer
			c.ControlKey(int16(test.key), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				switch req := kreq.(type) {
				case *kmsg.ListGroupsRequest:
					if broker := c.CurrentNode(); silent < 0 {
						silent = broker
					} else if silent != broker {
						return nil, nil, false
					}
					resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
					resp.ErrorCode = test.code
					return resp, nil, true
				case *kmsg.OffsetFetchRequest:
					resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
					for _, g := range req.Groups {
						rg := kmsg.NewOffsetFetchResponseGroup()
						rg.Group, rg.ErrorCode = g.Group, test.code
						resp.Groups = append(resp.Groups, rg)
					}
					return resp, nil, true
				case *kmsg.MetadataRequest:
					if len(req.Topics) != 1 || req.Topics[0].Topic == nil || *req.Topics[0].Topic != OffsetsTopic {
						return nil, nil, false
					}
					resp := req.ResponseKind().(*kmsg.MetadataResponse)
					topic, p := kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
					p.Leader, p.ErrorCode = -1, kerr.LeaderNotAvailable.Code
					topic.Topic, topic.Partitions = kmsg.StringPtr(OffsetsTopic), append(topic.Partitions, p)
					resp.Topics = append(resp.Topics, topic)
					return resp, nil, true
				}
				return nil, nil, false
			})
			r, err := AskReaders(t.Context(), cl, "g", nil, RequestTimeout)
			if test.want == "" {
				if err != nil || len(readersOf(r)) > 0 || r.Hidden != nil {
					t.Errorf("%v, %v read, and hidden is %v", err, readersOf(r), r.Hidden)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it says %v, and not %q", err, test.want)
			}
		})
	}
}

// lookups counts requests for coordinators that are sent.
type lookups struct{ n atomic.Int32 }

func (l *lookups) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.FindCoordinator) {
		l.n.Add(1)
	}
}

// Brokers that are silent are not waited for once for each hundred groups.
func TestCommittedGivesUpOnSilence(t *testing.T) {
	c := groupsCluster(t)
	var sent lookups
	cl := groupsClient(t, c, "root", kgo.WithHooks(&sent))
	var groups []string
	for i := range 5 * groupsAtOnce {
		groups = append(groups, fmt.Sprint("reader-", i))
	}
	ends := make(chan struct{})
	c.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		<-ends
		return nil, nil, false
	})
	all, untold := Committed(t.Context(), kadm.NewClient(cl), groups, 500*time.Millisecond)
	n := sent.n.Load()
	close(ends)
	if len(all) != 0 || len(untold) != len(groups) || n != 1 {
		t.Errorf("%d groups told and %d did not, and coordinators were looked up %d times", len(all), len(untold), n)
	}
}
