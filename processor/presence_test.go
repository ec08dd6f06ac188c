package processor

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// A replica is to be found where it says, if it says where, and is not a static member. Before it runs it says nothing, and hears nobody.
func TestPresence(t *testing.T) {
	for _, c := range []struct{ address, local, instance, want string }{
		{"10.0.0.1:9464", "10.0.0.2", "", "10.0.0.1:9464"},
		{"duewheel-0.pods:9464", "10.0.0.2", "", "duewheel-0.pods:9464"},
		{"[::1]:9464", "10.0.0.2", "", "[::1]:9464"},
		{"0.0.0.0:9464", "10.0.0.2", "", "10.0.0.2:9464"},
		{"[::]:9464", "fd00::2", "", "[fd00::2]:9464"},
		{":9464", "10.0.0.2", "", "10.0.0.2:9464"},
		{"[::]:9464", "", "", ""},
		{"", "10.0.0.2", "", ""},
		{"10.0.0.1:9464", "10.0.0.2", "eu", ""},
	} {
		p, err := New(Config{Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Group: "g", InstanceID: c.instance, StateDir: t.TempDir(), Routes: []topics.Route{{Topic: "delays", Target: "orders", DeadLetter: "dead"}}})
		if err != nil {
			t.Fatal(err)
		}
		if at := p.presence.at(c.local); at != "" {
			t.Errorf("before it was told, it is at %q", at)
		}
		handler := p.Presence(c.address)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, PresencePath, nil))
		if at := p.presence.at(c.local); at != c.want || w.Code != http.StatusServiceUnavailable {
			t.Errorf("%q, static member %q: it is at %q, and answers %d", c.address, c.instance, at, w.Code)
		}
		if s := p.Stats(); s.PeersHeard != 0 || s.PeersTakenOut != 0 {
			t.Errorf("it hears %d, has taken out %d", s.PeersHeard, s.PeersTakenOut)
		}
	}
}
