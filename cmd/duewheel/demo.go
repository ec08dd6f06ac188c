package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// demoRate is how many requests a second the demo writes.
const demoRate = 300

// demoOptions are what `duewheel demo` was asked for.
type demoOptions struct {
	length time.Duration // zero: until it is ended
	rate   int
	killAt time.Duration // zero: by a key alone
}

func newDemoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show it: an embedded broker, two replicas and traffic; kill one of them",
		Long: `Start an embedded broker on 127.0.0.1:9092 (or the next free port), two replicas on it,
each a process of its own, and requests that are due within seconds, some far ahead, and
one that must be dead-lettered. It shows what waits and what was delivered, with its
lateness; a record that is cancelled by its id; one that its consumer fails to process
twice and gets back from a retry topic; and what becomes of a replica that is killed.

On a terminal, keys: k kills a replica (kill -9), c cancels the record that is due next,
q ends. Elsewhere it prints lines, and kills a replica by itself.

Every record is judged by the checker of the project's tests, which shares no code with
the replicas. The last line sums up. The exit code is 0 when everything due was delivered
exactly once and nothing early, whatever was killed.`,
		Example: "  duewheel demo\n  duewheel demo --for 10s",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"config", "bootstrap-server", "property", "command-config", "group", "log-level"} {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s: the demo has a broker and settings of its own; `duewheel run` takes it", name)
				}
			}
			if !cmd.Flags().Changed("kill-at") {
				o.killAt = o.usualKill(cmd.OutOrStdout())
			}
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	lengthFlag(p, &o.length, "for", 0, "end after this time by itself")
	p.IntVar(&o.rate, "rate", demoRate, "requests a second")
	lengthFlag(p, &o.killAt, "kill-at", 0, "kill a replica by itself after this time; 0 leaves it to the key (default 4s with --for, or where the output is no terminal, or one that has lines only)")
	cmd.AddCommand(newDemoReplicaCommand(), newDemoKeeperCommand())
	return cmd
}

// usualKill is when a replica is killed where that was not said: by itself where there is no key for it, or no time to press one.
func (o *demoOptions) usualKill(out io.Writer) time.Duration {
	if o.length == 0 && hasScreen(out) {
		return 0
	}
	return 4 * time.Second
}

func (o *demoOptions) check() error {
	if o.rate < 1 || o.rate > 100_000 {
		return fmt.Errorf("--rate %d: 1 to 100000", o.rate)
	}
	return nil
}

// demo is one run of it.
type demo struct {
	cluster *kfake.Cluster
	broker  string
	client  *kgo.Client // writes requests
	watch   *watch
	crew    *crew
	killing sync.Mutex      // held while a replica is killed, until it is known what has become of its partitions
	alive   context.Context // ends when something goes wrong
	acts    sync.WaitGroup  // what keys have asked for

	mu      sync.Mutex // guards what follows
	err     error      // the first thing that went wrong
	stop    func()     // ends everything that runs
	started time.Time  // when the traffic began; zero: not yet
	said    note
}

// note is a word to the person at the keys.
type note struct {
	text string
	at   time.Time
}

// fail ends the demo with an error.
func (d *demo) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
	d.stop()
}

func (d *demo) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// tell sets the newest line of a story.
func (d *demo) tell(story int, format string, args ...any) {
	d.watch.stories.tell(story, format, args...)
}

// run shows the demo until ctx ends, or its length is over, or it is quit by a key.
func (o demoOptions) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	dir, err := newDemoDir()
	if err != nil {
		return err
	}
	defer dir.remove()
	// alive ends when something goes wrong, and running with the show: what was begun is then brought to an end.
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	running, quit := context.WithCancel(alive)
	defer quit()
	defer context.AfterFunc(ctx, quit)()

	d := &demo{stop: kill, alive: alive}
	front := newFront(d, stdin, stdout, stderr, quit)
	if err := d.open(alive, dir.path, front.log()); err != nil {
		return err
	}
	defer d.close()
	watching := d.beside(alive, func(ctx context.Context) error { return d.watch.consume(ctx, d.broker) })
	defer watching()
	shown := d.beside(running, front.show)
	if err := errors.Join(d.crew.start(), d.crew.start()); err != nil {
		d.fail(err)
	}
	d.play(running, o)
	quit()
	shown()
	if front.tty != nil {
		fmt.Fprintln(stdout, "demo: ending; what is due is waited for")
	}
	d.acts.Wait()
	if err := d.failure(); err != nil {
		front.sayLog()
		return err
	}
	return d.finish(front)
}

