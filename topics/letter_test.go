package topics

import (
	"go/ast"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is written down of a dead letter is read again, and what is replayed of it is the request as it was written.
func TestReadLetter(t *testing.T) {
	request := headers("delay-for", "5m", "trace", "abc", "delay-attempt", "8")
	d := DeadLetter{Topic: "delays", Partition: 3, Offset: 42, Timestamp: T, Instance: "host-1", Attempts: 4,
		Refusal: &Refusal{Code: CodeUnparsableDue, Stage: StageParse, Header: "delay-for", Value: []byte("soon=now"), Message: "no"}}
	written, _ := AppendDeadLetter(nil, request, d, nil)
	got, ok := ReadLetter(written)
	want := Letter{DeadLetter: d, Blamed: "delay-for=soon=now"}
	want.Refusal = &Refusal{Code: CodeUnparsableDue, Stage: StageParse, Message: "no"}
	equal(t, ok, true)
	equal(t, got, want)
	equal(t, AppendReplayed(nil, written, got.Refusal.Code, HeaderPrefix), request)
	equal(t, AppendReplayed(nil, written, CodeExhausted, HeaderPrefix), request[:2])

	r := &kgo.Record{Headers: written, Value: make([]byte, 1000)}
	if !FitDeadLetter(r, RecordSize(nil, nil, written)+500) {
		t.Fatal("it was not cut")
	}
	got, ok = ReadLetter(r.Headers)
	equal(t, ok, true)
	if got.Cut == "" {
		t.Error("nothing says that it was cut")
	}
	equal(t, AppendReplayed(nil, r.Headers, got.Refusal.Code, HeaderPrefix), request)
}

func TestWhatIsNoLetter(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers []kgo.RecordHeader
	}{
		{"a record of another program", headers("trace", "abc")},
		{"a dead letter of Connect", headers("__connect.errors.topic", "orders", "__connect.errors.partition", "3")},
		{"no code", headers(HeaderErrorTopic, "delays", HeaderErrorPartition, "3", HeaderErrorCode, "")},
		{"no topic", headers(HeaderErrorPartition, "3", HeaderErrorCode, "no_due")},
		{"a topic that cannot be one", headers(HeaderErrorTopic, "de lays", HeaderErrorPartition, "3", HeaderErrorCode, "no_due")},
		{"no partition", headers(HeaderErrorTopic, "delays", HeaderErrorCode, "no_due")},
		{"a negative partition", headers(HeaderErrorTopic, "delays", HeaderErrorPartition, "-1", HeaderErrorCode, "no_due")},
		{"a partition beyond all", headers(HeaderErrorTopic, "delays", HeaderErrorPartition, "2147483648", HeaderErrorCode, "no_due")},
	} {
		if l, ok := ReadLetter(test.headers); ok {
			t.Errorf("%s: read as %+v", test.name, l)
		}
	}
	if l, ok := ReadLetter(headers(HeaderErrorTopic, "delays", HeaderErrorPartition, "3", HeaderErrorCode, "from_the_future")); !ok || l.Offset != -1 || l.Timestamp != -1 {
		t.Errorf("the least that is one: %+v, %v", l, ok)
	}
	if IsRequest(headers(HeaderResolve, "x")) || !IsRequest(headers(HeaderResolve, "")) || !IsRequest(nil) {
		t.Error("only a record with delay-resolve never was a request")
	}
}

// Codes has every code that there is.
func TestCodes(t *testing.T) {
	listed := make(map[Code]bool)
	for _, c := range Codes {
		listed[c] = true
	}
	declared := 0
	ast.Inspect(sources(t)["refusal.go"], func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := v.Type.(*ast.Ident); ok && of.Name == "Code" {
			declared++
		}
		return true
	})
	if len(listed) != declared || len(Codes) != declared {
		t.Errorf("%d codes are listed, %d of them different; %d are declared", len(Codes), len(listed), declared)
	}
}

// FuzzReadLetter: any bytes in any header are a dead letter that can be asked for again, or none.
func FuzzReadLetter(f *testing.F) {
	f.Add(HeaderErrorTopic, []byte("delays"), HeaderErrorPartition, []byte("3"), HeaderErrorCode, []byte("no_due"))
	f.Add(HeaderErrorTopic, []byte("a b"), HeaderErrorPartition, []byte("-3"), HeaderAttempt, []byte("7"))
	f.Fuzz(func(t *testing.T, name1 string, value1 []byte, name2 string, value2 []byte, name3 string, value3 []byte) {
		hs := []kgo.RecordHeader{{Key: name1, Value: value1}, {Key: name2, Value: value2}, {Key: name3, Value: value3}}
		l, ok := ReadLetter(hs)
		if !ok {
			equal(t, l, Letter{})
			return
		}
		if l.Partition < 0 || !validTopic(l.Topic) || l.Refusal.Code == "" || l.Attempts < 0 || l.Offset < -1 || l.Timestamp < -1 {
			t.Errorf("read %+v", l)
		}
		again, _ := AppendDeadLetter(nil, hs, l.DeadLetter, nil)
		equal(t, show(AppendReplayed(nil, again, CodeNoDue, HeaderPrefix)), show(AppendReplayed(nil, hs, CodeNoDue, HeaderPrefix)))
	})
}

// What was given up because it was delivered too often is asked for again with a count that begins anew, also where nothing but the dead
// letter says by which prefix it counts.
func TestReplayedWithoutItsRoute(t *testing.T) {
	for _, prefix := range []string{"", "x-wheel-"} {
		routes, err := NewRoutes(Route{Topic: "retries", Target: "orders", DeadLetter: "retries.dead", Prefix: prefix,
			Retry: &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Minute}, MaxAttempts: 3}})
		if err != nil {
			t.Fatal(err)
		}
		r := routes[0]
		request := headers(r.Header(HeaderAttempt), "3", "trace", "abc")
		q, err := r.Parser().Parse(request, Stamp{Millis: T}, 7, ours)
		if err != nil {
			t.Fatal(err)
		}
		refusal := r.Refuse(&q, T)
		if refusal == nil || refusal.Code != CodeExhausted {
			t.Fatal(refusal)
		}
		written, _ := AppendDeadLetter(nil, request, DeadLetter{Topic: "retries", Refusal: refusal}, nil)
		equal(t, AppendReplayed(nil, written, CodeExhausted, ""), request[1:])
		equal(t, AppendReplayed(nil, written, CodeExhausted, r.HeaderPrefix()), request[1:])
	}
}
