package verify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// hour is what happened in the last hour, before it is spoiled.
type hour struct {
	*fakeGroup
	good, bad, cancelled, replacing *kgo.Record // requests
	arrivals                        []*kgo.Record
}

func newHour(t *testing.T) *hour {
	s := newFakeGroup(t)
	h := &hour{fakeGroup: s}
	h.good = s.ask(0, 10)
	h.bad = s.request(1, "delay-for=1m", "delay-target-topic=nowhere", "trace=2")
	h.cancelled = s.ask(2, 20)
	s.request(3, "delay-cancel=0-2-"+millis(s.at(20)))
	replaced := s.ask(3, 30, "delay-id=a")
	h.replacing = s.ask(4, 12, "delay-replace=a")
	s.ask(5, 100) // pending
	s.request(5, "delay-for=soon", "delay-target-topic=orders")
	_ = replaced
	reminder := s.write(&kgo.Record{Topic: "reminders", Partition: 1, Value: []byte("tick"), Timestamp: s.at(5)})
	h.arrivals = []*kgo.Record{s.delivered(h.good, 10), s.condemned(h.bad, "unknown_target"), s.delivered(h.replacing, 12), s.delivered(reminder, 10)}
	return h
}

// judge writes what arrived, and says that all was resolved that was due in the first half.
func (h *hour) judge() *Report {
	h.Helper()
	for _, r := range h.arrivals {
		h.write(r)
	}
	h.write(&kgo.Record{Topic: "orders", Value: []byte("of others")})
	ends, err := h.adm.ListEndOffsets(h.Context(), "delays")
	if err != nil {
		h.Fatal(err)
	}
	h.resolve("delays", 0, ends["delays"][0].Offset, 30, 6)
	h.resolve("reminders", 1, 1, 0, 1)
	return h.pass(h.verifier())
}

func set(r *kgo.Record, name, value string) {
	for i := range r.Headers {
		if r.Headers[i].Key == name {
			r.Headers[i].Value = []byte(value)
		}
	}
}

