package steer

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/planload"
	"signalbox/internal/testkit/must"
)

func TestCommand(t *testing.T) {
	for _, tt := range []struct {
		decision Decision
		want     rules.Command
	}{
		{Decision{What: Answer, Question: "Q-1", Work: "T1", Text: "two", Actor: "ann"},
			rules.AnswerQuestion{Question: "Q-1", Answer: "two", Actor: "ann"}},
		{Decision{What: Reject, Work: "T1", Text: "no", Actor: "ann"},
			rules.Rework{Work: "T1", Text: "no", Actor: "ann", Reject: true}},
		{Decision{What: Rework, Work: "T1", Text: "again", Actor: "ann"},
			rules.Rework{Work: "T1", Text: "again", Actor: "ann"}},
		{Decision{What: Waive, Work: "T1", Finding: "F2", Text: "it may stay", Actor: "ann"},
			rules.Waive{Work: "T1", Finding: "F2", Reason: "it may stay", Actor: "ann"}},
		{Decision{What: Tell, Work: "T1", Text: "hear", Actor: "ann"},
			rules.Tell{Work: "T1", Text: "hear", Actor: "ann"}},
		{Decision{What: rules.OrderApprove, Work: "T1", Commit: "c1", Reason: "good", Actor: "ann"},
			rules.Order{What: rules.OrderApprove, Work: "T1", Commit: "c1", Reason: "good",
				Actor: "ann"}},
		{Decision{What: rules.OrderRetry, Work: "T1", From: signalbox.PhaseReview, Note: "look",
			Actor: "ann"},
			rules.Order{What: rules.OrderRetry, Work: "T1", From: signalbox.PhaseReview,
				Note: "look", Actor: "ann"}},
		{Decision{What: rules.OrderPause, Actor: "ann"},
			rules.Order{What: rules.OrderPause, Actor: "ann"}},
	} {
		if diff := cmp.Diff(tt.want, tt.decision.Command()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.decision.What, diff)
		}
	}
}

// A long text is stored, and what would be refused is known before there is a text.
func TestDecisions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), box.FolderName)
	options := &box.Options{KeyFile: filepath.Join(t.TempDir(), "box.key")}
	if _, err := box.Init(t.Context(), dir, "ann", options); err != nil {
		t.Fatal(err)
	}
	b, err := box.Open(t.Context(), dir, options)
	must.Succeed(t, err)
	defer b.Close()
	const text = "# A plan\n\n#### Task T1: One\n\n**Work**: Do it.\n\n" +
		"**Acceptance Criteria**\n\n- [ ] done\n"
	p, err := plan.Parse("plan.md", []byte(text), nil)
	if err == nil {
		_, err = planload.Load(t.Context(), b, p, []byte(text),
			planload.Options{Actor: "ann", Source: "plan.md", ID: "plan"})
	}
	must.Succeed(t, err)
	long := strings.Repeat("word ", 4000)
	tell := Decision{What: Tell, Work: "T1", Text: long, Actor: "ann"}
	if _, err := tell.Do(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	b.Engine.View(func(s *rules.State) {
		w, _ := s.Work("T1")
		if m := w.Task.Messages; len(m) != 1 || m[0].Body == (signalbox.Hash{}) {
			t.Errorf("messages %+v", m)
		}
	})
	if err := (Decision{What: Reject, Work: "T1", Actor: "ann"}).Refused(b); err == nil {
		t.Error("work that waits for no approval could be rejected")
	}
	if err := (Decision{What: Rework, Work: "T1", Actor: "ann"}).Refused(b); err != nil {
		t.Errorf("rework would be refused: %v", err)
	}
}
