package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// smallest is the smallest file that works, as the README shows it.
const smallest = `
kafka:
  brokers: [127.0.0.1:9092]
group:
  id: duewheel
routes:
  - topic: delay-requests
    targets: {allow: [orders, "billing.*"]}   # literal; * is any run of characters
`

// writeFile writes a file below a directory of the test's own and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// judge loads settings and returns every problem that `run` would report, by line.
func judge(t *testing.T, src sources) (settings, []string) {
	t.Helper()
	s, loadErr := load(src)
	c, configErr := s.processorConfig(slog.New(slog.DiscardHandler))
	var clientErr error
	c.Client, clientErr = s.clientOpts()
	_, err := processor.New(c)
	var lines []string
	var all problems
	if errors.As(joinLines(loadErr, clientErr, configErr, err), &all) {
		for _, e := range all {
			lines = append(lines, e.Error())
		}
	}
	return s, lines
}

func TestSmallestFileWorks(t *testing.T) {
	s, problems := judge(t, sources{File: writeFile(t, "duewheel.yaml", smallest)})
	if problems != nil {
		t.Fatalf("problems: %q", problems)
	}
	if got, want := s.Brokers, (brokers{"127.0.0.1:9092"}); !reflect.DeepEqual(got, want) {
		t.Errorf("brokers %q, want %q", got, want)
	}
	if s.Group != "duewheel" {
		t.Errorf("group %q", s.Group)
	}
	c, err := s.processorConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := topics.Route{
		Topic: "delay-requests", Allow: []string{"orders", "billing.*"}, MaxDelay: 366 * 24 * time.Hour,
		DeadLetter: "delay-requests.dead", Prefix: "delay-", Weight: 1,
	}
	if got := c.Routes; len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("routes %+v, want %+v", got, want)
	}
}

