package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"signalbox"
)

// body is the data of an event, and what the event does: one of the types in the files *events.go.
// The type of the event is the name of the Go type. Once released, a type keeps its name, its
// fields and their meaning forever. A changed type is a new version, with its number in a field
// "v"; version 1 has no such field. A new type also goes into the table decoders.
type body interface {
	// apply folds the event into s, after it was validated. Texts that it composes are part of the
	// state and must never change: the same history must always give the same state.
	apply(s *State, e *signalbox.Event)
}

// validated is the body of an event that does not just need planned work that exists.
type validated interface {
	// fault returns why the event cannot follow the history that s is the fold of, "" if it can.
	fault(s *State, e *signalbox.Event) string
}

// described is the body of an event that people see.
type described interface {
	// describe returns a line about the event, and a detail. An empty line is not shown.
	describe(d *Describer, e *signalbox.Event) (text, detail string)
}

// typeOf returns the type of an event with that body.
func typeOf(b body) string { return reflect.TypeOf(b).Name() }

// ErrNewer means that a newer signalbox wrote the log. This one must not append to it.
var ErrNewer = errors.New("the ledger was written by a newer signalbox")

func newerRules(version int) error {
	return newer(fmt.Errorf("%w: it follows rules version %d, this one knows %d",
		ErrNewer, version, Version))
}

func newer(err error) error {
	return refusef(signalbox.CodeFailed, "install the newer signalbox here too", "%w", err)
}

