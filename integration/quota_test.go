package integration

import (
	"crypto/rand"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// quota lets the producers of processors of one client id write so many bytes a second, until end is called.
func (s *tenant) quota(id string, rate float64) (end func()) {
	s.t.Helper()
	alter := func(op kadm.AlterClientQuotaOp) {
		s.t.Helper()
		op.Key = "producer_byte_rate"
		entry := kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &id}}, Ops: []kadm.AlterClientQuotaOp{op}}
		altered, err := s.admin.AlterClientQuotas(s.t.Context(), []kadm.AlterClientQuotaEntry{entry})
		if err == nil && len(altered) == 1 {
			err = altered[0].Err
		}
		if err != nil {
			s.t.Fatalf("alter quotas: %v", err)
		}
	}
	alter(kadm.AlterClientQuotaOp{Value: rate})
	return func() { alter(kadm.AlterClientQuotaOp{Remove: true}) }
}

// A producer quota that a batch cannot meet within a transaction is met by smaller batches, and few transactions are given up.
func TestQuota(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{
		partitions: 1, seed: newSeed(t),
		targetConfig: map[string]string{"max.message.bytes": "200000"}, // so that a batch takes many requests
	})
	const rate, records, size = 250_000, 5000, 800
	due := strconv.FormatInt(time.Now().UnixMilli(), 10)
	rs := make([]*kgo.Record, records)
	for i := range rs {
		value := make([]byte, size)
		rand.Read(value) // it does not compress
		rs[i] = &kgo.Record{Topic: s.route.Topic, Key: []byte(strconv.Itoa(i)), Value: value, Headers: []kgo.RecordHeader{
			{Key: topics.HeaderUntil, Value: []byte(due)}, {Key: topics.HeaderTargetTopic, Value: []byte(s.targets[0])},
		}}
	}
	if err := s.client.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	defer s.quota(s.name, rate)()
	p := s.start(s.replica(func(c *replicaConfig) {
		c.Lanes, c.TransactionTimeout, c.As = 1, 6*time.Second, append(s.opts(), kgo.ClientID(s.name))
	}))
	began := time.Now()
	s.arrive()
	took := time.Since(began)
	turns := p.Stats().Transactions
	t.Logf("%v; turns %v", took, turns)
	if least := time.Second * (records*size - 10*rate) / rate; took < least {
		t.Errorf("it took %v, so there was no quota", took)
	}
	// How many a busy machine costs is not the processor's affair. Without smaller batches none would be committed.
	if turns["aborted"] > max(3, turns["committed"]/2) || turns["unknown"] > 1 {
		t.Errorf("turns were given up: %v", turns)
	}
	p.stop()
	s.judge()
}
