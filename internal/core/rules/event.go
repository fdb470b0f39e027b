package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"signalbox"
)

// body is the data of an event: one of the types in this file and in deliveryevent.go. Once released, a type keeps its
// name, its fields and their meaning forever. A changed type is a new version, with its number in a field "v"; version 1
// has no such field.
type body interface {
	eventType() string
}

// BoxOpened is the first event of every log.
type BoxOpened struct {
	Box   string `json:"box"`
	Rules int    `json:"rules"`
}

// RulesUpgraded records that a newer version of the rules applies from this event on.
type RulesUpgraded struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// WorkOpened adds a work item.
type WorkOpened struct {
	Title string          `json:"title,omitempty"`
	Phase signalbox.Phase `json:"phase"`
	// Ref is the branch, tag or commit that has the work, absent if it is not known yet.
	Ref string `json:"ref,omitempty"`
}

// LeaseGranted gives the work to a session. The sequence of the event is the epoch of the lease.
type LeaseGranted struct {
	Lease   string         `json:"lease"`
	Role    signalbox.Role `json:"role"`
	Expires time.Time      `json:"expires"`
	// Secret is the SHA-256 of the secret that the claim returned. A caller needs the secret to use the lease.
	Secret signalbox.Hash `json:"secret_hash,omitzero" blob:"-"`
	// Identity is the MCP client that claimed the work.
	Identity string `json:"identity,omitempty"`
	// Crew is true if a crew runs the checks of work that was opened by hand.
	Crew bool `json:"crew,omitempty"`
	// Agent is the agent that the crew is to start.
	Agent string `json:"agent,omitempty"`
	// Machine is the name of the machine on which a crew works, if several share the ledger.
	Machine string `json:"machine,omitempty"`
}

// LeaseRenewed extends the lease.
type LeaseRenewed struct {
	Epoch   uint64    `json:"epoch"`
	Expires time.Time `json:"expires"`
}

// LeaseReleased ends a lease because its holder is done or gave up, or because an operator revoked it.
type LeaseReleased struct {
	Epoch  uint64 `json:"epoch"`
	Reason string `json:"reason,omitempty"`
}

// LeaseExpired ends a lease that was not renewed in time.
type LeaseExpired struct {
	Epoch uint64 `json:"epoch"`
}

// SignalHeard records an accepted signal, and where it was read.
type SignalHeard struct {
	Dialect signalbox.Dialect `json:"dialect"`
	Signal  string            `json:"signal"`
	Epoch   uint64            `json:"epoch"`
	Blob    signalbox.Hash    `json:"blob,omitzero"`
	Offset  int64             `json:"offset"`
	// Handler is the coordinator's action for a line signal.
	Handler string `json:"handler,omitempty"`
	// Body is the blob with the signal's fields.
	Body signalbox.Hash `json:"body,omitzero"`
	// Ref is the branch, tag or commit that has the work, if it was named with the signal.
	Ref string `json:"ref,omitempty"`
}

// SignalRefused records a signal that was refused: once for each session, reason and signal, and again only when it was
// sent ten times as often.
type SignalRefused struct {
	// Said is the name of the signal, or "renew" or "release".
	Said   string           `json:"said"`
	Reason signalbox.Reason `json:"reason"`
	Detail string           `json:"detail"`
	// Epoch is the epoch it was sent under, 0 if it named none.
	Epoch uint64         `json:"epoch"`
	Count int            `json:"count"`
	Blob  signalbox.Hash `json:"blob,omitzero"`
}

// AgentSessionCompleted records an accepted exit signal.
type AgentSessionCompleted struct {
	signalbox.AgentSessionCompleted
}

// PhaseChanged moves the work to another phase.
type PhaseChanged struct {
	From signalbox.Phase `json:"from"`
	To   signalbox.Phase `json:"to"`
}

// WorkUnblocked records why blocked work can continue.
type WorkUnblocked struct {
	Note string `json:"note"`
}

// BlobRedacted records that the bytes of a blob are destroyed.
type BlobRedacted struct {
	Blob   signalbox.Hash `json:"blob"`
	Reason string         `json:"reason"`
}

