package peers

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// These end a connection to a replica.
var (
	errStopped = errors.New("peers: it has stopped in order")
	errAnother = errors.New("peers: another replica answers there")
	errSilent  = errors.New("peers: nothing comes from it")
	errAsleep  = errors.New("peers: this process stood still, so it cannot tell whether anything came")
	errUnknown = errors.New("peers: what answers there is no replica")
)

// silence is after how long without a beat a connection is given up, and how long a new one may take to bring the first.
const silence = 1500 * time.Millisecond

// stall is how late this process may notice a silence. One that was frozen notices it later, and what came meanwhile may not have been read.
const stall = 500 * time.Millisecond

// longestLine bounds what is read of a line.
const longestLine = 1 << 10

// newClient makes what asks for the presence of replicas. No connection is used twice, and no proxy, since a proxy would answer for a replica that has ended.
func newClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// listen hears a replica's presence at an address until that ends, and returns why it has. heard is called for each line, the name included.
func listen(ctx context.Context, client *http.Client, replica, address string, heard func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	last := time.Now()
	err := read(ctx, client, replica, address, func() {
		last = time.Now()
		quiet.Reset(silence)
		heard()
	})
	switch cause := context.Cause(ctx); {
	case !errors.Is(cause, errSilent):
		return err
	case time.Since(last) > silence+stall:
		return errAsleep
	default:
		return cause
	}
}

func read(ctx context.Context, client *http.Client, replica, address string, heard func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+Path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("peers: it answers %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, longestLine)
	if !lines.Scan() {
		return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
	}
	if lines.Text() != replica {
		// A proxy's page, or that of another program, says nothing of the replica.
		if lines.Scan() && lines.Text() == beat {
			return errAnother
		}
		return errUnknown
	}
	for heard(); lines.Scan(); heard() { // whatever else a later version says
		if lines.Text() == lastWord {
			return errStopped
		}
	}
	return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
}
