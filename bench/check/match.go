package check

import "strings"

// match tells whether a name fits a pattern in which * stands for any run of characters.
func match(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, head) {
		return false
	}
	name = name[len(head):]
	for i := 0; i <= len(name); i++ {
		if match(rest, name[i:]) {
			return true
		}
	}
	return false
}
