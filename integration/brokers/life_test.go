package brokers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/duewheel/duewheel/integration/brokers"
)

// asChild makes the test binary a program that starts a broker, says where, and waits to be killed.
const asChild = "DUEWHEEL_TEST_BROKERS_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "" {
		os.Exit(m.Run())
	}
	c, err := brokers.New(context.Background(), brokers.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.Addrs()[0], c.Provider(), filepath.Dir(c.Security().CAFile))
	select {}
}

// A test process that is killed takes its brokers with it, and the next one removes what it left on disk. Containers live on
// until then.
func TestKilledProcessLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), asChild+"=1")
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var addr, provider, dir string
	if _, err := fmt.Sscan(line, &addr, &provider, &dir); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()

	closed := func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	}
	if provider == string(brokers.JVM) {
		eventually(t, "the broker ends with the process that started it", closed)
	}
	brokers.Start(t, brokers.Options{Provider: brokers.Provider(provider)})
	eventually(t, "the broker has ended", closed)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

// A cluster that is closed leaves neither a port nor a folder.
func TestCloseLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	c, err := brokers.New(t.Context(), brokers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	must(t, c.Node(1).Pause) // also a frozen broker ends
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
	if _, err := net.Dial("tcp", c.Addrs()[0]); err == nil {
		t.Error("the broker still listens")
	}
	if _, err := os.Stat(filepath.Dir(c.Security().CAFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// External brokers are used as they are; what they cannot do is said and not tried.
func TestExternal(t *testing.T) {
	own := brokers.Start(t, brokers.Options{})
	t.Setenv("DUEWHEEL_TEST_KAFKA", "external")
	t.Setenv("DUEWHEEL_TEST_BROKERS", own.Addrs()[0])

	c := brokers.Start(t, brokers.Options{})
	client := connect(t, c.Opts(brokers.Plain)...)
	createTopic(t, client, "t", 1)
	produce(t, client, "t", "there")
	if err := c.Node(1).Kill(t.Context()); !errors.Is(err, brokers.ErrUnsupported) {
		t.Errorf("kill gives %v", err)
	}
	for name, o := range map[string]brokers.Options{
		"faults":    {Faults: true},
		"version":   {Version: brokers.Old},
		"nodes":     {Nodes: 3},
		"config":    {Config: map[string]string{"a": "b"}},
		"listeners": {Listeners: []brokers.Listener{brokers.TLS}},
	} {
		if _, err := brokers.New(t.Context(), o); !errors.Is(err, brokers.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	produce(t, client, "t", "still there")
}

// A provider that is forced and not there is an error that says what to do.
func TestAdvice(t *testing.T) {
	t.Setenv("DUEWHEEL_TEST_BROKERS", "")
	t.Setenv("PATH", t.TempDir())
	for provider, want := range map[brokers.Provider]string{
		brokers.External: "DUEWHEEL_TEST_BROKERS",
		brokers.JVM:      "apt-get install",
	} {
		_, err := brokers.New(t.Context(), brokers.Options{Provider: provider})
		if !errors.Is(err, brokers.ErrNoProvider) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", provider, err)
		}
	}
	t.Setenv("DUEWHEEL_TEST_BROKERS", "127.0.0.1:1")
	if _, err := brokers.New(t.Context(), brokers.Options{Provider: brokers.External}); !errors.Is(err, brokers.ErrNoProvider) {
		t.Errorf("external brokers that do not answer: %v", err)
	}
}
