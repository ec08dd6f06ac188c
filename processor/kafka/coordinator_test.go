package kafka

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/answers"
)

const testTopic = "requests"

var testID = TopicID{1, 2, 3, 4, 5}

// scripted is a broker that answers offset commits, plain and in transactions, with the next
// error of a script, and keeps the requests. errNoAnswer breaks the connection instead.
type scripted struct {
	mu     sync.Mutex
	script []error
	asked  []kmsg.Request
	finds  int
}

var errNoAnswer = errors.New("no answer")

// next is the answer to one more request.
func (s *scripted) next(req kmsg.Request) (code int16, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, req)
	if len(s.script) == 0 {
		return 0, false
	}
	err := s.script[0]
	s.script = s.script[1:]
	var ke *kerr.Error
	if errors.As(err, &ke) {
		code = ke.Code
	}
	return code, err == errNoAnswer
}

func (s *scripted) count() (requests, finds int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked), s.finds
}

func newScripted(t *testing.T) (*scripted, *Coordinator, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic, "others"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := &scripted{}
	c.ControlKey(int16(kmsg.FindCoordinator), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		s.mu.Lock()
		s.finds++
		s.mu.Unlock()
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.OffsetCommitRequest)
		code, cut := s.next(req)
		if cut {
			return nil, errNoAnswer, true
		}
		return answers.Commit(req, code), nil, true
	})
	c.ControlKey(int16(kmsg.TxnOffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.TxnOffsetCommitRequest)
		code, cut := s.next(req)
		if cut {
			return nil, errNoAnswer, true
		}
		return answers.Commit(req, code), nil, true
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("writer-0"), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return s, NewCoordinator("g"), cl
}

var (
	someone = Member{ID: "someone", Generation: 7}
	entries = []Commit{
		{TP: TopicPartition{Topic: testTopic, Partition: 0}, ID: testID, Offset: 10, Metadata: "a"},
		{TP: TopicPartition{Topic: "others", Partition: 0}, ID: TopicID{9}, Offset: 20, Metadata: "b"},
		{TP: TopicPartition{Topic: testTopic, Partition: 1}, ID: testID, Offset: 30, Metadata: "c"},
	}
)

// A commit is sent once, whatever comes of it: one that is repeated can arrive late and take a
// checkpoint back (design rule 7).
func TestCommitIsSentOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want Verdict
	}{
		{"unanswered", errNoAnswer, Unknown},
		{"refused", kerr.IllegalGeneration, Refused},
		{"moved", kerr.NotCoordinator, Retry},
		{"loading", kerr.CoordinatorLoadInProgress, Retry},
		{"unclear", kerr.UnknownServerError, Unknown},
	} {
		for _, kind := range []string{"plain", "in a transaction"} {
			t.Run(c.name+" "+kind, func(t *testing.T) {
				s, co, cl := newScripted(t)
				// What breaks when a connection is first used the client does not send again in any case.
				if err := co.Commit(t.Context(), cl, someone, entries); err != nil {
					t.Fatal(err)
				}
				s.script = []error{c.err}
				var err error
				if kind == "plain" {
					err = co.Commit(t.Context(), cl, someone, entries)
				} else {
					err = co.CommitIn(t.Context(), cl, "writer-0", ProducerID{}, someone, entries)
				}
				if got := VerdictOf(err); err == nil || got != c.want {
					t.Errorf("verdict %d on %v, want %d", got, err, c.want)
				}
				if c.err == errNoAnswer && !errors.Is(err, ErrUnanswered) {
					t.Errorf("got %v, want errUnanswered", err)
				}
				if n, _ := s.count(); n != 2 {
					t.Errorf("it was sent %d times", n-1)
				}
			})
		}
	}
}

