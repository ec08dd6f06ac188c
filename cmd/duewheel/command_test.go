package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// patience is how long a test waits for something that takes milliseconds when all is well.
const patience = 30 * time.Second

// cluster starts an embedded broker with topics of some partitions each.
func cluster(t *testing.T, topics map[string]int32) (*kfake.Cluster, string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for topic, partitions := range topics {
		if err := c.CreateTopic(topic, partitions, nil); err != nil {
			t.Fatal(err)
		}
	}
	return c, c.ListenAddrs()[0]
}

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// command runs one and returns its output.
func command(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	return commandWithin(t, patience, stdin, args...)
}

func commandWithin(t *testing.T, limit time.Duration, stdin string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var out bytes.Buffer
	err := run(ctx, args, strings.NewReader(stdin), &out, io.Discard)
	return out.String(), err
}

// fetch returns the next n records of a topic.
func fetch(t *testing.T, addr, topic string, n int) []*kgo.Record {
	t.Helper()
	cl := client(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("%d of %d records of %s: %v", len(records), n, topic, err)
		}
		records = append(records, f.Records()...)
	}
	return records
}

func headers(r *kgo.Record) map[string]string {
	m := map[string]string{}
	for _, h := range r.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

func TestVersion(t *testing.T) {
	out, err := command(t, "", "version")
	if err != nil || !regexp.MustCompile(`^duewheel \S+ \(go1\.\S+, \w+/\w+\)\ncheckpoints: reads dw1, writes dw1\n$`).MatchString(out) {
		t.Errorf("printed %q, %v", out, err)
	}
	if flag, err := command(t, "", "--version"); err != nil || flag != out {
		t.Errorf("--version printed %q, %v", flag, err)
	}
	if out, err = command(t, "", "version", "-o", "json"); err != nil || !strings.HasPrefix(out, `{"version":`) {
		t.Errorf("printed %q, %v", out, err)
	}
}

func TestCommandsSayWhatIsMissing(t *testing.T) {
	noBrokers := "kafka.brokers is missing: give it in the file, as DUEWHEEL_KAFKA_BROKERS, or with -b"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"produce", "-t", "delays", "--for", "1s", "-v", "x"}, noBrokers},
		{[]string{"checkpoints"}, noBrokers},
		{[]string{"checkpoints", "-b", "127.0.0.1:1"}, "group.id is missing: give it in the file, as DUEWHEEL_GROUP_ID or with -g"},
		{[]string{"topics", "check", "-b", "127.0.0.1:1"}, "no routes: name a configuration that has some with -c"},
		{[]string{"topics", "create", "-X", "lanes=x"}, "2 problems:\n  -X lanes: \"x\" is not a whole number\n  " + noBrokers},
		{[]string{"run", "-b", "127.0.0.1:1", "-X", "near_window=1us"}, "3 problems:\n" +
			"  group.id is missing: give it in the file or as DUEWHEEL_GROUP_ID\n" +
			"  routes[0].topic is missing: give it in the file or as DUEWHEEL_ROUTES_0_TOPIC\n" +
			"  near_window is 1µs: 10ms to 24d"},
		{[]string{"topics", "create", "--partitions", "0", "--replication", "-1", "--max-message-bytes", "10"}, "3 problems:\n" +
			"  --max-message-bytes: \"10\": 4KiB to 2047MiB\n  --partitions 0: at least 1\n  --replication -1: at least 1"},
		{[]string{"demo", "--rate", "0"}, "--rate 0: 1 to 100000"},
		{[]string{"sing"}, `unknown command "sing" for "duewheel"`},
		{[]string{"help", "sing"}, `unknown command "sing" for "duewheel"`},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Chdir(t.TempDir())
			_, err := command(t, "", test.args...)
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if left, _ := os.ReadDir("."); len(left) > 0 {
				t.Errorf("left %v behind", left)
			}
		})
	}
}

