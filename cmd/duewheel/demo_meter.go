package main

import "time"

// meter turns a growing count into a rate over the last two seconds or so.
type meter struct {
	times  []time.Time
	values []int
}

func (m *meter) perSecond(now time.Time, value int) float64 {
	m.times, m.values = append(m.times, now), append(m.values, value)
	for len(m.times) > 2 && now.Sub(m.times[0]) > 2*time.Second {
		m.times, m.values = m.times[1:], m.values[1:]
	}
	past := now.Sub(m.times[0]).Seconds()
	if past <= 0 {
		return 0
	}
	return float64(value-m.values[0]) / past
}
