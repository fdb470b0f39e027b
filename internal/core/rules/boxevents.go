package rules

import (
	"fmt"
	"time"

	"signalbox"
)

// The types of events of the box and its ledger.
const (
	TypeBoxOpened       = "BoxOpened"
	TypeRulesUpgraded   = "RulesUpgraded"
	TypeLedgerMoved     = "LedgerMoved"
	TypeLedgerContinued = "LedgerContinued"
	TypeLossAccepted    = "LossAccepted"
	TypeLedgerRepaired  = "LedgerRepaired"
	TypeClockCorrected  = signalbox.TypeClockCorrected
	TypeBlobRedacted    = "BlobRedacted"
)

// BoxOpened is the first event of every log.
type BoxOpened struct {
	Box   string `json:"box"`
	Rules int    `json:"rules"`
	// Key is the public key of the box, for machines that have no other copy. It proves nothing:
	// whoever could replace the log could replace it too. Older logs have none.
	Key string `json:"key,omitempty"`
}

func (b BoxOpened) fault(*State, *signalbox.Event) string {
	if b.Rules < 1 {
		return fmt.Sprintf("there are no rules of version %d", b.Rules)
	}
	return idFault(b.Box)
}

func (b BoxOpened) apply(s *State, _ *signalbox.Event) { s.box, s.rules = b.Box, b.Rules }

// RulesUpgraded records that a newer version of the rules applies from this event on.
type RulesUpgraded struct {
	From int `json:"from"`
	To   int `json:"to"`
}

func (b RulesUpgraded) fault(s *State, _ *signalbox.Event) string {
	if b.From != s.rules || b.To <= b.From {
		return fmt.Sprintf("it upgrades rules version %d to %d, and the log follows version %d",
			b.From, b.To, s.rules)
	}
	return ""
}

func (b RulesUpgraded) apply(s *State, e *signalbox.Event) {
	s.rules = b.To
	if b.From < secretsVersion {
		s.upgraded = e.Seq
	}
}

// LedgerMoved records that the ledger continues in another place. It is the last event here: the
// copy in the other place, which has it too, continues with LedgerContinued.
type LedgerMoved struct {
	// Journal is the other place as the setting journal names it, without secrets.
	Journal string `json:"journal"`
	// Host is the machine from which the ledger was moved, which has it if Journal is sqlite.
	Host string `json:"host,omitempty"`
	// Move is a random id that only the other place has too, until the ledger continues there.
	Move string `json:"move,omitempty"`
}

func (LedgerMoved) fault(*State, *signalbox.Event) string { return "" }

func (b LedgerMoved) apply(s *State, e *signalbox.Event) {
	s.moved = Move{b.Journal, b.Host, b.Move, e.Actor, e.Time, e.Seq}
}

// LedgerContinued records that the ledger continues in this place.
type LedgerContinued struct {
	Journal string `json:"journal"`
	Host    string `json:"host,omitempty"`
}

func (LedgerContinued) fault(s *State, _ *signalbox.Event) string {
	if _, moved := s.LastMove(); !moved {
		return "the ledger was not moved"
	}
	return ""
}

func (LedgerContinued) apply(s *State, _ *signalbox.Event) { s.moved = Move{} }

// LossAccepted records that a machine continues although the ledger has lost events that it had
// applied. It changes nothing.
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

func (b LossAccepted) fault(*State, *signalbox.Event) string {
	if b.First == 0 || b.Last < b.First {
		return fmt.Sprintf("there are no events from %d to %d", b.First, b.Last)
	}
	return ""
}

func (LossAccepted) apply(*State, *signalbox.Event) {}

// LedgerRepaired records that the events at the end of the ledger were removed because they were not
// valid. It has the place of the first of them. It changes nothing.
type LedgerRepaired struct {
	// First and Last are the sequence numbers of the first and the last event that was removed.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Fault is what was wrong with the first one.
	Fault string `json:"fault"`
	// Kept is the SHA-256 of the file that has them now, on the machine Host.
	Kept signalbox.Hash `json:"kept" blob:"-"`
	Host string         `json:"host,omitempty"`
}

func (b LedgerRepaired) fault(*State, *signalbox.Event) string {
	if b.First == 0 || b.Last < b.First {
		return fmt.Sprintf("there are no events from %d to %d", b.First, b.Last)
	}
	return ""
}

func (LedgerRepaired) apply(*State, *signalbox.Event) {}

// ClockCorrected records that the last events were written with a clock that was ahead. It has the
// time of that clock; from the next event on, time continues at To. Leases, limits and pauses that
// would end after the wrong time keep their remaining time.
type ClockCorrected struct {
	To     time.Time `json:"to"`
	Reason string    `json:"reason"`
}

func (b ClockCorrected) fault(s *State, e *signalbox.Event) string {
	switch {
	case !e.Time.Equal(s.time):
		return "its time is not that of the event before it"
	case !b.To.Before(e.Time):
		return "it does not set the time back"
	}
	return timeFault(b.To)
}

func (b ClockCorrected) apply(s *State, e *signalbox.Event) {
	s.setBack(e.Time, b.To.UTC())
}

// BlobRedacted records that the bytes of a blob are destroyed.
type BlobRedacted struct {
	Blob   signalbox.Hash `json:"blob"`
	Reason string         `json:"reason"`
}

func (b BlobRedacted) fault(s *State, _ *signalbox.Event) string {
	if _, done := s.Redaction(b.Blob); done {
		return "the blob is redacted already"
	}
	return ""
}

func (b BlobRedacted) apply(s *State, e *signalbox.Event) {
	s.addRedaction(Redaction{b.Blob, b.Reason, e.Actor, e.Time, e.Seq})
}
