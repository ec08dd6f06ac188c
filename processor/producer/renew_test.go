package producer

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// renewed is a broker that refuses new epochs with a code while that is not 0, and a producer that has none.
func renewed(t *testing.T, code *int16) (*kfake.Cluster, *Producer) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if *code == 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = *code
		return resp, nil, true
	})
	p := New(Config{Client: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, ID: "writer-0", Spare: NewSpare(nil, nil), Timeout: time.Minute,
		Bounds: NewBounds(func(string) int32 { return 1 << 20 }), Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(p.Close)
	return c, p
}

// A client that was refused its epoch is closed, and the next one may be given one. One that was not answered in time goes on where it is.
func TestRefusedClientIsClosed(t *testing.T) {
	code := kerr.TransactionalIDAuthorizationFailed.Code
	_, p := renewed(t, &code)
	if err := p.Renew(t.Context()); !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) || p.next != nil || p.Client() != nil {
		t.Errorf("%v; a client is kept: %v", err, p.next != nil)
	}
	code = 0
	if err := p.Renew(t.Context()); err != nil || p.Client() == nil || p.next != nil {
		t.Errorf("with another client: %v", err)
	}
}

// Before transaction.version 2 a partition is added to a transaction before its offset; where brokers do not say which version is in force it is an old one.
func TestNeedsAddOffsets(t *testing.T) {
	for level, want := range map[int16]bool{-1: true, 0: true, 1: true, 2: false, 3: false} {
		none := int16(0)
		c, p := renewed(t, &none)
		c.ControlKey(int16(kmsg.ApiVersions), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			resp := kmsg.NewPtrApiVersionsResponse()
			resp.Version = req.GetVersion()
			for key := range int16(80) {
				if r := kmsg.RequestForKey(key); r != nil {
					k := kmsg.NewApiVersionsResponseApiKey()
					k.ApiKey, k.MaxVersion = key, min(r.MaxVersion(), 4)
					resp.ApiKeys = append(resp.ApiKeys, k)
				}
			}
			if level >= 0 {
				other, f := kmsg.NewApiVersionsResponseFinalizedFeature(), kmsg.NewApiVersionsResponseFinalizedFeature()
				other.Name, f.Name, f.MaxVersionLevel, f.MinVersionLevel = "group.version", "transaction.version", level, level
				resp.FinalizedFeatures = append(resp.FinalizedFeatures, other, f)
			}
			return resp, nil, true
		})
		cl, err := kgo.NewClient(p.cfg.Client...)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if got, err := NeedsAddOffsets(t.Context(), cl); err != nil || got != want {
			t.Errorf("transaction.version %d: %v, %v", level, got, err)
		}
	}
}

// Epochs that a coordinator has lost are asked for again, ever more of them, until partitions take what is written.
func TestLostEpochs(t *testing.T) {
	none := int16(0)
	c, p := renewed(t, &none)
	asked := 0
	c.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked++
		return nil, nil, false
	})
	var took []int
	for range 4 {
		asked = 0
		if err := p.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		took = append(took, asked)
		p.Behind()
	}
	if want := []int{2, 2 + 4, 2 + 16, 2 + 64}; !slices.Equal(took, want) {
		t.Errorf("%v epochs were asked for, want %v", took, want)
	}
}
