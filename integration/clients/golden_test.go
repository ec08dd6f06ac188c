package clients

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// goldenRow is a row of testdata/due.json of package topics: bytes as producers write them, and what they mean.
type goldenRow struct {
	About  string      `json:"about"`
	Kind   string      `json:"kind"` // until, for
	Text   string      `json:"text,omitempty"`
	Hex    string      `json:"hex,omitempty"`
	Due    string      `json:"due,omitempty"` // for: counted from T
	Absent bool        `json:"absent,omitempty"`
	Code   topics.Code `json:"code,omitempty"`
}

// goldenRows are those of the golden vectors, by kind and bytes.
func goldenRows(t *testing.T) map[[2]string]goldenRow {
	t.Helper()
	b, err := os.ReadFile("../../topics/testdata/due.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []goldenRow
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	rows := map[[2]string]goldenRow{}
	for _, row := range all {
		raw := []byte(row.Text)
		if row.Hex != "" {
			if raw, err = hex.DecodeString(row.Hex); err != nil {
				t.Fatal(err)
			}
		}
		rows[[2]string{row.Kind, string(raw)}] = row
	}
	return rows
}

// isGolden fails unless the golden vectors have, byte for byte, what a client has written for a time, and say of it what the client has meant.
func isGolden(t *testing.T, client string, golden map[[2]string]goldenRow, r *kgo.Record, meant goldenRow) {
	t.Helper()
	for i, h := range r.Headers {
		switch {
		case slices.ContainsFunc(r.Headers[i+1:], func(other kgo.RecordHeader) bool { return other.Key == h.Key }):
			continue // the last one of a name counts
		case h.Key == topics.HeaderUntil:
			meant.Kind = "until"
		case h.Key == topics.HeaderFor:
			meant.Kind = "for"
		default:
			continue
		}
		row, has := golden[[2]string{meant.Kind, string(h.Value)}]
		if has {
			if row.Due != meant.Due || row.Code != meant.Code || row.Absent != meant.Absent {
				t.Errorf("%s: %q means %+v, and the golden vectors say %+v", r.Key, h.Value, meant, row)
			}
			continue
		}
		if meant.About = client + ", " + string(r.Key); utf8.Valid(h.Value) {
			meant.Text = string(h.Value)
		} else {
			meant.Hex = hex.EncodeToString(h.Value)
		}
		line, err := json.Marshal(meant)
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("topics/testdata/due.json lacks what a client writes:\n  %s,", line)
	}
}

// meaning is what a row has to say of a record that is due at some time, is refused with a code, or says no time.
func meaning(r *kgo.Record, due int64, code topics.Code) (row goldenRow) {
	switch {
	case code == topics.CodeNoDue:
		row.Absent = true
	case code != "":
		row.Code = code
	default:
		for _, h := range r.Headers {
			if h.Key == topics.HeaderFor {
				due += T - r.Timestamp.UnixMilli()
			}
		}
		row.Due = time.UnixMilli(due).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return row
}
