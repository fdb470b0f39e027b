package byhand

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/questions"
	"signalbox/internal/testkit/must"
)

// A lease that has expired is shown as such, even before its end is recorded.
func TestExpiredLeaseIsShown(t *testing.T) {
	expires := time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)
	w := &rules.Work{ID: "t1", Phase: signalbox.PhaseImplementation,
		Lease: &signalbox.Lease{Session: "dev", Actor: "ann", Role: signalbox.RoleDeveloper,
			Epoch: 3, Expires: expires},
		Present: &rules.Tenure{Session: "dev", Epoch: 3},
		Past:    []rules.Tenure{{Session: "first", Epoch: 2, Ended: rules.EndedReleased}}}
	show := func(at time.Time) (rules.WorkView, string) {
		var out strings.Builder
		p := &cli.Program{Out: bufio.NewWriter(&out)}
		view := w.View(at)
		must.Succeed(t, printWorkItem(p, questions.WorkDetails{WorkView: view}))
		p.Out.Flush()
		return view, out.String()
	}
	view, text := show(expires.Add(-1))
	if view.Lease == nil || view.Expired != nil || view.Sessions[1].Ended != nil ||
		!strings.Contains(text, "\nheld by       developer dev (ann), epoch 3, until ") {
		t.Errorf("just before it expires: %+v\n%s", view, text)
	}
	view, text = show(expires)
	if view.Lease != nil || view.Expired != w.Lease ||
		*view.Sessions[0].Ended != rules.EndedReleased || view.Sessions[1].Ended == nil ||
		*view.Sessions[1].Ended != rules.EndedExpired || !view.Sessions[1].To.Equal(expires) {
		t.Errorf("when it expires: %+v", view)
	}
	if strings.Contains(text, "\nheld by") ||
		!strings.Contains(text, "\nwas held by   developer dev (ann), epoch 3, expired at ") ||
		!strings.Contains(text, " expired\n") {
		t.Errorf("when it expires:\n%s", text)
	}
}