// Without a member and a generation nothing is sent: the broker would take it (design rule 6).
func TestNoCommitWithoutMember(t *testing.T) {
	s, co, cl := newScripted(t)
	for _, m := range []Member{{}, {ID: "someone", Generation: -1}, {Generation: 7}} {
		if err := co.Commit(t.Context(), cl, m, entries); VerdictOf(err) != Refused {
			t.Errorf("%+v: got %v", m, err)
		}
		if err := co.CommitIn(t.Context(), cl, "writer-0", ProducerID{}, m, entries); VerdictOf(err) != Refused {
			t.Errorf("%+v: got %v", m, err)
		}
	}
	if n, _ := s.count(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// What is sent names the member, the transaction and, for each partition, topic, topic id, offset and metadata.
func TestCommitSays(t *testing.T) {
	s, co, cl := newScripted(t)
	if err := co.Commit(t.Context(), cl, someone, entries); err != nil {
		t.Fatal(err)
	}
	if err := co.CommitIn(t.Context(), cl, "writer-0", ProducerID{12, 3}, someone, entries); err != nil {
		t.Fatal(err)
	}
	plain, txn := s.asked[0].(*kmsg.OffsetCommitRequest), s.asked[1].(*kmsg.TxnOffsetCommitRequest)
	if plain.Group != "g" || plain.MemberID != "someone" || plain.Generation != 7 || txn.Group != "g" || txn.MemberID != "someone" ||
		txn.Generation != 7 || txn.TransactionalID != "writer-0" || txn.ProducerID != 12 || txn.ProducerEpoch != 3 {
		t.Errorf("got %+v, %+v", plain, txn)
	}
	type said struct {
		id        TopicID // of the topic, whose name new versions leave out
		metadata  string
		partition int32
		offset    int64
	}
	var got []said
	for _, topic := range plain.Topics {
		for _, p := range topic.Partitions {
			got = append(got, said{topic.TopicID, *p.Metadata, p.Partition, p.Offset})
		}
	}
	for _, topic := range txn.Topics {
		for _, p := range topic.Partitions {
			got = append(got, said{topic.TopicID, *p.Metadata, p.Partition, p.Offset})
		}
	}
	want := []said{{testID, "a", 0, 10}, {testID, "c", 1, 30}, {TopicID{9}, "b", 0, 20}}
	if want = append(want, want...); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// retry goes on while an answer says that nothing was done, looks the coordinator up again where
// it has moved, and stops at every other answer.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		name     string
		script   []error
		requests int
		finds    int
		want     error
	}{
		{"markers on their way", []error{kerr.ConcurrentTransactions, kerr.ConcurrentTransactions}, 3, 1, nil},
		{"coordinator moved", []error{kerr.NotCoordinator}, 2, 2, nil},
		{"coordinator loading", []error{kerr.CoordinatorLoadInProgress}, 2, 1, nil},
		{"refused", []error{kerr.RebalanceInProgress}, 1, 1, kerr.RebalanceInProgress},
		{"fenced", []error{kerr.ProducerFenced}, 1, 1, kerr.ProducerFenced},
		{"unanswered", []error{errNoAnswer}, 1, 1, ErrUnanswered},
		{"refused after it moved", []error{kerr.NotCoordinator, kerr.IllegalGeneration}, 2, 2, kerr.IllegalGeneration},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, co, cl := newScripted(t)
			if _, _, err := cl.ProducerID(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.finds, s.script = 0, c.script
			err := co.Retry(t.Context(), func() error { return co.CommitIn(t.Context(), cl, "writer-0", ProducerID{}, someone, entries) })
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if n, finds := s.count(); n != c.requests || finds != c.finds {
				t.Errorf("%d requests and %d look-ups, want %d and %d", n, finds, c.requests, c.finds)
			}
		})
	}
	t.Run("plain commit", func(t *testing.T) { // which is not asked for again, but the next one is sent to where it has moved
		s, co, cl := newScripted(t)
		s.script = []error{kerr.NotCoordinator}
		for range 2 {
			co.Commit(t.Context(), cl, someone, entries)
		}
		if n, finds := s.count(); n != 2 || finds != 2 {
			t.Errorf("%d requests and %d look-ups", n, finds)
		}
	})
	t.Run("for how long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for answer, least := range map[error]time.Duration{kerr.ConcurrentTransactions: 0, kerr.CoordinatorLoadInProgress: 20 * time.Second, kerr.NotCoordinator: 20 * time.Second} {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				began, tries := time.Now(), 0
				err := (&Coordinator{}).Retry(ctx, func() error {
					if tries++; least > 0 && time.Since(began) >= least {
						return nil
					}
					return answer
				})
				cancel()
				took := time.Since(began)
				if least == 0 && (!errors.Is(err, answer) || took > 10*time.Second) || least > 0 && (err != nil || tries > 100) {
					t.Errorf("%v: %v after %d tries in %v", answer, err, tries, took)
				}
			}
		})
	})
	t.Run("until time is up", func(t *testing.T) {
		_, co, _ := newScripted(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		err := co.Retry(ctx, func() error { return kerr.ConcurrentTransactions })
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			t.Errorf("got %v", err)
		}
	})
}

