package verify

import "testing"

// What is pending is counted as that, whatever names it or has its id, unless that has taken it away.
func TestPendingAmongWhatNamesIt(t *testing.T) {
	for name, tt := range map[string]struct {
		act    func(s *fakeGroup)
		want   Counts
		unread int64 // of the last, by the group
	}{
		"an id, and nothing else has it": {func(s *fakeGroup) { s.ask(0, 100, "delay-id=a") }, Counts{Requested: 1, Pending: 1}, 0},
		"a cancel of its id came before it": {func(s *fakeGroup) {
			s.request(0, "delay-cancel=a")
			s.ask(1, 100, "delay-id=a")
		}, Counts{Requested: 1, Pending: 1, Cancels: 1}, 0},
		"a cancel of its id came after it": {func(s *fakeGroup) {
			s.ask(1, 100, "delay-id=a")
			s.request(2, "delay-cancel=a")
		}, Counts{Requested: 1, Taken: 1, Cancels: 1}, 0},
		"a cancel between two": {func(s *fakeGroup) {
			s.ask(1, 100, "delay-id=a")
			s.request(2, "delay-cancel=a")
			s.ask(3, 100, "delay-id=a")
		}, Counts{Requested: 2, Taken: 1, Pending: 1, Cancels: 1}, 0},
		"another one takes its place": {func(s *fakeGroup) {
			s.config.Routes[0].OnDuplicate = 1 // replace
			s.ask(1, 100, "delay-id=a")
			s.ask(2, 110, "delay-id=a")
			s.ask(3, 120, "delay-id=a")
		}, Counts{Requested: 3, Taken: 2, Pending: 1}, 0},
		"another one is left out": {func(s *fakeGroup) {
			s.config.Routes[0].OnDuplicate = 2 // ignore
			s.ask(1, 100, "delay-id=a")
			s.ask(2, 110, "delay-id=a")
		}, Counts{Requested: 2, Taken: 1, Pending: 1}, 0},
		"another one was delivered before": {func(s *fakeGroup) {
			s.write(s.delivered(s.ask(1, 5, "delay-id=a"), 5))
			s.ask(6, 110, "delay-id=a")
		}, Counts{Requested: 2, Delivered: 1, Pending: 1}, 0},
		"its handle was cancelled": {func(s *fakeGroup) {
			s.ask(1, 100, "delay-id=a")
			s.request(2, "delay-cancel=0-0-"+millis(s.at(100)))
			s.ask(3, 110, "delay-id=a")
		}, Counts{Requested: 2, Taken: 1, Pending: 1, Cancels: 1}, 0},
		"another handle was cancelled": {func(s *fakeGroup) {
			s.ask(1, 100, "delay-id=a")
			s.request(2, "delay-cancel=0-0-"+millis(s.at(101)))
		}, Counts{Requested: 1, Pending: 1, Cancels: 1}, 0},
		"a replacement in vain": {func(s *fakeGroup) {
			s.ask(1, 100)
			q := s.ask(2, 110, "delay-replace=0-0-"+millis(s.at(100)))
			s.write(s.condemned(q, "too_late"))
		}, Counts{Requested: 2, Pending: 1, DeadLettered: 1}, 0},
		"a replacement": {func(s *fakeGroup) {
			s.ask(1, 100)
			s.ask(2, 110, "delay-replace=0-0-"+millis(s.at(100)))
		}, Counts{Requested: 2, Taken: 1, Pending: 1}, 0},
		"a cancel that is not read yet": {func(s *fakeGroup) {
			s.ask(1, 100)
			s.ask(1, 100, "delay-id=a")
			s.request(2, "delay-cancel=0-0-"+millis(s.at(100)))
			s.request(2, "delay-cancel=a")
		}, Counts{Requested: 2, Pending: 2, Cancels: 2}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			tt.act(s)
			s.resolve("delays", 0, tt.want.Requested+tt.want.Cancels-tt.unread, 30, 0)
			if got := s.pass(s.verifier()).Counts; got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
