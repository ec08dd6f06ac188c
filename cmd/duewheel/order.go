package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// order is what `duewheel produce` was asked to send.
type order struct {
	topic       string
	partition   int32
	to          string
	toKey       string
	toPartition int32
	wait, until string
	replace, id string
	key, value  string
	nullValue   bool
	headers     []string
	noCheck     bool
	asJSON      bool

	hasKey, hasValue bool

	of *topics.Route // nil: not known
}

// chooseTopic takes the topic of the only route where none was named.
func (o *order) chooseTopic(f *flags) error {
	if o.topic != "" {
		return nil
	}
	s, err := f.load()
	switch {
	case err != nil:
		return err
	case len(s.Routes) > 1:
		var names []string
		for _, r := range s.Routes {
			names = append(names, r.Topic)
		}
		return fmt.Errorf("which delay topic? Choose one of %s with -t", strings.Join(names, ", "))
	case len(s.Routes) == 0:
		return errors.New("which delay topic? Give it with -t, or name a configuration that has one route with -c")
	}
	o.topic = s.Routes[0].Topic
	return nil
}

// checkFlags says what is wrong with the flags alone.
func (o *order) checkFlags() error {
	var errs []error
	for _, set := range []struct {
		flag      string
		partition int32
	}{{"partition", o.partition}, {"to-partition", o.toPartition}} {
		if set.partition < -1 {
			errs = append(errs, fmt.Errorf("--%s %d: a partition is a number from 0, and -1 goes by key", set.flag, set.partition))
		}
	}
	for _, h := range o.headers {
		if name, _, _ := strings.Cut(h, "="); name == "" {
			errs = append(errs, fmt.Errorf("-H %q: a header has a name: name=value, or a name alone for a null value", h))
		}
	}
	for _, h := range o.ours() {
		for _, more := range o.headers {
			if name, _, _ := strings.Cut(more, "="); name == h.Key && !o.noCheck {
				errs = append(errs, fmt.Errorf("-H %s: a flag has given %s already", more, name))
			}
		}
	}
	if !o.noCheck {
		errs = append(errs, o.checkRequest())
	}
	return joinLines(errs...)
}

// checkRequest judges what flags ask for as far as no route has a say in it, so before a broker is asked.
func (o *order) checkRequest() error {
	for _, set := range []struct{ flag, v string }{{"to", o.to}, {"id", o.id}, {"replace", o.replace}} {
		if set.v != "" && len(topics.Bare([]byte(set.v))) == 0 {
			return fmt.Errorf("--%s %q: that is as good as absent", set.flag, set.v)
		}
	}
	headers := o.ours()
	if o.wait == "" && o.until == "" { // a header that -H gives, or the route, may say when
		headers = append(headers, kgo.RecordHeader{Key: topics.HeaderFor, Value: []byte("0")})
	}
	stamp := topics.Stamp{Millis: time.Now().UnixMilli()}
	in := o.partition
	if in < 0 {
		in = max(o.handled(), 0)
	}
	_, err := new(topics.Parser).Parse(headers, stamp, 0, topics.NewMark([4]byte{}, "", in))
	var why *topics.Refusal
	if errors.As(err, &why) {
		if flag := flagOf[why.Header]; flag != "" {
			return fmt.Errorf("--%s %q: %s", flag, why.Value, why.Message)
		}
	}
	return err
}

// flagOf is the flag that a header stands for.
var flagOf = map[string]string{
	topics.HeaderFor: "for", topics.HeaderUntil: "until", topics.HeaderTargetTopic: "to", topics.HeaderTargetKey: "to-key",
	topics.HeaderTargetPartition: "to-partition", topics.HeaderID: "id", topics.HeaderReplace: "replace",
}

// record is the request for one value.
func (o *order) record(value []byte, now time.Time) *kgo.Record {
	r := &kgo.Record{Topic: o.topic, Partition: o.partition, Timestamp: now, Value: value}
	if o.nullValue {
		r.Value = nil
	}
	if o.hasKey {
		r.Key = []byte(o.key)
	}
	r.Headers = o.ours()
	for _, h := range o.headers {
		// As kcat does: at the first equals sign, and a name alone has a null value.
		name, v, ok := strings.Cut(h, "=")
		rh := kgo.RecordHeader{Key: name}
		if ok {
			rh.Value = []byte(v)
		}
		r.Headers = append(r.Headers, rh)
	}
	return r
}

// ours are the headers that flags of their own stand for.
func (o *order) ours() (headers []kgo.RecordHeader) {
	plain := func(name, v string) {
		if v != "" {
			headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
		}
	}
	header := func(name, v string) { plain(o.name(name), v) }
	header(topics.HeaderFor, o.wait)
	header(topics.HeaderUntil, o.until)
	header(topics.HeaderTargetTopic, o.to)
	header(topics.HeaderTargetKey, o.toKey)
	header(topics.HeaderReplace, o.replace)
	header(topics.HeaderID, o.id)
	if o.toPartition >= 0 {
		header(topics.HeaderTargetPartition, strconv.Itoa(int(o.toPartition)))
	}
	return headers
}

