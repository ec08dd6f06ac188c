// Package chunks lends memory without pointers in a few sizes, and takes it back to be used again. It is as good as make and the garbage
// collector, and for what comes and goes at a million records a second it costs less: nothing is cleared, no page is touched for the first
// time, and the collector seldom has to run. It may be used by any goroutine. The collector takes what is not used soon.
package chunks

import (
	"math/bits"
	"sync"
)

// Sizes are powers of two from Least to Most, in bytes.
const (
	Least = 4 << 10
	Most  = 256 << 10
)

const sizes = 7 // from Least to Most

var spare [sizes]sync.Pool // *[]byte with a capacity of Least << i

// sizeOf is which of the sizes a capacity is; false: none of them.
func sizeOf(bytes int) (i int, is bool) {
	i = bits.Len(uint(bytes)) - bits.Len(Least)
	return i, i >= 0 && i < sizes && bytes == Least<<i
}

// Get is empty memory with a capacity of some bytes. What it held before is still there. Where that is none of the sizes it is made anew.
func Get(bytes int) []byte {
	if i, is := sizeOf(bytes); is {
		if b, is := spare[i].Get().(*[]byte); is {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, bytes)
}

// Put takes back memory that nothing looks at any more. It need not have come from Get.
func Put(b []byte) {
	if i, is := sizeOf(cap(b)); is {
		spare[i].Put(&b)
	}
}
