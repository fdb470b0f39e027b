package render

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/journal"
	"signalbox/internal/run/inspect"
	"signalbox/internal/testkit/must"
)

// withClock is a journal in a database whose clock is behind that of this machine.
type withClock struct {
	journal.Journal
	behind time.Duration
}

func (w withClock) Clocks(context.Context) ([]journal.MachineClock, error) {
	return []journal.MachineClock{{Machine: "alpha"}, {Machine: "beta", Ahead: -w.behind}}, nil
}

func (w withClock) Time(context.Context) (time.Time, error) {
	return time.Now().Add(-w.behind), nil
}

// A status has the difference of the clocks, and warns of one that matters.
func TestStatusOfClocks(t *testing.T) {
	s := newStage(t)
	inFile := s.b.Journal
	for behind, want := range map[time.Duration]string{
		0: "", time.Hour: "the clock of this machine is 1h0m0", -time.Hour: "behind that of the database",
	} {
		s.b.Journal = withClock{inFile, behind}
		st, err := inspect.ReadStatus(t.Context(), s.b, time.Now())
		must.Succeed(t, err)
		if st.ClockAhead == nil || (*st.ClockAhead-behind.Seconds() > 60) ||
			(behind.Seconds()-*st.ClockAhead > 60) {
			t.Errorf("%s: ahead by %v", behind, st.ClockAhead)
		}
		if diff := cmp.Diff([]inspect.Clock{{Machine: "alpha"}, {Machine: "beta",
			Ahead: -behind.Seconds()}}, st.Clocks); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		var texts []string
		for _, r := range st.Requests {
			if r.Kind == inspect.RequestFault && r.Command == "signalbox doctor" {
				texts = append(texts, r.Text)
			}
		}
		text := strings.Join(texts, "\n")
		if want == "" != (text == "") || !strings.Contains(text, want) || want != "" &&
			!strings.Contains(text, "the clock of beta is 1h0m0s") || len(texts) > 2 {
			t.Errorf("%s: %q, want %q", behind, text, want)
		}
	}
	s.b.Journal = inFile
	st, err := inspect.ReadStatus(t.Context(), s.b, time.Now())
	if err != nil || st.ClockAhead != nil {
		t.Errorf("a ledger in a file: ahead by %v, %v", st.ClockAhead, err)
	}
}
