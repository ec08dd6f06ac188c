//go:build synctests

package processor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rawMember speaks the classic protocol by hand.
type rawMember struct {
	cl *kgo.Client
	id string
}

func (m *rawMember) join() (*kmsg.JoinGroupResponse, error) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = "raw", m.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(session/time.Millisecond), int32(time.Minute/time.Millisecond)
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, m.cl)
	if err == nil {
		m.id, err = resp.MemberID, kerr.ErrorForCode(resp.ErrorCode)
	}
	return resp, err
}

func (m *rawMember) heartbeat(generation int32) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = "raw", m.id, generation
	resp, err := req.RequestWith(context.Background(), m.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// The world: a member whose session ends while it waits in SyncGroup does not keep its group from ever being formed again.
func TestSimWaitedInSync(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		var members [2]*rawMember
		for i := range members {
			cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.Dialer(w.network.DialContext))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			members[i] = &rawMember{cl: cl}
			if _, err := members[i].join(); err != kerr.MemberIDRequired {
				t.Fatal(err)
			}
		}
		first, second := members[0], members[1]
		if _, err := first.join(); err != nil { // it leads from now on
			t.Fatal(err)
		}
		joined := make(chan error)
		go func() {
			_, err := second.join()
			joined <- err
		}()
		synctest.Wait()
		resp, err := first.join()
		if err := errors.Join(err, <-joined); err != nil {
			t.Fatal(err)
		}
		generation := resp.Generation
		go func() {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Group, req.MemberID, req.Generation = "raw", second.id, generation
			req.RequestWith(context.Background(), second.cl)
		}()
		for range 6 { // the second is silent for longer than its session
			time.Sleep(session / 4)
			first.heartbeat(generation)
		}
		if _, err := first.join(); err != nil {
			t.Errorf("the member that is left is not let in: %v", err)
		}
	})
}
