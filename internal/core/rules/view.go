package rules

import (
	"time"

	"signalbox"
)

// WorkView is a work item as the command line and MCP show it to programs.
type WorkView struct {
	ID          string           `json:"id"`
	Title       string           `json:"title"`
	Phase       signalbox.Phase  `json:"phase"`
	BlockedFrom *signalbox.Phase `json:"blocked_from"`
	Notes       *string          `json:"notes"`
	Lease       *signalbox.Lease `json:"lease"`
	Sessions    []SessionView    `json:"sessions"`
	// Ref and Checks are those of work opened by hand.
	Ref    string      `json:"ref,omitempty"`
	Checks *LastChecks `json:"checks,omitempty"`
	// Expired is a lease that has expired, while the work is free and the ledger does not record
	// the end of the lease yet.
	Expired *signalbox.Lease `json:"expired_lease,omitempty"`
	// NotesBlob is the blob with the notes, if they are long.
	NotesBlob signalbox.Hash `json:"notes_blob,omitzero"`
}

// SessionView is a session that holds or held the work.
type SessionView struct {
	Session string          `json:"session"`
	Actor   string          `json:"actor"`
	Role    signalbox.Role  `json:"role"`
	Phase   signalbox.Phase `json:"phase"`
	Epoch   uint64          `json:"epoch"`
	From    time.Time       `json:"from"`
	To      *time.Time      `json:"to"`
	Ended   *Ending         `json:"ended"`
}

// LiveLease returns the lease of the work, nil if there is none or it has expired. Lease itself can
// have expired before the ledger records it.
func (w *Work) LiveLease(now time.Time) *signalbox.Lease {
	if w.Lease != nil && now.Before(w.Lease.Expires) {
		return w.Lease
	}
	return nil
}

// View returns the work as it is at time now. It shares memory with the work.
func (w *Work) View(now time.Time) WorkView {
	view := WorkView{ID: w.ID, Title: w.Title, Phase: w.Phase, Lease: w.LiveLease(now),
		Sessions: []SessionView{}, Ref: w.Ref, Checks: w.Checks}
	if w.Phase == signalbox.PhaseBlocked {
		view.BlockedFrom, view.Notes, view.NotesBlob = &w.BlockedFrom, &w.Notes, w.NotesBlob
	}
	if view.Lease == nil {
		view.Expired = w.Lease
	}
	for _, t := range w.Tenures() {
		if view.Expired != nil && t.Epoch == view.Expired.Epoch { // as it will be recorded
			t.To, t.Ended = view.Expired.Expires, EndedExpired
		}
		held := SessionView{t.Session, t.Actor, t.Role, t.Phase, t.Epoch, t.From, nil, nil}
		if t.Ended != "" {
			held.To, held.Ended = &t.To, &t.Ended
		}
		view.Sessions = append(view.Sessions, held)
	}
	return view
}