func TestTopics(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders}]\n")
	out, err := command(t, "", "topics", "check", "-c", config)
	if err != errShown || !strings.Contains(out, "error: delays: it does not exist\n    why:  nothing can be delayed\n    mend: duewheel topics create -c "+config+"\n") {
		t.Errorf("check before: %v\n%s", err, out)
	}
	out, err = command(t, "", "topics", "check", "-c", config, "-o", "json")
	var found []struct{ Severity, Topic, What, Why, Mend string }
	if err != errShown || json.Unmarshal([]byte(out), &found) != nil || found[0].Mend != "duewheel topics create -c "+config || !strings.Contains(out, `"severity": "error"`) {
		t.Errorf("check before: %v\n%s", err, out)
	}
	out, err = command(t, "", "topics", "create", "-c", config, "--partitions", "3", "--max-message-bytes", "2MiB")
	if err != nil || !strings.Contains(out, "delays created: 3 partitions, 1 replica, cleanup.policy=delete max.message.bytes=2097152 ") {
		t.Errorf("create: %v\n%s", err, out)
	}
	if n := len(c.PartitionInfos("delays")); n != 3 {
		t.Errorf("delays has %d partitions", n)
	}
	out, err = command(t, "", "topics", "create", "-c", config)
	if err != nil || !strings.Contains(out, "delays is there already: 3 partitions, 1 replica\n") {
		t.Errorf("create again: %v\n%s", err, out)
	}
	if out, err = command(t, "", "topics", "check", "-c", config); err != nil || strings.Contains(out, "error:") {
		t.Errorf("check after: %v\n%s", err, out)
	}
	if out, err = command(t, "", "topics", "check", "-c", config, "-o", "json"); err != nil || !strings.HasPrefix(out, "[") {
		t.Errorf("check as JSON: %v\n%s", err, out)
	}
}

// A processor is started and stopped several times, each time with a request of its own; the
// records that wait meanwhile are delivered by whichever runs.
func TestRunStartsAndStops(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 2, "orders": 1})
	dir := t.TempDir()
	for i := range 4 {
		if _, err := command(t, "", "produce", "-b", addr, "-t", "delays", "--for", "50ms", "--to", "orders", "-v", "x"); err != nil {
			t.Fatal(err)
		}
		stop, log := start(t, addr, dir)
		records := fetch(t, addr, "orders", i+1)
		if len(records) != i+1 {
			t.Errorf("%d records delivered, want %d", len(records), i+1)
		}
		if err := stop(); err != nil {
			t.Fatalf("run ended with %v\n%s", err, log)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "0")); err != nil {
		t.Errorf("the state directory: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "1*")); len(left) > 0 {
		t.Errorf("one process after the other used %v", left)
	}
	adm := newPatient(client(t, addr))
	if err := mustBeEmpty(t.Context(), adm, "g"); err != nil {
		t.Errorf("a process that ended has not left the group: %v", err)
	}
}

// The admin port can be left out, and one that other hosts reach is not opened without a word.
func TestAdminPort(t *testing.T) {
	for _, test := range []struct {
		listen       string
		opens, warns bool
	}{
		{"127.0.0.1:0", true, false},
		{"[::1]:0", true, false},
		{":0", true, true},
		{"0.0.0.0:0", true, true},
		{"off", false, false},
	} {
		var log heard
		l, err := listenAdmin(test.listen, (&settings{}).logger(&log))
		if err != nil {
			t.Fatalf("%s: %v", test.listen, err)
		}
		if opens := l != nil; opens != test.opens {
			t.Errorf("%s: opens a port: %v", test.listen, opens)
		}
		if l != nil {
			l.Close()
		}
		if warns := strings.Contains(log.String(), "level=WARN"); warns != test.warns {
			t.Errorf("%s: logged %q", test.listen, log.String())
		}
	}
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	if _, err := command(t, "", "produce", "-b", addr, "-t", "delays", "--for", "1ms", "--to", "orders", "-v", "x"); err != nil {
		t.Fatal(err)
	}
	stop, log := start(t, addr, t.TempDir(), "-X", "admin.listen=off")
	fetch(t, addr, "orders", 1)
	if err := stop(); err != nil || !strings.Contains(log.String(), " admin=off\n") {
		t.Errorf("without a port: %v\n%s", err, log)
	}
}

