package bench

import (
	"math"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A soak of some seconds has every record judged, is sampled, kills its process once, and leaves nothing. Only the time for cutting logs and carrying is too short, as it says.
func TestSoak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what memory a process takes")
	}
	t.Parallel()
	o := smallFailover(t)
	o.Partitions, o.targets, o.For = 2, 2, 8*time.Second
	s, err := Soak(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range s.Verdicts() {
		if tooShort := v.Name == "carried" || v.Name == "log of kept"; v.Held == tooShort {
			t.Errorf("%s: %v: %s", v.Name, v.Held, v.Says)
		}
	}
	if s.Records.Requested != int64(o.Pending+s.Written) || s.Written == 0 || s.Records.Left == 0 {
		t.Errorf("%+v, %d written", s.Records, s.Written)
	}
	last := s.Samples[len(s.Samples)-1]
	for i, topic := range last.Topics {
		if topic.Pending == 0 || topic.Log() < topic.Pending || topic.Open == 0 {
			t.Errorf("%s: %+v", soakNames[i], topic)
		}
	}
	if last.Heap == 0 || last.Disk == 0 || last.Weight == 0 || last.Seen == 0 {
		t.Errorf("the last sample: %+v", last)
	}
	if names := left(t, o); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// A soak whose replica ends says so, and leaves nothing.
func TestSoakReplicaFails(t *testing.T) {
	o := smallFailover(t)
	o.Replica = func() *exec.Cmd { return exec.Command("false") }
	if _, err := Soak(t.Context(), o); err == nil || !strings.Contains(err.Error(), "replica") || strings.Contains(err.Error(), "none more within") {
		t.Errorf("error %v", err)
	}
	if names := left(t, o); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// The stream goes to all topics in turn, and is due soon but for one in ten of mixed.
func TestSoakRequests(t *testing.T) {
	k := &soak{Soaked: &Soaked{For: time.Hour}}
	var hours [soakTopics]int
	soonest, latest := time.Duration(math.MaxInt64), time.Duration(0)
	const n = 30_000
	for i := range n {
		switch ahead := time.Until(time.UnixMilli(k.request(i).due)); {
		case ahead > soakLatest:
			hours[i%soakTopics]++
		default:
			soonest, latest = min(soonest, ahead), max(latest, ahead)
		}
	}
	if hours[soakFar]+hours[soakKept] > 0 || hours[soakMixed] < n/40 || hours[soakMixed] > n/24 {
		t.Errorf("due in hours: %v", hours)
	}
	if soonest < soakSoonest-time.Second || latest < soakLatest-5*time.Second {
		t.Errorf("due in %v to %v", soonest, latest)
	}
}
