package pending

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A pending record is kept as one run of bytes, the same in memory and in the store, so that
// moving it between the two is a copy:
//
//	offset     uvarint   where the log holds it now
//	timestamp  varint    ms
//	flags      1 byte    1: the key is null, 2: the value is null, 4: a header has its id, 8: the key is its id, 16: it is a stub, 32: it is a carried copy, 128: an index says which header that is
//	[id        uvarint   one more than the index of the header that has the id, if that is not called delay-id or delay-replace]
//	[seq       uvarint   of a carried copy: where the log had it first
//	 from      uvarint   and where before]
//	key        uvarint length, bytes
//	value      uvarint length, bytes
//	headers    uvarint count, then for each: uvarint length, key; uvarint length+1, value (0: null)
//
// It is the record as it stands in the log; a carried copy as what it stands for was written. What it asks for is read from its headers again
// when it is due, because the log, not this process, decides what a record means.

var errCorruptRecord = errors.New("pending: corrupt stored record")

const (
	flagNullKey = 1 << iota
	flagNullValue
	flagIDInHeader
	flagIDInKey
	flagStub
	flagCopy

	flagIDIndexed = 1 << 7

	idInHeader = idPlace(flagIDInHeader)
	idInKey    = idPlace(flagIDInKey)
)

// Record is a pending record as it stands in the log. Its bytes belong to the holder of the
// run that it was decoded from.
type Record struct {
	Offset    int64 // where the log had it first: its seq
	Place     int64 // where the log holds it now
	Timestamp int64 // ms
	Key       []byte
	Value     []byte
	Headers   []kgo.RecordHeader

	idAt int // one more than the index of the header that has the id, if that has not its usual name. Invariant: at most len(Headers)
}

// AppendRecord appends the run of r, which has no id, to dst.
func AppendRecord(dst []byte, r *kgo.Record) []byte { return appendRecord(dst, r, 0) }

func appendRecord(dst []byte, r *kgo.Record, at idPlace) []byte {
	return appendCopy(dst, r, at, origin{r.Offset, r.Offset})
}

// origin is where a record comes from that lies at an offset.
type origin struct {
	seq  int64 // where the log had it first; the same offset: it is no copy
	from int64 // where before
}

// appendCopy appends the run of a record that is maybe a copy; r is what it stands for, at the offset of the copy.
func appendCopy(dst []byte, r *kgo.Record, at idPlace, of origin) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.Offset))
	dst = binary.AppendVarint(dst, r.Timestamp.UnixMilli())
	flags := byte(at)
	if of.seq != r.Offset {
		flags |= flagCopy
	}
	if r.Key == nil {
		flags |= flagNullKey
	}
	if r.Value == nil {
		flags |= flagNullValue
	}
	dst = append(dst, flags)
	if flags&flagIDIndexed != 0 {
		dst = binary.AppendUvarint(dst, uint64(at>>8))
	}
	dst = of.append(dst, flags)
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	dst = binary.AppendUvarint(dst, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.AppendUvarint(dst, uint64(len(h.Key)))
		dst = append(dst, h.Key...)
		if h.Value == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(h.Value))+1)
		dst = append(dst, h.Value...)
	}
	return dst
}

func (o origin) append(dst []byte, flags byte) []byte {
	if flags&flagCopy == 0 {
		return dst
	}
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(o.seq)), uint64(o.from))
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// recordSizeBound is at least the length of the run of r.
func recordSizeBound(r *kgo.Record) int {
	n := 4*binary.MaxVarintLen64 + 1 + 4*binary.MaxVarintLen32 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 2*binary.MaxVarintLen32 + len(h.Key) + len(h.Value)
	}
	return n
}

