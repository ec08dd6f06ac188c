package topics

import (
	"bytes"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Mark names what a group writes for itself into one partition of a delay topic: retries, resolve
// records, cancels that it forwards, and copies. It begins the value of their one header of ours, and numbers follow:
//
//	<first 4 bytes of the topic id, 8 hex>:<group, escaped as in a URL's query>:<partition>:<number>…
//
// So nothing of ours is believed in another topic or partition, where it was copied to, nor by
// another group, which has refused and tried other records than this one.
type Mark struct {
	topic, group, partition string // each with the ':' behind it
	number                  int32  // of the partition
	id                      [4]byte
}

// NewMark returns the mark of a group in a partition of the topic whose id begins so.
func NewMark(topicID [4]byte, group string, partition int32) Mark {
	return Mark{
		topic:     hex.EncodeToString(topicID[:]) + ":",
		group:     url.QueryEscape(group) + ":",
		partition: strconv.Itoa(int(partition)) + ":",
		number:    partition,
		id:        topicID,
	}
}

// In is the mark of the same group in another partition of the topic.
func (m Mark) In(partition int32) Mark {
	m.partition, m.number = strconv.Itoa(int(partition))+":", partition
	return m
}

// author is who wrote a value that looks like one of ours, as a reader of this partition sees it.
type author uint8

const (
	elsewhere author = iota // it was not written for this partition
	thisGroup
	anotherGroup // which reads this partition, too
)

// author tells who wrote a value, and what stands behind the mark.
func (m Mark) author(value []byte) (who author, rest []byte) {
	n := len(m.topic)
	if n == 0 || len(value) < n || string(value[:n]) != m.topic {
		return elsewhere, nil
	}
	rest = value[n:]
	n = bytes.IndexByte(rest, ':') + 1
	group := rest[:n]
	if n < 2 || len(rest) < n+len(m.partition) || string(rest[n:n+len(m.partition)]) != m.partition {
		return elsewhere, nil
	}
	if rest = rest[n+len(m.partition):]; string(group) == m.group {
		return thisGroup, rest
	}
	return anotherGroup, rest
}

// OfAnotherGroup is the request for which a record stands that another group has carried or tried again: its offset, and that group. Of all other records it is false.
func (m Mark) OfAnotherGroup(headers []kgo.RecordHeader) (group string, seq int64, is bool) {
	last := len(headers) - 1
	if last > 0 && headers[last].Key == HeaderFrom {
		last--
	}
	if last < 0 || headers[last].Key != HeaderSeq && headers[last].Key != HeaderRetry {
		return "", 0, false
	}
	value := headers[last].Value
	who, rest := m.author(value)
	digits, _, _ := bytes.Cut(rest, []byte(":"))
	seq, is = parseCount(digits)
	if who != anotherGroup || !is {
		return "", 0, false
	}
	escaped, _, _ := strings.Cut(string(value[len(m.topic):]), ":")
	if group, err := url.QueryUnescape(escaped); err == nil {
		return group, seq, true
	}
	return escaped, seq, true
}

// appendTo appends a value: the mark and numbers.
func (m Mark) appendTo(b []byte, numbers ...int64) []byte {
	b = append(b, m.topic...)
	b = append(b, m.group...)
	b = append(b, m.partition...)
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ':')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return b
}

// parseNumbers takes exactly the numbers that appendTo writes. None is negative, but for a -1,
// which is how Kafka writes a timestamp that is missing.
func parseNumbers(b []byte, numbers []int64) bool {
	for i := range numbers {
		digits := b
		if i < len(numbers)-1 {
			end := bytes.IndexByte(b, ':')
			if end < 0 {
				return false
			}
			digits, b = b[:end], b[end+1:]
		}
		if string(digits) == "-1" {
			numbers[i] = -1
			continue
		}
		n, ok := parseCount(digits)
		if !ok || digits[0] == '0' && len(digits) > 1 {
			return false
		}
		numbers[i] = n
	}
	return true
}

// parseCount reads a decimal number that is not negative: digits only.
func parseCount(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
		if n < 0 {
			return 0, false // 19 digits overflow into the sign
		}
	}
	return n, true
}
