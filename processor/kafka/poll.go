package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollRecords = 4000    // how many records are accepted in one step: some ms of work, or twenty where all go to the store
	pollBytes   = 2 << 20 // and about how many bytes of them, which takes as long where records are large
	pollFirst   = 2       // how many are taken before it is looked how large they are
)

// PollSome waits for records, and returns so many as are accepted in one step.
func PollSome(ctx context.Context, cl *kgo.Client) kgo.Fetches {
	fs := cl.PollRecords(ctx, pollFirst)
	records, bytes := cl.BufferedFetchRecords(), cl.BufferedFetchBytes()
	if records == 0 {
		return fs
	}
	fs.EachRecord(func(r *kgo.Record) { bytes, records = bytes+int64(len(r.Value)), records+1 })
	if n := min(pollBytes/max(bytes/records, 1), pollRecords) - pollFirst; n > 0 {
		var atOnce context.Context // without one it does not wait
		fs = append(fs, cl.PollRecords(atOnce, int(n))...)
	}
	return fs
}
