package rules

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"signalbox"
)

// State is the fold of a log. The zero State is the empty log's. It is not safe for concurrent use.
//
// What it hands out (Work, Session) is never changed afterwards: a change replaces it. So whoever has one keeps it
// as it was, and taking a change back is putting the old one in its place.
type State struct {
	seq   uint64
	time  time.Time
	box   string
	rules int

	works        []*Work // in the order they were opened
	workIndex    map[string]int
	sessions     []*Session // in the order of their first claim
	sessionIndex map[string]int
	redactions   []Redaction
	redacted     map[signalbox.Hash]int
	turns        []turnRun // of trees; each keeps its place until another takes it
	turnIndex    map[string]int

	leased map[uint64]int // live leases: epoch to index of the work
	free   [8]bitset      // for each phase the works without a lease that were opened by hand

	delivery   delivery
	ready      [len(dispatchOrder)]bitset // for each role the tasks that it could be given
	dependents map[string][]int           // work that names an id as a blocker, or did
	downstream []int                      // how many tasks wait for each, nil when that has to be counted again
	locks      map[string]string          // files of a shared workspace to the task that has them
	open       map[Kind]int               // planned work that is not done

	undo      []func()
	recording bool
}

// Work is one work item.
type Work struct {
	ID, Title string
	Phase     signalbox.Phase
	// BlockedFrom is the phase that BLOCKED work returns to, and Notes is what was said about why it is blocked.
	BlockedFrom signalbox.Phase
	Notes       string
	Opened      time.Time
	// Lease may have expired without the log saying so yet.
	Lease *signalbox.Lease
	// Past are the sessions that held the work, in order, and Present is the one that holds it, nil without a lease.
	Past    []Tenure
	Present *Tenure
	// Task is what the delivery loop knows of the work, nil if it was opened by hand.
	Task *Task
}

// Tenures returns the sessions that held the work and the one that holds it, in order.
func (w *Work) Tenures() []Tenure {
	if w.Present == nil {
		return w.Past
	}
	return append(slices.Clone(w.Past), *w.Present)
}

// Tenure is the time for which a session held a work item.
type Tenure struct {
	Epoch   uint64
	Session string
	Actor   string
	Role    signalbox.Role
	Phase   signalbox.Phase
	From    time.Time
	// To is zero, Ended "" and End 0 while the session holds the work. End is the sequence of the event that ended
	// the lease.
	To    time.Time
	Ended Ending
	End   uint64
}

// Ending is how a tenure came to its end.
type Ending string

const (
	EndedCompleted Ending = "completed"
	EndedBlocked   Ending = "blocked"
	EndedError     Ending = "error"
	EndedReleased  Ending = "released"
	EndedExpired   Ending = "expired"
)

// Session is one agent at work, or a person's hand.
type Session struct {
	ID, Actor string
	Role      signalbox.Role
	// Held are all leases it ever had, Live those it has, both in order.
	Held []LeaseRef
	Live []uint64
	// Exits are the exit signals it sent that were accepted.
	Exits []ExitRecord
	// Refused is what it said that did not count, once for each thing said and reason.
	Refused []RefusalRecord
}

// LeaseRef is a lease that a session had.
type LeaseRef struct {
	Epoch uint64
	Work  string
}

// ExitRecord is an accepted exit signal: enough to know it again and to give its first answer.
type ExitRecord struct {
	Epoch  uint64
	Digest signalbox.Hash
	Seq    uint64
	Next   signalbox.Phase
}

// RefusalRecord is the last record of one thing that was said and refused for one reason.
type RefusalRecord struct {
	Reason signalbox.Reason
	Said   string
	Seq    uint64
	Count  int
}

// Redaction is a blob whose bytes were to be destroyed.
type Redaction struct {
	Blob   signalbox.Hash
	Reason string
	Actor  string
	At     time.Time
	Seq    uint64
}

// Seq is the sequence of the last event applied, 0 for none.
func (s *State) Seq() uint64 { return s.seq }

// Time is the time of the last event applied.
func (s *State) Time() time.Time { return s.time }

// Box is the id of the box, "" before it is opened.
func (s *State) Box() string { return s.box }

// Works yields all work in the order it was opened.
func (s *State) Works() iter.Seq[*Work] { return slices.Values(s.works) }

// Work returns a work item.
func (s *State) Work(id string) (*Work, bool) {
	i, ok := s.workIndex[id]
	if !ok {
		return nil, false
	}
	return s.works[i], true
}

// Session returns a session.
func (s *State) Session(id string) (*Session, bool) {
	i, ok := s.sessionIndex[id]
	if !ok {
		return nil, false
	}
	return s.sessions[i], true
}

// Redaction tells whether a blob's bytes were to be destroyed.
func (s *State) Redaction(blob signalbox.Hash) (Redaction, bool) {
	i, ok := s.redacted[blob]
	if !ok {
		return Redaction{}, false
	}
	return s.redactions[i], true
}

// NextExpiry returns when the first live lease runs out; ok is false if there is none.
func (s *State) NextExpiry() (at time.Time, ok bool) {
	for _, i := range s.leased {
		if expires := s.works[i].Lease.Expires; !ok || expires.Before(at) {
			at, ok = expires, true
		}
	}
	return at, ok
}

// maxExpired is how many leases one decision ends at most; an append has its limits. The next takes the rest.
const maxExpired = 500

// expired returns works whose leases have run out at a time, the oldest leases first.
func (s *State) expired(at time.Time) []int {
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