func TestEveryKey(t *testing.T) {
	pass := writeFile(t, "pass", "s3cret\n")
	s, problems := judge(t, sources{File: writeFile(t, "duewheel.yaml", `
kafka:
  brokers: [a:9092, "b:9093"]
  client_id: delays
  rack: eu-1a
  tls: {enabled: true, server_name: kafka.internal, verify_hostname: false}
  sasl: {mechanism: scram-sha-512, username: alice, password_file: `+pass+`}
group: {id: g, session_timeout: 6s, heartbeat_interval: 200ms}
guarantee: at_least_once
lanes: 3
state: {dir: /var/lib/duewheel}
memory: {budget: 1GiB}
transaction_timeout: 15s
near_window: 1m
batch: {records: 500, bytes: 1MiB}
commit_interval: 100ms
turn_timeout: 3s
shutdown_timeout: 12s
carry_records: 500
carry_bytes: 1MB
retry_backoff: 2s
retry_backoff_max: 1m
unknown_target_after: 8s
forbidden_target_after: 1h
max_clock_skew: 300ms
accept_loss: true
standbys: 1
instance: one
routes:
  - topic: delay-5m
    target: orders
    delay: 5m
    max_delay: 7d
    dead_letter: graveyard
    headers: {emit: none}
admin: {listen: "0.0.0.0:9000"}
log: {level: debug, format: json}
`)})
	if problems != nil {
		t.Fatalf("problems: %q", problems)
	}
	yes, no := true, false
	want := settings{
		Brokers: []string{"a:9092", "b:9093"}, ClientID: "delays", Rack: "eu-1a",
		TLS:  tlsSettings{Enabled: &yes, ServerName: "kafka.internal", VerifyHostname: &no},
		SASL: saslSettings{Mechanism: "SCRAM-SHA-512", Username: "alice", Password: "s3cret"},
		Config: processor.Config{Group: "g", SessionTimeout: 6 * time.Second, HeartbeatInterval: 200 * time.Millisecond,
			TransactionTimeout: 15 * time.Second, Guarantee: processor.AtLeastOnce, Lanes: 3, StateDir: "/var/lib/duewheel",
			MemoryBudget: 1 << 30, NearWindow: time.Minute, BatchRecords: 500, BatchBytes: 1 << 20, CommitInterval: 100 * time.Millisecond,
			TurnTimeout: 3 * time.Second, ShutdownTimeout: 12 * time.Second, CarryRecords: 500, CarryBytes: 1_000_000, RetryBackoff: 2 * time.Second, RetryBackoffMax: time.Minute, UnknownTargetAfter: 8 * time.Second, ForbiddenTargetAfter: time.Hour, MaxClockSkew: 300 * time.Millisecond, AcceptLoss: true, Standbys: 1, Instance: "one"},
		Routes: []routeSettings{{Route: topics.Route{
			Topic: "delay-5m", Target: "orders", Delay: 5 * time.Minute, MaxDelay: 7 * 24 * time.Hour, DeadLetter: "graveyard", Emit: topics.EmitNone,
		}}},
		AdminListen: "0.0.0.0:9000", LogLevel: slog.LevelDebug, LogFormat: "json",
		secrets: map[string]secretFile{"kafka.sasl.password": {path: pass}},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

// Flags count more than the environment, which counts more than the file.
func TestLaterSourcesCount(t *testing.T) {
	src := sources{File: writeFile(t, "duewheel.yaml", smallest+"lanes: 1\nguarantee: at_least_once\ntransaction_timeout: 20s\n")}
	steps := []struct {
		name  string
		apply func()
		want  int
	}{
		{"file", func() {}, 1},
		{"environment", func() {
			src.Env = []string{"DUEWHEEL_LANES=2", "PATH=/bin", "DUEWHEEL_TEST_BROKERS=x", "DUEWHEEL_STATE_DIR="}
		}, 2},
		{"-X", func() { src.X = []string{"lanes=3"} }, 3},
		{"flag", func() { src.Flags = map[string]any{"lanes": "4"} }, 4},
	}
	for _, step := range steps {
		step.apply()
		s, problems := judge(t, src)
		if problems != nil {
			t.Fatalf("%s: problems: %q", step.name, problems)
		}
		if s.Lanes != step.want || s.Guarantee != processor.AtLeastOnce || s.TransactionTimeout != 20*time.Second {
			t.Errorf("%s: lanes %d, want %d; the rest stays: %v %v", step.name, s.Lanes, step.want, s.Guarantee, s.TransactionTimeout)
		}
	}
}

// What steers tests is set for a whole run of them, commands under test included: it must not be taken for a setting.
func TestVariablesOfTestsAreNoSettings(t *testing.T) {
	set := regexp.MustCompile(`\b(DUEWHEEL_\w+)(?:"\)|=)`)
	root := filepath.Join("..", "..")
	files := []string{filepath.Join(root, "Makefile"), filepath.Join(root, ".ci", "run")}
	for _, dir := range []string{"processor", "state", "integration", "bench"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range set.FindAllSubmatch(text, -1) {
			name := string(m[1])
			seen++
			if _, problems := judge(t, sources{Env: []string{name + "=1"}}); slices.Contains(problems, "unknown environment variable "+name) {
				t.Errorf("%s: commands complain about %s: let its name begin with %s", path, name, envForTests)
			}
		}
	}
	if seen < 8 {
		t.Errorf("%d variables of tests were found, want at least 8", seen)
	}
}

func TestEnvironmentAloneIsEnough(t *testing.T) {
	s, problems := judge(t, sources{Env: []string{
		"DUEWHEEL_KAFKA_BROKERS=a:9092, b:9092",
		"DUEWHEEL_GROUP_ID=g",
		"DUEWHEEL_ROUTES_0_TOPIC=delays",
		"DUEWHEEL_ROUTES_0_TARGETS_ALLOW=orders,billing.*",
		"DUEWHEEL_ROUTES_1_TOPIC=delays.5m",
		"DUEWHEEL_ROUTES_1_TARGET=orders",
		"DUEWHEEL_ROUTES_1_DELAY=5m",
	}})
	if problems != nil {
		t.Fatalf("problems: %q", problems)
	}
	if got, want := s.Brokers, (brokers{"a:9092", "b:9092"}); !reflect.DeepEqual(got, want) {
		t.Errorf("brokers %q, want %q", got, want)
	}
	want := []routeSettings{
		{Route: topics.Route{Topic: "delays", Allow: []string{"orders", "billing.*"}}},
		{Route: topics.Route{Topic: "delays.5m", Target: "orders", Delay: 5 * time.Minute}},
	}
	if !reflect.DeepEqual(s.Routes, want) {
		t.Errorf("routes %+v, want %+v", s.Routes, want)
	}
}

func TestEnvironmentReachesIntoAList(t *testing.T) {
	s, problems := judge(t, sources{
		File: writeFile(t, "duewheel.yaml", smallest),
		Env:  []string{"DUEWHEEL_ROUTES_0_MAX_DELAY=1d"},
		X:    []string{"routes[0].dead_letter=graveyard"},
	})
	want := []routeSettings{{Route: topics.Route{Topic: "delay-requests", Allow: []string{"orders", "billing.*"}, MaxDelay: 24 * time.Hour, DeadLetter: "graveyard"}}}
	if problems != nil || !reflect.DeepEqual(s.Routes, want) {
		t.Errorf("routes %+v, want %+v; problems %q", s.Routes, want, problems)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, test := range []struct {
		name, yaml string
		env, x     []string
		want       []string
	}{
		{
			name: "an unknown key names the nearest",
			yaml: strings.Replace(smallest, "brokers:", "broker:", 1),
			want: []string{
				"duewheel.yaml: unknown key kafka.broker; the nearest known one is kafka.brokers",
			},
		},
		{
			name: "a key in the wrong section names the right one",
			yaml: smallest + "session_timeout: 6s\n",
			want: []string{"duewheel.yaml: unknown key session_timeout; the nearest known one is group.session_timeout"},
		},
		{
			name: "an unknown key of a route",
			yaml: strings.Replace(smallest, "targets:", "target: orders\n    allowed:", 1),
			want: []string{"duewheel.yaml: unknown key routes[0].allowed.allow; the nearest known one is routes[N].targets.allow"},
		},
		{
			name: "an unknown variable",
			yaml: smallest,
			env:  []string{"DUEWHEEL_KAFKA_BROKER=a:1", "DUEWHEEL_ROUTES_0_TOPIK=x"},
			want: []string{
				"unknown environment variable DUEWHEEL_KAFKA_BROKER; the nearest known one is DUEWHEEL_KAFKA_BROKERS",
				"unknown environment variable DUEWHEEL_ROUTES_0_TOPIK; the nearest known one is DUEWHEEL_ROUTES_N_TOPIC",
			},
		},
		{
			name: "an unknown property",
			yaml: smallest,
			x:    []string{"sasl.mechansim=PLAIN", "lanes"},
			want: []string{
				"-X lanes: write -X name=value",
				"-X unknown property sasl.mechansim; the nearest known one is sasl.mechanism",
			},
		},
		{
			name: "a value where a section belongs",
			yaml: strings.Replace(smallest, "group:\n  id: duewheel", "group: duewheel", 1),
			want: []string{
				"duewheel.yaml: group holds keys of its own: id, identity, protocol, instance_id, session_timeout, heartbeat_interval",
			},
		},
		{
			name: "values that cannot be read, each with its place",
			yaml: smallest + "lanes: many\ntransaction_timeout: 30\nmemory: {budget: 1 apple}\nguarantee: maybe\n",
			env:  []string{"DUEWHEEL_NEAR_WINDOW=soon", "DUEWHEEL_ACCEPT_LOSS=perhaps"},
			x:    []string{"log.level=loud"},
			want: []string{
				`duewheel.yaml: guarantee: "maybe" is not one of exactly_once, at_least_once`,
				`duewheel.yaml: lanes: "many" is not a whole number`,
				`duewheel.yaml: memory.budget: "1 apple" is not a size such as 256MiB or 1GiB`,
				`duewheel.yaml: transaction_timeout: 30 has no unit: write 30ms, 30s or the like (a number alone is ms in the header delay-for only)`,
				`DUEWHEEL_NEAR_WINDOW: "soon" is not a duration such as 250ms, 10s, 1h30m or 7d`,
				`DUEWHEEL_ACCEPT_LOSS: "perhaps" is not true or false`,
				`-X log.level: "loud" is not one of debug, info, warn, error`,
			},
		},
		{
			name: "all that is missing",
			yaml: "lanes: 1\n",
			want: []string{
				"kafka.brokers is missing: give it in the file, as DUEWHEEL_KAFKA_BROKERS, or with -b",
				"group.id is missing: give it in the file or as DUEWHEEL_GROUP_ID",
				"routes[0].topic is missing: give it in the file or as DUEWHEEL_ROUTES_0_TOPIC",
			},
		},
		{
			name: "a route that could deliver nothing",
			yaml: "kafka: {brokers: a:1}\ngroup: {id: g}\nroutes: [{topic: delays}]\n",
			want: []string{"routes[0] has neither target nor targets.allow: nothing could be delivered"},
		},
		{
			name: "a retry target that is nearly the word for none",
			yaml: smallest + "  - {topic: again, retry: {target: From-Header, parking: parked}, targets: {allow: [orders]}}\n",
			want: []string{`routes[1].retry.target is "From-Header", which is the name of a topic; the nearest known one is from_headers`},
		},
		{
			name: "what the processor refuses is reported with the rest",
			yaml: smallest + "lanes: 99\nstat: {}\n",
			want: []string{
				"duewheel.yaml: unknown key stat; the nearest known one is state.dir",
				"lanes is 99: 1 to 64",
			},
		},
		{
			name: "a name that is like none hides nothing that is missing",
			yaml: ":::\n",
			env:  []string{"DUEWHEEL_X=1"},
			x:    []string{"zzz=1"},
			want: []string{
				"duewheel.yaml: unknown key ::",
				"unknown environment variable DUEWHEEL_X",
				"-X unknown property zzz",
				"kafka.brokers is missing: give it in the file, as DUEWHEEL_KAFKA_BROKERS, or with -b",
				"group.id is missing: give it in the file or as DUEWHEEL_GROUP_ID",
				"routes[0].topic is missing: give it in the file or as DUEWHEEL_ROUTES_0_TOPIC",
			},
		},
		{
			name: "a reference that leads nowhere",
			yaml: smallest + "instance: ${DUEWHEEL_TEST_NOT_SET}\n",
			want: []string{"duewheel.yaml: instance: ${DUEWHEEL_TEST_NOT_SET} is not set in the environment"},
		},
		{
			name: "a secret given twice in one place",
			yaml: smallest,
			x:    []string{"kafka.sasl.mechanism=PLAIN", "kafka.sasl.username=a", "kafka.sasl.password=b", "kafka.sasl.password_file=/dev/null"},
			want: []string{"-X kafka.sasl.password_file: both the value and the file that holds it are given"},
		},
		{
			name: "SASL by halves",
			yaml: smallest,
			x:    []string{"kafka.sasl.username=a"},
			want: []string{"kafka.sasl.mechanism is missing: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"},
		},
		{
			name: "a certificate without its key",
			yaml: smallest,
			x:    []string{"kafka.tls.cert_file=client.pem"},
			want: []string{"kafka.tls.cert_file is given without kafka.tls.key_file"},
		},
		{
			name: "a retry route that says nothing of itself is none",
			yaml: smallest + "    retry: {}\n",
			want: []string{"duewheel.yaml: routes[0].retry is empty, so the route is not one for retries: give a key below it, such as max_attempts: 8, or leave it out"},
		},
		{
			name: "a section whose keys have no values",
			yaml: smallest + "    retry:\n      backoff:\n      max_attempts:\n",
			want: []string{"duewheel.yaml: routes[0].retry is empty, so the route is not one for retries: give a key below it, such as max_attempts: 8, or leave it out"},
		},
		{
			name: "an empty section of a retry route, one that the environment fills, and one in which a key is mistyped",
			yaml: smallest + "    retry: {max_attempts: 3, backoff: {}}\n  - {topic: b, target: orders, retry: {}}\n  - {topic: c, target: orders, retry: {backof: {}}}\n",
			env:  []string{"DUEWHEEL_ROUTES_1_RETRY_MAX_ATTEMPTS=3"},
			want: []string{"duewheel.yaml: unknown key routes[2].retry.backof; the nearest known one is routes[N].retry.backoff.initial"},
		},
		{
			name: "lists of which an empty one would be taken for the default",
			yaml: smallest + "    headers: {aliases: []}\n    retry: {strip: []}\n",
			x:    []string{"routes[0].headers.aliases="},
			want: []string{
				"-X routes[0].headers.aliases: an empty list is no value: write none, or leave it out for plain, etf1, karafka and cloudevents; with retry.target from_headers connect-dlq, spring-dlt, streams-dlq and share-dlq; with delay none",
				"duewheel.yaml: routes[0].retry.strip: an empty list is no value: write none, or leave it out for those of Connect, Spring, Streams and share groups",
			},
		},
		{
			name: "no header and one",
			yaml: smallest + "    retry: {strip: [none, x-trace]}\n",
			want: []string{`route "delay-requests": retry.strip has none beside others: write none alone, or leave it out`},
		},
		{
			name: "a place in a list beyond reason",
			yaml: smallest,
			env:  []string{"DUEWHEEL_ROUTES_4000000000_TOPIC=x"},
			want: []string{"routes[4000000000].topic: there is room for 1000 routes"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, got := judge(t, sources{File: writeFile(t, "duewheel.yaml", test.yaml), Env: test.env, X: test.x})
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(test.want, "\n  "))
			}
		})
	}
}

// What delivered records of a retry route lose follows from what is written: nothing, the default or none.
func TestStrip(t *testing.T) {
	for _, test := range []struct {
		strip string
		want  []string
	}{
		{"", topics.ErrorHeaders},
		{", strip: [x-trace]", []string{"x-trace"}},
		{", strip: [none]", nil},
		{", strip: none", nil},
	} {
		s, err := load(sources{File: writeFile(t, "duewheel.yaml", smallest+"    retry: {max_attempts: 3"+test.strip+"}\n")})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Routes[0].route().Retry.Strip; !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.strip, got, test.want)
		}
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	_, got := judge(t, sources{File: "/nowhere/duewheel.yaml"})
	if len(got) != 1 || got[0] != "read configuration: open /nowhere/duewheel.yaml: no such file or directory" {
		t.Errorf("got %q", got)
	}
	_, got = judge(t, sources{File: writeFile(t, "duewheel.yaml", "kafka: [\n")})
	if len(got) != 1 || !strings.HasPrefix(got[0], "duewheel.yaml: not YAML: ") {
		t.Errorf("got %q", got)
	}
}

