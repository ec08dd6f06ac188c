package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/duewheel/duewheel/processor"
)

const (
	// besideHeap is what a process takes besides its heap and the store's cache, at most: the program, which is mapped, and what the C library and the
	// collector have not given back. With it the budget leads to budget + 256 MiB, as the docs say and make memory has seen.
	besideHeap = 144 << 20
	// leastHeap is what the collector is left whatever there is: with less it would do nothing but collect.
	leastHeap = 64 << 20
)

// memoryRoom is how much memory there is for the process, and who says so.
type memoryRoom struct {
	bytes int64 // math.MaxInt64: it is not known
	whose string
}

// availableMemory is the limit of the container, or what the machine has where that is less.
func availableMemory() memoryRoom {
	room := memoryRoom{math.MaxInt64, "unknown"}
	for _, from := range []struct {
		limit memlimit.Provider
		whose string
	}{{memlimit.FromSystem, "the machine"}, {memlimit.FromCgroup, "the container"}} {
		if n, err := from.limit(); err == nil && n < uint64(room.bytes) {
			room = memoryRoom{int64(n), from.whose}
		}
	}
	return room
}

// limitMemory tells the collector what the budget leaves it, unless GOMEMLIMIT has said so, and says where that is more than there is, or
// less than the budget needs. Where there is less, the collector is told that: it then takes time, which is better than an end by the kernel.
func limitMemory(budget int64, room memoryRoom, log *slog.Logger) {
	store := budget / 4
	limit := processor.HeapLimit(budget)
	if set := os.Getenv("GOMEMLIMIT"); set != "" {
		if limit = debug.SetMemoryLimit(-1); limit < budget-store {
			log.Warn("GOMEMLIMIT is lower than what memory.budget leads to, so the collector will take much time when that is used", "GOMEMLIMIT", set,
				"todo", fmt.Sprintf("set it to %s or more, or lower memory.budget", mebibytes(processor.HeapLimit(budget))))
		}
		if limit == math.MaxInt64 { // off
			limit = processor.HeapLimit(budget)
		}
	} else {
		debug.SetMemoryLimit(min(limit, max(room.bytes-store-besideHeap, leastHeap)))
	}
	if takes := limit + store + besideHeap; takes > room.bytes {
		todo := fmt.Sprintf("give the process %s", mebibytes(takes))
		if fits := room.bytes - processor.HeapLimit(0) - besideHeap; fits >= leastBudget {
			todo += fmt.Sprintf(", or lower memory.budget to %s", mebibytes(fits))
		}
		log.Warn("memory.budget leads to more memory than there is", "takes_up_to", mebibytes(takes), "there_is", mebibytes(room.bytes), "of", room.whose, "todo", todo)
	}
}

// leastBudget is the least memory.budget that is taken.
const leastBudget = 32 << 20

func mebibytes(n int64) string { return fmt.Sprintf("%dMiB", n>>20) }
