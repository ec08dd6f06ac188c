package main

import "strings"

// nearest returns the known name that was most likely meant by name. Names are dotted paths: one
// that is right but for its section (brokers for kafka.brokers) is taken for near, and so is what a
// misspelt section (kafak.brokers) leads to, what begins alike (user for username), and what lies in the
// same section.
func nearest(name string, known []string) string {
	best, bestDistance := "", 0
	for _, k := range known {
		d := 2 * min(distance(name, k), distance(lastPart(name), lastPart(k))+1, distance(name, firstParts(k, name))+1)
		if parent(name) != "" && parent(name) == parent(k) {
			d -= 3
		}
		if strings.HasPrefix(lastPart(k), lastPart(name)) {
			d -= 3
		}
		if best == "" || d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

func parent(path string) string { return path[:max(strings.LastIndexByte(path, '.'), 0)] }

func lastPart(path string) string {
	return path[strings.LastIndexByte(path, '.')+1:]
}

// firstParts is as much of path as like has parts.
func firstParts(path, like string) string {
	parts := strings.Split(path, ".")
	return strings.Join(parts[:min(len(parts), strings.Count(like, ".")+1)], ".")
}

// distance counts the letters to insert, remove, replace or swap with their neighbour to turn a
// into b.
func distance(a, b string) int {
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(last[j]+cost, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
