package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"signalbox"
)

// body is what an event's Data holds. The bodies are the types of this file and of
// deliveryevent.go and no others; once released, a type
// keeps its name, its fields and their meaning for ever. A changed one is a new version, which carries its number
// in a field "v"; version 1 has none.
type body interface {
	eventType() string
}

// BoxOpened is the first event of every log.
type BoxOpened struct {
	Box   string `json:"box"`
	Rules int    `json:"rules"`
}

// WorkOpened adds a work item.
type WorkOpened struct {
	Title string          `json:"title,omitempty"`
	Phase signalbox.Phase `json:"phase"`
}

// LeaseGranted gives the work to a session. The event's sequence is the lease's epoch.
type LeaseGranted struct {
	Lease   string         `json:"lease"`
	Role    signalbox.Role `json:"role"`
	Expires time.Time      `json:"expires"`
}

// LeaseRenewed moves the expiry of the lease.
type LeaseRenewed struct {
	Epoch   uint64    `json:"epoch"`
	Expires time.Time `json:"expires"`
}

// LeaseReleased ends a lease because its holder is done or gives up, or because an operator took it away.
type LeaseReleased struct {
	Epoch  uint64 `json:"epoch"`
	Reason string `json:"reason,omitempty"`
}

// LeaseExpired ends a lease that nobody renewed.
type LeaseExpired struct {
	Epoch uint64 `json:"epoch"`
}

