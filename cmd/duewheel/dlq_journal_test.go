package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// However a replay ends early, its journal says where to go on, and what may be written once more then.
func TestJournalSaysWhereToGoOn(t *testing.T) {
	of := func(offset int64) *again {
		return &again{of: &letter{record: &kgo.Record{Topic: "dead", Offset: offset}, Letter: topics.Letter{DeadLetter: topics.DeadLetter{Refusal: &topics.Refusal{Code: topics.CodeNoDue}}}}}
	}
	stop := errors.New("it stopped")
	for _, test := range []struct {
		name            string
		written         []int64
		notAcknowledged []int64 // among those
		pending         []*again
		places          bool // were named, so there is nothing to go on with
		want            string
	}{
		{name: "before anything", want: "it stopped; 0 dead letters replayed before that"},
		{name: "before the next is read", written: []int64{4}, want: "it stopped; 1 dead letter replayed before that; --from dead/0@5 goes on"},
		{name: "before the next is written", written: []int64{4}, pending: []*again{of(9), of(11)}, want: "it stopped; 1 dead letter replayed before that; --from dead/0@9 goes on"},
		{name: "two of four are not acknowledged", written: []int64{4, 5, 6, 7}, notAcknowledged: []int64{5, 7},
			want: "it stopped; 2 dead letters replayed before that; dead/0@5 was not acknowledged, and may have been written all the same; --from dead/0@5 goes on, and writes 1 once more"},
		{name: "places were named", written: []int64{4}, places: true, want: "it stopped; 1 dead letter replayed before that"},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := journal{stdout: io.Discard, now: time.Now}
			missing := map[int64]bool{}
			for _, offset := range test.notAcknowledged {
				missing[offset] = true
			}
			for _, offset := range test.written {
				if missing[offset] {
					j.notAcknowledged(of(offset))
				} else if err := j.acknowledged(of(offset), func(*again) string { return "" }); err != nil {
					t.Fatal(err)
				}
			}
			if got := j.interrupted(stop, test.pending, !test.places); got.Error() != test.want || !errors.Is(got, stop) {
				t.Errorf("got  %v\nwant %s", got, test.want)
			}
		})
	}
}

// Wherever a signal ends a replay, the error is the signal, so that what the journal says of it is told.
func TestReplayEndsWithTheSignal(t *testing.T) {
	signal := errors.New("signal interrupt")
	ctx, interrupt := context.WithCancelCause(t.Context())
	between := func(ctx context.Context, _ func(*letter) error) error { // two dead letters, where a marker of a transaction lies
		interrupt(signal)
		return fmt.Errorf("look: %w", ctx.Err())
	}
	s := sending{replay: &replay{rate: 1000}, journal: journal{stdout: io.Discard, now: time.Now}}
	if err := s.run(ctx, between); err != signal {
		t.Errorf("it ends with %v", err)
	}
	failed := errors.New("broken")
	if err := s.run(ctx, func(context.Context, func(*letter) error) error { return failed }); err != failed {
		t.Errorf("what has failed ends with %v", err)
	}
}

// A pipe that is closed ends a replay, and does not hide what was not acknowledged behind it.
func TestReplayIntoAClosedPipe(t *testing.T) {
	_, addr, config := graveyard(t)
	closed := writerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe })
	err := run(t.Context(), []string{"dlq", "replay", "-c", config, "--yes", "--rate", "1"}, nil, closed, io.Discard)
	if want := "io: read/write on closed pipe; 1 dead letter replayed before that; --from delays.dead/0@1 goes on"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if n := lengthOf(t, addr, "delays"); n != 1 {
		t.Errorf("%d records were written", n)
	}
}
