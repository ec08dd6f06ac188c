package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
)

// checkpointRow is one partition, as `checkpoints -o json` prints it.
type checkpointRow struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    *int64 `json:"offset"` // null: nothing is committed
	Behind    int64  `json:"behind"` // records of the log that are not accepted yet

	WatermarkDue int64    `json:"watermark_due,omitempty"` // ms
	WatermarkSeq int64    `json:"watermark_seq,omitempty"`
	LowWater     int64    `json:"low_water"`
	Writer       string   `json:"writer,omitempty"`
	Appended     bool     `json:"appended,omitempty"`
	GivenUp      int64    `json:"given_up,omitempty"` // what lies below this offset was given up, and copies of it may lie at or above Offset
	Parsers      []string `json:"parsers,omitempty"`  // <from>:<spec>
	Identity     string   `json:"identity,omitempty"` // by what name the group goes, where that is not its own
	GivenTo      string   `json:"given_to,omitempty"` // the group that has this checkpoint now

	LogStart int64  `json:"log_start"` // with log_end and behind: -1 where the log cannot be asked
	LogEnd   int64  `json:"log_end"`
	Metadata string `json:"metadata,omitempty"` // as committed, where it cannot be read
	Problem  string `json:"problem,omitempty"`

	checkpoint *state.Checkpoint
}

func newCheckpointsCommand(f *flags) *cobra.Command {
	var asJSON bool
	var only []string
	cmd := &cobra.Command{
		Use:   "checkpoints",
		Short: "Print the checkpoints of a group",
		Long: `Print what is committed for every partition of the group's delay topics: the offset up
to which records are accepted, the watermark up to which they are resolved, and the
low water from which a replay begins. It reads only, and disturbs nothing.`,
		Example: "  duewheel checkpoints -c duewheel.yaml\n  duewheel checkpoints -b localhost:9092 -g duewheel -o json",
		Args:    oneCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := topicNames(cmd, "topic"); err != nil {
				return err
			}
			return withGroup(cmd.Context(), f, func(adm *patient, s settings) error {
				rows, err := readCheckpoints(cmd.Context(), adm, s, only)
				if len(rows) == 0 {
					return err
				}
				if asJSON {
					enc := newJSON(cmd.OutOrStdout())
					enc.SetIndent("", "  ")
					return cmp.Or(enc.Encode(rows), err)
				}
				return cmp.Or(printCheckpoints(cmd.OutOrStdout(), rows), err)
			})
		},
	}
	jsonFlag(cmd.Flags(), &asJSON)
	cmd.Flags().StringSliceVarP(&only, "topic", "t", nil, "only these delay `topics`")
	cmd.AddCommand(newResetCommand(f), newMoveCommand(f))
	return cmd
}

// withGroup calls fn with an admin client and settings that name a group.
func withGroup(ctx context.Context, f *flags, fn func(*patient, settings) error) error {
	return withClient(ctx, f, func(cl *kgo.Client, s settings) error { return fn(newPatient(cl), s) })
}

// withClient is withGroup with a client.
func withClient(ctx context.Context, f *flags, fn func(*kgo.Client, settings) error) error {
	cl, s, err := f.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	if s.Group == "" {
		return errNoGroup
	}
	if err := reach(ctx, cl, s.Brokers); err != nil {
		return err
	}
	return fn(cl, s)
}

var errNoGroup = errors.New("group.id is missing: give it in the file, as " + envName("group.id") + " or with -g")

