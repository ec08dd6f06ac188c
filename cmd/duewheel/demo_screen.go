package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/muesli/cancelreader"
	"golang.org/x/term"
)

// frameEvery is often enough for a countdown to look alive, and costs nothing.
const frameEvery = 200 * time.Millisecond

const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J" // another buffer, no cursor, nothing on it
	leaveScreen = "\x1b[0m\x1b[?25h\x1b[?1049l"
)

// showScreen draws until ctx ends, and does what keys ask for. The terminal is left as it was, by the keeper if this process is not there to do it.
func (f *front) showScreen(ctx context.Context) (err error) {
	keeper, err := startKeeper(f.tty)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keeper.dismiss()) }()
	ctx, stop := hungUp(ctx)
	defer stop()
	defer context.AfterFunc(ctx, f.quit)()
	keys, restore, err := f.raw()
	if err != nil {
		return err
	}
	defer restore()
	if _, err := io.WriteString(f.tty, enterScreen); err != nil {
		return nil // it was closed, which is no fault of the demo
	}
	defer func() { _, _ = io.WriteString(f.tty, leaveScreen) }() // of a terminal that is gone nothing is left to be restored
	return f.draw(ctx, keys)
}

// hungUp ends a context when the terminal is closed, too.
func hungUp(ctx context.Context) (context.Context, func()) {
	return signal.NotifyContext(ctx, hangUps...)
}

// raw makes single keys readable, if what is read from is a terminal, and returns them. Restore undoes that, and waits until nothing is
// read any more.
func (f *front) raw() (keys <-chan byte, restore func(), err error) {
	in, ok := f.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, func() {}, nil
	}
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, nil, err
	}
	reader, err := cancelreader.NewReader(in)
	if err != nil {
		_ = term.Restore(int(in.Fd()), was)
		return nil, nil, err
	}
	pressed, stopped := make(chan byte), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(pressed)
		b := make([]byte, 64)
		for {
			n, err := reader.Read(b)
			if err != nil {
				return
			}
			for _, key := range keysIn(b[:n]) {
				select {
				case pressed <- key:
				case <-stopped:
					return
				}
			}
		}
	}()
	return pressed, func() {
		close(stopped)
		if reader.Cancel() {
			<-ended
			_ = reader.Close()
		}
		_ = term.Restore(int(in.Fd()), was)
	}, nil
}

// keysIn are the keys in what was read, without arrows and others that send several bytes: CSI and SS3 sequences (ECMA-48).
func keysIn(b []byte) (keys []byte) {
	for i := 0; i < len(b); i++ {
		if b[i] != escape || i+1 == len(b) {
			keys = append(keys, b[i])
			continue
		}
		i++
		switch b[i] {
		case 'O':
			i++
		case '[':
			for i++; i < len(b) && (b[i] < 0x40 || b[i] > 0x7e); i++ {
			}
		}
	}
	return keys
}

// draw draws frames until ctx ends.
func (f *front) draw(ctx context.Context, keys <-chan byte) error {
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	rate := meter{}
	hasKeys, trying := keys != nil, false
	var held *scene
	last := look{}
	for {
		k := f.look
		if width, height, err := term.GetSize(int(f.tty.Fd())); err == nil && width > 0 && height > 0 {
			k.width, k.height = width, height
		}
		s := f.d.scene(time.Now())
		s.rate = rate.perSecond(s.now, s.tally.delivered)
		if held != nil {
			held.said = s.said
			s = held
		}
		s.keys, s.trying, s.held = hasKeys, trying, held != nil
		text := frame(s.page(k), k)
		if k != last {
			text = "\x1b[2J" + text // what a resize has left
		}
		last = k
		if _, err := io.WriteString(f.tty, text); err != nil {
			f.quit()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case key, open := <-keys:
			switch {
			case !open: // the terminal was closed
				f.quit()
				return nil
			case key == 'q' || key == 'Q' || key == ctrlC || key == ctrlD:
				f.quit()
				return nil
			case trying:
				trying = false
			case key == ' ' && held == nil:
				held = s
			case key == ' ':
				held = nil
			case key == 't' || key == 'T':
				trying = true
			default:
				f.act(ctx, key)
			}
		}
	}
}

const (
	ctrlC  = 0x03
	ctrlD  = 0x04
	escape = 0x1b
)
