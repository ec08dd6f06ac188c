package processor

import (
	"net"
	"sync/atomic"

	"github.com/duewheel/duewheel/processor/peers"
)

// PresencePath is where what [Processor.Presence] returns has to be served.
const PresencePath = peers.Path

// presence is how replicas know of each other; nil: sessions alone tell which have ended.
type presence struct {
	address string // where this one is found: host:port; the host may be any
	own     *peers.Presence
	watch   atomic.Pointer[peers.Watch] // of others; nil until Run
}

// at is where other replicas find this one, which reaches brokers from local; empty: nowhere, or that is not known.
func (p *presence) at(local string) string {
	if p == nil {
		return ""
	}
	host, port, err := net.SplitHostPort(p.address)
	switch ip := net.ParseIP(host); {
	case err != nil || host != "" && !ip.IsUnspecified():
		return p.address
	case local == "":
		return ""
	}
	return net.JoinHostPort(local, port)
}

// counts are how many other replicas are heard, and how many were taken out of the group.
func (p *presence) counts() (heard, takenOut int64) {
	if p == nil {
		return 0, 0
	}
	if w := p.watch.Load(); w != nil {
		return w.Heard(), w.TakenOut()
	}
	return 0, 0
}

// end says that this replica stops in order.
func (p *presence) end() {
	if p != nil {
		p.own.End()
	}
}
