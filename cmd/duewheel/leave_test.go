package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// leaver is a static member of a group, as a lane of a process is one.
func leaver(t *testing.T, addr, group, instance string, opts ...kgo.Opt) {
	t.Helper()
	joined := make(chan struct{}, 1)
	client(t, addr, append(opts, kgo.ConsumerGroup(group), kgo.ConsumeTopics("delays"), kgo.InstanceID(instance), kgo.SessionTimeout(time.Minute),
		kgo.DisableAutoCommit(), kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			select {
			case joined <- struct{}{}:
			default:
			}
		}))...)
	select {
	case <-joined:
	case <-time.After(patience):
		t.Fatalf("%s does not join", instance)
	}
}

// Each protocol has requests of its own for this.
func TestLeave(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"classic":  nil,
		"consumer": {kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := cluster(t, map[string]int32{"delays": 4})
			for _, instance := range []string{"eu-0", "eu-1", "eu-1-0"} {
				leaver(t, addr, "g", instance, opts...)
			}
			_, err := command(t, "", "leave", "-b", addr, "-g", "g", "us")
			if want := "group g has no static member of us; it has eu-0, eu-1, eu-1-0"; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			out, err := command(t, "", "leave", "-b", addr, "-g", "g", "-X", "group.instance_id=eu")
			if want := "left group g: eu-0, eu-1\n"; err != nil || out != want {
				t.Errorf("got %q, %v, want %q", out, err, want)
			}
		})
	}
}

func TestLeaveSaysWhatIsMissing(t *testing.T) {
	_, addr := cluster(t, nil)
	for _, test := range []struct {
		want string
		code int
		args []string
	}{
		{"group nobody: there is no such group, or it has no members", 1, []string{"-g", "nobody", "eu"}},
		{"name an instance id, or set group.instance_id", 2, []string{"-g", "g"}},
		{"group.id is missing", 2, []string{"eu"}},
	} {
		_, err := command(t, "", append([]string{"leave", "-b", addr}, test.args...)...)
		if err == nil || !strings.Contains(err.Error(), test.want) || exitCode(err) != test.code {
			t.Errorf("%v: got %v, exit code %d, want %s, %d", test.args, err, exitCode(err), test.want, test.code)
		}
	}
	out, err := command(t, "", "leave", "--help")
	if err != nil || !strings.Contains(out, "Stop the process first") {
		t.Errorf("help: %q, %v", out, err)
	}
}

func TestIsLaneOf(t *testing.T) {
	for _, test := range []struct {
		member, instance string
		want             bool
	}{
		{"eu-0", "eu", true}, {"eu-12", "eu", true}, {"eu-1-0", "eu-1", true},
		{"eu-1-0", "eu", false}, {"eu", "eu", false}, {"eu-", "eu", false}, {"eu-x", "eu", false}, {"us-0", "eu", false},
	} {
		if got := isLaneOf(test.member, test.instance); got != test.want {
			t.Errorf("%s is a lane of %s: %v", test.member, test.instance, got)
		}
	}
}
