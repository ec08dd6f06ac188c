package topics

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func equal(t testing.TB, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// readAgain is Again as a value. What the request held before does not matter.
func readAgain(p *Parser, headers []kgo.RecordHeader, written Stamp, due, offset int64, m Mark) (Request, error) {
	q := Request{Kind: KindCancel, Round: 7, ID: []byte("before"), Replaces: true}
	err := p.Again(&q, headers, written, due, offset, &m)
	return q, err
}
