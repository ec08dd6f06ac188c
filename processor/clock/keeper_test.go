package clock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// keeper is one whose brokers are left to the test, with what it logs.
func keeper(wall func() time.Time) (*Keeper, *strings.Builder) {
	logged := &strings.Builder{}
	log := slog.New(slog.NewTextHandler(logged, nil))
	return NewKeeper(New(wall, time.Second, slog.New(slog.DiscardHandler)), nil, "g", "me", time.Minute, log), logged
}

// answered are answers of brokers whose clocks are so far ahead of the test's.
func answered(k *Keeper, ahead ...time.Duration) (all []answer) {
	mono := k.clock.mono()
	truth := time.Duration(time.Now().UnixNano()) - mono
	for i, by := range ahead {
		all = append(all, answer{int32(i + 1), span{truth + by, truth + by, mono}})
	}
	return all
}

// Brokers whose clocks differ are named once, each with how far it is off the one that counts, and once it is said that they agree again.
func TestBrokersApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, logged := keeper(time.Now)
		says := func(what, apart string, others string, said int) {
			t.Helper()
			p := k.clock.Picture()
			if got := fmt.Sprint(p.Others); p.Apart != apart || got != others || strings.Count(logged.String(), "clocks") != said {
				t.Errorf("%s: %q, %s, logged as %s", what, p.Apart, got, logged)
			}
		}
		const s = time.Second
		k.settle(answered(k, 0, s, -s))
		says("at first", "", "[{3 -1s} {1 0s} {2 1s}]", 0)
		for range 2 {
			k.settle(answered(k, 0, 3*s, -5*s))
			says("apart", "the clock of broker 3 is 5s behind that of broker 1; the clock of broker 2 is 3s ahead of that of broker 1", "[{3 -5s} {1 0s} {2 3s}]", 1)
		}
		k.settle(answered(k, 0, 3*s, 0))
		says("one is right again", "the clock of broker 2 is 3s ahead of that of broker 3", "[{1 0s} {3 0s} {2 3s}]", 2)
		k.settle(answered(k, 0, 0, 0))
		says("all are", "", "[{1 0s} {2 0s} {3 0s}]", 3)
	})
}

// That the clock of this machine is wrong is said once, with how, and once that it agrees again.
func TestClockOfTheMachineIsWrong(t *testing.T) {
	for by, how := range map[time.Duration]string{3 * time.Second: "is 3s ahead of the brokers'", -3 * time.Second: "is 3s behind the brokers'"} {
		synctest.Test(t, func(t *testing.T) {
			wall := &wrongClock{}
			k, logged := keeper(wall.now)
			said := func(what string, want int) {
				t.Helper()
				k.settle(answered(k, 0))
				if got := strings.Count(logged.String(), "the clock of this machine"); got < want || strings.Count(logged.String(), "\n") != want {
					t.Errorf("%s: logged as %s", what, logged)
				}
			}
			said("right", 0)
			wall.by = by
			said("wrong", 1)
			said("wrong still", 1)
			if got := k.clock.Picture().Trouble; !strings.Contains(got, how) || !strings.Contains(logged.String(), how) {
				t.Errorf("%q, want one that says %q", got, how)
			}
			wall.by = 0
			said("right again", 2)
		})
	}
}

// Nothing waits for brokers' time when it is had, or known not to be had; it goes on to count when it is not to be had any more, and why is shown until it is.
func TestWithoutBrokersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := keeper(time.Now)
		c := k.clock
		ended, end := context.WithCancel(t.Context())
		end()
		awaited := func(what string, want bool) {
			t.Helper()
			if got := c.Await(ended); got != want && !want {
				t.Errorf("%s: it is awaited", what)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if got := c.Await(ctx); got != want {
				t.Errorf("%s: awaited %v, want %v", what, got, want)
			}
		}
		awaited("at first", false)
		if p := c.Picture(); p.Skew != 0 {
			t.Errorf("of what is not known the skew is %v", p.Skew)
		}
		for i, want := range []bool{true, false} {
			if got := c.goWithout(fmt.Errorf("no %d", i)); got != want {
				t.Errorf("number %d is news: %v", i, got)
			}
			if p := c.Picture(); p.Unknown != fmt.Sprintf("no %d", i) {
				t.Errorf("it shows %q", p.Unknown)
			}
		}
		awaited("without", true)
		k, _ = keeper(time.Now)
		c = k.clock
		k.settle(answered(k, 0))
		awaited("with", true)
		limit := c.Limit()
		if news := c.goWithout(errors.New("away")); !news || c.Limit() != limit {
			t.Errorf("news %v; W may be up to %d, and before up to %d", news, c.Limit(), limit)
		}
		k.settle(answered(k, 0))
		if p := c.Picture(); p.Unknown != "" {
			t.Errorf("it is had, and it shows %q", p.Unknown)
		}
	})
}

// That brokers' time is not to be had is said once: at once where a person has to act, after a while of brokers that answer otherwise, and never of brokers that
// cannot be reached, nor at the end.
func TestFailedIsSaid(t *testing.T) {
	denied, away := fmt.Errorf("ask: %w", kerr.TransactionalIDAuthorizationFailed), errors.New("unable to dial: away")
	for _, c := range []struct {
		name    string
		err     error
		reached time.Duration // before that; -1: never
		ended   bool
		want    int
	}{
		{"denied", denied, -1, false, 1},
		{"not reached", away, -1, false, 0},
		{"reached just now", away, SettleAfter - time.Second, false, 0},
		{"reached long ago", away, SettleAfter, false, 1},
		{"at the end", denied, SettleAfter, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, logged := keeper(time.Now)
				ctx, end := context.WithCancel(t.Context())
				defer end()
				if c.reached >= 0 {
					k.reached = time.Now()
					time.Sleep(c.reached)
				}
				if c.ended {
					end()
				}
				k.failed(ctx, c.err)
				k.failed(ctx, c.err)
				if got := strings.Count(logged.String(), "brokers do not say what time it is"); got != c.want || (k.clock.Picture().Unknown != "") != (c.want > 0) {
					t.Errorf("said %d times, want %d: %s", got, c.want, logged)
				}
			})
		})
	}
}

// A wall clock that has stepped has brokers asked, whichever way it went.
func TestStepsAsk(t *testing.T) {
	for _, by := range []time.Duration{time.Minute, -time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			wall := &wrongClock{}
			c := New(wall.now, time.Second, slog.New(slog.DiscardHandler))
			wall.by = by
			c.Now()
			select {
			case <-c.stepped:
			default:
				t.Errorf("a step of %v asks nobody", by)
			}
		})
	}
}
