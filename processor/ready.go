package processor

import (
	"time"
)

// Alive reports whether every lane has taken a step lately.
func (p *Processor) Alive() bool { return p.watchdog().alive() }

// sharedOut is for how long a new member may have no partition before it is known that there is none for it: some heartbeats, by which the others learn that
// they are to give some up. With the consumer protocol the broker says how often those are, every 5 s by default.
func (c *Config) sharedOut() time.Duration {
	if c.Protocol == ProtocolConsumer {
		return 10 * time.Second
	}
	return max(3*c.HeartbeatInterval, time.Second)
}

// Ready reports whether every lane works and is in the group, and every assigned partition is live and not held
// up, and lists the partitions that are not. What would be so on every replica
// (PartitionStats.Anywhere) is listed, and keeps none from being ready, unless all partitions are stopped: a rollout would wait for it for ever. A replica
// without partitions is ready when it has been in the group for some time: it gets them at a second rebalance, when others have given them up.
func (p *Processor) Ready() (bool, []PartitionStats) {
	ready := p.Alive()
	all := p.pictures()
	least := time.Duration(0)
	if len(all) == 0 {
		least = p.cfg.sharedOut()
	}
	for _, l := range p.lanes {
		ready = ready && l.standing.Within(least)
	}
	var not []PartitionStats
	stopped := 0
	for _, s := range all {
		if s.Phase == PhaseStopped {
			stopped++
		}
		if s.Phase != PhaseLive || s.Error != "" {
			not = append(not, s)
			ready = ready && s.Anywhere
		}
	}
	return ready && (stopped == 0 || stopped < len(all)), not
}
