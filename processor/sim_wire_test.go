//go:build synctests

package processor

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is one connection.
type wire struct {
	link    *link
	address string
	client  net.Conn // our end of the client's pipe
	server  net.Conn
	queue   chan *frame // requests that were written and not delivered yet
	once    sync.Once
	cut     chan struct{}

	mu    sync.Mutex
	asked map[int32]*frame // by correlation id
	muted time.Time        // until then the broker reads nothing from it
}

type frame struct {
	bytes   []byte // with its size
	key     kmsg.Key
	version int16
	corr    int32
	rule    *rule
}

// pass waits for the time that a frame takes, and more if its broker is slow, and while the link is frozen.
func (w *wire) pass(more time.Duration) bool {
	l := w.link
	l.mu.Lock()
	delay := 1 + time.Duration(l.rng.Int64N(int64(l.world.latency))) + more
	l.mu.Unlock()
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return w.melt()
	case <-w.cut:
		return false
	}
}

// melt waits while the link or the broker is frozen.
func (w *wire) melt() bool {
	w.link.mu.Lock()
	thaw := w.link.thaw
	w.link.mu.Unlock()
	for _, thaw := range []chan struct{}{thaw, w.link.frozenBroker(w.address)} {
		if thaw == nil {
			continue
		}
		select {
		case <-thaw:
		case <-w.cut:
			return false
		}
	}
	return true
}

// apply does what a rule says.
func (w *wire) apply(r *rule) {
	if r.call != nil {
		r.call()
	}
	if r.wait != nil {
		select {
		case <-r.wait:
		case <-w.cut:
		}
	}
	if r.cut {
		w.close()
	}
	w.melt() // the call may have frozen the link
}

// request parses the frame.
func (f *frame) request() kmsg.Request {
	req := kmsg.RequestForKey(int16(f.key))
	req.SetVersion(f.version)
	b := f.bytes[12:]
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2+max(n, 0):]
	if req.IsFlexible() {
		b = b[1:] // no tags
	}
	if err := req.ReadFrom(b); err != nil {
		panic(fmt.Sprintf("request %d version %d: %v", f.key, f.version, err))
	}
	return req
}

// ofTimekeeper reports a request by which a process asks what time it is.
func (f *frame) ofTimekeeper() bool {
	var id *string
	switch f.key {
	case kmsg.InitProducerID:
		id = f.request().(*kmsg.InitProducerIDRequest).TransactionalID
	case kmsg.AddOffsetsToTxn:
		id = &f.request().(*kmsg.AddOffsetsToTxnRequest).TransactionalID
	case kmsg.DescribeTransactions:
		return true
	case kmsg.EndTxn:
		id = &f.request().(*kmsg.EndTxnRequest).TransactionalID
	}
	return id != nil && strings.Contains(*id, "-clock@")
}

func (w *wire) close() {
	w.once.Do(func() {
		close(w.cut)
		w.client.Close()
		w.server.Close()
		w.link.mu.Lock()
		delete(w.link.wires, w)
		w.link.mu.Unlock()
	})
}

func (w *wire) isCut() bool {
	select {
	case <-w.cut:
		return true
	default:
		return false
	}
}

// listen takes what the client writes. When the client hangs up, what it wrote is delivered
// all the same.
func (w *wire) listen() {
	defer close(w.queue)
	for {
		b, err := readFrame(w.client)
		if err != nil {
			return
		}
		f := &frame{bytes: b, key: kmsg.Key(binary.BigEndian.Uint16(b[4:])), version: int16(binary.BigEndian.Uint16(b[6:])), corr: int32(binary.BigEndian.Uint32(b[8:]))}
		select {
		case w.queue <- f:
		case <-w.cut:
			return
		}
	}
}

func readFrame(c net.Conn) ([]byte, error) {
	b := make([]byte, 4, 512)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	b = append(b, make([]byte, binary.BigEndian.Uint32(b))...)
	_, err := io.ReadFull(c, b[4:])
	return b, err
}

// forward delivers requests in order, and hangs up when the last one was answered.
func (w *wire) forward() {
	defer w.server.Close()
	defer w.settle()
	for f := range w.queue {
		if !w.pass(0) {
			break
		}
		if !w.unmute() {
			break
		}
		if f.rule = w.link.judge(f); f.rule != nil && !f.rule.after {
			w.apply(f.rule)
		}
		w.link.world.heard.note(f, w, false)
		w.link.world.count(w.link.name, f.key.Name())
		w.mu.Lock()
		w.asked[f.corr] = f
		w.mu.Unlock()
		if _, err := w.server.Write(f.bytes); err != nil {
			w.close()
		}
	}
	for range w.queue { // listen must not hang on a full queue
	}
}

// settle waits until every request was answered, for as long as a broker may take for one.
func (w *wire) settle() {
	for range 500 {
		w.mu.Lock()
		n := len(w.asked)
		w.mu.Unlock()
		select {
		case <-w.cut:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if n == 0 {
			return
		}
	}
}

// back brings the answers.
func (w *wire) back() {
	defer w.close()
	hungUp := false
	for {
		b, err := readFrame(w.server)
		if err != nil {
			return
		}
		corr := int32(binary.BigEndian.Uint32(b[4:]))
		w.mu.Lock()
		f := w.asked[corr]
		delete(w.asked, corr)
		w.mu.Unlock()
		if f == nil {
			continue
		}
		w.link.world.heard.note(f, w, true)
		if f.key == kmsg.OffsetCommit || f.key == kmsg.EndTxn {
			w.link.world.compareCheckpoints()
		}
		if hungUp {
			continue
		}
		if w.link.holds(f.rule) && f.rule.after {
			w.apply(f.rule)
		}
		switch f.key {
		case kmsg.OffsetFetch:
			b = unstableAnswers(f, b)
		case kmsg.DescribeTransactions:
			b = w.link.world.byClockOf(w.address, f, b)
		case kmsg.OffsetForLeaderEpoch:
			b = w.link.world.epochsOfEmptied(f, b)
		case kmsg.Produce:
			b = w.charge(f, b)
		case kmsg.Fetch:
			if ofCarriers(f.request()) {
				w.link.carriersRead.Add(int64(len(b)))
			}
		}
		if f.key == kmsg.InitProducerID {
			b = w.link.world.busy.answer(f, b)
		}
		if !w.pass(w.link.lateness(w.address)) {
			return
		}
		if _, err := w.client.Write(b); err != nil {
			hungUp = true // what it wrote before is carried out all the same
		}
	}
}