// start runs a processor and returns what stops it and its log.
func start(t *testing.T, addr, dir string, more ...string) (stop func() error, log *heard) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	log = &heard{}
	ended := make(chan error, 1)
	args := append([]string{"run", "-b", addr, "-g", "g", "-X", "routes[0].topic=delays", "-X", "routes[0].targets.allow=orders",
		"-X", "state.dir=" + dir, "-X", "admin.listen=127.0.0.1:0"}, more...)
	go func() { ended <- run(ctx, args, nil, io.Discard, log) }()
	stop = sync.OnceValue(func() error {
		cancel(errors.New("the test is over"))
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return stop, log
}

// The log says that a process stops and has stopped, and why: it was told to, or it could not go on.
func TestRunSaysWhyItStopped(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	if _, err := command(t, "", "produce", "-b", addr, "-t", "delays", "--for", "1ms", "--to", "orders", "-v", "x"); err != nil {
		t.Fatal(err)
	}
	stop, log := start(t, addr, t.TempDir())
	fetch(t, addr, "orders", 1)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, `msg=stopping why="the test is over"`) || !strings.Contains(got, `msg=stopped why="the test is over"`) {
		t.Errorf("it was told to stop, and says\n%s", got)
	}
	var b bytes.Buffer
	sayStopped(t.Context(), (&settings{}).logger(&b), errors.New("the brokers do not serve this"))
	if got := b.String(); !strings.Contains(got, `level=ERROR msg=stopped error="the brokers do not serve this"`) {
		t.Errorf("it could not go on, and says %s", got)
	}
}

// A partition whose log has lost pending records goes on with --accept-loss, and only then; and the topics are looked at meanwhile.
func TestRunAcceptsLoss(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	fill(t, addr, "delays", 1, 6)
	commit(t, addr, "delays", 0, 4, metadataOf(t, c, "delays", 0))
	if err := c.DeleteRecords("delays", 0, 5); err != nil {
		t.Fatal(err)
	}
	stop, log := start(t, addr, t.TempDir())
	log.await(t, "go on without them with `--accept-loss`")
	log.await(t, `msg="topic is not as it should be" topic=delays\.dead severity=error what="it does not exist"`)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	_, log = start(t, addr, t.TempDir(), "--accept-loss")
	log.await(t, "going on although the log has lost pending records")
}

func TestStateDirectories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state [1]*") // which means something in a pattern
	var names []string
	var locks []io.Closer
	for range 3 {
		name, lock, err := claimStateDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		names, locks = append(names, filepath.Base(name)), append(locks, lock)
	}
	if want := []string{"0", "1", "2"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if err := locks[1].Close(); err != nil {
		t.Fatal(err)
	}
	name, lock, err := claimStateDir(dir)
	if err != nil || filepath.Base(name) != "1" {
		t.Errorf("got %s, %v; the one that is free again is 1", name, err)
	}
	lock.Close()
	store := filepath.Join(dir, "0")
	if err := os.MkdirAll(store, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(store, "marker.manifest.000001.MANIFEST-000001"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, inside := range []string{store, filepath.Join(store, "another", "one")} {
		if _, _, err := claimStateDir(inside); err == nil || !strings.Contains(err.Error(), "the store "+store+" of one process") {
			t.Errorf("a directory in the store of another process: %v", err)
		}
	}
	file := writeFile(t, "file", "")
	if _, _, err := claimStateDir(file); err == nil || !strings.HasPrefix(err.Error(), "state.dir "+file+" cannot be used: ") {
		t.Errorf("a file instead of a directory: %v", err)
	}
	nowhere := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, "not", "there"), nowhere); err != nil {
		t.Fatal(err)
	}
	if _, _, err := claimStateDir(nowhere); err == nil || !strings.Contains(err.Error(), "is, or lies behind, a link that leads nowhere: make the directory that it names") {
		t.Errorf("a link that leads nowhere: %v", err)
	}
	for err, want := range map[error]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EROFS: true, syscall.EIO: true,
		syscall.EACCES: false, syscall.ENOTDIR: false, syscall.ENOENT: false, syscall.EEXIST: false, syscall.ENAMETOOLONG: false, syscall.EINVAL: false,
	} {
		name, _, got := unlocked(dir, &fs.PathError{Op: "mkdir", Path: dir, Err: err})
		if runs := got == nil && name == filepath.Join(dir, "0"); runs != want {
			t.Errorf("%v: it runs: %v, want %v (%v)", err, runs, want, got)
		}
	}
}

// The first signal ends the context. Another one ends the process, unless it comes so soon that the same
// wish has come on two ways.
func TestSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exited, signals := make(chan int, 1), make(chan os.Signal, 2)
		ctx, stop := untilSignal(t.Context(), signals, func(code int) { exited <- code })
		defer stop()
		signals <- syscall.SIGTERM
		signals <- syscall.SIGTERM
		synctest.Wait()
		if why := context.Cause(ctx); why == nil || why.Error() != "signal terminated" {
			t.Errorf("it ends because of %v", why)
		}
		select {
		case code := <-exited:
			t.Fatalf("exit %d at the first signal", code)
		default:
		}
		time.Sleep(oneStop)
		signals <- syscall.SIGTERM
		if code := <-exited; code != 130 {
			t.Errorf("exit %d", code)
		}
	})
}