// route is the one that the settings have for the topic; nil where there is no configuration.
func (o *order) route(s settings, file string) (*topics.Route, error) {
	if len(s.Routes) == 0 && (file == "" || o.noCheck) {
		return nil, nil
	}
	want, err := s.expectation()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, route := range want.Routes {
		if route.Topic == o.topic {
			return route, nil
		}
		names = append(names, route.Topic)
	}
	if o.noCheck {
		return nil, nil
	}
	return nil, fmt.Errorf("%s is not the delay topic of any route of the configuration; those are %s (--no-check writes it all the same)", o.topic, orNone(names))
}

// check judges the order before anything is written: its records differ in their values only. What
// cannot be told without the route, or without rights, comes back as notes.
func (o *order) check(ctx context.Context, cl *kgo.Client, parser *topics.Parser, route *topics.Route) (notes []string, err error) {
	now := time.Now()
	r := o.record(nil, now)
	stamp := topics.Stamp{Millis: now.UnixMilli(), ByBroker: true, Key: r.Key, NoValue: o.nullValue}
	q, err := parser.Parse(r.Headers, stamp, 0, topics.NewMark([4]byte{}, "", max(o.partition, 0)))
	if err != nil {
		return nil, o.sayWhen(err)
	}
	if route != nil && route.Retry != nil && (o.wait != "" || o.until != "") {
		notes = append(notes, "the route of "+o.topic+" is one for retries: it has a backoff, and --for and --until are passed over")
	}
	if route != nil && route.Retry != nil && o.id != "" {
		notes = append(notes, "the route of "+o.topic+" is one for retries: what waits there has no id, and --id is passed over")
	}
	if route == nil && len(q.Target) == 0 && q.Kind == topics.KindRequest {
		return []string{"no configuration (-c) has the route of " + o.topic + ": where the records go is not known here; without a target of its own the route dead-letters them"}, nil
	}
	if q.Kind == topics.KindCancel {
		route = nil
	} else if route == nil {
		notes = append(notes, "no configuration (-c) has the route of "+o.topic+": whether it allows the target "+string(q.Target)+" was not checked")
	} else if refusal := refusedBy(route, &q, now.UnixMilli()); refusal != nil {
		return nil, refusal
	}
	if err := o.checkPartition(ctx, cl); err != nil {
		return nil, err
	}
	if q.Kind == topics.KindCancel {
		return o.besideCancel(), nil
	}
	switch anywhere := len(q.ID) > 0 && (route == nil || route.Retry == nil) && o.partition < 0 && !o.hasKey && o.isWide(ctx, cl); {
	case anywhere && q.NamedID != nil:
		return nil, fmt.Errorf("the id %s is looked for in one partition only, and without a key a record goes to any: give the key of the record that has it with -k, or its partition with -p"+
			" (--no-check writes it all the same); `duewheel reschedule` finds it by itself", visible(string(q.NamedID)))
	case anywhere:
		notes = append(notes, "an id is known in its partition alone, and without a key (-k) or a partition (-p) a record goes to any: another one with this id may wait beside it")
	}
	switch problem, note, err := lookAtTarget(ctx, cl, string(q.Target), q.Partition); {
	case err != nil:
		return nil, err
	case problem != "" && route != nil:
		return nil, errors.New(problem + " (--no-check writes it all the same)")
	case problem != "":
		notes = append(notes, problem)
	case note != "":
		notes = append(notes, note)
	}
	return notes, nil
}

// sayWhen adds to a refusal of what does not say when it is due how flags say it.
func (o *order) sayWhen(err error) error {
	var why *topics.Refusal
	switch {
	case !errors.As(err, &why) || why.Code != topics.CodeNoDue:
		return err
	case o.of == nil:
		return fmt.Errorf("%w: give --for or --until, or with -c the route, if that has a delay", err)
	}
	return fmt.Errorf("%w: give --for or --until", err)
}

// refusedBy judges a request that is read now: nil when it may be delivered, at once or later.
func refusedBy(route *topics.Route, q *topics.Request, nowMillis int64) *topics.Refusal {
	if refusal := route.Refuse(q, nowMillis); refusal != nil || q.Kind != topics.KindRequest {
		return refusal
	}
	due := q.Due
	if q.AtOnce { // it gets its time when it is read
		due = nowMillis
	}
	return route.Expired(q, due, nowMillis)
}

// checkPartition looks whether the delay topic has the partition that was asked for.
func (o *order) checkPartition(ctx context.Context, cl *kgo.Client) error {
	if o.partition < 0 {
		return nil
	}
	details, err := newPatient(cl).ListTopics(ctx, o.topic)
	if t := details[o.topic]; err == nil && t.Err == nil && int(o.partition) >= len(t.Partitions) {
		return fmt.Errorf("%s has no partition %d, only 0 to %d", o.topic, o.partition, len(t.Partitions)-1)
	}
	return nil // what else is wrong with the topic is said when it is written to
}

