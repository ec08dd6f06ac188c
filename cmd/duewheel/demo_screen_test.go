//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// terminal is a demo on a terminal.
type terminal struct {
	cmd    *exec.Cmd
	master *os.File
	tty    *os.File
	was    *term.State
	seen   heard
	read   chan struct{} // closed when nothing is to be read any more
}

func onTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	master, tty, err := pty.Open()
	if err == nil {
		err = pty.Setsize(master, &pty.Winsize{Cols: 80, Rows: 24})
	}
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{cmd: exec.Command(os.Args[0], append([]string{"demo"}, args...)...), master: master, tty: tty, read: make(chan struct{})}
	if x.was, err = term.GetState(int(tty.Fd())); err != nil {
		t.Fatal(err)
	}
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = tty, tty, tty
	x.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LANG=C.UTF-8", "NO_COLOR=")
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(x.read)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			_, _ = x.seen.Write(b[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		_ = tty.Close()
		_ = master.Close()
		<-x.read
	})
	return x
}

func (x *terminal) press(t *testing.T, key string) {
	t.Helper()
	if _, err := x.master.WriteString(key); err != nil {
		t.Fatal(err)
	}
}

// ended waits for the end of the process and tells its exit code; -1 by a signal.
func (x *terminal) ended(t *testing.T) int {
	t.Helper()
	ended := make(chan struct{})
	go func() { _ = x.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(2 * patience):
		t.Fatalf("it goes on:\n%s", &x.seen)
	}
	return x.cmd.ProcessState.ExitCode()
}

// restored waits until the terminal is as it was, and what is printed appears where it did.
func (x *terminal) restored(t *testing.T) {
	t.Helper()
	await(t, func() string {
		is, err := term.GetState(int(x.tty.Fd()))
		text := x.seen.String()
		left := strings.LastIndex(text, leaveScreen) > strings.LastIndex(text, enterScreen) && strings.LastIndex(text, "\x1b[H") < strings.LastIndex(text, leaveScreen)
		if err == nil && left && reflect.DeepEqual(is, x.was) {
			return ""
		}
		return fmt.Sprintf("the terminal was not restored (left the screen: %v; %v, %v, %v):\n%q", left, err, is, x.was, text)
	})
}

// On a terminal a key kills a replica, another one cancels a record, and the screen tells what becomes of it.
func TestDemoOnATerminal(t *testing.T) {
	x := onTerminal(t)
	x.seen.await(t, `(?s)WHAT COMES.*WHAT CAME`, `0:01`, `\x1b\[7m k \x1b\[0m`)
	x.press(t, "k")
	x.seen.await(t, `replica [ab] is killed \(kill -9\)`)
	x.press(t, "k")
	x.seen.await(t, `one replica is left`)
	x.press(t, "c")
	x.seen.await(t, `\d-\d+-\d+, due in \d+\.\d s, is cancelled by its handle`)
	x.press(t, "t")
	x.seen.await(t, `Try from another terminal`, `any key goes back`)
	x.press(t, "\x1b[A") // an arrow is no key of the demo
	x.press(t, "x")
	x.seen.await(t, `0 lost, 0 doubled, back in \d+\.\d s`, `\d-\d+-\d+ was cancelled by its handle, and never came`)
	x.press(t, " ")
	x.seen.await(t, `go on`)
	x.press(t, " ")
	if err := pty.Setsize(x.master, &pty.Winsize{Cols: 120, Rows: 40}); err != nil {
		t.Fatal(err)
	}
	x.seen.await(t, `duewheel demo[^\r\n]{105,}\d:\d\d`)
	x.press(t, "q")
	if code := x.ended(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	x.restored(t)
	x.seen.await(t, `demo: ok: all [1-9][\d,]* due were delivered exactly once, none early, although a replica was killed once`)
}

func TestKeysIn(t *testing.T) {
	for in, want := range map[string]string{
		"k": "k", "kc": "kc", "\x1b": "\x1b", "\x1b[A": "", "\x1b[1;5Cq": "q", "\x1bOPq": "q", "\x1b[": "", "\x1bO": "", "\x1bx": "", "k\x1b[Bq": "kq",
	} {
		if got := string(keysIn([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// However it ends, the terminal is left as it was.
func TestDemoRestoresTheTerminal(t *testing.T) {
	signal := func(s syscall.Signal) func(*testing.T, *terminal) {
		return func(t *testing.T, x *terminal) {
			if err := x.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	const crashed = 2 // or another one, where the runtime crashes once more while it prints the stack of a thread that is in C
	for _, test := range []struct {
		name string
		end  func(*testing.T, *terminal)
		code int
		says string
	}{
		{"Ctrl-C", func(t *testing.T, x *terminal) { x.press(t, "\x03") }, 0, "demo: ok: "},
		{"SIGTERM", signal(syscall.SIGTERM), 0, "demo: ok: "},
		{"SIGHUP", signal(syscall.SIGHUP), 0, "demo: ok: "},
		{"kill -9", signal(syscall.SIGKILL), -1, ""},
		{"a crash", signal(syscall.SIGABRT), crashed, `SIGABRT: abort(?s:.*)` + "\x1b" + `\[\?1049l(?s:.*)SIGABRT: abort`}, // said again where it can be read
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			x := onTerminal(t)
			x.seen.await(t, `WHAT COMES`)
			if is, err := term.GetState(int(x.tty.Fd())); err != nil || reflect.DeepEqual(is, x.was) {
				t.Errorf("the terminal is as it was before: nothing would be restored (%v)", err)
			}
			test.end(t, x)
			if code := x.ended(t); code != test.code && (test.code != crashed || code == 0) {
				t.Errorf("exit code %d, want %d\n%q", code, test.code, x.seen.String())
			}
			x.restored(t)
			x.seen.await(t, test.says)
		})
	}
}

// Where there are no keys a replica is killed by itself: on a terminal that has lines only, too.
func TestDemoKillsByItself(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = master.Close(), tty.Close() })
	for _, test := range []struct {
		term   string
		length time.Duration
		out    io.Writer
		want   bool
	}{
		{"xterm", 0, tty, false}, {"xterm", 10 * time.Second, tty, true}, {"dumb", 0, tty, true}, {"xterm", 0, io.Discard, true}, {"dumb", 0, io.Discard, true},
	} {
		t.Setenv("TERM", test.term)
		o := demoOptions{length: test.length}
		if got := o.usualKill(test.out); (got > 0) != test.want {
			t.Errorf("TERM=%s, for %v, to %T: after %v", test.term, test.length, test.out, got)
		}
	}
}

// A bar is drawn where a line can be drawn over, and not on a terminal that has lines only.
func TestBarsNeedAScreen(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "delays.dead": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: orders}\n")
	for term, want := range map[string]bool{"xterm": true, "": true, "dumb": false} {
		t.Setenv("TERM", term)
		master, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		if got := newBar(tty).live; got != want {
			t.Errorf("TERM=%s: drawn is %v", term, got)
		}
		if err := run(t.Context(), []string{"verify", "-c", config}, strings.NewReader(""), io.Discard, tty); err != nil {
			t.Error(err)
		}
		_, _ = fmt.Fprintln(tty, "end")
		if said, err := bufio.NewReader(master).ReadString('\n'); err != nil || strings.Contains(said, "\x1b") != want {
			t.Errorf("TERM=%s: verify prints %q, %v", term, said, err)
		}
		_, _ = master.Close(), tty.Close()
	}
}
