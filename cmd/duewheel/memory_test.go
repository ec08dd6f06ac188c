package main

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/duewheel/duewheel/processor"
)

// The collector is told what the budget leaves it, and what GOMEMLIMIT says counts.
func TestMemoryLimit(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	for _, test := range []struct {
		name, env, budget string
		want              int64
	}{
		{"the default", "", "256MiB", (256 - 64 + 112) << 20},
		{"a small one", "", "64MiB", (64 - 16 + 112) << 20},
		{"said by GOMEMLIMIT", "1GiB", "64MiB", was},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", test.env)
			debug.SetMemoryLimit(was)
			stop, _ := start(t, addr, t.TempDir(), "-X", "memory.budget="+test.budget)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if got := debug.SetMemoryLimit(-1); got != test.want {
				t.Errorf("the limit is %d MiB, want %d", got>>20, test.want>>20)
			}
		})
	}
}

// Where the budget leads to more memory than there is, the process says so when it starts, and has the collector keep within that.
func TestMemoryThatIsNotThere(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	const mib = 1 << 20
	for _, test := range []struct {
		name, env    string
		budget, room int64 // MiB; room 0: it is not known
		limit        int64 // MiB; 0: it stays
		want         string
	}{
		{"there is enough", "", 256, 512, 304, ""},
		{"it is not known", "", 256, 0, 304, ""},
		{"a container that is too small", "", 256, 400, 192, `msg="memory.budget leads to more memory than there is" takes_up_to=512MiB there_is=400MiB of="the container" todo="give the process 512MiB, or lower memory.budget to 144MiB"`},
		{"one that is too small for any budget", "", 32, 128, 64, `todo="give the process 288MiB"`},
		{"one that is far too small", "", 64, 64, 64, "there_is=64MiB"},
		{"GOMEMLIMIT is as good", "300MiB", 256, 512, 0, ""},
		{"GOMEMLIMIT is too low", "100MiB", 256, 512, 0, `msg="GOMEMLIMIT is lower than what memory.budget leads to, so the collector will take much time when that is used" GOMEMLIMIT=100MiB todo="set it to 304MiB or more, or lower memory.budget"`},
		{"GOMEMLIMIT is more than there is", "1GiB", 256, 512, 0, "takes_up_to=1232MiB there_is=512MiB"},
		{"GOMEMLIMIT is off", "off", 256, 512, 0, ""},
		{"GOMEMLIMIT is off, and there is too little", "off", 256, 400, 0, "takes_up_to=512MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", test.env)
			set := int64(math.MaxInt64)
			switch test.env {
			case "100MiB":
				set = 100 * mib
			case "300MiB":
				set = 300 * mib
			case "1GiB":
				set = 1024 * mib
			}
			debug.SetMemoryLimit(set) // as the runtime does at start
			room := memoryRoom{math.MaxInt64, "unknown"}
			if test.room > 0 {
				room = memoryRoom{test.room * mib, "the container"}
			}
			var log bytes.Buffer
			limitMemory(test.budget*mib, room, slog.New(slog.NewTextHandler(&log, nil)))
			if got := log.String(); test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("it says %q, want %q", got, test.want)
			}
			if test.limit > 0 {
				set = test.limit * mib
			}
			if got := debug.SetMemoryLimit(-1); got != set {
				t.Errorf("the limit is %d MiB, want %d", got/mib, set/mib)
			}
		})
	}
}

// What there is, is known on the systems that tests run on, and is no more than what the machine has.
func TestAvailableMemory(t *testing.T) {
	room := availableMemory()
	if _, err := os.Stat("/proc/meminfo"); err == nil && room.bytes == math.MaxInt64 {
		t.Error("it is not known what memory there is")
	}
	if room.bytes < 128<<20 {
		t.Errorf("%d bytes of %s", room.bytes, room.whose)
	}
	if takes := processor.HeapLimit(256<<20) + 64<<20 + besideHeap; takes != 512<<20 {
		t.Errorf("the default budget leads to %d MiB", takes>>20)
	}
}