// A secret of a later source takes the place of one given in the other form before.
func TestSecretsFromFiles(t *testing.T) {
	t.Setenv("DUEWHEEL_TEST_SECRET", "from the environment")
	file := writeFile(t, "pass", "from a file\n")
	yaml := "kafka: {sasl: {mechanism: PLAIN, username: u, password: '${DUEWHEEL_TEST_SECRET}'}}\n"
	for _, test := range []struct {
		name string
		src  sources
		want string
	}{
		{"reference", sources{}, "from the environment"},
		{"file over text", sources{Env: []string{"DUEWHEEL_KAFKA_SASL_PASSWORD_FILE=" + file}}, "from a file"},
		{"text over file", sources{Env: []string{"DUEWHEEL_KAFKA_SASL_PASSWORD_FILE=" + file}, X: []string{"sasl.password=typed"}}, "typed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.src.File = writeFile(t, "duewheel.yaml", yaml)
			s, err := load(test.src)
			if err != nil || s.SASL.Password != test.want {
				t.Errorf("password %q, want %q; %v", s.SASL.Password, test.want, err)
			}
		})
	}
}

// The README is for the first minute: it has the smallest file as it is tested here, and fits a terminal.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "```yaml"+smallest+"```") {
		t.Errorf("README.md does not have the smallest file:%s", smallest)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 120 {
			t.Errorf("README.md:%d is %d characters wide, and not at most 120", n, width)
		}
	}
}
