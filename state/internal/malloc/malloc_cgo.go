//go:build cgo && linux

// Package malloc is about the memory that Pebble takes from the C library.
package malloc

// #include <malloc.h>
//
// static void bound(void) {
// #ifdef __GLIBC__
//     mallopt(M_ARENA_MAX, 2);
//     mallopt(M_MMAP_THRESHOLD, 128 << 10);
//     mallopt(M_TRIM_THRESHOLD, 128 << 10);
// #endif
// }
import "C"

import "sync"

// Bound keeps the C library, of which Pebble has its cache and its memtables, from holding on to what they have given back. glibc has an arena for
// each of many threads, which are full of holes as blocks come and go, and takes memtables out of them once it has seen one freed, unless it is told from
// which size on to ask the system: three times the cache was held so.
var Bound = sync.OnceFunc(func() { C.bound() })
