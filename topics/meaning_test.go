package topics

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is said of a header is what the parser makes of it.
func TestMeanings(t *testing.T) {
	const at = int64(1_800_000_000_000) // 2027-01-15T08:00:00Z
	m := NewMark([4]byte{1, 2, 3, 4}, "g", 3)
	retries := &Parser{backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Minute}.whole(), sources: SourceHeaders}
	for _, c := range []struct {
		name, headers string // name=value, one after the other
		parser        *Parser
		want          []string
	}{
		{"a delay", "delay-for=1h30m trace=1 delay-target-topic=orders", &Parser{}, []string{
			"delay-for: 1h30m after it was written: due at 2027-01-15T09:30:00.000Z", "delay-target-topic: the target is the topic orders"}},
		{"a time", "delay-until=2027-01-15T08:00:01Z delay-for=5s", &Parser{}, []string{
			"delay-until: due at 2027-01-15T08:00:01.000Z", "delay-for: does not count: delay-until wins"}},
		{"no delay", "delay-for=0", &Parser{}, []string{"delay-for: no delay: due at 2027-01-15T08:00:00.000Z"}},
		{"a jitter", "delay-for=5s", &Parser{jitter: 10_000}, []string{"delay-for: 5s after it was written: due at 2027-01-15T08:00:05.000Z, and 2.722s later for the jitter of its route"}},
		{"refused", "delay-for=soon delay-target-topic=orders", &Parser{}, []string{"delay-for: refused: ", "delay-target-topic: not looked at: the record is refused"}},
		{"the last of a name", "delay-for=5s delay-for=6s delay-id=", &Parser{}, []string{
			"delay-for: does not count: of several with this name the last one does", "delay-for: 6s after it was written: due at 2027-01-15T08:00:06.000Z", "delay-id: empty: as if it were not there"}},
		{"an id", "delay-for=5s delay-id=a delay-expires=1800000010", &Parser{onDuplicate: DuplicateReplaces}, []string{
			"delay-for: 5s", "delay-id: its id; if a record of the partition has it, this one takes its place", "delay-expires: dead-lettered if it is not delivered until 2027-01-15T08:00:10.000Z"}},
		{"a cancel", "delay-cancel=3-7-1800000000000 delay-for=5s", &Parser{}, []string{
			"delay-cancel: cancels the record at offset 7, if it is due at 2027-01-15T08:00:00.000Z", "delay-for: passed over: a record that cancels"}},
		{"a cancel elsewhere", "delay-cancel=4-7-1800000000000", &Parser{}, []string{"delay-cancel: cancels a record of partition 4, to which it is passed on"}},
		{"a cancel that asks for more", "delay-for=soon delay-target-topic=orders delay-replace=b delay-id=c delay-expires=1 delay-target-key=k delay-cancel=a", &Parser{}, []string{
			"delay-for: passed over: a record that cancels", "delay-target-topic: passed over: a record that cancels", "delay-replace: passed over: a record that cancels",
			"delay-id: passed over: a record that cancels", "delay-expires: passed over: a record that cancels", "delay-target-key: passed over: a record that cancels",
			`delay-cancel: cancels what has the id "a"`}},
		{"a cancel that names nothing", "delay-cancel= delay-for=5s", &Parser{}, []string{"delay-cancel: empty", "delay-for: 5s"}},
		{"a cancel by a preset", "x-delay=5000 delay-cancel=a", &Parser{aliases: usualAliases}, []string{"x-delay: passed over: a record that cancels", `delay-cancel: cancels what has the id "a"`}},
		{"two presets", "x-delay=5000 scheduler-epoch=1800000010 scheduler-target-topic=orders", &Parser{aliases: usualAliases}, []string{
			"x-delay: contradicts what a header of another preset says", "scheduler-epoch: refused: x-delay and scheduler-epoch both say", "scheduler-target-topic: not looked at: the record is refused"}},
		{"a replacement", "delay-replace=a delay-for=5s", &Parser{}, []string{`delay-replace: takes the place of what has the id "a"`, "delay-for: 5s"}},
		{"a replacement with its id", "delay-replace=a delay-for=5s delay-id=a", &Parser{}, []string{
			`delay-replace: takes the place of what has the id "a"`, "delay-for: 5s", "delay-id: its id, which it takes over from what it replaces"}},
		{"an unknown one", "delay-form=5s", &Parser{}, []string{"delay-form: refused: "}},
		{"what was delivered", "delay-due=5 delay-for=5s", &Parser{}, []string{"delay-due: of a record that was delivered before", "delay-for: 5s"}},
		{"a target elsewhere", "kafka_dlt-original-topic=orders delay-attempt=2 delay-for=1s", retries, []string{
			"kafka_dlt-original-topic: the target is the topic orders", "delay-attempt: it was delivered 2 times before", "delay-for: passed over: a retry route has its backoff"}},
		{"an attempt where there are none", "delay-attempt=2 delay-for=1s", &Parser{}, []string{"delay-attempt: of a record that was delivered before", "delay-for: 1s"}},
		{"a fixed delay", "delay-for=1s", &Parser{delay: 1000}, []string{"delay-for: refused: the delay of this topic is fixed"}},
	} {
		var headers []kgo.RecordHeader
		for _, h := range strings.Fields(c.headers) {
			name, v, _ := strings.Cut(h, "=")
			headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
		}
		got := c.parser.Meanings(headers, Stamp{Millis: at}, 9, m)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
			continue
		}
		for i, want := range c.want {
			if said := got[i].Header + ": " + got[i].Means; !strings.HasPrefix(said, want) {
				t.Errorf("%s: %q, want %q", c.name, said, want)
			}
		}
	}
	headers, _ := AppendRetry(nil, []kgo.RecordHeader{{Key: HeaderFor, Value: []byte("5s")}, {Key: HeaderReplace, Value: []byte("a")}}, m,
		Retry{Due: at + 1000, Attempt: 2, Origin: Origin{Offset: 7, Timestamp: at, Due: at}}, nil)
	got := (&Parser{}).Meanings(headers, Stamp{Millis: at}, 9, m)
	if !strings.HasPrefix(got[0].Means, "passed over: it was tried") || !strings.HasPrefix(got[1].Means, "passed over: that was dealt with") ||
		got[2].Means != "written by duewheel: tried 2 times before, and due again at 2027-01-15T08:00:01.000Z; the request is at offset 7" {
		t.Errorf("of a retry: %q", got)
	}
	if got := (&Parser{}).Meanings(Resolve(m, 7, at, 7), Stamp{Millis: at}, 9, m); got[0].Means != "written by duewheel: the record at offset 7 is resolved" {
		t.Errorf("of a resolve record: %q", got)
	}
}

// A parser may be used by many goroutines, so what they share is not written to.
func TestReadingsWriteNothing(t *testing.T) {
	known(fieldAttempt)
	for _, name := range requestNames[len(requestNames):cap(requestNames)] {
		if name != "" {
			t.Errorf("%s was written behind the names that all share", name)
		}
	}
}
