package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/duewheel/duewheel/processor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a processor in whatever state a test needs.
type fake struct {
	stats processor.Stats
	ready bool
	rest  []processor.PartitionStats
	dead  bool
}

func (f *fake) Stats() processor.Stats                    { return f.stats }
func (f *fake) Ready() (bool, []processor.PartitionStats) { return f.ready, f.rest }
func (f *fake) Alive() bool                               { return !f.dead }

func TestProbes(t *testing.T) {
	stopping := make(chan struct{})
	close(stopping)
	restoring := processor.PartitionStats{Topic: "delays", Partition: 3, Phase: processor.PhaseCatchUp, Reason: "reading the log", Position: 120, LogEnd: 400}
	stopped := processor.PartitionStats{Topic: "delays", Partition: 4, Phase: processor.PhaseStopped, Error: "not ours: choose"}
	anywhere := stopped
	anywhere.Anywhere = true
	for _, test := range []struct {
		name, path string
		source     fake
		stopping   chan struct{}
		code       int
		body       string
	}{
		{"alive", "/livez", fake{}, nil, 200, "ok\n"},
		{"alive by its other name", "/healthz", fake{}, nil, 200, "ok\n"},
		{"a lane hangs", "/livez", fake{dead: true}, nil, 503, "a lane has not taken a step for a while\n"},
		{"not ready since a lane hangs", "/readyz", fake{dead: true}, nil, 503, "{\n  \"ready\": false,\n  \"reason\": \"a lane has not taken a step for a while\"\n}\n"},
		{"all is stopped", "/readyz", fake{stats: processor.Stats{Partitions: []processor.PartitionStats{stopped}}, rest: []processor.PartitionStats{anywhere}}, nil, 503,
			"{\n  \"ready\": false,\n  \"reason\": \"all partitions that it has are stopped\",\n  \"degraded\": \"what is wrong with 1 partition would be so on every replica\",\n  \"partitions\": [\n    {\n      \"topic\": \"delays\",\n      \"partition\": 4,\n      \"phase\": \"stopped\",\n      \"error\": \"not ours: choose\"\n    }\n  ]\n}\n"},
		{"ready", "/readyz", fake{ready: true}, nil, 200, "{\n  \"ready\": true\n}\n"},
		{"not joined", "/readyz", fake{}, nil, 503, "{\n  \"ready\": false,\n  \"reason\": \"joining the group\"\n}\n"},
		{"refused by the group", "/readyz", fake{stats: processor.Stats{Outside: []string{"lane 0: give it another id"}}}, nil, 503,
			"{\n  \"ready\": false,\n  \"reason\": \"not in the group: lane 0: give it another id\"\n}\n"},
		{"without a store", "/readyz", fake{ready: true, stats: processor.Stats{StoreTrouble: "the disk is full: make room"}}, nil, 200,
			"{\n  \"ready\": true,\n  \"degraded\": \"no local store: the disk is full: make room\"\n}\n"},
		{"its clock is wrong", "/readyz", fake{ready: true, stats: processor.Stats{ClockTrouble: "the clock is ahead: set it right"}}, nil, 200,
			"{\n  \"ready\": true,\n  \"degraded\": \"the clock is ahead: set it right\"\n}\n"},
		{"brokers' clocks", "/readyz", fake{ready: true, stats: processor.Stats{BrokersApart: "broker 2 is ahead", ClockUnknown: "not allowed"}}, nil, 200,
			"{\n  \"ready\": true,\n  \"degraded\": \"the brokers' clocks differ: broker 2 is ahead; the clock of this machine is not compared with the brokers': not allowed\"\n}\n"},
		{"a topic that is not shown to it", "/readyz", fake{ready: true, stats: processor.Stats{Topics: []processor.TopicStats{{Topic: "t", Hidden: "not allowed"}, {Topic: "u"}}}}, nil, 200,
			"{\n  \"ready\": true,\n  \"degraded\": \"the topic t is not shown to this process, which gets none of its partitions when the group shares them out: not allowed\"\n}\n"},
		{"a topic that it has no rights to", "/readyz", fake{ready: true, stats: processor.Stats{Topics: []processor.TopicStats{{Topic: "t", Unseen: "no answer", Untrimmed: "no Delete", Uncarried: "no DescribeConfigs"}}}}, nil, 200,
			"{\n  \"ready\": true,\n  \"degraded\": \"it is not known whether the topic t keeps what is pending: no answer; the topic t is not trimmed: no Delete; what is pending in the topic t is not carried for its age: no DescribeConfigs\"\n}\n"},
		{"targets that do not take their records", "/readyz", fake{ready: true, stats: processor.Stats{Targets: []processor.TargetStats{{Target: "o", Trouble: "troubled: no leader"}, {Target: "p"}}}}, nil, 200,
			"{\n  \"ready\": true,\n  \"degraded\": \"the topic o does not take its records: troubled: no leader\"\n}\n"},
		{"many targets that do not take their records", "/readyz", fake{ready: true, stats: processor.Stats{Targets: slices.Repeat([]processor.TargetStats{{Target: "o", Trouble: "why"}}, 5)}}, nil, 200,
			"{\n  \"ready\": true,\n  \"degraded\": \"the topic o does not take its records: why; the topic o does not take its records: why; the topic o does not take its records: why; and so it is with 2 more topics\"\n}\n"},
		{"a transaction that holds back some", "/readyz", fake{ready: true, stats: processor.Stats{Partitions: []processor.PartitionStats{{HeldBack: "a"}, {}, {HeldBack: "b"}}}}, nil, 200,
			"{\n  \"ready\": true,\n  \"degraded\": \"a; b\"\n}\n"},
		{"a transaction that holds back many", "/readyz", fake{ready: true, stats: processor.Stats{Partitions: slices.Repeat([]processor.PartitionStats{{HeldBack: "why"}}, 100)}}, nil, 200,
			"{\n  \"ready\": true,\n  \"degraded\": \"why; why; why; and so it is in 97 more partitions\"\n}\n"},
		{"several reasons", "/readyz", fake{rest: []processor.PartitionStats{stopped}, stats: processor.Stats{Outside: []string{"lane 1: no"}}}, nil, 503,
			"{\n  \"ready\": false,\n  \"reason\": \"not in the group: lane 1: no; 1 partition is not live, or held up\",\n  \"partitions\": [\n    {\n      \"topic\": \"delays\",\n      \"partition\": 4,\n      \"phase\": \"stopped\",\n      \"error\": \"not ours: choose\"\n    }\n  ]\n}\n"},
		{"one that would be stopped on every replica", "/readyz", fake{ready: true, rest: []processor.PartitionStats{anywhere}}, nil, 200,
			"{\n  \"ready\": true,\n  \"degraded\": \"what is wrong with 1 partition would be so on every replica\",\n  \"partitions\": [\n    {\n      \"topic\": \"delays\",\n      \"partition\": 4,\n      \"phase\": \"stopped\",\n      \"error\": \"not ours: choose\"\n    }\n  ]\n}\n"},
		{"joining, with one that would be stopped on every replica", "/readyz", fake{rest: []processor.PartitionStats{anywhere}}, nil, 503,
			"{\n  \"ready\": false,\n  \"reason\": \"joining the group\",\n  \"degraded\": \"what is wrong with 1 partition would be so on every replica\",\n  \"partitions\": [\n    {\n      \"topic\": \"delays\",\n      \"partition\": 4,\n      \"phase\": \"stopped\",\n      \"error\": \"not ours: choose\"\n    }\n  ]\n}\n"},
		{"stopping", "/readyz", fake{ready: true}, stopping, 503, "{\n  \"ready\": false,\n  \"reason\": \"stopping\"\n}\n"},
		{"partitions that are not live", "/readyz", fake{rest: []processor.PartitionStats{restoring, stopped}}, nil, 503, `{
  "ready": false,
  "reason": "2 partitions are not live, or held up",
  "partitions": [
    {
      "topic": "delays",
      "partition": 3,
      "phase": "catching_up",
      "reason": "reading the log",
      "position": 120,
      "end": 400
    },
    {
      "topic": "delays",
      "partition": 4,
      "phase": "stopped",
      "error": "not ours: choose"
    }
  ]
}
`},
		{"dead letters", "/readyz", fake{ready: true, stats: processor.Stats{Refusing: []string{"delays: 7 records, invalid_id, such as delays/0@3: it is written like a handle, <partition>-<offset>-<due>"}}}, nil, 200, `{
  "ready": true,
  "dead_letters": [
    "delays: 7 records, invalid_id, such as delays/0@3: it is written like a handle, <partition>-<offset>-<due>"
  ]
}
`},
		{"what there is", "/", fake{}, nil, 200, "duewheel: /metrics /livez /readyz /healthz\n"},
		{"nothing else", "/debug/pprof/", fake{}, nil, 404, "404 page not found\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := NewHandler(Options{Source: &test.source, Gatherer: prometheus.NewRegistry(), Stopping: test.stopping})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", test.path, nil))
			if w.Code != test.code || w.Body.String() != test.body {
				t.Errorf("%d %s\nwant %d %s", w.Code, w.Body, test.code, test.body)
			}
		})
	}
}

