package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/workspace"
)

// boardPage is the work by phase.
type boardPage struct {
	Plans []inspect.Plan
	Roles []signalbox.Role
	boardFilter
	Stations []station
	Empty    bool // there is no work at all
	Shown    int  // how many tasks are left by the filter
	// Behind is why the base branch waits for the checkout; nil if it does not.
	Behind *workspace.Behind
}

// station is a phase with the work that is in it.
type station struct {
	Phase signalbox.Phase
	Tasks []inspect.Task
	// More is how many tasks are not shown, which were opened before the others.
	More int
}

// Count returns how many tasks are in the phase.
func (s station) Count() int { return len(s.Tasks) + s.More }

// maxCards is how many tasks of a phase the board shows.
const maxCards = 500

// boardFilter is which tasks the board shows; zero means all. It is in the address of the page, so
// that it stays when the page is updated, and can be sent to others.
type boardFilter struct {
	Plan string
	// Role is who works on the task, or whose turn it is.
	Role signalbox.Role
	// Mine means those that wait for the human.
	Mine bool
	// Text is in the id or the title.
	Text string
}

func boardFilterOf(query url.Values) boardFilter {
	return boardFilter{Plan: query.Get("plan"), Role: signalbox.Role(query.Get("role")),
		Mine: query.Get("waiting") == "me", Text: strings.TrimSpace(query.Get("q"))}
}

// Active reports whether something may be hidden.
func (f boardFilter) Active() bool { return f != boardFilter{} }

// shows reports whether the board shows a task.
func (f boardFilter) shows(t *inspect.Task) bool {
	switch {
	case f.Plan != "" && t.Plan != f.Plan, f.Role != "" && roleOf(t) != f.Role, f.Mine &&
		!waitsForHuman(t):
		return false
	}
	contains := func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(f.Text)) }
	return contains(t.ID) || contains(t.Title)
}

// roleOf returns who works on a task, or whose turn it is; "" if it is no one's.
func roleOf(t *inspect.Task) signalbox.Role {
	switch {
	case t.Worker != nil:
		return t.Worker.Role
	case t.Condition == inspect.Completed || t.Condition == inspect.Cancelled:
		return ""
	case t.Kind == rules.KindRemediation && t.Step == signalbox.PhaseImplementation:
		return signalbox.RoleRemediation
	case t.Kind == rules.KindRemediation && t.Step == signalbox.PhaseReview:
		return signalbox.RoleHealthAuditor
	case t.Kind == rules.KindExpert:
		return signalbox.RoleExpert
	case t.Step == signalbox.PhaseReadyForMerge && t.Audited:
		return signalbox.RoleMerger
	}
	return t.Step.ClaimableBy()
}

func waitsForHuman(t *inspect.Task) bool {
	return t.Condition == inspect.Asking || t.Condition == inspect.NeedsApproval ||
		t.Condition == inspect.Blocked
}

func (d *Dashboard) board(ctx context.Context, r *http.Request) (view, error) {
	page := boardPage{boardFilter: boardFilterOf(r.URL.Query()), Roles: rules.DispatchRoles(),
		Empty: true, Behind: inspect.FindBehind(ctx, d.box.Config, d.opts.Root)}
	phases := []signalbox.Phase{signalbox.PhaseDraft, signalbox.PhaseImplementation,
		signalbox.PhaseCIPending, signalbox.PhaseReadyForReview, signalbox.PhaseReview,
		signalbox.PhaseReadyForMerge, signalbox.PhaseCompleted}
	for _, phase := range phases {
		page.Stations = append(page.Stations, station{Phase: phase})
	}
	now := d.opts.Now()
	d.box.Engine.View(func(s *rules.State) {
		page.Plans = inspect.NewStatus(s, now).Plans
		for w := range s.Works() {
			page.Empty = false
			t := inspect.NewTask(s, w, now)
			if i := slices.Index(phases, t.Step); i >= 0 && page.shows(&t) {
				page.Stations[i].Tasks = append(page.Stations[i].Tasks, t)
				page.Shown++
			}
		}
	})
	for i := range page.Stations {
		tasks := &page.Stations[i].Tasks
		more := max(0, len(*tasks)-maxCards)
		page.Stations[i].More, *tasks = more, (*tasks)[more:]
	}
	// Nothing is drafted in most plans.
	if len(page.Stations[0].Tasks) == 0 {
		page.Stations = page.Stations[1:]
	}
	return view{template: "board", title: "Board", data: page}, nil
}
