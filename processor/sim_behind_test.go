//go:build synctests

package processor

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Where coordinators have lost the epochs of hundreds of transactions, partitions refuse what they give. They are asked for as many again, and not for one after each pause.
func TestSimLostEpochs(t *testing.T) {
	const known = 300 // by partitions, of all ids of the replica
	scenario(t, worldConfig{}, func(w *world) {
		w.cluster.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			req := kreq.(*kmsg.ProduceRequest)
			if req.TransactionID == nil || !strings.HasPrefix(*req.TransactionID, "g-0@a-") || !w.produces(req, "orders") || epochOf(req) >= known {
				return nil, nil, false
			}
			return produced(req, kerr.InvalidProducerEpoch.Code, 0), nil, true
		})
		w.live("a")
		w.send(request("1", in(time.Second)))
		w.within(20*time.Second, "delivered", func() bool { return w.outstanding() == 0 })
		w.send(request("2", in(0)))
		w.finish()
	})
}

// epochOf is the producer epoch of what a request brings.
func epochOf(req *kmsg.ProduceRequest) int16 {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(req.Topics[0].Partitions[0].Records); err != nil {
		panic(err)
	}
	return b.ProducerEpoch
}