// A fetch tells apart what is committed, what is not, and what an open transaction may change;
// only a stable one is refused. Of what is not told it is not known.
func TestFetchCheckpoints(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	stable, asked := 0, TopicID{}
	c.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group = req.Groups[0].Group
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.TopicID = req.Groups[0].Topics[0].TopicID // new brokers tell topics by id alone
		asked = rt.TopicID
		if req.RequireStable {
			stable++
		}
		for _, p := range req.Groups[0].Topics[0].Partitions {
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			rp.Partition, rp.Offset = p, -1
			switch {
			case p == 0:
				rp.Offset, rp.LeaderEpoch, rp.Metadata = 42, 3, kmsg.StringPtr("dw1")
			case p == 1 && req.RequireStable:
				rp.ErrorCode = kerr.UnstableOffsetCommit.Code
			case p == 1:
				rp.Offset, rp.Metadata = 7, kmsg.StringPtr("before")
			case p == 3:
				rp.ErrorCode = kerr.TopicAuthorizationFailed.Code
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		g.Topics = append(g.Topics, rt)
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	co := NewCoordinator("g")
	ids, err := TopicIDs(t.Context(), cl, []TopicPartition{{Topic: testTopic, Partition: 0}, {Topic: testTopic, Partition: 1}, {Topic: testTopic, Partition: 2}, {Topic: testTopic, Partition: 3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, require := range []bool{true, false} {
		got, err := co.Fetch(t.Context(), cl, ids, require)
		if err != nil {
			t.Fatal(err)
		}
		want := map[TopicPartition]Fetched{
			{Topic: testTopic, Partition: 0}: {Offset: 42, Epoch: 3, Metadata: "dw1"}, {Topic: testTopic, Partition: 1}: {Offset: 7, Epoch: -1, Metadata: "before"}, {Topic: testTopic, Partition: 2}: {Offset: -1, Epoch: -1},
			{Topic: testTopic, Partition: 3}: {Offset: -1, Epoch: -1, Err: kerr.TopicAuthorizationFailed},
		}
		if require {
			want[TopicPartition{Topic: testTopic, Partition: 1}] = Fetched{Offset: -1, Epoch: -1, Unstable: true}
		}
		for tp := range ids {
			if got[tp] != want[tp] {
				t.Errorf("stable %v: %s is %+v, want %+v", require, tp, got[tp], want[tp])
			}
		}
	}
	former := TopicPartition{Topic: testTopic} // of the topic before it was made anew
	got, err := co.Fetch(t.Context(), cl, map[TopicPartition]TopicID{former: testID}, false)
	if err != nil || asked != testID || !errors.Is(got[former].Err, kerr.UnknownTopicID) {
		t.Errorf("of topic %x, which was asked for as %x: %+v, %v", testID, asked, got, err)
	}
	if stable != 1 {
		t.Errorf("%d of 2 fetches were stable, want 1", stable)
	}
}

// Logs name partitions in every format, also several of them.
func TestPartitionsInLogs(t *testing.T) {
	for name, handler := range map[string]func(io.Writer) slog.Handler{
		"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
		"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
	} {
		var out strings.Builder
		slog.New(handler(&out)).Info("assigned", "partitions", []TopicPartition{{Topic: "a", Partition: 1}, {Topic: "b", Partition: 2}})
		if !strings.Contains(out.String(), "a/1") || !strings.Contains(out.String(), "b/2") {
			t.Errorf("%s: %s", name, &out)
		}
	}
}

// Offsets are fetched from the coordinator that there is when the one that was found first is gone: its broker takes no connections, or it is frozen, so
// that connections stay open and nothing comes.
func TestFetchFromAnotherCoordinator(t *testing.T) {
	for name, test := range map[string]struct {
		frozen      bool
		first, then error // what is said of the first one
	}{"gone": {false, syscall.ECONNREFUSED, syscall.ECONNREFUSED}, "frozen": {true, nil, context.DeadlineExceeded}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, testTopic))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			first := c.CoordinatorFor("g")
			seeds := c.ListenAddrs()
			broker := &unwell{addr: seeds[first], frozen: test.frozen}
			cl, err := kgo.NewClient(kgo.SeedBrokers(slices.Delete(seeds, int(first), int(first)+1)...), kgo.Dialer(broker.dial))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cl.Close)
			co := NewCoordinator("g")
			ask := func() error {
				_, err := co.Fetch(t.Context(), cl, map[TopicPartition]TopicID{{Topic: testTopic}: testID}, false)
				if errors.Is(err, kerr.GroupIDNotFound) {
					return nil
				}
				return err
			}
			broker.is.Store(!test.frozen) // where a connection ends the client asks who coordinates, so there was none
			if err := ask(); !errors.Is(err, test.first) {
				t.Fatalf("the first coordinator says %v", err)
			}
			broker.is.Store(true)
			if err := c.RemoveNode(first); err != nil {
				t.Fatal(err)
			}
			if err := ask(); !errors.Is(err, test.then) { // and with that it learns that the broker is gone
				t.Fatalf("it has asked another one: %v", err)
			}
			if err := ask(); err != nil {
				t.Error(err)
			}
		})
	}
}

// unwell makes connections, of which those to one address are refused, or come to nothing, from some time on.
type unwell struct {
	addr   string
	frozen bool // they come to nothing
	is     atomic.Bool
}

func (u *unwell) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if addr == u.addr && u.is.Load() {
		if u.frozen {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil || addr != u.addr || !u.frozen {
		return conn, err
	}
	return &freezing{Conn: conn, is: &u.is, closed: make(chan struct{})}, nil
}

type freezing struct {
	net.Conn
	is     *atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (f *freezing) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if f.is.Load() {
		<-f.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (f *freezing) Write(b []byte) (int, error) {
	if f.is.Load() {
		return len(b), nil
	}
	return f.Conn.Write(b)
}

func (f *freezing) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.Conn.Close()
}
