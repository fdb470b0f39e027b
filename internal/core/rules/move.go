package rules

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"signalbox"
)

// ErrMoved means that the ledger continues in another place. Nothing more can be written here.
var ErrMoved = errors.New("the ledger was moved")

// JournalSQLite is the Journal of a ledger in the folder of a box, which only its machine has.
const JournalSQLite = "sqlite"

// Move says where a ledger continues.
type Move struct {
	// Journal, Host and ID are those of LedgerMoved.
	Journal, Host, ID string
	Actor             string
	At                time.Time
	Seq               uint64
}

// MoveLedger ends the ledger here, because a copy of it continues elsewhere.
type MoveLedger struct {
	// Journal, Host and Move are those of LedgerMoved.
	Journal, Host, Move, Actor string
}

// ContinueLedger continues a ledger that was moved: in the copy elsewhere or, if the move is
// cancelled, here. The sender makes sure that only one of them gets it.
type ContinueLedger struct {
	Journal, Host, Actor string
}

func (c MoveLedger) decide(d *decider) error {
	if err := cmp.Or(checkPlace(c.Journal, c.Host, c.Actor), checkIDs("move", c.Move)); err != nil {
		return err
	}
	d.answer.Seq = d.record("", "", c.Actor, LedgerMoved{c.Journal, c.Host, c.Move})
	return nil
}

func (c ContinueLedger) decide(d *decider) error {
	if err := checkPlace(c.Journal, c.Host, c.Actor); err != nil {
		return err
	}
	if _, moved := d.s.LastMove(); !moved {
		return refusef(signalbox.CodeConflict, "nothing needs to be done",
			"the ledger was not moved away from here")
	}
	d.answer.Seq = d.record("", "", c.Actor, LedgerContinued{c.Journal, c.Host})
	return nil
}

func checkPlace(journal, host, actor string) error {
	return cmp.Or(checkIDs("actor", actor), requireText("journal", journal),
		checkText("host", host))
}

// LastMove returns where the ledger continues, and whether it was moved away.
func (s *State) LastMove() (Move, bool) { return s.moved, s.moved.Seq != 0 }

// Moved returns an error that matches ErrMoved if the ledger was moved away: it says where to.
func (s *State) Moved() error {
	m, moved := s.LastMove()
	switch {
	case !moved:
		return nil
	case m.Journal == JournalSQLite:
		return refusef(signalbox.CodeFailed,
			"only that machine can use it now; to share it again, run signalbox ledger migrate there",
			"%w into the folder of the box on %s, by %s", ErrMoved, cmp.Or(m.Host, "one machine"),
			m.Actor)
	}
	// the one of the machine that moved it, which may have more rights
	hasUser := strings.Contains(m.Journal, "@") || strings.Contains(m.Journal, "user=")
	return refusef(signalbox.CodeFailed, HintMoved(m.Journal, hasUser), "%w to %s, by %s", ErrMoved,
		m.Journal, m.Actor)
}

// HintMoved returns what to do on a machine whose setting is not the address to which the ledger
// was moved. addUser says that the user must be put into it.
func HintMoved(address string, addUser bool) string {
	user := ""
	if addUser {
		user = ", with this machine's own user"
	}
	return fmt.Sprintf("write journal: %q into .signalbox/signalbox.yaml on this machine%s, and start again", address, user)
}
