package telling

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

// sayingsLog is a log that is read while it is written.
type sayingsLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *sayingsLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns the lines since the last call, without their times.
func (l *sayingsLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for line := range strings.Lines(l.b.String()) {
		_, line, _ = strings.Cut(line, " ")
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, `level=WARN msg="records cannot be delivered; they were put aside" `)))
	}
	l.b.Reset()
	return lines
}

// Each reason is told at once and then once a minute, with a count and an example, however many there are.
func TestDeadLettersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log sayingsLog
		d := NewDeadLetters(slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); d.Run(ctx) }()
		tp := kafka.TopicPartition{Topic: "requests", Partition: 3}
		unit := &topics.Refusal{Code: topics.CodeUnparsableDue, Header: "delay-for", Message: "no unit"}
		gone := &topics.Refusal{Code: topics.CodeUnknownTarget, Message: "no topic orders"}
		for i := range int64(90) { // for three minutes less a second
			d.Add(tp, i, "requests.dead", unit, i == 0, time.Now()) // the first one is not whole, and the others are
			if i == 0 {
				equals(t, "at once", log.take(), []string{`topic=requests code=unparsable_due header=delay-for cut_to_fit=1 in=requests.dead records=1 example="requests/3@0: no unit"`})
				d.Add(tp, 1000, "requests.dead", gone, false, time.Now())
				d.Add(kafka.TopicPartition{Topic: "others", Partition: 0}, 7, "requests.dead", unit, false, time.Now())
				equals(t, "other reasons", log.take(), []string{
					`topic=requests code=unknown_target in=requests.dead records=1 example="requests/3@1000: no topic orders"`,
					`topic=others code=unparsable_due header=delay-for in=requests.dead records=1 example="others/0@7: no unit"`,
				})
			}
			time.Sleep(1990 * time.Millisecond)
		}
		got := log.take()
		equals(t, "a flood", got, []string{
			`topic=requests code=unparsable_due header=delay-for in=requests.dead records=30 example="requests/3@30: no unit"`,
			`topic=requests code=unparsable_due header=delay-for in=requests.dead records=30 example="requests/3@60: no unit"`,
		})
		equals(t, "recent", d.Recent(), []string{"requests: 59 records, unparsable_due (delay-for), such as requests/3@89: no unit"})
		time.Sleep(sayEvery + sayCheck)
		equals(t, "its end", log.take(), []string{`topic=requests code=unparsable_due header=delay-for in=requests.dead records=29 example="requests/3@89: no unit"`})
		time.Sleep(sayEvery + sayCheck)
		equals(t, "nothing more", append(log.take(), d.Recent()...), nil)
		equals(t, "counted", d.Total(), []DeadLetterCount{{"others", "unparsable_due", 1}, {"requests", "unknown_target", 1}, {"requests", "unparsable_due", 90}})
		d.Add(tp, 90, "requests.dead", unit, false, time.Now())
		d.Add(tp, 91, "requests.dead", unit, false, time.Now())
		log.take()
		stop()
		<-ended
		equals(t, "told before it ends", log.take(), []string{`topic=requests code=unparsable_due header=delay-for in=requests.dead records=1 example="requests/3@91: no unit"`})
	})
}

// What has failed too often lies in the parking topic of its route, where that has one, and the line says so: whoever looks into
// the dead letter topic finds nothing of it.
func TestWhatIsParkedIsToldSo(t *testing.T) {
	var log sayingsLog
	d := NewDeadLetters(slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Unix(1_767_225_600, 0)
	tp := kafka.TopicPartition{Topic: "orders.retry", Partition: 1}
	d.Add(tp, 7, "orders.parked", &topics.Refusal{Code: topics.CodeExhausted, Header: "delay-attempt", Message: "too often"}, false, now)
	d.Add(tp, 8, "orders.retry.dead", &topics.Refusal{Code: topics.CodeUnknownTarget, Message: "no topic orders"}, false, now)
	equals(t, "told", log.take(), []string{
		`topic=orders.retry code=attempts_exhausted header=delay-attempt in=orders.parked records=1 example="orders.retry/1@7: too often"`,
		`topic=orders.retry code=unknown_target in=orders.retry.dead records=1 example="orders.retry/1@8: no topic orders"`,
	})
}

// Header names are up to who writes the records: they do not fill the memory, and not the log.
func TestDeadLetterReasonsAreBounded(t *testing.T) {
	var log sayingsLog
	d := NewDeadLetters(slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Unix(1_767_225_600, 0)
	for i := range int64(10 * maxReasons) {
		d.Add(kafka.TopicPartition{Topic: "requests", Partition: 0}, i, "requests.dead", &topics.Refusal{Code: topics.CodeUnsupportedHeader, Header: fmt.Sprint("delay-", i), Message: "?"}, false, now)
	}
	if n := len(log.take()); n > maxReasons+1 || n < maxReasons {
		t.Errorf("%d lines", n)
	}
	if n := len(d.reasons); n > maxReasons+1 {
		t.Errorf("%d reasons are kept", n)
	}
	equals(t, "counted", d.Total(), []DeadLetterCount{{"requests", "unsupported_header", 10 * maxReasons}})
}
