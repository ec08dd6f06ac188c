package topics

import (
	"bytes"
	"fmt"
	"strings"
)

// Code is why a record goes to the dead letter topic: stable, and a label of
// metrics.
type Code string

// These codes are decided by the record alone: Parse gives the same one for
// ever, so a replay needs nothing else to know that the record is not pending.
const (
	CodeNoDue             Code = "no_due"
	CodeUnparsableDue     Code = "unparsable_due"
	CodeDueOutOfRange     Code = "due_out_of_range"
	CodeInvalidTarget     Code = "invalid_target" // not a topic name at all
	CodeInvalidPartition  Code = "invalid_partition"
	CodeUnsupportedHeader Code = "unsupported_header"
	CodeInvalidExpiry     Code = "invalid_expiry"
	CodeInvalidAttempt    Code = "invalid_attempt"
	CodeWrongPartition    Code = "wrong_partition" // a replacement lies elsewhere than what it names
	CodeInvalidID         Code = "invalid_id"      // of the record, or of what it cancels or replaces
)

// These codes also depend on configuration or on the cluster. A record that
// is refused so above the watermark needs a resolve record (design rule 10).
const (
	CodeNoTarget         Code = "no_target"
	CodeTargetNotAllowed Code = "target_not_allowed"
	CodeTooFarAhead      Code = "too_far_ahead"
	CodeUnknownTarget    Code = "unknown_target"
	CodeForbiddenTarget  Code = "forbidden_target"
	CodeTooLarge         Code = "too_large"
	CodeRejected         Code = "rejected" // by the target topic, for what the record is
	CodeExpired          Code = "expired"
	CodeExhausted        Code = "attempts_exhausted" // of a retry route
	CodeTooLate          Code = "too_late"           // to cancel or replace what is named
	CodeUnknownHandle    Code = "unknown_handle"     // nothing of that name is pending
	CodeDuplicateID      Code = "duplicate_id"       // a record of that id is pending
)

// ParseCodes are those of what Parse refuses.
var ParseCodes = []Code{
	CodeNoDue, CodeUnparsableDue, CodeDueOutOfRange, CodeInvalidTarget, CodeInvalidPartition, CodeUnsupportedHeader, CodeInvalidExpiry,
	CodeInvalidAttempt, CodeWrongPartition, CodeInvalidID, CodeExpired,
}

// Codes are all of them.
var Codes = []Code{
	CodeNoDue, CodeUnparsableDue, CodeDueOutOfRange, CodeInvalidTarget, CodeInvalidPartition, CodeUnsupportedHeader, CodeInvalidExpiry,
	CodeInvalidAttempt, CodeWrongPartition, CodeInvalidID,
	CodeNoTarget, CodeTargetNotAllowed, CodeTooFarAhead, CodeUnknownTarget, CodeForbiddenTarget, CodeTooLarge, CodeRejected, CodeExpired,
	CodeExhausted, CodeTooLate, CodeUnknownHandle, CodeDuplicateID,
}

// Stage is where on its way a record was refused.
type Stage string

// The stages of a record's way.
const (
	StageParse     Stage = "PARSE"
	StageAuthorize Stage = "AUTHORIZE"
	StageStore     Stage = "STORE"
	StageProduce   Stage = "PRODUCE"
)

// Refusal says why a record cannot be delivered. It is an error of the
// record, never one of the cluster.
type Refusal struct {
	Code    Code
	Stage   Stage
	Header  string // the header to blame, "" when there is none
	Value   []byte // the beginning of its value: a copy
	Message string // for people

	// Due is when a request that is refused would have been due, without jitter: what its producer has in the handle. 0: nothing says so. Of what Parse
	// refuses only headers do, and in a topic with a fixed delay or for retries nothing does.
	Due int64
}

func (r *Refusal) Error() string {
	if r.Header == "" {
		return fmt.Sprintf("%s: %s", r.Code, r.Message)
	}
	return fmt.Sprintf("%s: header %s: %s", r.Code, r.Header, r.Message)
}

// maxShown bounds what a refusal keeps of a header's name and value: enough
// to recognise it, little beside the dead letter topic's extra 64 KiB.
const maxShown = 256

// refuse makes the refusal of one header.
func refuse(code Code, stage Stage, header string, value []byte, format string, args ...any) *Refusal {
	return &Refusal{
		Code:    code,
		Stage:   stage,
		Header:  strings.Clone(header[:min(len(header), maxShown)]), // it may lie in the record, which is gone before this is
		Value:   bytes.Clone(value[:min(len(value), maxShown)]),
		Message: fmt.Sprintf(format, args...),
	}
}

// fault is why a value cannot be read, in a form that costs nothing until a
// refusal is made of it. The zero fault is success.
type fault struct {
	code Code
	why  string
}

func unparsable(why string) fault { return fault{CodeUnparsableDue, why} }
func outOfRange(why string) fault { return fault{CodeDueOutOfRange, why} }
