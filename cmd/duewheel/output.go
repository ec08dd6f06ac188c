package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// output is what a command prints to. It remembers that something could not be written, since a command that has said nothing has not done what
// it was asked for.
type output struct {
	w io.Writer

	mu  sync.Mutex
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// failure is the first error of writing.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// fileOf is the file that something prints to, or reads from; nil: it is none.
func fileOf(what any) *os.File {
	switch what := what.(type) {
	case *output:
		return fileOf(what.w)
	case *os.File:
		return what
	}
	return nil
}

// newJSON writes what a terminal only shows, whatever is in its strings: those may hold what others have written.
func newJSON(w io.Writer) *json.Encoder { return json.NewEncoder(visibleJSON{w}) }

// visibleJSON escapes what cannot be printed and yet may stand in the strings of JSON, such as control characters of eight bits.
type visibleJSON struct{ w io.Writer }

func (v visibleJSON) Write(b []byte) (int, error) {
	if _, err := v.w.Write(escaped(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// escaped is the same JSON; what cannot be printed is only in strings there.
func escaped(b []byte) []byte {
	isOdd := func(r rune) bool { return r > '~' && !unicode.IsPrint(r) }
	if !bytes.ContainsFunc(b, isOdd) {
		return b
	}
	shown := make([]byte, 0, len(b)+64)
	for _, r := range string(b) {
		switch {
		case !isOdd(r):
			shown = utf8.AppendRune(shown, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			shown = fmt.Appendf(shown, `\u%04x\u%04x`, high, low)
		default:
			shown = fmt.Appendf(shown, `\u%04x`, r)
		}
	}
	return shown
}
