//go:build !race && !synctests

package pending

// overwrites has what is released overwritten at once, in tests (released_tested.go).
const overwrites = false
