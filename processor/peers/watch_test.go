package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	alone(t, false, func(w *world, watch *Watch, b *place) {
		for range 20 { // what is on the way answers in its place
			busy := w.serve("b", "b:1", http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
				http.Error(out, "not now", http.StatusServiceUnavailable)
			}))
			b.kill()
			time.Sleep(patience - 2*beatInterval)
			b = w.begin("b", "b:1")
			time.Sleep(time.Second)
			busy.kill() // who was just connecting to it has had its answer
			time.Sleep(2 * time.Second)
		}
		w.isOut()
	})
}

// One that was taken out for its silence and is there after all is not taken out for that any more, but when it has ended; and for that once.
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
		w.isOut("b")
		w.thaw(b)
		for range 3 {
			time.Sleep(10 * time.Second)
			b.kill()
			time.Sleep(time.Minute)
			w.isOut("b", "b")
			b = w.begin("b", "b:1") // the way to it was cut so that connections were refused
		}
	})
}

// Where nothing fences a silent replica, its end is noticed still, as when a machine that swaps kills it at last.
func TestSilentReplicaThatEnds(t *testing.T) {
	alone(t, true, func(w *world, watch *Watch, b *place) {
		w.freeze(b)
		time.Sleep(20 * time.Second)
		w.isOut()
		b.kill()
		if took := w.takes(1, time.Minute); took > 5*time.Second {
			t.Errorf("it was taken out after %v", took)
		}
	})
}

// One that is cut off from everything takes nobody out when it is back: it was itself not there, whatever it tried meanwhile.
func TestCutOffReplicaTakesNobodyOut(t *testing.T) {
	for _, length := range []time.Duration{2 * time.Second, 4 * time.Second, 5 * time.Second, 6500 * time.Millisecond, 20 * time.Second} {
		alone(t, false, func(w *world, watch *Watch, b *place) {
			end := w.cutOff()
			w.freeze(b)
			time.Sleep(length)
			end()
			time.Sleep(silence / 3) // the way to brokers is there first
			w.thaw(b)
			time.Sleep(time.Minute)
			w.isOut()
			if watch.Heard() != 1 {
				t.Errorf("after %v: heard are %d", length, watch.Heard())
			}
			w.freeze(b)
			if took := w.takes(1, time.Minute); took < patience-2*beatInterval || took > patience+silence {
				t.Errorf("it was taken out after %v", took)
			}
			w.thaw(b)
		})
	}
}

// The same where connections are refused meanwhile, as by what stands between this process and all others when that starts anew.
func TestRefusedReplicaTakesNobodyOut(t *testing.T) {
	for _, atLeastOnce := range []bool{false, true} {
		alone(t, atLeastOnce, func(w *world, watch *Watch, b *place) {
			for _, length := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 20 * time.Second} {
				end := w.cutOff()
				w.refuse(true)
				w.hangUp()
				time.Sleep(length)
				end()
				time.Sleep(lookForPause / 2) // the way to brokers is there first
				w.refuse(false)
				time.Sleep(10 * time.Second)
				w.isOut()
			}
			b.kill()
			w.takes(1, time.Second)
		})
	}
}

// What has ended while the group does not answer is taken out when it does.
func TestGroupAnswersLate(t *testing.T) {
	alone(t, false, func(w *world, watch *Watch, b *place) {
		end := w.cutOff()
		b.kill()
		time.Sleep(5 * time.Minute)
		w.isOut()
		end()
		w.takes(1, time.Second)
	})
}

// Where replicas cannot hear each other any more, none is taken out, nor when they can again; one that has gone meanwhile is.
func TestNobodyIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var places []*place
		for i := range 6 {
			places = append(places, w.begin(fmt.Sprint(i), fmt.Sprintf("%d:1", i)))
		}
		for i := range places {
			_, stop := w.watch(fmt.Sprint(i), false)
			defer stop()
		}
		for i := range 12 {
			time.Sleep(10 * time.Second)
			for _, p := range places {
				w.freeze(p)
			}
			time.Sleep(time.Minute + time.Duration(i)*350*time.Millisecond)
			w.isOut()
			for _, p := range places {
				time.Sleep(200 * time.Millisecond) // a way is found again sooner or later
				w.thaw(p)
			}
		}
		time.Sleep(10 * time.Second)
		for _, p := range places {
			w.freeze(p)
		}
		time.Sleep(10 * time.Second)
		for i, p := range places {
			if i != 1 {
				w.thaw(p)
			}
		}
		time.Sleep(10 * time.Second)
		if out := slices.Compact(w.out()); !slices.Equal(out, []string{"1"}) {
			t.Errorf("taken out are %v", out)
		}
		w.thaw(places[1])
		time.Sleep(10 * time.Second)
	})
}