func TestProbesOnlyRead(t *testing.T) {
	h := NewHandler(Options{Source: &fake{}, Gatherer: prometheus.NewRegistry()})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/livez", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST answered %d", w.Code)
	}
}

// An address that was asked for is taken or refused; without one the next free port is found.
func TestListen(t *testing.T) {
	first, err := Listen("")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := Listen("")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if first.Addr().(*net.TCPAddr).Port >= second.Addr().(*net.TCPAddr).Port || !first.Addr().(*net.TCPAddr).IP.IsLoopback() {
		t.Errorf("first %v, second %v", first.Addr(), second.Addr())
	}
	if l, err := Listen(first.Addr().String()); err == nil {
		l.Close()
		t.Errorf("%v was given twice", first.Addr())
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	for range 20 {
		l, err := Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- Serve(ctx, l, NewHandler(Options{Source: &fake{}, Gatherer: prometheus.NewRegistry()}))
		}()
		client := &http.Client{Transport: &http.Transport{}}
		resp, err := client.Get("http://" + l.Addr().String() + "/livez")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		client.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil || !strings.HasPrefix(string(body), "ok") {
			t.Errorf("served %q, ended with %v", body, err)
		}
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := Serve(t.Context(), l, http.NotFoundHandler()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("ended with %v", err)
	}
}

// What other replicas ask for is there if there is something.
func TestPresence(t *testing.T) {
	for _, presence := range []http.Handler{nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })} {
		want := http.StatusNotFound
		if presence != nil {
			want = http.StatusTeapot
		}
		w := httptest.NewRecorder()
		NewHandler(Options{Source: &fake{}, Gatherer: prometheus.NewRegistry(), Presence: presence}).
			ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, processor.PresencePath, nil))
		if w.Code != want {
			t.Errorf("it answers %d, want %d", w.Code, want)
		}
	}
}
