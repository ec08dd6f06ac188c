package topics

import (
	"context"
	"time"
)

// Keeping is what a topic keeps of its log.
type Keeping struct {
	Age time.Duration // what is older may be deleted; 0: nothing is for its age
	All bool          // nothing is deleted for its age, nor for how much there is
	Err error         // why it is not known
}

// Keeps says what topics keep of their logs.
func Keeps(ctx context.Context, adm Admin, names ...string) (map[string]Keeping, error) {
	all := map[string]facts{}
	if err := lookInto(ctx, adm, names, all); err != nil {
		return nil, err
	}
	keeps := map[string]Keeping{}
	for topic, f := range all {
		k := Keeping{All: f.keepsAll(), Err: f.unreadable}
		if age, known := f.number("retention.ms"); known && age >= 0 && age <= maxDelayMillis {
			k.Age = max(time.Duration(age)*time.Millisecond, time.Millisecond)
		}
		keeps[topic] = k
	}
	return keeps, nil
}
