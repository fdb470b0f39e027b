package rules

import (
	"cmp"

	"signalbox"
)

// AcceptLoss records that a machine continues although the ledger has lost events that it had
// applied.
type AcceptLoss struct {
	// First, Last, Hash and Host are those of LossAccepted.
	First, Last uint64
	Hash        signalbox.Hash
	Host, Actor string
}

func (c AcceptLoss) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), checkText("host", c.Host)); err != nil {
		return err
	}
	if c.First == 0 || c.Last < c.First {
		return refusef(signalbox.CodeUsage, "name the first and the last event that is lost",
			"there are no events from %d to %d", c.First, c.Last)
	}
	d.answer.Seq = d.record("", "", c.Actor, LossAccepted{c.First, c.Last, c.Hash, c.Host})
	return nil
}
