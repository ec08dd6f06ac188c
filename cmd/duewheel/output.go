package main

import (
	"io"
	"os"
	"sync"
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