// What cannot be taken out soon is looked for again first.
func TestTakingOutIsSlow(t *testing.T) {
	alone(t, false, func(w *world, watch *Watch, b *place) {
		w.freeze(b)
		time.Sleep(patience - 2*beatInterval)
		end := w.cutOff()
		time.Sleep(10 * time.Second)
		w.isOut()
		w.thaw(b)
		end()
		time.Sleep(time.Minute)
		w.isOut()
		w.freeze(b)
		w.takes(1, time.Minute)
		w.thaw(b)
	})
}

// A process that stood still does not take what it has not read for silence.
func TestSleeperKnowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.begin("b", "b:1")
		for sleeps, want := range map[time.Duration]error{10 * time.Second: errAsleep, silence + stall/2: errSilent} {
			ctx, cancel := context.WithCancel(t.Context())
			if err := listen(ctx, newClient(w.dial), "b", "b:1", func() { time.Sleep(sleeps) }); !errors.Is(err, want) {
				t.Errorf("after %v: %v", sleeps, err)
			}
			cancel()
		}
	})
}

// What a later version says besides is no sign that it has ended.
func TestLaterVersionSaysMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.begin("a", "a:1")
		w.serve("b", "b:1", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			for line := "b\n"; r.Context().Err() == nil; line = "load=3\n" {
				_, _ = io.WriteString(out, line)
				_ = http.NewResponseController(out).Flush()
				time.Sleep(beatInterval)
			}
		}))
		watch, stop := w.watch("a", true)
		time.Sleep(time.Minute)
		w.isOut()
		if watch.Heard() != 1 {
			t.Errorf("heard are %d", watch.Heard())
		}
		stop()
		time.Sleep(time.Second) // what says more ends, too
	})
}

// What answers in the place of a replica, and is none, as a proxy on the way, does not say that it has ended.
func TestPageInItsPlace(t *testing.T) {
	for _, page := range []string{"ok\n", "<html>\n<body>", ""} {
		alone(t, true, func(w *world, watch *Watch, b *place) {
			w.serve("b", "b:1", http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, page) }))
			_ = b.server.Close()
			time.Sleep(time.Minute)
			w.isOut()
		})
	}
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
		b = w.begin("b", "b:1")
		time.Sleep(10 * time.Second)
		w.mu.Lock()
		w.fails = nil
		w.mu.Unlock()
		b.kill()
		time.Sleep(time.Second)
		w.isOut("b", "b") // it was not wronged, since it was not taken out
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

// All replicas together ask the group no more often than ten times a second.
func TestLargeGroupIsAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ replicas, looks int }{{3, 30}, {20, 30}, {100, 6}} {
			all := map[string]string{}
			for i := range test.replicas {
				all[fmt.Sprint("r", i)] = ""
			}
			looks := 0
			ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
			NewWatch(&Env{Addresses: func(context.Context) (map[string]string, error) { looks++; return all, nil }}).Run(ctx)
			cancel()
			if looks != test.looks {
				t.Errorf("one of %d replicas has looked %d times in a minute, want %d", test.replicas, looks, test.looks)
			}
		}
	})
}

// A replica to which strangers listen, more than may, is not taken for gone, and noticed when it ends.
func TestCrowdedReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.begin("a", "a:1")
		b := w.begin("b", "b:1")
		watch, stop := w.watch("a", false)
		defer stop()
		time.Sleep(10 * time.Second)
		b.Presence.heard.Add(listenersMost)
		w.hangUp()
		time.Sleep(time.Minute)
		w.isOut()
		b.Presence.heard.Add(-listenersMost)
		time.Sleep(time.Second)
		if watch.Heard() != 1 {
			t.Errorf("heard are %d", watch.Heard())
		}
		b.Presence.heard.Add(listenersMost)
		w.hangUp()
		time.Sleep(time.Minute)
		b.kill()
		if took := w.takes(1, time.Minute); took > 100*time.Millisecond {
			t.Errorf("it was taken out after %v", took)
		}
	})
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
	crowded := NewPresence()
	crowded.Begin("a")
	crowded.heard.Store(listenersMost)
	ctx, cancel := context.WithTimeout(t.Context(), 4*beatInterval)
	defer cancel()
	w := httptest.NewRecorder()
	crowded.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, Path, nil))
	if said := w.Body.String(); said != "a\n" {
		t.Errorf("one more than may hears %q", said)
	}
}
