//go:build synctests

package processor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// has reports whether a plan has one of these steps.
func (p plan) has(any ...op) bool {
	return slices.ContainsFunc(p.Steps, func(s step) bool { return slices.Contains(any, s.Op) })
}

// choices names what N of a step means.
var choices = map[op][]string{
	opConfigure: names(settings, func(s topicSetting) string { return s.topic + " " + s.key + "=" + s.value }),
	opPoison:    names(poisons, (*kerr.Error).Error), opProduceError: names(produceErrors, (*kerr.Error).Error), opUnwilling: names(unwillings, (*kerr.Error).Error),
	opRefuse: names(refused, badAnswer.String), opRefuseCommit: names(refusedCommits, badAnswer.String), opRefuseCarriers: names(refusedCarriers, badAnswer.String),
	opFarClock: names(farOff, time.Duration.String), opRefuseOne: names(refusedOne, badAnswer.String), opSlow: names(slownesses, slowness.String),
}

func names[T any](of []T, name func(T) string) (n []string) {
	for _, x := range of {
		n = append(n, name(x))
	}
	return n
}

type topicSetting struct{ topic, key, value, usual string }

// settings are what is changed under running processes. Those of the delay topic make them complain.
var settings = []topicSetting{
	{simTopic, "cleanup.policy", "compact", "delete"}, {simTopic, "retention.ms", "60000", "-1"}, {simTopic, "retention.bytes", "100000000", "-1"},
	{"orders", "max.message.bytes", "100000", "1048588"}, {"bills", "max.message.bytes", "5000", "1048588"}, {simTopic, "max.message.bytes", "100000", "1048588"},
}

var poisons = []*kerr.Error{kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.PolicyViolation, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.UnsupportedForMessageFormat}

// produceErrors are all that there are, but for one: a producer that is told DUPLICATE_SEQUENCE_NUMBER has to believe that the record is there.
var produceErrors = func() (all []*kerr.Error) {
	for code := int16(1); code < 200; code++ {
		if e := kerr.TypedErrorForCode(code); e != nil && e.Code == code && e != kerr.DuplicateSequenceNumber {
			all = append(all, e)
		}
	}
	return append(all, kerr.UnknownServerError)
}()

var unwillings = []*kerr.Error{kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition, kerr.KafkaStorageError, kerr.RequestTimedOut}

// badAnswer is one answer to one kind of request.
type badAnswer struct {
	key   kmsg.Key
	topic string
	top   bool
	err   *kerr.Error
}

func (r badAnswer) String() string { return r.key.Name() + " " + r.err.Message }

var refused, refusedCommits = func() (all, commits []badAnswer) {
	for _, r := range refusals {
		for _, e := range r.errs {
			one := badAnswer{r.key, r.topic, r.top, e}
			if all = append(all, one); r.key == kmsg.OffsetCommit || r.key == kmsg.TxnOffsetCommit {
				commits = append(commits, one)
			}
		}
	}
	return all, commits
}()

var refusedCarriers = func() (all []badAnswer) {
	for _, a := range carriersAsk {
		for _, e := range a.errs {
			all = append(all, badAnswer{key: a.key, topic: a.topic, err: e})
		}
	}
	return all
}()

var farOff = []time.Duration{10 * time.Minute, -10 * time.Minute, 24 * time.Hour, -24 * time.Hour}

// slownesses are how answers are slow: from what a network costs to what a client takes for silence.
var slownesses = []slowness{{by: 300 * milli}, {by: 700 * milli}, {by: 1500 * milli}, {300 * milli, true}, {1500 * milli, true}, {4 * time.Second, true}}

// actOnBrokers carries out what happens to the cluster.
func (r *runner) actOnBrokers(s step) (done, handled bool) {
	switch s.Op {
	case opConfigure:
		is := settings[s.N]
		if r.tryConfigure(is.topic, is.key, is.value) != nil {
			return false, true // brokers that are asked to answer wrongly may do so
		}
		r.after(s.For, func() { r.tryConfigure(is.topic, is.key, is.usual) })
		r.mend = append(r.mend, func() { r.configure(is.topic, is.key, is.usual) })
	case opPartitions:
		return r.addPartition("orders"), true
	case opWiden:
		return r.widen(), true
	case opPoison:
		h := r.refusing("poison", poisons[s.N])
		r.after(s.For, func() { h.Remove() })
		for i := range 3 {
			r.client.Produce(context.Background(), r.prefixed(request(fmt.Sprint("poison", i), in(time.Duration(r.rng.IntN(2000))*milli))), nil)
		}
	case opProduceError:
		r.fault(s.For, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: produceErrors[s.N], When: ofOurProducers})
	case opUnwilling:
		_, mend := r.unwilling([]string{"orders", "bills"}[s.Who%2], unwillings[s.N])
		r.after(s.For, mend)
	case opRefuse:
		var only []int32
		if refused[s.N].topic == simTopic && s.Who > 1 {
			only = []int32{int32(s.Who - 2)}
		}
		r.refuseFor(s.For, refused[s.N], only...)
	case opRefuseCommit:
		r.refuseFor(s.For, refusedCommits[s.N])
	case opRefuseCarriers:
		a := refusedCarriers[s.N]
		r.fault(s.For, kfake.Fault{Keys: []kmsg.Key{a.key}, Topic: a.topic, Err: a.err, When: ofCarriers})
	case opBrokerClock:
		return r.turnClock(s), true
	case opFreezeBroker:
		node := int32(s.N % r.plan.Brokers)
		if r.frozenBrokers[node] {
			return false, true
		}
		r.frozenBrokers[node] = true
		thaw := r.freezeBroker(node)
		r.after(s.For, func() { thaw(); r.frozenBrokers[node] = false })
	default:
		return false, false
	}
	return true, true
}

