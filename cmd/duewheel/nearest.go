package main

import "strings"

// nearest returns the known name that was most likely meant by name. Names are dotted paths: one
// that is right but for its section (brokers for kafka.brokers) is taken for near, and so is what a
// misspelt section (kafak.brokers) leads to, what begins alike (user for username), and what lies in the
// same section.
func nearest(name string, known []string) string {
	best, bestDistance, bestSection := "", 0, false
	for _, k := range known {
		d, inSection := min(distance(name, k), distance(lastPart(name), lastPart(k))+1), distance(name, firstParts(k, name))+1
		section := inSection < d // it is near for its section alone, of which the first key is as good as any
		d = 2 * min(d, inSection)
		if parent(name) != "" && parent(name) == parent(k) {
			d -= 3
		}
		if strings.HasPrefix(lastPart(k), lastPart(name)) {
			d -= 3
		}
		if best == "" || d < bestDistance || d == bestDistance && !(section && bestSection) && distance(name, k) < distance(name, best) {
			best, bestDistance, bestSection = k, d, section
		}
	}
	return best
}

// advice names the nearest known name, where it may be what was meant.
func advice(name, near, shown string) string {
	last := lastPart(name)
	far := min(distance(name, near), distance(last, lastPart(near))+1, distance(name, firstParts(near, name))+1)
	same := parent(name) != "" && parent(name) == parent(near) // one of few
	if !same && (last == "" || !strings.HasPrefix(lastPart(near), last)) && far > max(2, len(last)/2) {
		return ""
	}
	return "; the nearest known one is " + shown
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