// isWide tells whether the delay topic has several partitions.
func (o *order) isWide(ctx context.Context, cl *kgo.Client) bool {
	details, err := newPatient(cl).ListTopics(ctx, o.topic)
	return err == nil && len(details[o.topic].Partitions) > 1
}

// lookAtTarget tells what would keep a record from its target, and what could not be found out.
func lookAtTarget(ctx context.Context, cl *kgo.Client, target string, partition int32) (problem, note string, err error) {
	details, err := newPatient(cl).ListTopics(ctx, target)
	var denied *kadm.AuthError
	if err != nil && !errors.As(err, &denied) {
		return "", "", fmt.Errorf("look up the target %s: %w", target, err)
	}
	switch t := details[target]; {
	case err != nil, errors.Is(t.Err, kerr.TopicAuthorizationFailed):
		return "", "whether the target " + target + " is there was not checked: we may not describe it", nil
	case errors.Is(t.Err, kerr.UnknownTopicOrPartition):
		return "the target " + target + " does not exist: records for it are dead-lettered", "", nil
	case t.Err != nil:
		return "", "", fmt.Errorf("look up the target %s: %w", target, t.Err)
	case int(partition) >= len(t.Partitions):
		return fmt.Sprintf("the target %s has no partition %d, only 0 to %d: records for it are dead-lettered", target, partition, len(t.Partitions)-1), "", nil
	}
	return "", "", nil
}

// confirmation is what has become of a record that the broker has acknowledged.
type confirmation struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Due       int64  `json:"due,omitempty"` // ms since 1970; of a retry it is not known yet
	Target    string `json:"target,omitempty"`
	Handle    string `json:"handle,omitempty"`
	Cancels   string `json:"cancels,omitempty"`       // a handle or an id
	Replaces  string `json:"replaces,omitempty"`      // by reschedule and deliver-now: a handle
	Refused   string `json:"dead_lettered,omitempty"` // why it will be

	says string
}

func (c confirmation) String() string {
	return fmt.Sprintf("%s/%d@%d, %s", c.Topic, c.Partition, c.Offset, c.says)
}

// confirm says what has become of a record that the broker has acknowledged.
func (o *order) confirm(r *kgo.Record, parser *topics.Parser, route *topics.Route, byBroker bool) confirmation {
	c := confirmation{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	mark := topics.NewMark([4]byte{}, "", r.Partition)
	q, err := parser.Parse(r.Headers, topics.StampOf(r), r.Offset, mark)
	if err != nil {
		c.Refused = err.Error()
		c.says = "which will be dead-lettered: " + c.Refused
		return c
	}
	c.Target = string(q.Target)
	if q.Kind == topics.KindCancel {
		c.Cancels, c.says = cmp.Or(string(q.NamedID), q.Handle.String()), "asks to cancel "+nameOf(&q)
		return c
	}
	if q.AtOnce {
		c.says = "a retry, due " + pauses(parser, &q) + " after it came"
		return c
	}
	c.Due = q.Due - parser.Jitter(mark, r.Offset) // as it was asked for
	due, in := time.UnixMilli(c.Due), "now"
	if due.After(r.Timestamp) {
		in = rounded(due, r.Timestamp)
	}
	c.says = fmt.Sprintf("due %s (%s)", due.UTC().Format("2006-01-02T15:04:05.000Z"), in)
	switch {
	case len(q.Target) > 0:
		c.says += " to " + c.Target
	case route == nil:
		c.says += " to the target of its route"
	}
	if route != nil && route.Delay > 0 {
		return c // it cannot be taken out of the order of the log
	}
	if byBroker && !saysInstant(parser.Readings(r.Headers, topics.StampOf(r))) {
		c.says += "; without a handle, since the broker's timestamp counts (LogAppendTime): --until gives one"
		return c
	}
	c.Handle = topics.Handle{Partition: r.Partition, Offset: r.Offset, Due: c.Due}.String()
	c.says += ", handle " + c.Handle
	return c
}

// saysInstant tells whether a request says itself at what instant it is due.
func saysInstant(readings []topics.Reading) bool {
	return slices.ContainsFunc(readings, func(r topics.Reading) bool { return r.For == topics.HeaderUntil && r.Note == "" })
}

// name is what a header of ours is called on the route.
func (o *order) name(header string) string {
	if o.of == nil {
		return header
	}
	return o.of.Header(header)
}

// nameOf is what a cancel names.
func nameOf(q *topics.Request) string {
	if q.NamedID != nil {
		return "the id " + visible(string(q.NamedID))
	}
	return q.Handle.String()
}

// handled is the partition that the order belongs into because of what it names; -1 when it names nothing.
func (o *order) handled() int32 {
	if h, ok := topics.ParseHandle([]byte(o.replace)); ok {
		return h.Partition
	}
	return -1
}
