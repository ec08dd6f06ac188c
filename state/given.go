package state

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrGiven: the group has given the checkpoint to another one, which takes its place. A GivenError says to which.
var ErrGiven = errors.New("state: the checkpoint was given to another group")

// GivenError is the ErrGiven of a checkpoint.
type GivenError struct {
	To string // the group that has it now
}

func (e *GivenError) Error() string {
	return fmt.Sprintf("%v: group %s takes the place of this one, so that is the one to start, and to ask for (-g)", ErrGiven, e.Name())
}

// Name is the group's as a terminal shows it and does not obey it: anyone who may commit for the group can have written it.
func (e *GivenError) Name() string {
	if quoted := strconv.Quote(e.To); quoted != `"`+e.To+`"` {
		return quoted
	}
	return e.To
}

func (e *GivenError) Unwrap() error { return ErrGiven }

// GivenTo is the metadata that stays with a group in the place of a checkpoint that another group has now. Without it the group, were it started once more,
// would begin as a new one: with all that the topic holds, under the name by which the other one knows what it has written itself.
func (c Checkpoint) GivenTo(group string) (string, error) {
	return Checkpoint{TopicID: c.TopicID, Offset: c.Offset, Watermark: c.Watermark, LowWater: c.LowWater, given: group}.Metadata()
}
