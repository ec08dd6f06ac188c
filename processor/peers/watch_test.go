package peers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A replica that is killed is taken out at once, whatever is guaranteed; one that stops in order is not.
func TestKilledReplicaIsTakenOut(t *testing.T) {
	for _, atLeastOnce := range []bool{false, true} {
		alone(t, atLeastOnce, func(w *world, watch *Watch, b *place) {
			time.Sleep(time.Minute)
			w.isOut()
			b.kill()
			if took := w.takes(1, time.Minute); took > 100*time.Millisecond {
				t.Errorf("it was taken out after %v", took)
			}
			time.Sleep(time.Minute)
			w.isOut("b")
			if watch.Heard() != 0 || watch.TakenOut() != 1 {
				t.Errorf("heard are %d, taken out %d", watch.Heard(), watch.TakenOut())
			}
		})
		alone(t, atLeastOnce, func(w *world, watch *Watch, b *place) {
			b.End()
			time.Sleep(10 * time.Millisecond)
			b.kill()
			time.Sleep(time.Minute)
			w.isOut()
		})
	}
}

// One that is silent is taken out after some seconds where it is fenced then; in at_least_once its session decides.
func TestSilentReplica(t *testing.T) {
	alone(t, false, func(w *world, watch *Watch, b *place) {
		w.freeze(b)
		if took := w.takes(1, time.Minute); took < patience-2*beatInterval || took > patience+silence {
			t.Errorf("it was taken out after %v", took)
		}
		w.thaw(b)
	})
	alone(t, true, func(w *world, watch *Watch, b *place) {
		w.freeze(b)
		time.Sleep(time.Minute)
		w.isOut()
		w.thaw(b)
		time.Sleep(10 * time.Second)
		b.kill()
		time.Sleep(time.Second)
		w.isOut("b")
	})
}

// One that hiccups is heard again, and is not taken out.
func TestHiccups(t *testing.T) {
	alone(t, false, func(w *world, watch *Watch, b *place) {
		for range 20 {
			w.freeze(b)
			time.Sleep(patience - 2*beatInterval)
			w.thaw(b)
			time.Sleep(3 * time.Second)
		}
		w.isOut()
		if watch.Heard() != 1 {
			t.Errorf("heard are %d", watch.Heard())
		}
	})
}

// One that was taken out and is there after all is not judged any more, neither by its silence nor by its end.
func TestWrongedReplicaIsNotJudgedAgain(t *testing.T) {
	alone(t, false, func(w *world, watch *Watch, b *place) {
		w.freeze(b)
		w.takes(1, time.Minute)
		w.thaw(b)
		time.Sleep(10 * time.Second)
		if watch.Heard() != 1 {
			t.Errorf("heard are %d", watch.Heard())
		}
		w.freeze(b)
		time.Sleep(time.Minute)
		w.thaw(b)
		time.Sleep(10 * time.Second)
		b.kill()
		time.Sleep(time.Minute)
		w.isOut("b")
	})
}

// Where another replica answers, the one that did has ended; the other one is heard.
func TestSuccessorAtItsAddress(t *testing.T) {
	alone(t, true, func(w *world, watch *Watch, b *place) {
		w.begin("c", "b:1")
		b.kill()
		w.takes(1, time.Second)
		time.Sleep(10 * time.Second)
		w.isOut("b")
		if watch.Heard() != 1 {
			t.Errorf("heard are %d", watch.Heard())
		}
	})
}

// What was never heard is not judged: where nothing listens, where another replica answers from the first, and where something else does.
func TestStrangersAreNotJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.begin("a", "a:1")
		w.group["nowhere"], w.group["itself"] = "n:1", "a:1"
		other := w.begin("other", "o:1")
		other.Begin("another one")
		watch, stop := w.watch("a", false)
		defer stop()
		time.Sleep(time.Minute)
		w.isOut()
		if watch.Heard() != 0 {
			t.Errorf("heard are %d", watch.Heard())
		}
	})
}

// A replica that has left the group is not watched any more, so its end says nothing.
func TestReplicaThatHasLeft(t *testing.T) {
	alone(t, false, func(w *world, watch *Watch, b *place) {
		w.mu.Lock()
		delete(w.group, "b")
		w.mu.Unlock()
		time.Sleep(2 * lookInterval)
		if watch.Heard() != 0 {
			t.Errorf("heard are %d", watch.Heard())
		}
		b.kill()
		time.Sleep(time.Minute)
		w.isOut()
	})
}

// What cannot be taken out is left to its session, and counts as nothing.
func TestTakingOutIsRefused(t *testing.T) {
	alone(t, false, func(w *world, watch *Watch, b *place) {
		w.fails = errForbidden
		b.kill()
		time.Sleep(time.Minute)
		w.isOut("b")
		if watch.TakenOut() != 0 {
			t.Errorf("taken out are %d", watch.TakenOut())
		}
	})
}

// Each replica is watched by three others, or by all if there are fewer.
func TestEachIsWatched(t *testing.T) {
	for n := range 9 {
		addresses, watchers := map[string]string{"z": ""}, map[string]int{}
		for i := range n {
			addresses[fmt.Sprint(i)] = "h:1"
		}
		for self := range addresses {
			if self == "z" {
				continue
			}
			w := NewWatch(&Env{Self: self})
			for _, p := range w.next(addresses) {
				if p.replica == self || p.replica == "z" {
					t.Errorf("%s watches %s", self, p.replica)
				}
				watchers[p.replica]++
			}
		}
		for i := range n {
			if got := watchers[fmt.Sprint(i)]; got != min(n-1, watchedMost) {
				t.Errorf("of %d, %d is watched by %d", n, i, got)
			}
		}
	}
}

// Nothing is said before there is a name, and a few may listen at a time.
func TestPresenceIsBounded(t *testing.T) {
	ask := func(p *Presence) int {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, nil))
		return w.Code
	}
	p := NewPresence()
	if code := ask(p); code != http.StatusServiceUnavailable {
		t.Errorf("without a name: %d", code)
	}
	p.Begin("a")
	p.End()
	p.End()
	var codes []int
	for range 2 * listenersMost {
		codes = append(codes, ask(p))
	}
	if slices.Contains(codes, http.StatusServiceUnavailable) {
		t.Error("those that listen no more count")
	}
	p.heard.Store(listenersMost)
	if code := ask(p); code != http.StatusServiceUnavailable {
		t.Errorf("one more than may: %d", code)
	}
}
