package check

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A route may have another prefix for the processor's headers. What comes in is given the usual one, once, so nothing else needs to know.

// ofUsers begins what such a route takes for a header of its users, although it begins with the usual prefix.
const ofUsers = "\x00"

// internal are the names of what a processor writes into a delay topic for itself, whatever the prefix is.
func internal(name string) bool {
	switch name {
	case "delay-forwarded", "delay-retry", "delay-resolve", "delay-seq", "delay-from":
		return true
	}
	return false
}

// usual gives the headers of a record the usual prefix.
func (rt *route) usual(headers []kgo.RecordHeader) []kgo.RecordHeader {
	if rt.Prefix == "" || rt.Prefix == prefix {
		return headers
	}
	all := slices.Clone(headers)
	for i := range all {
		switch name := all[i].Key; {
		case strings.HasPrefix(name, rt.Prefix) && internal(prefix+name[len(rt.Prefix):]):
			all[i].Key = prefix + ofUsers + name[len(rt.Prefix):] // which means nothing under this prefix
		case strings.HasPrefix(name, rt.Prefix):
			all[i].Key = prefix + name[len(rt.Prefix):]
		case len(name) >= len(rt.Prefix) && strings.EqualFold(name[:len(rt.Prefix)], rt.Prefix):
			all[i].Key = strings.ToUpper(prefix) + name[len(rt.Prefix):] // in another case it is a mistake
		case belongs(name) && !internal(name) && !(name == "delay-cancel" && i == 0 && forwarded(headers)):
			all[i].Key = ofUsers + name
		}
	}
	return all
}

// forwarded tells whether a record is a cancel as it is passed on, which is understood under its usual name on every route, or its dead letter.
func forwarded(headers []kgo.RecordHeader) bool {
	headers = slices.DeleteFunc(slices.Clone(headers), func(h kgo.RecordHeader) bool { return strings.HasPrefix(h.Key, errorPrefix) })
	return len(headers) == 2 && headers[0].Key == "delay-cancel" && len(plain(headers[0].Value)) > 0 && headers[1].Key == "delay-forwarded"
}

// asUsual is a record with headers of the usual prefix.
func (rt *route) asUsual(r *kgo.Record) *kgo.Record {
	if rt == nil || rt.Prefix == "" || rt.Prefix == prefix {
		return r
	}
	as := *r
	as.Headers = rt.usual(r.Headers)
	return &as
}

// deliveredAsUsual is a delivered record with headers of the usual prefix: that of the route that it names by its own. One that was delivered before,
// by a route with another prefix, still has the headers of then; those of the last one are behind them.
func deliveredAsUsual(prefixed []*route, r *kgo.Record) *kgo.Record {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == prefix+"source" {
			return r
		}
		for _, rt := range prefixed {
			if topic, _, _ := strings.Cut(string(h.Value), "/"); h.Key == rt.Prefix+"source" && topic == rt.Topic {
				return rt.asUsual(r)
			}
		}
	}
	return r
}
