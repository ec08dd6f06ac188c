package pending

import (
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

func (s *script) record(a datadriven.CmdArg) *kgo.Record {
	if len(a.Vals) > 0 {
		if what := a.Vals[0]; what != "marker" {
			who, what, _ := strings.Cut(what, ":")
			of, due, _ := strings.Cut(what, "@")
			if who == "copy" {
				return s.copy(s.parse(a.Key), s.parse(of))
			}
			if r := s.namingID(s.parse(a.Key), who, of, due); r != nil {
				return r
			}
			if r := s.naming(s.parse(a.Key), who, of, due); r != nil {
				return r
			}
			r := resolving(s.parse(a.Key), s.parse(of), testNow+s.parse(due))
			if who == "other-group" {
				mark := topics.NewMark([4]byte(testID.TopicID[:4]), "another", testID.Partition)
				r.Headers = topics.Resolve(mark, s.parse(of), testNow+s.parse(due), s.parse(of))
			}
			return r
		}
		return control(s.parse(a.Key))
	}
	text, id, has := strings.Cut(a.Key, "#")
	offset, due, _ := strings.Cut(strings.TrimRight(text, "!?$"), "@")
	if has {
		r := req(s.parse(offset), testNow+s.parse(due), "orders")
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte(id)})
		return r
	}
	r := req(s.parse(offset), testNow+s.parse(due), "orders")
	switch {
	case s.l.route.Delay > 0:
		r.Timestamp, r.Headers = time.UnixMilli(testNow+s.parse(due)), nil
	case strings.HasSuffix(a.Key, "!"):
		r = req(s.parse(offset), testNow+s.parse(due), "nowhere")
	case strings.HasSuffix(a.Key, "$"):
		r = req(s.parse(offset), testNow+s.parse(due), "bills")
	case strings.HasSuffix(a.Key, "?"):
		r.Headers[0] = kgo.RecordHeader{Key: topics.HeaderUntil, Value: []byte("soon")}
	}
	return r
}

// namingID is a record that names another one by its id; nil when it is none.
func (s *script) namingID(offset int64, who, id, due string) *kgo.Record {
	r := &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow)}
	name := kgo.RecordHeader{Key: topics.HeaderCancel, Value: []byte(id)}
	switch who {
	case "cancel-id":
		r.Headers = []kgo.RecordHeader{name}
	case "forwarded-id":
		r.Headers, _ = topics.AppendForward(nil, []kgo.RecordHeader{name}, testMark, 7, 70, testNow+s.parse(due), nil)
	case "replace-id":
		r = req(offset, testNow+s.parse(due), "orders")
		name.Key = topics.HeaderReplace
		r.Headers = append(r.Headers, name)
	default:
		return nil
	}
	return r
}

// naming is a record that names another one; nil when it is a resolve record.
func (s *script) naming(offset int64, who, of, due string) *kgo.Record {
	due, own, _ := strings.Cut(due, ">")
	h := topics.Handle{Partition: testID.Partition, Offset: s.parse(of), Due: testNow + s.parse(due)}
	r := &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow)}
	switch who {
	case "cancel":
	case "confirmed":
		r.Headers = topics.ResolveBy(testMark, h.Offset, h.Due, h.Offset, s.parse(own))
		return r
	case "elsewhere":
		h.Partition++
	case "forwarded":
		r.Headers, _ = topics.AppendForward(nil, []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(h.String())}}, testMark, 7, 70, 700, nil)
		return r
	case "replace", "replace!":
		target := map[bool]string{true: "nowhere", false: "orders"}[who == "replace!"]
		r = req(offset, testNow+s.parse(own), target)
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderReplace, Value: []byte(h.String())})
		return r
	default:
		return nil
	}
	r.Headers = []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(h.String())}}
	return r
}

// copy is what carrying appends at an offset of what the log has at another one, be it a copy.
func (s *script) copy(offset, from int64) *kgo.Record {
	of := *s.log[from]
	written, c, is := testMark.Copied(of.Headers, from)
	if !is {
		req, err := s.l.route.Parser().Parse(of.Headers, topics.StampOf(&of), from, testMark)
		must(s.T, err)
		c = topics.Copy{Seq: from, Due: req.Due, Timestamp: of.Timestamp.UnixMilli()}
	}
	c.From, of.Offset = from, offset
	of.Headers, _ = topics.AppendCopy(nil, slices.Clone(written), testMark, c, nil)
	return &of
}
