package rules

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"signalbox"
)

// State is the fold of a log. The zero State is that of an empty log. It is not safe for concurrent
// use.
//
// What concerns only the register, or only the delivery of plans, is a method of that part. State
// itself has what needs both.
//
// A Work or Session that it returned is never changed: a change replaces it. So callers may keep
// one, and Rollback only puts the old one back.
type State struct {
	seq   uint64
	time  time.Time
	box   string
	rules int
	// upgraded is the RulesUpgraded event from which leases have secrets, 0 if there is none.
	upgraded uint64
	moved    Move // zero unless the ledger was moved away

	register
	delivery
}

// register has the work items, planned or not, and the sessions with their leases. It also has what
// belongs to neither: redactions, and the turns of behaviour trees.
type register struct {
	works        []*Work // in the order they were opened
	workIndex    map[string]int
	sessions     []*Session // in the order of their first claim
	sessionIndex map[string]int
	redactions   []Redaction
	redacted     map[signalbox.Hash]int
	// runs of behaviour trees; each keeps its index until another replaces it
	turns     []turnRun
	turnIndex map[string]int

	leased map[uint64]int // live leases, from epoch to index of the work
	free   [8]bitset      // for each phase, work items without a lease that were opened by hand

	undo      []func()
	recording bool
}

// Work is one work item.
type Work struct {
	ID, Title string
	Phase     signalbox.Phase
	// BlockedFrom is the phase that BLOCKED work returns to, and Notes says why it is blocked.
	BlockedFrom signalbox.Phase
	Notes       string
	// NotesBlob is the blob with the notes, if they are long: Notes is only their beginning then.
	NotesBlob signalbox.Hash
	Opened    time.Time
	// Lease can have expired already: the log records that later. See LiveLease.
	Lease *signalbox.Lease
	// Past lists the sessions that held the work, in order. Present is the one that holds it, nil
	// without a lease.
	Past    []Tenure
	Present *Tenure
	// Task describes planned work; nil means that the work was opened by hand.
	Task *Task
	// Ref is the branch, tag or commit that has work opened by hand, "" if it names none. Checks is
	// what its checks last found, nil before they have run.
	Ref    string
	Checks *LastChecks
}

// Tenures returns all sessions that held the work, in order, including the one that holds it now.
func (w *Work) Tenures() []Tenure {
	if w.Present == nil {
		return w.Past
	}
	return append(slices.Clone(w.Past), *w.Present)
}

// Tenure is the time during which a session held a work item.
type Tenure struct {
	Epoch   uint64
	Session string
	Actor   string
	Role    signalbox.Role
	Phase   signalbox.Phase
	From    time.Time
	// To, Ended and End are zero while the session holds the work. End is the sequence of the event
	// that ended the lease.
	To    time.Time
	Ended Ending
	End   uint64
	// Secret is the hash of the lease's secret; it is zero for leases that were granted under older
	// rules.
	Secret signalbox.Hash
	// Identity is the caller that claimed the work, "" for an operator or a crew.
	Identity string
	// Crew means that a crew runs the checks of work that was opened by hand.
	Crew bool
}

// Ending is how a tenure ended.
type Ending string

const (
	EndedCompleted Ending = "completed"
	EndedBlocked   Ending = "blocked"
	EndedError     Ending = "error"
	EndedReleased  Ending = "released"
	EndedExpired   Ending = "expired"
)

// Session is one agent at work, or a person who claims work by hand.
type Session struct {
	ID, Actor string
	Role      signalbox.Role
	// Held lists all leases the session ever had, Live the epochs of those it has now, both in
	// order.
	Held []LeaseRef
	Live []uint64
	// Exits are its accepted exit signals and verdicts.
	Exits []ExitRecord
	// Refused are its refused signals, one record for each signal and reason.
	Refused []RefusalRecord
}

// LeaseRef names a lease that a session has or had.
type LeaseRef struct {
	Epoch uint64
	Work  string
}

// ExitRecord is an accepted signal: enough to recognize it when it is sent again, and to repeat the
// first answer.
type ExitRecord struct {
	Epoch  uint64
	Digest signalbox.Hash
	Seq    uint64
	Next   signalbox.Phase
}

// RefusalRecord is the last record of a signal that was refused for one reason.
type RefusalRecord struct {
	Reason signalbox.Reason
	Said   string
	Seq    uint64
	Count  int
}

// Redaction is a blob whose bytes have been, or are to be, destroyed.
type Redaction struct {
	Blob   signalbox.Hash
	Reason string
	Actor  string
	At     time.Time
	Seq    uint64
}

// Seq returns the sequence of the last event applied, 0 for none.
func (s *State) Seq() uint64 { return s.seq }

// Time returns the time of the last event applied.
func (s *State) Time() time.Time { return s.time }

// Box returns the id of the box, "" before it is opened.
func (s *State) Box() string { return s.box }

// Works yields all work items in the order they were opened.
func (s *register) Works() iter.Seq[*Work] { return slices.Values(s.works) }

// Work returns the work item with the given id.
func (s *register) Work(id string) (*Work, bool) {
	i, ok := s.workIndex[id]
	if !ok {
		return nil, false
	}
	return s.works[i], true
}

// Session returns the session with the given id.
func (s *register) Session(id string) (*Session, bool) {
	i, ok := s.sessionIndex[id]
	if !ok {
		return nil, false
	}
	return s.sessions[i], true
}

// Redaction returns the redaction of a blob; ok is false if it was not redacted.
func (s *register) Redaction(blob signalbox.Hash) (r Redaction, ok bool) {
	i, ok := s.redacted[blob]
	if !ok {
		return Redaction{}, false
	}
	return s.redactions[i], true
}

// Lease returns the lease of an epoch, nil if it is over. Like that of a Work, it can have expired
// already.
func (s *register) Lease(epoch uint64) *signalbox.Lease {
	if i, live := s.leased[epoch]; live {
		return s.works[i].Lease
	}
	return nil
}

// NextExpiry returns when the next live lease expires; ok is false if there is none.
func (s *register) NextExpiry() (at time.Time, ok bool) {
	for _, i := range s.leased {
		if expires := s.works[i].Lease.Expires; !ok || expires.Before(at) {
			at, ok = expires, true
		}
	}
	return at, ok
}

// maxExpired is how many expired leases one decision ends, because the size of an append is
// limited. The next decision ends the rest.
const maxExpired = 500

// expired returns the work items whose leases have expired at the given time, the oldest leases
// first.
func (s *register) expired(at time.Time) []int {
	var works []int
	for _, i := range s.leased {
		if !at.Before(s.works[i].Lease.Expires) {
			works = append(works, i)
		}
	}
	slices.SortFunc(works, func(a, b int) int {
		return cmp.Compare(s.works[a].Lease.Epoch, s.works[b].Lease.Epoch)
	})
	return works[:min(len(works), maxExpired)]
}
