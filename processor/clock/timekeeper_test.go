package clock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// One wrong clock of three decides nothing, and of two the earlier one counts.
func TestLowerMedian(t *testing.T) {
	for _, c := range []struct {
		answers []time.Duration
		want    time.Duration
	}{
		{[]time.Duration{7}, 7},
		{[]time.Duration{9, 3}, 3},
		{[]time.Duration{5, 900, 4}, 5},
		{[]time.Duration{5, -900, 4}, 4},
	} {
		var answers []answer
		for i, low := range c.answers {
			answers = append(answers, answer{int32(i), span{low: low, high: low + 1}})
		}
		if got := lowerMedian(answers); got.low != c.want {
			t.Errorf("of %v %v counts, want %v", c.answers, got.low, c.want)
		}
	}
}

// What only a person can mend is not waited for; everything else may pass.
func TestIsNeverTold(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.TransactionalIDAuthorizationFailed: true,
		kerr.GroupAuthorizationFailed:           true,
		kerr.UnsupportedVersion:                 true,
		errNotTold:                              true,
		errors.New("broker is too old; the broker has already indicated it will not know how to handle the request"): true,
		kerr.CoordinatorNotAvailable:       false,
		kerr.CoordinatorLoadInProgress:     false,
		kerr.NotCoordinator:                false,
		errors.New("unable to dial: away"): false,
	} {
		if got := isNeverTold(fmt.Errorf("ask: %w", err)); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// What is to be done says which right is missing.
func TestTodoNamesTheRight(t *testing.T) {
	for err, want := range map[error]string{
		kerr.TransactionalIDAuthorizationFailed: "allow Write and Describe on transactional ids that begin with g-, and see to it that this machine keeps time",
		kerr.GroupAuthorizationFailed:           "allow Read on the group g, and see to it that this machine keeps time",
	} {
		if got := (&Keeper{group: "g"}).todo(fmt.Errorf("begin: %w", err)); got != want {
			t.Errorf("of %v: %s", err, got)
		}
	}
}

// The ids of two groups are different ones, whatever their processes are called, and none is that of a lane.
func TestKeepersHaveNothingInCommon(t *testing.T) {
	ids := map[string]string{}
	for _, who := range [][2]string{{"a", "b-0"}, {"a-b", "0"}, {"a", "clock"}, {"a-clock", "0"}, {"a-clock", "clock-0"}, {"a", "clock-clock-0"}} {
		k := NewKeeper(nil, nil, who[0], who[1], time.Second, nil)
		if other, ok := ids[k.ids]; ok || !strings.HasPrefix(k.ids, who[0]+"-clock@") {
			t.Errorf("the ids of %v begin with %s, and so do those of %q", who, k.ids, other)
		}
		ids[k.ids] = fmt.Sprint(who)
	}
}
