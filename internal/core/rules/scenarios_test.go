package rules

import (
	"strings"
	"time"

	"signalbox"
)

// scenarios are the histories to record; see recordHistories. Once recorded, a scenario serves only
// to show how, and is removed after the release that has its file.
var scenarios = []scenario{
	{"full-life", "Work goes from DRAFT to COMPLETED, each phase by a session of the role that may claim it.", fullLife},
	{"repaired", "Invalid events were removed. Then a clock was ten years ahead while work was claimed, and the time is set back.", repaired},
}

type scenario struct {
	name, about string
	play        func(*box)
}

func (b *box) pass(d time.Duration) { b.now = b.now.Add(d) }

func fullLife(b *box) {
	b.do(OpenWork{Work: "task-1", Title: "Parse dates", Phase: signalbox.PhaseDraft, Actor: "op"})
	for i, phase := range inOrder[:6] {
		session := "S-" + string(rune('1'+i))
		b.pass(time.Minute)
		b.claim("task-1", session)
		b.pass(5 * time.Minute)
		signal := withNotes(exit(phase, signalbox.ExitCompleted), "done with "+
			strings.ToLower(string(phase)))
		if phase == signalbox.PhaseImplementation {
			url := "https://example.org/box/pull/7"
			signal.PRURL = &url
		}
		if phase == signalbox.PhaseReview {
			ref := "evidence/task-1/review.yaml"
			signal.EvidenceBundleRef = &ref
		}
		b.do(Exit{Session: session, Signal: signal, Blob: signalbox.Hash{byte(i + 1)},
			Offset: int64(100 * i)})
	}
}

func repaired(b *box) {
	b.do(OpenWork{Work: "task-1", Phase: signalbox.PhaseImplementation, Actor: "op"})
	b.do(RepairLedger{First: 3, Last: 4,
		Fault: "event 3 was changed: its hash is not that of its content",
		Kept:  signalbox.Hash{7}, Host: "desk", Actor: "op"})
	b.pass(87600 * time.Hour)
	b.claim("task-1", "S-1")
	b.now = t0.Add(time.Minute)
	b.do(CorrectClock{To: b.now, Reason: "desk had no time service", Actor: "op"})
	b.pass(20 * time.Minute)
	b.do(Expire{})
}
