//go:build !cgo || !linux

package state

// boundMalloc has nothing to do: there is no glibc.
func boundMalloc() {}