// Decode reads a run into r, reusing r's headers. Key, value and headers point into b.
func (r *Record) Decode(b []byte) error {
	d := decoder{b: b}
	r.Offset = int64(d.uvarint())
	r.Place = r.Offset
	r.Timestamp = d.varint()
	flags, idAt := d.byte(), uint64(0)
	if flags&flagIDIndexed != 0 {
		idAt = d.uvarint()
	}
	if flags&flagCopy != 0 {
		r.Offset = int64(d.uvarint())
		d.uvarint()
	}
	r.Key, r.Value = d.bytes(), d.bytes()
	if flags&flagNullKey != 0 {
		r.Key = nil
	}
	if flags&flagNullValue != 0 {
		r.Value = nil
	}
	n := d.uvarint()
	if n > uint64(len(d.b)) { // each header takes two bytes at least
		return errCorruptRecord
	}
	r.Headers = r.Headers[:0]
	for range n {
		k, v := d.bytes(), d.value()
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: unsafe.String(unsafe.SliceData(k), len(k)), Value: v})
	}
	if d.bad || len(d.b) != 0 || idAt > n {
		return errCorruptRecord
	}
	r.idAt = int(idAt)
	return nil
}

// recordOffset reads only where the log holds the record of a run.
func recordOffset(b []byte) (int64, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, errCorruptRecord
	}
	return int64(v), nil
}

// runIDPlace reads only where the record of a run has its id; 0: nowhere.
func runIDPlace(b []byte) idPlace { return idPlace(runFlags(b) & (flagIDInHeader | flagIDInKey)) }

// isStub reads only whether a run is what is left of a delivered record (stub.go).
func isStub(b []byte) bool { return runFlags(b)&flagStub != 0 }

func runFlags(b []byte) byte {
	if b = afterVarints(b, 2); len(b) == 0 { // offset, timestamp
		return 0
	}
	return b[0]
}

// afterVarints is what follows some numbers.
func afterVarints(b []byte, n int) []byte {
	for range n {
		i := 0
		for i < len(b) && b[i] >= 0x80 {
			i++
		}
		b = b[min(i+1, len(b)):]
	}
	return b
}

// weight is what the ledger counts of a run: its bytes, but for those that say where the log holds it. So a copy weighs what the record does.
func weight(run []byte) int {
	rest := afterVarints(run, 1)
	if flags := runFlags(run); flags&flagCopy != 0 {
		numbers := afterVarints(rest, 1)[1:]
		if flags&flagIDIndexed != 0 {
			numbers = afterVarints(numbers, 1)
		}
		return len(rest) - (len(numbers) - len(afterVarints(numbers, 2)))
	}
	return len(rest)
}

// copiedFrom is where the record of a run comes from, if that is a copy.
func copiedFrom(run []byte) (of origin, is bool) {
	flags := runFlags(run)
	if flags&flagCopy == 0 {
		return of, false
	}
	d := decoder{b: afterVarints(run, 2)[1:]}
	if flags&flagIDIndexed != 0 {
		d.uvarint()
	}
	of = origin{seq: int64(d.uvarint()), from: int64(d.uvarint())}
	return of, !d.bad
}

// moved appends the run of the same record, at another place.
func moved(dst, run []byte, place int64, of origin) []byte {
	rest := afterVarints(run, 1)
	flagged := afterVarints(rest, 1)
	flags, body := flagged[0]&^flagCopy, flagged[1:]
	named := body
	if flags&flagIDIndexed != 0 {
		body = afterVarints(body, 1)
	}
	named = named[:len(named)-len(body)]
	if flagged[0]&flagCopy != 0 {
		body = afterVarints(body, 2)
	}
	if of.seq != place {
		flags |= flagCopy
	}
	dst = binary.AppendUvarint(dst, uint64(place))
	dst = append(dst, rest[:len(rest)-len(flagged)]...)
	dst = append(append(dst, flags), named...)
	return append(of.append(dst, flags), body...)
}

// decoder reads from the front of b; after the first mistake it is bad and yields zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1) // zigzag
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) bytes() []byte { return d.take(d.uvarint()) }

// value is that of a header.
func (d *decoder) value() []byte {
	if m := d.uvarint(); m > 0 {
		return d.take(m - 1)
	}
	return nil
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}