// TestFaults makes each fault on purpose, and looks for it and no other.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*hour)
		want  map[string]int64
		says  string
	}{
		{"all is well", func(h *hour) {}, nil, "all is well"},
		{"one is not delivered", func(h *hour) { h.arrivals = h.arrivals[1:] }, map[string]int64{"missing": 1}, "delays/0@0: due"},
		{"one is not dead-lettered", func(h *hour) { h.request(6, "delay-target-topic=orders") }, map[string]int64{"missing": 1}, "should be dead-lettered, for what its headers say"},
		{"one without a target is not dead-lettered", func(h *hour) { h.arrivals[1] = h.arrivals[0]; h.arrivals = h.arrivals[1:] }, nil, "cannot tell of 1: their target does not exist"},
		{"one of a fixed delay is not delivered", func(h *hour) { h.arrivals = h.arrivals[:3] }, map[string]int64{"missing": 1}, "reminders/1@0: due"},
		{"one comes twice", func(h *hour) { h.arrivals = append(h.arrivals, h.delivered(h.good, 10)) }, map[string]int64{"doubled": 1}, "seen 2 times, first at orders/"},
		{"one is delivered and dead-lettered", func(h *hour) { h.arrivals = append(h.arrivals, h.condemned(h.good, "rejected")) }, map[string]int64{"doubled": 1}, "delays.dead/0@1"},
		{"a dead letter comes twice", func(h *hour) { h.arrivals = append(h.arrivals, h.condemned(h.bad, "unknown_target")) }, map[string]int64{"doubled": 1}, "delays/0@1"},
		{"the value is another", func(h *hour) { h.arrivals[0].Value = []byte("w") }, map[string]int64{"altered": 1}, "delays/0@0: value"},
		{"the key is another", func(h *hour) { h.arrivals[0].Key = []byte("l") }, map[string]int64{"altered": 1}, "delays/0@0: key"},
		{"a header is another", func(h *hour) { set(h.arrivals[0], "trace", "9") }, map[string]int64{"altered": 1}, "headers"},
		{"a header is new", func(h *hour) { h.arrivals[0].Headers = append(h.arrivals[0].Headers, headers("x=y")...) }, map[string]int64{"altered": 1}, "headers"},
		{"it says another due time", func(h *hour) { set(h.arrivals[0], "delay-due", millis(h.at(9))) }, map[string]int64{"altered": 1}, "due "},
		{"it says when it was requested", func(h *hour) {
			h.arrivals[0].Headers = append(h.arrivals[0].Headers, headers("delay-source-timestamp="+millis(h.good.Timestamp))...)
		},
			nil, "all is well"},
		{"it says that it was requested at another time", func(h *hour) {
			h.arrivals[0].Headers = append(h.arrivals[0].Headers, headers("delay-source-timestamp="+millis(h.at(1)))...)
		},
			map[string]int64{"altered": 1}, "delays/0@0: delay-source-timestamp"},
		{"it says how often it was processed, and is none for that", func(h *hour) { h.arrivals[0].Headers = append(h.arrivals[0].Headers, headers("delay-attempt=1")...) },
			map[string]int64{"altered": 1}, "header delay-attempt was delivered, and its route is none for retries"},
		{"it was written tomorrow", func(h *hour) { h.arrivals[0].Timestamp = h.at(24 * 60) }, map[string]int64{"altered": 1}, ", and read "},
		{"it was written in half a minute", func(h *hour) { h.arrivals[0].Timestamp = h.at(60.5) }, nil, "all is well"},
		{"it lies among the dead letters of another topic", func(h *hour) { h.arrivals[1].Topic = "reminders.dead" }, map[string]int64{"altered": 1}, "dead letter topic reminders.dead, not delays.dead"},
		{"a dead letter is another", func(h *hour) { h.arrivals[1].Value = nil }, map[string]int64{"altered": 1}, "dead letter: value"},
		{"it is early", func(h *hour) { h.arrivals[0].Timestamp = h.at(9.9) }, map[string]int64{"early": 1}, "written at"},
		{"it is a little early", func(h *hour) { h.arrivals[0].Timestamp = h.at(10).Add(-time.Second) }, nil, "all is well"},
		{"it is late", func(h *hour) {
			h.arrivals[0].Timestamp = h.at(25)
			h.config.Late = 10 * time.Minute
		}, map[string]int64{"late": 1}, "seen 15m0s late"},
		{"late is told", func(h *hour) { h.arrivals[0].Timestamp = h.at(25) }, nil, "max 15m"},
		{"a target that no request names", func(h *hour) { h.arrivals[0].Topic = "bills.de" }, map[string]int64{"missing": 1}, "delays/0@0"},
		{"any target that is allowed", func(h *hour) { h.config.AllTargets, h.arrivals[0].Topic = true, "bills.de" },
			map[string]int64{"altered": 1}, "target bills.de, not orders"},
		{"another target", func(h *hour) {
			h.request(6, "delay-until="+millis(h.at(200)), "delay-target-topic=bills.de")
			h.arrivals[0].Topic = "bills.de"
		}, map[string]int64{"altered": 1}, "target bills.de, not orders"},
		{"another partition than was asked for", func(h *hour) {
			q := h.ask(6, 8, "delay-target-partition=0")
			h.arrivals = append(h.arrivals, h.delivered(q, 8))
			h.arrivals[4].Partition = 1
		}, map[string]int64{"altered": 1}, "partition 1, not 0"},
		{"another partition than that of its key", func(h *hour) { h.arrivals[0].Partition = 1 }, map[string]int64{"altered": 1}, "partition 1 is not that of the key"},
		{"a bad one is delivered", func(h *hour) {
			q := h.request(6, "delay-target-topic=orders")
			h.arrivals = append(h.arrivals, h.delivered(q, 6))
		}, map[string]int64{"delivered in vain": 1}, "should be dead-lettered, for what its headers say"},
		{"one with a timestamp that is older than max_delay is delivered", func(h *hour) {
			h.arrivals = append(h.arrivals, h.delivered(h.ask(-367*24*60, 8), 8))
		}, nil, "all is well"},
		{"a good one is dead-lettered", func(h *hour) { h.arrivals[0] = h.condemned(h.good, "no_due") }, map[string]int64{"altered": 1}, "code no_due"},
		{"a cancel is delivered", func(h *hour) {
			h.arrivals = append(h.arrivals, h.delivered(&kgo.Record{Topic: "delays", Offset: 3}, 20))
		},
			map[string]int64{"delivered in vain": 1, "missing": 1}, ", and is a cancel, of which nothing becomes"},
		{"a cancel is dead-lettered", func(h *hour) {
			h.arrivals = append(h.arrivals, h.condemned(&kgo.Record{Topic: "delays", Offset: 3, Timestamp: h.at(3)}, "no_due"))
		}, map[string]int64{"dead-lettered in vain": 1, "missing": 1}, "with code no_due, and is a cancel, of which nothing becomes"},
		{"it has expired by a time in a form that is not read", func(h *hour) {
			h.config.Routes[0].ExpireAfter = time.Hour
			q := h.ask(6, 8, "delay-expires=1767225605."+strings.Repeat("0", 50))
			h.arrivals = append(h.arrivals, h.condemned(q, "expired"))
		}, nil, "all is well"},
		{"a header that a terminal would obey", func(h *hour) { h.arrivals[0].Headers = append(h.arrivals[0].Headers, headers("delay-\x1b[2J=y")...) },
			map[string]int64{"altered": 1}, `header "delay-\x1b[2J" was delivered`},
		{"what never was is delivered", func(h *hour) {
			aborted := h.abort(&kgo.Record{Topic: "delays", Timestamp: h.at(6), Headers: h.good.Headers})
			h.ask(7, 200)
			h.arrivals = append(h.arrivals, h.delivered(aborted, 10))
		}, map[string]int64{"stray": 1}, "no committed request is there"},
		{"a partition that is not there", func(h *hour) { set(h.arrivals[0], "delay-source", "delays/7/0") }, map[string]int64{"stray": 1, "missing": 1}, "does not have"},
		{"what is beyond the log", func(h *hour) {
			h.arrivals = append(h.arrivals, h.delivered(&kgo.Record{Topic: "delays", Offset: 700}, 10))
		},
			map[string]int64{"stray": 1}, "delays/0@700"},
		{"what is replaced is delivered", func(h *hour) {
			q := h.ask(6, 9)
			by := h.ask(6, 11, "delay-replace=0-8-"+millis(h.at(9)))
			h.arrivals = append(h.arrivals, h.delivered(q, 9), h.delivered(by, 11))
		}, map[string]int64{"doubled": 1}, "1 replacements of it were delivered"},
		{"one with an id vanishes", func(h *hour) { h.ask(6, 9, "delay-id=b") }, map[string]int64{"missing": 1}, `has the id "b"`},
		{"one with an id is cancelled", func(h *hour) {
			h.ask(6, 9, "delay-id=b")
			h.request(7, "delay-cancel=b")
		}, nil, "3 cancelled, replaced or left out"},
		{"a cancel is not passed on", func(h *hour) {
			h.write(&kgo.Record{Topic: "delays", Partition: 1, Timestamp: h.at(6), Headers: headers("delay-cancel=0-6-" + millis(h.at(100)))})
			h.resolve("delays", 1, 1, 30, 1)
		}, map[string]int64{"missing": 1}, "delays/1@0: is a cancel of a record of another partition"},
		{"a cancel is not answered, and the record is delivered", func(h *hour) {
			h.config.Routes[0].CancelsAnswered = true
			q := h.ask(6, 9)
			h.request(7, "delay-cancel=0-8-"+millis(h.at(9)))
			h.arrivals = append(h.arrivals, h.delivered(q, 9))
		}, map[string]int64{"doubled": 1}, "1 cancels of it were not answered"},
		{"a cancel is not answered, and names one whose due time has a form that is not read", func(h *hour) {
			h.config.Routes[0].CancelsAnswered = true
			h.request(6, "delay-until="+millis(h.at(9))+"."+strings.Repeat("0", 50), "delay-target-topic=orders")
			h.request(7, "delay-cancel=0-8-"+millis(h.at(9)))
		}, nil, "cannot tell of 2: their due time has a form that verify does not read"},
		{"one is carried on", func(h *hour) {
			q := h.ask(6, 9)
			h.carryOn(q, 9, 200)
		}, nil, "2 pending"},
		{"one is carried on, and then not delivered", func(h *hour) {
			q := h.ask(6, 9)
			h.carryOn(q, 9, 20)
		}, map[string]int64{"missing": 1}, "delays/0@8"},
		{"one expires", func(h *hour) {
			q := h.ask(6, 9, "delay-expires="+millis(h.at(10)))
			letter := h.condemned(q, "expired")
			letter.Timestamp = h.at(11)
			h.arrivals = append(h.arrivals, letter)
		}, nil, "expired 1"},
		{"one is dead-lettered before it has expired", func(h *hour) {
			q := h.ask(6, 9, "delay-expires="+millis(h.at(20)))
			letter := h.condemned(q, "expired")
			letter.Timestamp = h.at(11)
			h.arrivals = append(h.arrivals, letter)
		}, map[string]int64{"dead-lettered in vain": 1}, "of use until"},
		{"one is delivered after it has expired", func(h *hour) {
			q := h.ask(6, 9, "delay-expires="+millis(h.at(10)))
			late := h.delivered(q, 9)
			late.Timestamp = h.at(11)
			h.arrivals = append(h.arrivals, late)
		}, map[string]int64{"delivered in vain": 1}, "of use until"},
		{"two of one key and time are swapped", func(h *hour) {
			a, b := h.ask(6, 9), h.ask(6, 9)
			h.arrivals = append(h.arrivals, h.delivered(b, 9), h.delivered(a, 9))
		}, map[string]int64{"disordered": 1}, "with the same key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHour(t)
			tt.spoil(h)
			h.expect(h.judge(), tt.want, tt.says)
		})
	}
}

// A program that reads a report finds a list of faults, also when there are none.
func TestReportWithoutFaultsAsJSON(t *testing.T) {
	r := newHour(t).judge()
	b, err := json.Marshal(r)
	if err != nil || !r.Well() || !strings.Contains(string(b), `"faults":[]`) {
		t.Errorf("%v, well: %v: %s", err, r.Well(), b)
	}
}
