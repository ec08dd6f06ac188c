package brokers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Lines of a file become records with a header, and records become lines of another file.
func TestConnectFileToFile(t *testing.T) {
	c := brokers.Start(t, brokers.Options{})
	client := connect(t, c.Opts(brokers.Plain)...)
	createTopic(t, client, "t", 1)
	in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(in, []byte("one\ntwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := c.Connect(t.Context(), map[string]string{
		"name":                         "source",
		"connector.class":              "org.apache.kafka.connect.file.FileStreamSourceConnector",
		"file":                         in,
		"topic":                        "t",
		"transforms":                   "for",
		"transforms.for.type":          "org.apache.kafka.connect.transforms.InsertHeader",
		"transforms.for.header":        "delay-for",
		"transforms.for.value.literal": "PT5M",
	}, map[string]string{
		"name":            "sink",
		"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
		"file":            out,
		"topics":          "t",
	})
	if err != nil {
		t.Fatal(err)
	}
	consumer := connect(t, append(c.Opts(brokers.Plain), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	first := consumer.PollFetches(t.Context()).Records()[0]
	if got := first.Headers; len(got) != 1 || got[0].Key != "delay-for" || string(got[0].Value) != "PT5M" {
		t.Errorf("the record has the headers %q", got)
	}
	eventually(t, "the sink has written both lines", func() bool {
		b, _ := os.ReadFile(out)
		return string(b) == "one\ntwo\n"
	})
}

// A connector that cannot run is an error that brings the worker's own words.
func TestConnectSaysWhatIsWrong(t *testing.T) {
	c := brokers.Start(t, brokers.Options{})
	_, err := c.Connect(t.Context(), map[string]string{
		"name":            "source",
		"connector.class": "NoSuchConnector",
	})
	if err == nil || !strings.Contains(err.Error(), "NoSuchConnector") {
		t.Errorf("the error is %v", err)
	}
}