// readCheckpoints returns a row for each partition of the topics asked for: those of only, else the
// routes' and all that the group has committed for. Where a log cannot be asked, the row says so, and so does the error; of a topic that is not there, or may
// not be described, the error alone.
func readCheckpoints(ctx context.Context, adm *patient, s settings, only []string) ([]checkpointRow, error) {
	committed, err := adm.FetchOffsets(ctx, s.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // such a group has committed nothing
		return nil, askForGroup(fmt.Errorf("fetch offsets of group %s: %w", s.Group, err), s.Group)
	}
	names := only
	if len(names) == 0 {
		names = sorted(committed)
		for _, r := range s.Routes {
			names = append(names, r.Topic)
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("group %s has committed nothing, and no route or -t names a topic", s.Group)
	}
	details, err := listTopics(ctx, adm, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var unasked []error
	for _, topic := range names {
		switch err := details[topic].Err; {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			unasked = append(unasked, fmt.Errorf("the topic %s does not exist", topic))
		case err != nil:
			unasked = append(unasked, askFor("Describe", fmt.Errorf("topic %s: %w", topic, err), topic))
		}
	}
	names = slices.DeleteFunc(names, func(topic string) bool { return details[topic].Err != nil })
	if len(names) == 0 {
		return nil, joinLines(unasked...)
	}
	starts, err := adm.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	cut := cuts(ctx, adm, committed, details, ends)
	var rows []checkpointRow
	for _, topic := range names {
		detail := details[topic]
		for _, p := range detail.Partitions.Numbers() {
			row := checkpointRow{Group: s.Group, Topic: topic, Partition: p}
			var err error
			if row.LogStart, row.LogEnd, err = boundsOf(starts, ends, topic, p); err != nil {
				row.LogStart, row.LogEnd = -1, -1
				unasked = append(unasked, err)
			}
			c, ok := committed.Lookup(topic, p)
			row.judge(c, ok, detail.ID)
			if until, is := cut[topic][p]; is && row.Problem == "" {
				row.Problem = fmt.Sprintf("the log has lost what lay from %d on", until)
			}
			rows = append(rows, row)
		}
	}
	return rows, joinLines(unasked...)
}

// epochPatience is how long brokers may take to say where leader epochs end: a partition without a leader has been waited for by then.
const epochPatience = 3 * time.Second

// epochEnds are where leader epochs end in logs (KIP-320): of says of which offset response, or partition, which one is meant; -1: none. What is not
// answered is left out.
func epochEnds(ctx context.Context, adm *patient, committed kadm.OffsetResponses, of func(kadm.OffsetResponse) int32) kadm.OffsetsForLeaderEpochs {
	ctx, cancel := context.WithTimeout(ctx, epochPatience)
	defer cancel()
	var ask kadm.OffsetForLeaderEpochRequest
	committed.Each(func(o kadm.OffsetResponse) {
		if epoch := of(o); o.Err == nil && epoch >= 0 {
			ask.Add(o.Topic, o.Partition, epoch)
		}
	})
	if len(ask) == 0 {
		return nil
	}
	got, _ := adm.OffsetForLeaderEpoch(ctx, ask)
	return got
}

// cuts are from where on logs have lost what was accepted, by topic and partition. A leader is believed that says of its own epoch that it ends where the log
// does: there are services that say 0 whatever is asked.
func cuts(ctx context.Context, adm *patient, committed kadm.OffsetResponses, details kadm.TopicDetails, ends kadm.ListedOffsets) map[string]map[int32]int64 {
	asked := epochEnds(ctx, adm, committed, func(o kadm.OffsetResponse) int32 { return o.LeaderEpoch })
	cut := func(o kadm.OffsetResponse) bool {
		e, ok := asked[o.Topic][o.Partition]
		return ok && e.Err == nil && e.EndOffset >= 0 && e.EndOffset < o.At
	}
	own := epochEnds(ctx, adm, committed, func(o kadm.OffsetResponse) int32 {
		if !cut(o) {
			return -1
		}
		return details[o.Topic].Partitions[o.Partition].LeaderEpoch
	})
	out := map[string]map[int32]int64{}
	committed.Each(func(o kadm.OffsetResponse) {
		end, listed := ends.Lookup(o.Topic, o.Partition)
		if of, ok := own[o.Topic][o.Partition]; cut(o) && ok && of.Err == nil && listed && end.Err == nil && of.EndOffset >= end.Offset {
			if out[o.Topic] == nil {
				out[o.Topic] = map[int32]int64{}
			}
			out[o.Topic][o.Partition] = asked[o.Topic][o.Partition].EndOffset
		}
	})
	return out
}

// boundsOf are the start and the end of a partition's log.
func boundsOf(starts, ends kadm.ListedOffsets, topic string, p int32) (start, end int64, err error) {
	s, asked := starts.Lookup(topic, p)
	e, too := ends.Lookup(topic, p)
	if err = cmp.Or(s.Err, e.Err); err == nil && (!asked || !too) {
		err = kerr.LeaderNotAvailable // kadm leaves such a partition out
	}
	if err != nil {
		return 0, 0, fmt.Errorf("list offsets of %s/%d: %w", topic, p, err)
	}
	return s.Offset, e.Offset, nil
}

// judge fills in what is committed, and says what keeps a processor from going on from it.
func (r *checkpointRow) judge(c kadm.OffsetResponse, ok bool, id kadm.TopicID) {
	r.Behind = r.LogEnd - r.LogStart
	if r.LogEnd < 0 {
		r.Behind, r.Problem = -1, "its log cannot be asked"
	}
	switch {
	case !ok:
		return
	case c.Err != nil:
		r.Problem = c.Err.Error()
		return
	case c.At < 0:
		return
	}
	if r.Offset = &c.At; r.LogEnd >= 0 {
		r.Behind = max(0, r.LogEnd-c.At)
	}
	checkpoint, err := state.ParseCheckpoint(c.At, state.NoEpoch, c.Metadata)
	if err != nil {
		r.Metadata = c.Metadata
		r.Problem = "unreadable: " + err.Error()
		if errors.Is(err, state.ErrNotOurs) {
			r.Problem = "not a checkpoint of ours: `duewheel checkpoints reset` chooses the way on"
		}
		if given, is := errors.AsType[*state.GivenError](err); is {
			r.GivenTo, r.Problem = given.To, "given to group "+given.Name()+", which takes the place of this one"
		}
		return
	}
	r.checkpoint = &checkpoint
	r.WatermarkDue, r.WatermarkSeq = checkpoint.Watermark.Due, checkpoint.Watermark.Seq
	r.LowWater, r.Writer, r.Appended, r.GivenUp, r.Identity = checkpoint.LowWater, checkpoint.Writer, checkpoint.Appended, checkpoint.GivenUp, checkpoint.Identity
	for _, p := range checkpoint.Parsers {
		r.Parsers = append(r.Parsers, fmt.Sprintf("%d:%s", p.From, p.Spec))
	}
	switch {
	case checkpoint.TopicID != [4]byte(id[:4]):
		r.Problem = "of another topic of this name: the topic was made anew"
	case r.LogEnd < 0: // said above
	case r.LogStart > checkpoint.LowWater:
		r.Problem = fmt.Sprintf("the log begins at %d: it has lost pending records", r.LogStart)
	case c.At > r.LogEnd:
		r.Problem = fmt.Sprintf("beyond the end of the log, %d", r.LogEnd)
	}
}

func printCheckpoints(w io.Writer, rows []checkpointRow) error {
	t := newAligned(w)
	fmt.Fprintln(t, "TOPIC\tPARTITION\tOFFSET\tBEHIND\tWATERMARK\tLOW WATER\tLOG\tWRITER\tNOTE")
	for _, r := range rows {
		offset, watermark, low, note := "-", "-", "-", r.Problem
		if r.Offset != nil {
			offset = fmt.Sprint(*r.Offset)
		} else if note == "" {
			note = "nothing committed: begins where its state directory stands, or at the start of the log"
		}
		if r.checkpoint != nil {
			low = fmt.Sprint(r.LowWater)
			if r.WatermarkDue > 0 {
				watermark = fmt.Sprintf("%s:%d", time.UnixMilli(r.WatermarkDue).UTC().Format("2006-01-02T15:04:05.000Z"), r.WatermarkSeq)
			}
		}
		behind, log := fmt.Sprint(r.Behind), fmt.Sprintf("%d..%d", r.LogStart, r.LogEnd)
		if r.LogEnd < 0 {
			behind, log = "-", "-"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Topic, r.Partition, offset, behind, watermark, low, log, visible(r.Writer), note)
	}
	return t.Flush()
}