// What contradicts itself, or says nothing to a command, is refused in plain words, before a broker is asked.
func TestCommandsRefuse(t *testing.T) {
	const noTopic = "is not a topic name: 1 to 249 of a-z A-Z 0-9 . _ -, and neither . nor .."
	const noSpan = "a delay is a number of milliseconds, or like 5m, 1h30m, 1.5s, 2d, PT5M, P1DT2H or 0:05:00"
	order := []string{"produce", "-b", "127.0.0.1:1", "-t", "delays", "-v", "x", "--to", "orders"}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"a part of topics that is not there, with a flag behind it", []string{"topics", "chek", "--frm", "x"}, "unknown command \"chek\" for \"duewheel topics\"\n\nDid you mean this?\n\tcheck\n"},
		{"a part of topics with a flag that it has not", []string{"topics", "check", "--frm", "x"}, "unknown flag: --frm; `duewheel topics check --help` lists the flags"},
		{"a flag of topics that it has not", []string{"topics", "--frm", "x"}, "unknown flag: --frm; `duewheel topics --help` lists the flags"},
		{"a part of dlq that is not there, with a flag behind it", []string{"dlq", "shwo", "-x"}, "unknown command \"shwo\" for \"duewheel dlq\"\n\nDid you mean this?\n\tshow\n"},
		{"a part of checkpoints that is not there", []string{"checkpoints", "mvoe"}, "unknown command \"mvoe\" for \"duewheel checkpoints\"\n\nDid you mean this?\n\tmove\n"},
		{"a part of checkpoints that is not there, with a flag behind it", []string{"checkpoints", "mvoe", "--from", "a"}, "unknown command \"mvoe\" for \"duewheel checkpoints\"\n\nDid you mean this?\n\tmove\n"},
		{"a part of checkpoints that is not there, with a flag before it", []string{"checkpoints", "-o", "json", "mvoe", "--from", "a"}, "unknown command \"mvoe\" for \"duewheel checkpoints\"\n\nDid you mean this?\n\tmove\n"},
		{"a part of checkpoints that is not there, with a flag that has another value", []string{"checkpoints", "mvoe", "-o", "yaml"}, "unknown command \"mvoe\" for \"duewheel checkpoints\"\n\nDid you mean this?\n\tmove\n"},
		{"a part of bench that is not there", []string{"bench", "failovr", "--for", "1s"}, "unknown command \"failovr\" for \"duewheel bench\"\n\nDid you mean this?\n\tfailover\n"},
		{"a part of topics that is not there", []string{"topics", "chek"}, "unknown command \"chek\" for \"duewheel topics\"\n\nDid you mean this?\n\tcheck\n"},
		{"help with a part of topics that is not there", []string{"help", "topics", "chek"}, "unknown command \"chek\" for \"duewheel topics\"\n\nDid you mean this?\n\tcheck\n"},
		{"help with a command that is not there, with a flag behind it", []string{"help", "tpoics", "-x"}, "unknown command \"tpoics\" for \"duewheel\"\n\nDid you mean this?\n\ttopics\n"},
		{"help with a flag that it has not", []string{"help", "topics", "-x"}, "unknown shorthand flag: 'x' in -x; `duewheel help --help` lists the flags"},
		{"a negative partition", append(order, "--for", "1s", "-p", "-2"), "--partition -2: a partition is a number from 0, and -1 goes by key"},
		{"a negative partition of the target", append(order, "--for", "1s", "--to-partition", "-3"), "--to-partition -3: a partition is a number from 0, and -1 goes by key"},
		{"no partition to look in", []string{"get", "-t", "delays", "-p", "-5", "x"}, "--partition -5: a partition is a number from 0"},
		{"no partition of what is to be due later", []string{"reschedule", "-t", "delays", "-p", "-1", "--for", "1h", "x"}, "--partition -1: a partition is a number from 0"},
		{"no partition of what is to be due now", []string{"deliver-now", "-t", "delays", "-p", "-1", "x"}, "--partition -1: a partition is a number from 0"},
		{"an agenda by nothing", []string{"agenda", "-t", "delays", "--by", ""}, "--by is empty"},
		{"a length that verify cannot read", []string{"verify", "--grace", "-1m"}, `--grace "-1m": "-1m" is negative`},
		{"two times", append(order, "--for", "1s", "--until", "2030-01-01T00:00:00Z"), "--for and --until: give one of them"},
		{"two values", append(order, "--for", "1s", "--null-value"), "--value and --null-value: give one of them"},
		{"a header beside its flag", append(order, "--for", "1s", "-H", "delay-for=3s"), "-H delay-for=3s: a flag has given delay-for already"},
		{"a reset without a place", []string{"checkpoints", "reset", "-t", "delays"}, "say where to go on from: --to-beginning or --to-offset"},
		{"a reset with two", []string{"checkpoints", "reset", "-t", "delays", "--to-beginning", "--to-offset", "3"}, "--to-beginning and --to-offset: give one of them"},
		{"a reset to before any log", []string{"checkpoints", "reset", "-t", "delays", "--to-offset", "-7"}, "--to-offset -7: an offset is a number from 0"},
		{"a broker for the demo", []string{"demo", "-b", "127.0.0.1:1", "--for", "1ms"}, "--bootstrap-server: the demo has a broker and settings of its own; `duewheel run` takes it"},
		{"a demo that ends before it begins", []string{"demo", "--for", "-1s"}, `--for "-1s": "-1s" is negative`},
		{"an argument beside flags", append(order, "--for", "1s", "extra"), `produce takes no arguments, and "extra" was given`},
		{"a header without a name", append(order, "--for", "1s", "-H", "=x"), `-H "=x": a header has a name: name=value, or a name alone for a null value`},
		{"an unset variable for a header", append(order, "--for", "1s", "-H", ""), `-H "": a header has a name: name=value, or a name alone for a null value`},
		{"a reset of no topic", []string{"checkpoints", "reset", "--to-beginning"}, "which delay topic? Give it with -t"},
		{"a benchmark of nothing", []string{"bench", "look", "-b", "127.0.0.1:1", "--pending", "0"}, "--pending 0: at least 1"},
		{"a benchmark in no rounds, on no partitions", []string{"bench", "scale", "--rounds", "0", "--partitions", "0"}, "2 problems:\n  --rounds 0: at least 1\n  --partitions 0: at least 1"},
		{"an unset variable for a case", []string{"bench", "ask", "-b", "127.0.0.1:1", "--case", ""}, "--case is empty"},
		{"an unset variable for a topic", append(order, "--for", "1s", "-t", ""), "--topic is empty"},
		{"an unset variable for topics", []string{"ls", "-t", ""}, "--topic is empty"},
		{"an unset variable for a configuration", []string{"ls", "-t", "delays", "-c", ""}, "--config is empty"},
		{"an unset variable for a group", []string{"agenda", "-t", "delays", "-g", ""}, "--group is empty"},
		{"an unset variable for brokers", []string{"checkpoints", "-g", "g", "-b", ""}, "--bootstrap-server is empty"},
		{"an unset variable for properties", []string{"topics", "check", "--command-config", ""}, "--command-config is empty"},
		{"an unset variable for a level of the log", []string{"run", "--log-level", ""}, "--log-level is empty"},
		{"no delay topic", []string{"produce", "-b", "127.0.0.1:1", "-v", "x", "--for", "1s"}, "which delay topic? Give it with -t, or name a configuration that has one route with -c"},
		{"no record", []string{"get"}, "which record? Give its handle or its id"},
		{"two records for one", []string{"deliver-now", "a", "b"}, "one handle or id, and 2 were given"},
		{"a word for a number", []string{"ls", "--limit", "all"}, `--limit "all": a whole number`},
		{"a word for numbers", []string{"ls", "-p", "0,x"}, `--partition "0,x": whole numbers with commas between them`},
		{"a length of time without a unit", []string{"get", "a", "--patience", "5"}, `--patience "5": 5 has no unit: write 5ms, 5s or the like (a number alone is ms in the header delay-for only)`},
		{"a flag that is none", []string{"ls", "--limits", "5"}, "unknown flag: --limits; `duewheel ls --help` lists the flags"},
		{"an output of another kind", []string{"checkpoints", "-o", "yaml"}, `--output "yaml": text or json`},
		{"a delay that is none", append(order, "--for", "5x"), `--for "5x": ` + noSpan},
		{"a delay that is none, and no broker", []string{"produce", "-t", "delays", "-v", "x", "--for", "5x"}, `--for "5x": ` + noSpan},
		{"a time that is none", append(order, "--until", "2030-01-01T00:00:00"), `--until "2030-01-01T00:00:00": it has no offset, and what hour it is depends on where: write Z behind it for UTC, or an offset like +01:00`},
		{"a target that is none", append(order, "--for", "1s", "--to", "a b"), `--to "a b": a topic name is 1 to 249 of a-z A-Z 0-9 . _ -, and neither . nor ..`},
		{"another delay that is none", []string{"reschedule", "a", "--for", "5x"}, `--for "5x": ` + noSpan},
		{"what cannot be a target", []string{"ls", "--target", "orders,a b"}, `--target "a b" ` + noTopic},
		{"a pattern for a target", []string{"agenda", "--target", "billing.*"}, `--target "billing.*" ` + noTopic},
		{"what cannot be a delay topic", []string{"ls", "-t", "a/0"}, `--topic "a/0" ` + noTopic},
		{"what cannot be topics of a record", []string{"get", "a", "-t", "a b", "--audit", "c d"}, "2 problems:\n  --topic \"a b\" " + noTopic + "\n  --audit \"c d\" " + noTopic},
		{"what cannot be the topic of a cancel", []string{"cancel", "a", "-t", "a b"}, `--topic "a b" ` + noTopic},
		{"an unset variable for the topic of a record", []string{"deliver-now", "a", "-t", ""}, "--topic is empty"},
		{"what cannot be the topic of checkpoints", []string{"checkpoints", "-t", "a b"}, `--topic "a b" ` + noTopic},
		{"what cannot be the topic of a reset", []string{"checkpoints", "reset", "-t", "a b", "--to-beginning"}, `--topic "a b" ` + noTopic},
		{"what cannot be the topic of a request", []string{"explain", "-t", "a b", "-H", "delay-for=1s"}, `--topic "a b" ` + noTopic},
		{"what cannot be a dead letter topic", []string{"dlq", "ls", "-t", "a b", "--route", "c d"}, "2 problems:\n  --topic \"a b\" " + noTopic + "\n  --route \"c d\" " + noTopic},
		{"an unset variable for what is replayed", []string{"dlq", "replay", "--yes", "--target", ""}, "--target is empty"},
		{"an unset variable for a code of what is replayed", []string{"dlq", "replay", "--yes", "--code", ""}, "--code is empty"},
		{"an unset variable for where a replay begins", []string{"dlq", "replay", "--yes", "--from", ""}, "--from is empty"},
		{"another partition than that of the handle", []string{"get", "3-8812-1767225605123", "-p", "4"}, "--partition 4: the handle 3-8812-1767225605123 is of partition 3"},
		{"another partition than that of what is delivered", []string{"deliver-now", "3-8812-1767225605123", "-p", "4"}, "--partition 4: the handle 3-8812-1767225605123 is of partition 3"},
		{"another partition than that of what is due later", []string{"reschedule", "3-8812-1767225605123", "-p", "4", "--for", "1h"}, "--partition 4: the handle 3-8812-1767225605123 is of partition 3"},
		{"a word for a time", []string{"ls", "--before", "soon"}, `--before "soon": a time such as 2027-01-01T09:00+01:00, or how far from now, such as 90s, 2h or -10m (a due time is an epoch time in s, ms, µs or ns, or a date and time with an offset like 2026-01-01T00:00:05.123Z)`},
		{"two signs of a time", []string{"ls", "--after=-+2h"}, `--after "-+2h": a time such as 2027-01-01T09:00+01:00, or how far from now, such as 90s, 2h or -10m (a due time is an epoch time in s, ms, µs or ns, or a date and time with an offset like 2026-01-01T00:00:05.123Z)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			err := run(t.Context(), c.args, strings.NewReader(""), &out, &out)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// A name that is like none is not told one that was not meant.
func TestAdvice(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "::": "", "nope": "", "routes[0].nope": "", "x": "", "compression.level.zstd.fast": "",
		"stat": "state.dir", "brokers": "kafka.brokers", "kafak.brokers": "kafka.brokers", "commit_intervall": "commit_interval", "session_timeout": "group.session_timeout",
	} {
		near := nearest(name, names())
		if got := strings.TrimPrefix(advice(name, near, near), "; the nearest known one is "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Help tells no default where that only stands for a flag that was not given.
func TestHelpTellsNoDefaultThatIsNone(t *testing.T) {
	var help func(c *cobra.Command)
	help = func(c *cobra.Command) {
		if usage := c.UsageString(); strings.Contains(usage, "(default -1)") || strings.Contains(usage, "(default [])") {
			t.Errorf("%s", usage)
		}
		for _, part := range c.Commands() {
			help(part)
		}
	}
	help(newRootCommand())
}