// fault makes requests fail for a while.
func (r *runner) fault(d time.Duration, f kfake.Fault) {
	f.Count = -1
	h := r.cluster.Fault(f)
	r.after(d, func() { h.Remove() })
}

// refuseFor has brokers answer badly for a while, for all partitions or some.
func (r *runner) refuseFor(d time.Duration, a badAnswer, partitions ...int32) {
	r.fault(d, kfake.Fault{Keys: []kmsg.Key{a.key}, Topic: a.topic, Partitions: partitions, Err: a.err, TopLevel: a.top, When: ofProcesses})
}

// ofOurProducers leaves out what requests are produced with.
func ofOurProducers(req kmsg.Request) bool {
	return req.(*kmsg.ProduceRequest).TimeoutMillis == int32(kafka.BrokerPatience.Milliseconds())
}

// addPartition gives a topic one partition more, of up to six.
func (r *runner) addPartition(topic string) bool {
	n := len(r.cluster.PartitionInfos(topic))
	if n >= 6 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), soonAnswered)
	defer cancel()
	_, err := kadm.NewClient(r.client).UpdatePartitions(ctx, n+1, topic)
	return err == nil
}

// turnClock makes a broker's clock wrong. Of three, one that is wrong decides nothing; of fewer the earliest counts, so that it must
// not be the only one that is ahead.
func (r *runner) turnClock(s step) bool {
	if r.plan.Fixed || r.plan.Again == "CreateTime" {
		return false // what counts from a timestamp, or from when a record is read, would be early by the world's time
	}
	by := -time.Duration(1+s.N) * 5 * time.Second
	if r.plan.Brokers == 3 && s.Who%2 == 0 {
		by = -by * 100
	}
	if r.clocked && r.plan.Brokers == 3 {
		return false // another one may be wrong still
	}
	r.clocked = true
	broker := s.Who % r.plan.Brokers
	r.setClock(broker, by)
	r.after(s.For, func() { r.setClock(broker, 0) })
	return true
}

// actOnProcess carries out what happens to a process and its machine.
func (r *runner) actOnProcess(s step, m *slot) bool {
	p := m.p
	switch s.Op {
	case opQuota:
		p.limit(2000)
		r.after(s.For, func() { p.limit(0) })
	case opFarClock:
		m.skew = farOff[s.N]
		p.skew.Store(int64(m.skew))
		r.after(s.For, func() {
			m.skew = 0
			for _, p := range m.of.processes {
				if p.name == m.name {
					p.skew.Store(0)
				}
			}
		})
	case opRemove:
		if err := p.fs.RemoveAll("state"); err != nil {
			r.fail("%v", err)
		}
	case opUnreachable:
		addresses := r.cluster.ListenAddrs()
		r.after(s.For, p.link.refuse(addresses[s.N%len(addresses)]))
	case opSlow:
		addresses, from := r.cluster.ListenAddrs(), ""
		if slownesses[s.N].one {
			from = addresses[s.Who%len(addresses)]
		}
		r.after(s.For, p.link.slows(slownesses[s.N].by, from))
	default:
		return false
	}
	return true
}

// An act that has to wait for what another one has broken does so beside the schedule, which mends it.
func TestSimActsWaitBesideTheSchedule(t *testing.T) {
	refusal := slices.Index(choices[opRefuse], badAnswer{key: kmsg.InitProducerID, err: kerr.ConcurrentTransactions}.String())
	if refusal < 0 {
		t.Fatalf("none of %q", choices[opRefuse])
	}
	p := plan{Seed: 1, Guarantee: ExactlyOnce, Partitions: 1, Brokers: 1, Processes: 1, Lanes: 1, Batch: 10, Near: time.Second, Latency: milli, Rate: time.Second, Steps: []step{
		{After: time.Second, Op: opRefuse, N: refusal, For: 7 * time.Second},
		{Op: opTransact, N: 4, For: time.Second},
		{After: 10 * time.Second, Op: opSend, N: 1},
	}}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var did tally
		simulate(t, p, &did)
		if did.acts[opTransact] != 1 || did.requested < 4+1+10 {
			t.Errorf("played %d times, %d requests in %v", did.acts[opTransact], did.requested, time.Since(began))
		}
	})
}
