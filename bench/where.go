package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Where says on what something was measured, and when.
type Where struct {
	Kafka   string    `json:"kafka"` // as the first broker's protocol shows it
	Brokers int       `json:"brokers"`
	CPUs    int       `json:"cpus"` // that this process may use
	System  string    `json:"system"`
	Go      string    `json:"go"`
	Note    string    `json:"note,omitempty"` // what else is to be known
	At      time.Time `json:"at"`
}

// Here is this machine, where no cluster takes part.
func Here() Where {
	return Where{
		CPUs: runtime.GOMAXPROCS(0), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), At: time.Now().UTC().Truncate(time.Second),
	}
}

// Look asks the cluster what it is.
func Look(ctx context.Context, client []kgo.Opt) (Where, error) {
	w := Here()
	cl, err := kgo.NewClient(client...)
	if err != nil {
		return w, err
	}
	defer cl.Close()
	versions, err := kadm.NewClient(cl).ApiVersions(ctx)
	if err != nil {
		return w, fmt.Errorf("ask the cluster for its version: %w", err)
	}
	for _, v := range versions.Sorted() {
		if v.Err != nil {
			return w, fmt.Errorf("ask broker %d for its version: %w", v.NodeID, v.Err)
		}
		if w.Brokers++; w.Brokers == 1 {
			w.Kafka = v.VersionGuess()
		}
	}
	return w, nil
}

func (w Where) String() string {
	if w.Brokers == 0 {
		return fmt.Sprintf("Without a Kafka; %d CPUs, %s, %s; %s.", w.CPUs, w.System, w.Go, w.At.Format("2006-01-02"))
	}
	brokers := fmt.Sprintf("%d brokers", w.Brokers)
	if w.Brokers == 1 {
		brokers = "one broker"
	}
	if w.Note != "" {
		brokers += " " + w.Note
	}
	return fmt.Sprintf("Kafka %s, %s; %d CPUs, %s, %s; %s.", w.Kafka, brokers, w.CPUs, w.System, w.Go, w.At.Format("2006-01-02"))
}