// beside runs something until its context ends; its error fails the demo. What is returned ends it, and waits for its end.
func (d *demo) beside(ctx context.Context, run func(context.Context) error) func() {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil {
			d.fail(err)
		}
	}()
	return func() { stop(); <-done }
}

// open starts the broker, and makes what reads and writes it.
func (d *demo) open(ctx context.Context, dir string, log io.Writer) (err error) {
	if d.cluster, err = startDemoBroker(); err != nil {
		return err
	}
	d.broker = d.cluster.ListenAddrs()[0]
	d.client, err = kgo.NewClient(kgo.SeedBrokers(d.broker), kgo.ClientID("demo-requests"))
	if err == nil {
		d.watch, err = watchTopics(ctx, d.client)
	}
	if err != nil {
		d.close()
		return err
	}
	d.crew = newCrew(d.broker, dir, log, d.fail)
	return nil
}

func (d *demo) close() {
	if d.crew != nil {
		d.crew.abandon()
	}
	if d.client != nil {
		d.client.Close()
	}
	d.cluster.Close()
}

// play lets traffic flow and stories be told until running ends, or the time is over.
func (d *demo) play(running context.Context, o demoOptions) {
	d.crew.settled(running, demoGrace) // so that the first lateness that is shown is not that of a group that was just being formed
	if running.Err() != nil {
		return
	}
	d.mu.Lock()
	d.started = time.Now()
	d.mu.Unlock()
	if o.length > 0 {
		var cancel func()
		running, cancel = context.WithTimeout(running, o.length)
		defer cancel()
	}
	var parts sync.WaitGroup
	parts.Go(func() { keepSmall(running, d.cluster) })
	parts.Go(func() { d.watch.stories.play(running, d.send) })
	parts.Go(func() {
		if o.killAt > 0 && pause(running, o.killAt) {
			d.killOne(running)
		}
	})
	if err := d.request(running, o.rate); err != nil {
		d.fail(err)
	}
	parts.Wait()
}

// killOne kills a replica. That there is none to be killed is only said.
func (d *demo) killOne(running context.Context) {
	err := d.kill(d.alive)
	if err == nil && running.Err() == nil {
		err = d.crew.start()
	}
	switch {
	case errors.Is(err, errOne):
		d.say(err.Error())
	case err != nil && d.alive.Err() == nil:
		d.fail(err)
	}
}

func (d *demo) say(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said = note{text, time.Now()}
}

// endLimit is how long a replica may take to end in order.
const endLimit = 20 * time.Second

// finish waits until all that is due has arrived, ends the replicas in order, reads all topics to their ends, so that a second copy of
// anything is noticed, and says what was found.
func (d *demo) finish(front *front) error {
	cut := time.Now()
	d.watch.stories.end()
	if err := d.flush(); err != nil {
		return err
	}
	d.readAll(demoRequests, demoRetry)
	d.watch.judge(cut, demoGrace)
	front.news()
	if err := d.crew.end(endLimit); err != nil {
		return err
	}
	d.readAll(append(demoTopics(), demoRequests, demoRetry)...)
	text, well := d.watch.summary(cut)
	fmt.Fprintln(front.out, strings.TrimSpace(text))
	if err := d.failure(); err != nil {
		return err
	}
	if !well {
		return errShown
	}
	return nil
}

// readAll waits until topics have been read to where they end.
func (d *demo) readAll(topics ...string) {
	for _, t := range topics {
		for _, p := range d.cluster.PartitionInfos(t) {
			d.watch.waitForOffset(t, p.Partition, p.HighWatermark, demoGrace)
		}
	}
}
