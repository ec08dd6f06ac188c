//go:build race

package pending

// raceDetector is whether the tests were built with it.
const raceDetector = true
