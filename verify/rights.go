package verify

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Denied is an error of Pass: a right is missing, to read a topic or to describe the group. One of both is named.
type Denied struct {
	Topic, Group string
	err          error
}

func (d *Denied) Error() string { return d.err.Error() }

func (d *Denied) Unwrap() error { return d.err }

// denied makes a Denied of an error about a topic or a group which says that a right is missing.
func denied(err error, topic, group string) error {
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed) {
		return &Denied{topic, group, err}
	}
	return err
}
