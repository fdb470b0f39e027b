package rules

import "signalbox"

// The types of events of the box and its ledger.
const (
	TypeBoxOpened       = "BoxOpened"
	TypeRulesUpgraded   = "RulesUpgraded"
	TypeLedgerMoved     = "LedgerMoved"
	TypeLedgerContinued = "LedgerContinued"
	TypeLossAccepted    = "LossAccepted"
	TypeBlobRedacted    = "BlobRedacted"
)

// BoxOpened is the first event of every log.
type BoxOpened struct {
	Box   string `json:"box"`
	Rules int    `json:"rules"`
}

func (BoxOpened) eventType() string { return TypeBoxOpened }

// RulesUpgraded records that a newer version of the rules applies from this event on.
type RulesUpgraded struct {
	From int `json:"from"`
	To   int `json:"to"`
}

func (RulesUpgraded) eventType() string { return TypeRulesUpgraded }

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

func (LedgerMoved) eventType() string { return TypeLedgerMoved }

// LedgerContinued records that the ledger continues in this place.
type LedgerContinued struct {
	Journal string `json:"journal"`
	Host    string `json:"host,omitempty"`
}

func (LedgerContinued) eventType() string { return TypeLedgerContinued }

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

func (LossAccepted) eventType() string { return TypeLossAccepted }

// BlobRedacted records that the bytes of a blob are destroyed.
type BlobRedacted struct {
	Blob   signalbox.Hash `json:"blob"`
	Reason string         `json:"reason"`
}

func (BlobRedacted) eventType() string { return TypeBlobRedacted }
