package main

import (
	"errors"
	"fmt"
	"strings"
)

// problems is every problem of a configuration, one a line.
type problems []error

func (p problems) Error() string {
	if len(p) == 1 {
		return p[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems:", len(p))
	for _, err := range p {
		b.WriteString("\n  ")
		b.WriteString(err.Error())
	}
	return b.String()
}

func (p problems) Unwrap() []error { return p }

// joinLines returns one error with every problem that is joined in errs, or nil.
func joinLines(errs ...error) error {
	var all problems
	for _, err := range errs {
		all = all.with(err)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// with takes apart what says no more than its parts, as errors.Join makes it.
func (p problems) with(err error) problems {
	if err == nil {
		return p
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if _, ours := err.(problems); !ours && (!ok || errors.Join(joined.Unwrap()...).Error() != err.Error()) {
		return append(p, err)
	}
	for _, e := range joined.Unwrap() {
		p = p.with(e)
	}
	return p
}