// encode returns a body as compact JSON without HTML escapes, so that other tools show the same
// text that was hashed.
func encode(b body) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(b); err != nil {
		panic("rules: " + typeOf(b) + " does not encode: " + err.Error()) // our own types always do
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// decode returns the body of an event. An unknown type or field means that a newer signalbox wrote
// it.
func decode(e *signalbox.Event) (body, error) {
	read, known := decoders[e.Type]
	if !known {
		return nil, newer(fmt.Errorf("%w: event %d is a %q, which this one does not know",
			ErrNewer, e.Seq, e.Type))
	}
	b, err := read(e.Data, true)
	if err != nil {
		return nil, newer(fmt.Errorf(
			"%w: event %d is a %s in a form that this one does not know: %w",
			ErrNewer, e.Seq, e.Type, err))
	}
	return b, nil
}

// decodeAs decodes a body. If it is not strict, it ignores fields that B does not have.
func decodeAs[B body](data []byte, strict bool) (body, error) {
	var b B
	dec := json.NewDecoder(bytes.NewReader(data))
	if strict {
		dec.DisallowUnknownFields()
	}
	err := dec.Decode(&b)
	if err == nil && (data[0] != '{' || dec.InputOffset() != int64(len(data))) {
		err = errors.New("the data is not a single JSON object")
	}
	return b, err
}

// EventTypes returns the types of events that this version knows, in alphabetical order.
func EventTypes() []string {
	types := make([]string, 0, len(decoders))
	for name := range decoders {
		types = append(types, name)
	}
	slices.Sort(types)
	return types
}

// decoders is the table of all types of events, in the order in which
// docs/reference/events.md lists them. Each decodes the body of an event.
var decoders = map[string]func(data []byte, strict bool) (body, error){
	TypeBoxOpened:             decodeAs[BoxOpened],
	TypeRulesUpgraded:         decodeAs[RulesUpgraded],
	TypeWorkOpened:            decodeAs[WorkOpened],
	TypeLeaseGranted:          decodeAs[LeaseGranted],
	TypeLeaseRenewed:          decodeAs[LeaseRenewed],
	TypeLeasesRenewed:         decodeAs[LeasesRenewed],
	TypeLeaseReleased:         decodeAs[LeaseReleased],
	TypeLeaseExpired:          decodeAs[LeaseExpired],
	TypeSignalHeard:           decodeAs[SignalHeard],
	TypeSignalRefused:         decodeAs[SignalRefused],
	TypeAgentSessionCompleted: decodeAs[AgentSessionCompleted],
	TypePhaseChanged:          decodeAs[PhaseChanged],
	TypeWorkUnblocked:         decodeAs[WorkUnblocked],
	TypeBlobRedacted:          decodeAs[BlobRedacted],
	TypeTurnSignalHeard:       decodeAs[TurnSignalHeard],
	TypeLedgerMoved:           decodeAs[LedgerMoved],
	TypeLedgerContinued:       decodeAs[LedgerContinued],
	TypeLossAccepted:          decodeAs[LossAccepted],
	TypeLedgerRepaired:        decodeAs[LedgerRepaired],
	TypeClockCorrected:        decodeAs[ClockCorrected],
	TypePolicySet:             decodeAs[PolicySet],
	TypePlanOpened:            decodeAs[PlanOpened],
	TypeTaskPlanned:           decodeAs[TaskPlanned],
	TypeTaskReplanned:         decodeAs[TaskReplanned],
	TypePlanLoaded:            decodeAs[PlanLoaded],
	TypeAgentStarted:          decodeAs[AgentStarted],
	TypeAgentTurnEnded:        decodeAs[AgentTurnEnded],
	TypeAgentSpent:            decodeAs[AgentSpent],
	TypeProgressReported:      decodeAs[ProgressReported],
	TypeReworkOrdered:         decodeAs[ReworkOrdered],
	TypeFindingsRecorded:      decodeAs[FindingsRecorded],
	TypeIncompleteLogged:      decodeAs[IncompleteLogged],
	TypeBlockerAdded:          decodeAs[BlockerAdded],
	TypeTaskExpanded:          decodeAs[TaskExpanded],
	TypeChecksRan:             decodeAs[ChecksRan],
	TypeGateSkipped:           decodeAs[GateSkipped],
	TypeMergeRequested:        decodeAs[MergeRequested],
	TypeMergeApproved:         decodeAs[MergeApproved],
	TypeMergePrepared:         decodeAs[MergePrepared],
	TypeMerged:                decodeAs[Merged],
	TypeDelivered:             decodeAs[Delivered],
	TypeBranchMoved:           decodeAs[BranchMoved],
	TypeConflictFound:         decodeAs[ConflictFound],
	TypeBaseMoved:             decodeAs[BaseMoved],
	TypeCommitsStored:         decodeAs[CommitsStored],
	TypeBundleRejected:        decodeAs[BundleRejected],
	TypeRemediationNeeded:     decodeAs[RemediationNeeded],
	TypeBaselineAccepted:      decodeAs[BaselineAccepted],
	TypeHealthAudited:         decodeAs[HealthAudited],
	TypeRemediationRetried:    decodeAs[RemediationRetried],
	TypeRemediationEnded:      decodeAs[RemediationEnded],
	TypeExpertRequested:       decodeAs[ExpertRequested],
	TypeExpertAdvised:         decodeAs[ExpertAdvised],
	TypeExpertRegistered:      decodeAs[ExpertRegistered],
	TypeSessionParked:         decodeAs[SessionParked],
	TypeSessionResumed:        decodeAs[SessionResumed],
	TypeUnknownSignalRecovery: decodeAs[UnknownSignalRecovery],
	TypeAgentSignalFailure:    decodeAs[AgentSignalFailure],
	TypeAgentFailed:           decodeAs[AgentFailed],
	TypeRoleLimited:           decodeAs[RoleLimited],
	TypeAgentUnavailable:      decodeAs[AgentUnavailable],
	TypeAgentRestored:         decodeAs[AgentRestored],
	TypeConversationOpened:    decodeAs[ConversationOpened],
	TypeSetupRan:              decodeAs[SetupRan],
	TypeQuestionAsked:         decodeAs[QuestionAsked],
	TypeQuestionAnswered:      decodeAs[QuestionAnswered],
	TypeFilesLocked:           decodeAs[FilesLocked],
	TypeLocksYielded:          decodeAs[LocksYielded],
	TypeFileWaited:            decodeAs[FileWaited],
	TypeOverlapNoted:          decodeAs[OverlapNoted],
	TypePaused:                decodeAs[Paused],
	TypeResumed:               decodeAs[Resumed],
	TypeCancelled:             decodeAs[Cancelled],
	TypeRetried:               decodeAs[Retried],
	TypeMessageSent:           decodeAs[MessageSent],
	TypeMessageDelivered:      decodeAs[MessageDelivered],
}
