package state

import (
	"bufio"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// Whatever part of the unsynced data survives a power loss, the store is a prefix of the batches, with its position.
func TestPowerLossLeavesAPrefix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewCrashableMem()
		h := history{seed: rapid.Uint64().Draw(rt, "seed")}
		done, flushed := int64(0), int64(0)
		for range rapid.IntRange(1, 3).Draw(rt, "lives") {
			s, err := Open(Options{Dir: "store", FS: fs, MemoryBudget: 1 << 20})
			if err != nil {
				rt.Fatal(err)
			}
			done = h.checkPrefix(rt, s, done)
			if done < flushed {
				rt.Fatalf("only %d batches are left, and %d were flushed", done, flushed)
			}
			handles := h.open(rt, s)
			for range rapid.IntRange(0, 60).Draw(rt, "batches") {
				done++
				must(rt, h.run(done, handles))
				if rapid.IntRange(0, 19).Draw(rt, "flush") == 0 {
					must(rt, s.Flush())
					flushed = done
				}
			}
			unsynced := rapid.SampledFrom([]int{0, 30, 70, 100}).Draw(rt, "unsynced")
			crashed := fs.CrashClone(vfs.CrashCloneCfg{
				UnsyncedDataPercent: unsynced,
				RNG:                 rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "rng"), 0)),
			})
			must(rt, s.Close())
			fs = crashed
		}
		s, err := Open(Options{Dir: "store", FS: fs, MemoryBudget: 1 << 20})
		if err != nil {
			rt.Fatal(err)
		}
		if done = h.checkPrefix(rt, s, done); done < flushed {
			rt.Fatalf("only %d batches are left, and %d were flushed", done, flushed)
		}
		must(rt, s.Close())
	})
}

const childDir = "DUEWHEEL_TEST_STATE_CHILD"

func TestMain(m *testing.M) {
	if dir, seed, ok := strings.Cut(os.Getenv(childDir), "|"); ok {
		run := child
		if seed == keep {
			run = keeper
		}
		if err := run(dir, seed); err != nil {
			log.Fatal(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is the process that TestKillLeavesAPrefix kills: it writes batches for ever, and tells after each.
func child(dir, seed string) error {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	s, err := Open(Options{Dir: dir, MemoryBudget: 4 << 20})
	if err != nil {
		return err
	}
	var handles []*Partition
	last := int64(0)
	for i := range int32(historyPartitions) {
		p, err := s.Partition(orders(i))
		if err != nil {
			return err
		}
		pos, _ := p.Position()
		last = max(last, pos.Offset)
		handles = append(handles, p)
	}
	for h := (history{seed: n}); ; {
		last++
		if err := h.run(last, handles); err != nil {
			return err
		}
		fmt.Println("batch", last)
	}
}

// A process that is killed leaves a prefix of its batches, and the next one goes on from there.
func TestKillLeavesAPrefix(t *testing.T) {
	dir := t.TempDir()
	h := history{seed: 7}
	survived := int64(0)
	for life := range int64(4) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d", childDir, dir, h.seed))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		// Kill it in the midst of its work: some thousand batches on, so that memtables have been flushed.
		target, reached := survived+1500+life*333, int64(0)
		var seen []string
		lines := bufio.NewScanner(out)
		for reached < target && lines.Scan() {
			seen = append(seen, lines.Text())
			fmt.Sscanf(lines.Text(), "batch %d", &reached)
		}
		must(t, cmd.Process.Kill())
		for lines.Scan() { // what it wrote before it died
			fmt.Sscanf(lines.Text(), "batch %d", &reached)
		}
		_ = cmd.Wait() // killed
		if reached < target {
			t.Fatalf("the child ended by itself: %v", seen)
		}
		s, err := Open(Options{Dir: dir, MemoryBudget: 4 << 20})
		must(t, err)
		// It may have done one batch more than it told.
		prefix := h.checkPrefix(t, s, reached+1)
		must(t, s.Close())
		if prefix < survived {
			t.Fatalf("%d batches survived the kill before, now %d", survived, prefix)
		}
		t.Logf("killed after batch %d, %d survived", reached, prefix)
		survived = prefix
	}
	if survived == 0 {
		t.Error("nothing ever survived a kill: memtables were not flushed")
	}
}
