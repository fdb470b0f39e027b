package rules

import (
	"time"

	"signalbox"
)

// WorkView is a work item as programs get to see it, on the command line and over MCP.
type WorkView struct {
	ID          string           `json:"id"`
	Title       string           `json:"title"`
	Phase       signalbox.Phase  `json:"phase"`
	BlockedFrom *signalbox.Phase `json:"blocked_from"`
	Notes       *string          `json:"notes"`
	Lease       *signalbox.Lease `json:"lease"`
	Sessions    []SessionView    `json:"sessions"`
}

// SessionView is one that held the work, or holds it.
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

// LiveLease is the lease of work while it lives, else nil: one that ran out is not the holder's any more, also before the
// ledger says so.
func (w *Work) LiveLease(now time.Time) *signalbox.Lease {
	if w.Lease != nil && now.Before(w.Lease.Expires) {
		return w.Lease
	}
	return nil
}

// View is the work as it stands at a time. It shares memory with the work.
func (w *Work) View(now time.Time) WorkView {
	shown := WorkView{ID: w.ID, Title: w.Title, Phase: w.Phase, Lease: w.LiveLease(now), Sessions: []SessionView{}}
	if w.Phase == signalbox.PhaseBlocked {
		shown.BlockedFrom, shown.Notes = &w.BlockedFrom, &w.Notes
	}
	for _, t := range w.Tenures() {
		held := SessionView{t.Session, t.Actor, t.Role, t.Phase, t.Epoch, t.From, nil, nil}
		if t.Ended != "" {
			held.To, held.Ended = &t.To, &t.Ended
		}
		shown.Sessions = append(shown.Sessions, held)
	}
	return shown
}