// TurnSignalHeard records a turn signal in a model's reply to a behaviour tree. It belongs to no work item and no session.
type TurnSignalHeard struct {
	Run  string `json:"run"`
	Tree string `json:"tree"`
	Node string `json:"node"`
	// Turn is the number of the signal within the run, from 1.
	Turn       uint64  `json:"turn"`
	Signal     string  `json:"signal"`
	Confidence float64 `json:"confidence"`
	// Reason is the explanation in the signal.
	Reason string `json:"reason,omitempty"`
	// Body is the blob with all fields and the block as the model wrote it.
	Body signalbox.Hash `json:"body,omitzero"`
}

// LedgerMoved records that the ledger continues in another place. It is the last event here: the copy in the other place, which has it
// too, continues with LedgerContinued.
type LedgerMoved struct {
	// Journal is the other place as the setting journal names it, without secrets.
	Journal string `json:"journal"`
	// Host is the machine from which the ledger was moved, which has it if Journal is sqlite.
	Host string `json:"host,omitempty"`
	// Move is a random id that only the other place has too, until the ledger continues there.
	Move string `json:"move,omitempty"`
}

// LedgerContinued records that the ledger continues in this place.
type LedgerContinued struct {
	Journal string `json:"journal"`
	Host    string `json:"host,omitempty"`
}

// LossAccepted records that a machine continues although the ledger has lost events that it had applied. It changes nothing.
type LossAccepted struct {
	// First is the sequence number of the first event that is missing.
	First uint64 `json:"first"`
	// Last is that of the last one that the machine had applied.
	Last uint64 `json:"last"`
	// Hash is the hash of the last one.
	Hash signalbox.Hash `json:"hash" blob:"-"`
	// Host is the machine.
	Host string `json:"host,omitempty"`
}

func (BoxOpened) eventType() string             { return TypeBoxOpened }
func (RulesUpgraded) eventType() string         { return TypeRulesUpgraded }
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
func (LedgerMoved) eventType() string           { return TypeLedgerMoved }
func (LedgerContinued) eventType() string       { return TypeLedgerContinued }
func (LossAccepted) eventType() string          { return TypeLossAccepted }

// ErrNewer means that a newer signalbox wrote the log. This one must not append to it.
var ErrNewer = errors.New("the ledger was written by a newer signalbox")

func newerRules(version int) error {
	return newer(fmt.Errorf("%w: it follows rules version %d, this one knows %d", ErrNewer, version, Version))
}

func newer(err error) error {
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: "install the newer signalbox here too"}
}

// encode returns a body as compact JSON without HTML escapes, so that other tools show the same text that was hashed.
func encode(b body) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(b); err != nil {
		panic("rules: " + b.eventType() + " does not encode: " + err.Error()) // our own types always do
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// decode returns the body of an event. An unknown type or field means that a newer signalbox wrote it.
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
		err = errors.New("the data is not a single JSON object")
	}
	if err != nil {
		return nil, newer(fmt.Errorf("%w: event %d is a %s in a form that this one does not know: %w", ErrNewer, e.Seq, e.Type, err))
	}
	return b, nil
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

// decoders returns the body of an event, by event type.
var decoders = map[string]func(*signalbox.Event) (body, error){
	TypeBoxOpened:             decodeAs[BoxOpened],
	TypeRulesUpgraded:         decodeAs[RulesUpgraded],
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
	TypeLedgerMoved:           decodeAs[LedgerMoved],
	TypeLedgerContinued:       decodeAs[LedgerContinued],
	TypeLossAccepted:          decodeAs[LossAccepted],
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
	TypeIncompleteLogged:      decodeAs[IncompleteLogged],
	TypeBlockerAdded:          decodeAs[BlockerAdded],
	TypeTaskExpanded:          decodeAs[TaskExpanded],
	TypeChecksRan:             decodeAs[ChecksRan],
	TypeSetupRan:              decodeAs[SetupRan],
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
	TypeConversationOpened:    decodeAs[ConversationOpened],
	TypeAgentRestored:         decodeAs[AgentRestored],
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
