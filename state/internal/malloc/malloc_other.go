//go:build !cgo || !linux

// Package malloc is about the memory that Pebble takes from the C library.
package malloc

// Bound has nothing to do: there is no glibc.
func Bound() {}
