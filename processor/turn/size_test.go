package turn

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/targets"
)

// What a target takes is judged as its broker judges it.
func TestSizeIsJudgedAsTheBrokerDoes(t *testing.T) {
	for _, c := range []struct {
		name  string
		codec kgo.CompressionCodec
		value []byte
		takes targets.Limits
		want  bool
	}{
		{"as it is", kgo.NoCompression(), make([]byte, 1000), targets.Limits{MaxBytes: 1100}, true},
		{"too large as it is", kgo.NoCompression(), make([]byte, 1100), targets.Limits{MaxBytes: 1100}, false},
		{"compressed", kgo.SnappyCompression(), make([]byte, 10000), targets.Limits{MaxBytes: 1100}, true},
		{"compressed, and inflated by the broker", kgo.SnappyCompression(), make([]byte, 10000), targets.Limits{MaxBytes: 1100, Inflates: true}, false},
		{"compressed by less than needed", kgo.SnappyCompression(), make([]byte, 100_000), targets.Limits{MaxBytes: 1100}, false},
		{"compressed by more", kgo.ZstdCompression(), make([]byte, 100_000), targets.Limits{MaxBytes: 1100}, true},
		{"larger than what is guessed", kgo.NoCompression(), make([]byte, 10_000), targets.Limits{MaxBytes: 1100, Guessed: true}, true},
		{"larger than the client sends, of a target that is guessed", kgo.NoCompression(), make([]byte, kafka.LargestBatch), targets.Limits{MaxBytes: 1100, Guessed: true}, false},
		{"larger than the client sends", kgo.ZstdCompression(), make([]byte, kafka.LargestBatch), targets.Limits{MaxBytes: 1 << 30}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl, err := kgo.NewClient(kgo.ProducerBatchCompression(c.codec))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			r := &Renderer{Env: &Env{Reader: cl}}
			how, ok := r.fits(&kgo.Record{Value: c.value}, len(c.value)+70, &targets.State{Takes: c.takes})
			equal(t, "fits ("+how+")", ok, c.want)
		})
	}
}

// The records of a round make no larger batch than the topic takes, unless there is only one; they
// are handed over in order, and none waits that could go with the one before it.
func TestWindowRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOf(rapid.IntRange(1, 150)).Draw(t, "sizes")
		w := &packing{takes: 100}
		round, sum := 0, 0
		for i, size := range sizes {
			switch got := w.roundOf(size); {
			case got == round && sum > 0 && sum+size > 100:
				t.Fatalf("record %d of %d makes %d", i, size, sum+size)
			case got == round:
				sum += size
			case got != round+1 || sum == 0 || sum+size <= 100:
				t.Fatalf("record %d of %d comes in round %d after %d bytes of round %d", i, size, got, sum, round)
			default:
				round, sum = got, size
			}
		}
	})
}
