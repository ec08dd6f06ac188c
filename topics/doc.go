// Package topics holds what duewheel expects of Kafka: the headers by which a
// record asks to be delivered later, those that it is delivered with, and the
// topics themselves.
//
// # Use
//
// NewRoutes makes a Route of each delay topic of a configuration. Its Parser
// reads each record into a Request, or says in a Refusal why it cannot; then
// Route.Refuse judges the request by the configuration. AppendDelivered,
// AppendDeadLetter, AppendRetry and Resolve make the headers of what is
// written; ReadLetter reads what a dead letter tells, and AppendReplayed makes a
// request of it again. Create and Check set topics up and look after them.
//
// The two judgements are apart because they are repeated differently. What
// Parse says follows from the record and the parser's Spec alone, so a replay
// finds it again, and a record that it refuses was never pending. What Refuse
// says follows from the configuration of the moment: a replay does not ask
// again, so a refusal is written down, in the log, as a resolve record.
//
// # Ownership
//
// Parser and Route do not change once made, and any number of goroutines may
// use them. There is no clock in this package: time is an argument. A Request
// points into the headers it was read from; the Append functions write into
// slices of the caller, and what they return points into those and into the
// headers they were given.
//
// # Headers of a request
//
// Of several headers with one name the last counts; one that is null or empty, or null or empty in JSON, is
// absent. Names are lower case. They begin with "delay-", or with the route's own prefix (Route.Prefix), which then
// takes its place in all names of this comment but those of dead letters and of records of ours.
//
//	delay-until             when: an epoch time, or a date and time with an offset
//	delay-for               how long from the record's timestamp; delay-until wins
//	delay-target-topic      where to; else the route's target
//	delay-target-key        the key there; else the record's own
//	delay-target-partition  the partition there, decimal; else by key
//	delay-expires           after this time it is dead-lettered instead: as delay-until
//	delay-id                an id of 1 to 256 bytes: at most one pending record of a partition has it
//	delay-replace           the handle or id of a pending record of the same partition: takes its place
//	delay-cancel            the handle or id of a pending record: it is not delivered, and nor is this one
//
// Values but that of delay-target-key may be in the quotes of a JSON string, or in the envelope of a JsonConverter with schemas, which says
// the unit if its schema names a time of Connect or Debezium. A time or a delay is text unless it cannot be text (not UTF-8, or
// with control characters): then it is an integer of 1 to 8 bytes, big-endian; or little-endian, if there are eight and
// the big-endian one is out of range. White space around text does not count. An id is compared byte for byte once it is out of its quotes; where the key
// is the id, with them.
//
//	delay-until: 1767225605          below 1e11 it is seconds,
//	             1767225605123       below 1e14 milliseconds,
//	             1767225605123456    below 1e17 microseconds, else nanoseconds;
//	             1767225605.123      decimals and exponents are fine;
//	             1.767225605123E9    below 1e8 it is refused. Binary: s and ms only
//	             253402300799999     the year 9999, in any unit: refused, and not µs of 1978
//	             2026-01-01T00:00:05.123Z, 2026-01-01 01:00:05.123+01:00, 2026-01-01T01:00+01
//	             2026-01-01T01:00+0100[Europe/Paris], 2026-01-01 00:00:05 +0000 UTC
//	             2026-01-01          midnight UTC. Without an offset a time is refused
//	delay-for:   300000              milliseconds, also binary
//	             5m 1h30m 1.5s 2d 1w 5 s; ns us µs ms s m h d w
//	             0:05:00 00:05:00.5  hours:mm:ss; 2 days, 0:00:05 and 2.00:00:05
//	             PT5M P1DT2H PT1.5S  ISO 8601; P1M and P1Y by the calendar, in UTC
//
// A due time is rounded up to a millisecond: never early. One in the past is
// due at once; so is a negative delay. It must lie between 1e8 s (1973) and
// 1e11 s (5138), and a delay below 292 years.
//
// A route may add a jitter (Route.Jitter), which a handle does not know of.
//
// A handle names a pending record. It is
// <partition>-<offset>-<due in ms>, such as 3-8812-1767225605123: what the producer of
// the record learns from its acknowledgement, and the due time, rounded up.
//
// A record with delay-cancel cancels, whatever else it has, and in whichever partition
// it is. One with delay-replace belongs into the partition that the handle names, and has
// no id; one that names an id has that. Where
// what it names is not pending any more, it is dead-lettered, or delivered all the same
// (Route.ReplacesLate). What is refused itself takes away what it names all the same,
// unless its headers cannot be understood.
//
// Where a record with an id comes while another one is pending that has it, it is
// dead-lettered, or takes its place, or is left out (Route.OnDuplicate). On a route with
// Route.Keyed the key is the id, and a record with a null value cancels. What is carried on
// to be tried again has become another record, without an id. An id that could be a handle
// is refused.
//
// Headers of other tools stand for those above, by preset (Route.Aliases; Aliases lists them). They do in a record that has none of
// those above, and of one preset only: that of which a header says when. Two that both do are refused. A delivered
// record loses the headers of that preset, but for those that stay (Alias.Stays). Presets that only name a target do so wherever
// delay-target-topic does not.
//
// On a retry route (Route.Retry) the due time follows from when the record came, and
// delay-until, delay-for, delay-expires and delay-id, which may be of an earlier trip,
// are passed over.
//
//	delay-attempt           how often the record was delivered before: it comes back
//	                        with a delivered record that has failed once more
//
// These names are known and not supported yet; a record that has one goes to
// the dead letter topic, since to ignore it would do something else than what
// was asked:
//
//	delay-every delay-cron delay-zone delay-count delay-target-key-null
//
// So does a record with any other name that begins with "delay-" in whatever
// case: Delay-For is not delay-for, and says so. On a route with a fixed delay,
// delay-until and delay-for are refused likewise,
// and so are delay-cancel, delay-replace and delay-id.
//
// # Headers of a delivered record
//
// All headers of the request in their order, byte for byte, less those whose
// name begins with "delay-" in whatever case or with "__delay.errors."; then, by
// the route's Emit, as decimal text and times in epoch milliseconds:
//
//	delay-due               when it was due
//	delay-source            the request: topic/partition/offset
//	delay-source-timestamp  and its timestamp (EmitAll)
//	delay-fired             when it was handed to the producer (EmitAll)
//	delay-tries             attempts to deliver it before this one, if there were any
//	delay-attempt           of a retry route: the number of this delivery, whatever
//	                        Emit is
//
// delay-source names the request as it was written, whatever was retried since: it
// is what a consumer tells doubles by. The record's own timestamp is that of
// delay-fired, unless the target's message.timestamp.type is LogAppendTime.
// delay-hops is reserved for delay topics in a chain.
//
// # Headers of a dead letter
//
// Key, value and all headers of the request as it was written, whatever was
// retried since, so that to write it to a delay topic again is to ask again; and,
// as text, in place of those of an earlier trip:
//
//	__delay.errors.topic .partition .offset .timestamp   the request
//	__delay.errors.stage      PARSE, AUTHORIZE, STORE or PRODUCE
//	__delay.errors.code       a Code
//	__delay.errors.message    for people
//	__delay.errors.header     name=value of the header to blame, at most 256
//	                          bytes of each; 0x… when the value is not text
//	__delay.errors.instance   the process that wrote it
//	__delay.errors.attempts   attempts to deliver
//	__delay.errors.cut        only when the dead letter topic could not take all
//	                          of it: bytes of key, value, headers and all in all
//
// One with the code attempts_exhausted is asked for again without its delay-attempt,
// so that its count starts anew.
//
// # Records of ours in a delay topic
//
// They are told by one header. Its value says who wrote it for which partition,
// and then numbers without leading zeros, none negative but for a timestamp that
// is missing (-1):
//
//	<topic id>:<group>:<partition>:<number>…    a8098c1a:billing:3:8812:1767225605123:8812
//
// The topic id is the first four bytes in hex; the group is escaped as in a URL's
// query. A value with another topic id or partition, or with an offset at or above
// the record's own, is not ours: topics are mirrored and made anew, and records
// copied. What another group has written for this partition is passed over: two
// groups share a log, and nothing else.
//
// A retry is the request as it was written, and behind its headers one of ours,
// which has the due time of the next attempt. Its own offset is its seq. Where it
// is not ours, it still is the request that it was, and its delay counts from when
// that was written first. Names are the jitter, the presets and the prefix by which the request
// was read, and whether the key is the id, as a spec has them, where they are not the usual ones of records that say when they
// are due; a + stands before them where the request came to a retry route.
//
//	delay-retry     <mark>:<first offset>:<its timestamp>:<its due time>:<attempts so far>:<next due time>[:<names>]
//
// A resolve record has no key and no value and this one header. Where it is not
// ours, it is refused: it never was a request.
//
//	delay-resolve   <mark>:<offset of the record>:<its due time>:<its seq>:<what has taken it away, or -1>
//
// A cancel of a record of another partition is written there again as it was, with one
// of ours behind its headers, which says where it came from, and when it was written. One
// of an id that is not pending goes to all other partitions, where it cancels what was
// not written later. One of a handle is known by that where it had another prefix.
//
//	delay-forwarded <mark of that partition>:<partition>:<offset>:<timestamp>
//
// A carried copy is an earlier record that is written again: its key, its value and its
// headers as it was written, and two of ours behind them. It stands for that record, in
// the same partition, so that the log below it can be deleted. It is no request of its own:
// what it asks for was read when the first was, and the parser of that offset reads it again.
// Its own timestamp is that of its appending, by which retention judges it. Where it is
// not ours, it still is the request that it was.
//
//	delay-seq       <mark>:<seq, the first offset>:<its due time>:<its timestamp>
//	delay-from      the offset that it was copied from, decimal
//
// # Failure
//
// Bytes from Kafka can be anything. Each record gives a Request or a Refusal in
// time linear in its size; nothing panics, and nothing of a record stops a
// partition. Only ErrUnknownParser does, which says that another version wrote
// the checkpoint.
package topics
