package main

import (
	"errors"
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

// secretFile is where a secret lies.
type secretFile struct {
	path       string
	properties bool // it is a client.properties, and not the secret alone
}

// keepSecret notes where a secret lies. A pipe, as a shell makes it of <(command), can be read but once.
func (l *loader) keepSecret(key string, f secretFile) {
	if info, err := os.Stat(f.path); err == nil && info.Mode().IsRegular() {
		l.secrets[key] = f
	}
}

// secretNow is a secret as its file has it now. Where it lies in none, it is what it was at start. One that cannot be read is an error, and
// not what it was before: that would be refused, and say nothing of the file.
func secretNow(key, atStart string, files map[string]secretFile) (string, error) {
	f, ok := files[key]
	if !ok {
		return atStart, nil
	}
	read := readSecret
	if f.properties {
		read = func(path string) (string, error) { return secretIn(path, key) }
	}
	v, err := read(f.path)
	if err == nil && v == "" {
		err = fmt.Errorf("there is none in %s", f.path)
	}
	if err != nil {
		return "", fmt.Errorf("read %s again: %w", key, err)
	}
	return v, nil
}

// secretIn is what a client.properties says of a key.
func secretIn(path, key string) (string, error) {
	l := newLoader()
	l.loadCommandConfig(path)
	return l.merged.String(key), errors.Join(l.errs...)
}
