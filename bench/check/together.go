package check

import "time"

// judgeTogether: one pending request of a partition at most has an id. So of two that have it the later one was not delivered while the earlier one waited: the partition has got
// that before, and one of both had to be dead-lettered, taken away or left out.
func (e surveying) judgeTogether(g *sharers, id string) {
	if e.config.AllowDoubles {
		return
	}
	var last, at int64 // what was delivered last, of those before
	for _, offset := range g.members {
		switch sent := e.ids.sent[g.name(offset)]; {
		case sent == 0:
		case sent+tookID.Milliseconds() < at:
			e.fault(BadDelivered, g.name(offset), nil, "was delivered at %s and has the id %q, as has offset %d, which was delivered at %s: one at most can have been pending",
				inUTC(sent), id, last, inUTC(at))
		case sent > at:
			last, at = offset, sent
		}
	}
}

func inUTC(millis int64) string { return time.UnixMilli(millis).UTC().Format(time.RFC3339Nano) }