// SignalHeard records a signal that counts, and where its words are.
type SignalHeard struct {
	Dialect signalbox.Dialect `json:"dialect"`
	Signal  string            `json:"signal"`
	Epoch   uint64            `json:"epoch"`
	Blob    signalbox.Hash    `json:"blob,omitzero"`
	Offset  int64             `json:"offset"`
	// Handler is the coordinator's action for a line signal, and Body has the signal's fields.
	Handler string         `json:"handler,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
}

// SignalRefused records that something was said and does not count: once for each session, reason and thing said,
// and again only when it has been said ten times as often.
type SignalRefused struct {
	// Said is the signal's name, or "renew" or "release".
	Said   string           `json:"said"`
	Reason signalbox.Reason `json:"reason"`
	Detail string           `json:"detail"`
	// Epoch is the one it was said under, 0 when none was named.
	Epoch uint64         `json:"epoch"`
	Count int            `json:"count"`
	Blob  signalbox.Hash `json:"blob,omitzero"`
}

// AgentSessionCompleted records an accepted exit signal.
type AgentSessionCompleted struct {
	signalbox.AgentSessionCompleted
}

// PhaseChanged moves the work.
type PhaseChanged struct {
	From signalbox.Phase `json:"from"`
	To   signalbox.Phase `json:"to"`
}

// WorkUnblocked says why the work may go on.
type WorkUnblocked struct {
	Note string `json:"note"`
}

// BlobRedacted records that the bytes of a blob were to be destroyed from here on.
type BlobRedacted struct {
	Blob   signalbox.Hash `json:"blob"`
	Reason string         `json:"reason"`
}

// TurnSignalHeard records a turn signal that a tree heard in a model's reply. It is about no work and of no session.
type TurnSignalHeard struct {
	Run  string `json:"run"`
	Tree string `json:"tree"`
	Node string `json:"node"`
	// Turn is the how-many-eth signal it is that the run logged.
	Turn       uint64  `json:"turn"`
	Signal     string  `json:"signal"`
	Confidence float64 `json:"confidence"`
	// Reason is what the signal says about why.
	Reason string `json:"reason,omitempty"`
	// Body is the blob with all fields and the block as it was written.
	Body signalbox.Hash `json:"body,omitzero"`
}

func (BoxOpened) eventType() string             { return TypeBoxOpened }
func (WorkOpened) eventType() string            { return TypeWorkOpened }
func (LeaseGranted) eventType() string          { return TypeLeaseGranted }
func (LeaseRenewed) eventType() string          { return TypeLeaseRenewed }
func (LeaseReleased) eventType() string         { return TypeLeaseReleased }
func (LeaseExpired) eventType() string          { return TypeLeaseExpired }
func (SignalHeard) eventType() string           { return TypeSignalHeard }
func (SignalRefused) eventType() string         { return TypeSignalRefused }
func (AgentSessionCompleted) eventType() string { return TypeAgentSessionCompleted }
func (PhaseChanged) eventType() string          { return TypePhaseChanged }
func (WorkUnblocked) eventType() string         { return TypeWorkUnblocked }
func (BlobRedacted) eventType() string          { return TypeBlobRedacted }
func (TurnSignalHeard) eventType() string       { return TypeTurnSignalHeard }

// ErrNewer means that the log was written by a newer signalbox. Nothing may be appended to it by this one.
var ErrNewer = errors.New("the ledger was written by a newer signalbox")

func newerRules(version int) error {
	return newer(fmt.Errorf("%w: it follows rules version %d, this one knows %d", ErrNewer, version, Version))
}

func newer(err error) error {
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: "install the newer signalbox here too"}
}

// encode writes a body as compact JSON without HTML escapes, so that the text in other tools is the text hashed.
func encode(b body) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(b); err != nil {
		panic("rules: " + b.eventType() + " does not encode: " + err.Error()) // our own types always do
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// decode reads the body of an event. A type or a field that is not known here means that a newer signalbox wrote it.
func decode(e *signalbox.Event) (body, error) {
	if read, known := decoders[e.Type]; known {
		return read(e)
	}
	return nil, newer(fmt.Errorf("%w: event %d is a %q, which this one does not know", ErrNewer, e.Seq, e.Type))
}

func decodeAs[B body](e *signalbox.Event) (body, error) {
	var b B
	dec := json.NewDecoder(bytes.NewReader(e.Data))
	dec.DisallowUnknownFields()
	err := dec.Decode(&b)
	if err == nil && (e.Data[0] != '{' || dec.InputOffset() != int64(len(e.Data))) {
		err = errors.New("it is not one JSON object and nothing else")
	}
	if err != nil {
		return nil, newer(fmt.Errorf("%w: event %d is a %s in a form that this one does not know: %w", ErrNewer, e.Seq, e.Type, err))
	}
	return b, nil
}

// decoders are the types that Data can hold, by the event's type.
var decoders = map[string]func(*signalbox.Event) (body, error){
	TypeBoxOpened:             decodeAs[BoxOpened],
	TypeWorkOpened:            decodeAs[WorkOpened],
	TypeLeaseGranted:          decodeAs[LeaseGranted],
	TypeLeaseRenewed:          decodeAs[LeaseRenewed],
	TypeLeaseReleased:         decodeAs[LeaseReleased],
	TypeLeaseExpired:          decodeAs[LeaseExpired],
	TypeSignalHeard:           decodeAs[SignalHeard],
	TypeSignalRefused:         decodeAs[SignalRefused],
	TypeAgentSessionCompleted: decodeAs[AgentSessionCompleted],
	TypePhaseChanged:          decodeAs[PhaseChanged],
	TypeWorkUnblocked:         decodeAs[WorkUnblocked],
	TypeBlobRedacted:          decodeAs[BlobRedacted],
	TypeTurnSignalHeard:       decodeAs[TurnSignalHeard],
	TypePolicySet:             decodeAs[PolicySet],
	TypePlanOpened:            decodeAs[PlanOpened],
	TypeTaskPlanned:           decodeAs[TaskPlanned],
	TypeTaskReplanned:         decodeAs[TaskReplanned],
	TypePlanLoaded:            decodeAs[PlanLoaded],
	TypeAgentStarted:          decodeAs[AgentStarted],
	TypeAgentTurnEnded:        decodeAs[AgentTurnEnded],
	TypeProgressReported:      decodeAs[ProgressReported],
	TypeReworkOrdered:         decodeAs[ReworkOrdered],
	TypeIncompleteLogged:      decodeAs[IncompleteLogged],
	TypeBlockerAdded:          decodeAs[BlockerAdded],
	TypeTaskExpanded:          decodeAs[TaskExpanded],
	TypeChecksRan:             decodeAs[ChecksRan],
	TypeMergeRequested:        decodeAs[MergeRequested],
	TypeMergeApproved:         decodeAs[MergeApproved],
	TypeMerged:                decodeAs[Merged],
	TypeRemediationNeeded:     decodeAs[RemediationNeeded],
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
}
