package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

var reference = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// expand puts the environment's values in place of ${NAME} and ${NAME:-otherwise}. $${ stands for
// ${ itself. A name that is not set is an error: an empty password is never what was meant.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	var missing string
	out := reference.ReplaceAllStringFunc(s, func(ref string) string {
		if strings.HasPrefix(ref, "$$") {
			return ref[1:]
		}
		m := reference.FindStringSubmatch(ref)
		if v, ok := lookup(m[1]); ok {
			return v
		}
		if m[2] != "" {
			return m[3]
		}
		missing = ref
		return ref
	})
	if missing != "" {
		return "", fmt.Errorf("%s is not set in the environment", missing)
	}
	return out, nil
}

// readSecret returns what a file holds less the line end that editors and echo put there.
func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
