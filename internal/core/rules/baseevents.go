package rules

import (
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// The types of events about the base, and about commits that machines share.
const (
	TypeBaseMoved      = "BaseMoved"
	TypeCommitsStored  = "CommitsStored"
	TypeBundleRejected = "BundleRejected"
)

// BaseMoved records that the base was moved by something other than a merge of signalbox. The
// checks run on it before anything else is merged.
type BaseMoved struct {
	// From is the last known commit of the base, absent if none is known.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Added is the list of commits that the base has now and had not before, as short id and
	// subject; the first 20 of them.
	Added []string `json:"added,omitempty"`
	// Dropped is the list of commits that the base had before and has no more.
	Dropped []string `json:"dropped,omitempty"`
	// Between is true if it was found at the start of a run, while no session was active.
	Between bool `json:"between,omitempty"`
	// Fetched is true if signalbox itself moved it, to the commit of the remote repository in which
	// a pull request was merged.
	Fetched bool `json:"fetched,omitempty"`
	// Joined is true if signalbox itself moved it: it joined the merged work to commits that were
	// made on the base branch while the branch waited.
	Joined bool `json:"joined,omitempty"`
}

func (b BaseMoved) fault(s *State, _ *signalbox.Event) string {
	if b.From != s.run.Base || b.To == "" || b.To == b.From {
		return fmt.Sprintf("the base is at %q", s.run.Base)
	}
	return ""
}

func (b BaseMoved) apply(s *State, e *signalbox.Event) {
	s.run.Base = b.To
	if !b.Between && !b.Fetched {
		s.run.BaseMoves = append(slices.Clip(s.run.BaseMoves), BaseMove{b, e.Seq, e.Time})
	}
}

func (b BaseMoved) describe(d *Describer, _ *signalbox.Event) (text, detail string) {
	switch {
	case b.Fetched:
		text = "the base is at " + shortCommit(b.To) + " of the remote repository"
		return text + d.checksRun(), ""
	case b.Between:
		return "", ""
	}
	return b.InWords() + d.checksRun(), ""
}

// InWords describes a move of the base to commits that signalbox did not make.
func (b BaseMoved) InWords() string {
	text := "something else moved the base"
	if b.Joined {
		text = "commits that were made on the base branch are joined to the merged work, which moved it"
	}
	if b.From != "" {
		text += " from " + shortCommit(b.From)
	}
	text += " to " + shortCommit(b.To)
	if len(b.Added) > 0 {
		text += "; new: " + strings.Join(b.Added, ", ")
	}
	if len(b.Dropped) > 0 {
		text += "; gone: " + strings.Join(b.Dropped, ", ")
	}
	return text
}

// CommitsStored records that a commit is in a git bundle in the blobs, with everything that it
// needs and that the commits in needs do not contain. Without a task it belongs to the base.
type CommitsStored struct {
	StoredCommit
	// Replaces is the list of stored commits of the base, or of the task, that the bundle contains
	// too, so that their own bundles are not needed any more. The commit itself is among them if
	// its bundle was rejected.
	Replaces []string `json:"replaces,omitempty"`
}

func (b CommitsStored) fault(s *State, e *signalbox.Event) string {
	return s.runOrTaskFault(e, func(w *Work) string {
		if w != nil && w.Phase == signalbox.PhaseCompleted &&
			s.storedCommit(w.ID, b.Commit) == nil {
			return "it is completed"
		}
		return s.storedFault(e.Work, b)
	})
}

func (b CommitsStored) apply(s *State, e *signalbox.Event) {
	s.run.Rejected = slices.Clone(s.run.Rejected)
	for i := range s.run.Rejected {
		r := &s.run.Rejected[i]
		if r.Commit == b.Commit || slices.Contains(b.Replaces, r.Commit) {
			r.Replaced = true
		}
	}
	replaced := func(s StoredCommit) bool { return slices.Contains(b.Replaces, s.Commit) }
	add := func(list []StoredCommit) []StoredCommit {
		return append(slices.DeleteFunc(slices.Clone(list), replaced), b.StoredCommit)
	}
	if e.Work != "" {
		s.changeTask(e.Work, func(_ *Work, t *Task) { t.Stored = add(t.Stored) })
		return
	}
	s.run.Stored = add(s.run.Stored)
}

// BundleRejected records that a machine could not use the bundle of a stored commit. A machine that
// has the commit stores it again. Without a task the commit belongs to the base.
type BundleRejected struct {
	Commit string         `json:"commit"`
	Bundle signalbox.Hash `json:"bundle"`
	// Fault is what is wrong with the bundle.
	Fault string `json:"fault"`
}

func (b BundleRejected) fault(s *State, e *signalbox.Event) string {
	return s.runOrTaskFault(e, func(*Work) string { return s.rejectedFault(e.Work, b) })
}

func (b BundleRejected) apply(s *State, _ *signalbox.Event) {
	s.run.Rejected = append(slices.Clip(s.run.Rejected), RejectedBundle{BundleRejected: b})
}
