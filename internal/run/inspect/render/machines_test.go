package render

import (
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/testkit/must"
)

// A status lists the machines that are at work, and fits the terminal.
func TestStatusOfMachines(t *testing.T) {
	st := busy()
	st.Tasks[0].Worker.Machine, st.Tasks[1].Worker.Machine = "alpha.example.com", "beta\x1b[31m"
	st.Machines = []inspect.Machine{{Name: "alpha.example.com", Tasks: 1},
		{Name: "beta\x1b[31m", Tasks: 1}}
	for _, size := range [][2]int{{200, 50}, {80, 24}, {40, 12}} {
		got := print(t, st, Options{Width: size[0], Height: size[1]})
		for line := range strings.Lines(got) {
			if width := lipgloss.Width(strings.TrimRight(line, "\n")); width > size[0] {
				t.Errorf("a line is %d columns wide on a terminal of %d: %s", width, size[0], line)
			}
		}
		if lines := strings.Count(got, "\n"); size[1] >= 24 && lines >= size[1] {
			t.Errorf("%d lines on a terminal of %d:\n%s", lines, size[1], got)
		}
		if !strings.Contains(got, "at work: alpha (1 task), beta") ||
			strings.Contains(got, "\x1b[31m") {
			t.Errorf("%v:\n%s", size, got)
		}
	}
	if got := print(t, st, Options{}); !strings.Contains(got, "developer claude (2nd) on alpha") ||
		!strings.Contains(got, "checks on beta") {
		t.Errorf("got\n%s", got)
	}
	st.Machines = nil
	st.Tasks[0].Worker.Machine, st.Tasks[1].Worker.Machine = "", ""
	if got := print(t, st, Options{Width: 80, Height: 24}); got != print(t, busy(),
		Options{Width: 80, Height: 24}) {
		t.Errorf("without machines:\n%s", got)
	}
}

// A status lists the machines that have verified their copies of the ledger, and what is wrong with
// the others.
func TestStatusOfCopies(t *testing.T) {
	st, at := busy(), time.Unix(1000, 0)
	st.Copies = []inspect.Copy{{Node: "a", Events: 7, Verified: &at},
		{Node: "b", Verified: &at, Problem: "event 4: wrong checksum\x1b[31m"}, {Node: "c"}}
	got := print(t, st, Options{})
	if !strings.Contains(got, "copies of the ledger: verified by a; b: event 4: wrong checksum") ||
		!strings.Contains(got, "; c does not answer\n") || strings.Contains(got, "\x1b[31m") {
		t.Errorf("got\n%s", got)
	}
	st.Copies = st.Copies[1:]
	if got := print(t, st, Options{}); !strings.Contains(got, "none is verified; b: ") {
		t.Errorf("got\n%s", got)
	}
}

// The lease says on which machine a session is, also one without an agent.
func TestMachineOfASession(t *testing.T) {
	s := newStage(t)
	s.do(rules.Dispatch{Roles: []signalbox.Role{signalbox.RoleDeveloper}, Session: "w-9.1",
		Actor: "crew", Lease: "l-9", Machine: "alpha.example.com"})
	look := func() (*inspect.Status, string) {
		t.Helper()
		st, err := inspect.ReadStatus(t.Context(), s.b, time.Now())
		must.Succeed(t, err)
		var w *rules.Work
		s.b.Engine.View(func(state *rules.State) { w, _ = state.Work("T1") })
		details, err := inspect.ReadDetails(t.Context(), s.b, w, time.Now())
		must.Succeed(t, err)
		var out strings.Builder
		must.Succeed(t, Details(&out, &details, Options{Width: 80, Zone: time.UTC}))
		return st, out.String()
	}
	if st, _ := look(); st.Machines != nil || st.Tasks[0].Worker.Machine != "" {
		t.Errorf("a ledger of one machine: %+v", st.Machines)
	}
	s.b.Config.Journal = "postgres://db/x" // machines share the ledger
	st, details := look()
	if len(st.Machines) != 1 ||
		st.Machines[0] != (inspect.Machine{Name: "alpha.example.com", Tasks: 1}) ||
		st.Tasks[0].Worker.Machine != "alpha.example.com" {
		t.Errorf("machines %+v, worker %+v", st.Machines, st.Tasks[0].Worker)
	}
	if !strings.Contains(details, "MACHINE") || !strings.Contains(details, " alpha") {
		t.Errorf("got\n%s", details)
	}
}

// Machines with the same host name are counted as two, several processes of a machine as one.
func TestMachinesWithOneName(t *testing.T) {
	s := newStage(t)
	s.b.Config.Journal = "postgres://db/x" // machines share the ledger
	dispatch := func(session, lease string) {
		t.Helper()
		s.do(rules.Dispatch{Roles: []signalbox.Role{signalbox.RoleDeveloper}, Session: session,
			Actor: "crew", Lease: lease, Machine: "mac.example.com"})
	}
	look := func() []inspect.Machine {
		t.Helper()
		st, err := inspect.ReadStatus(t.Context(), s.b, time.Now())
		must.Succeed(t, err)
		return st.Machines
	}
	s.do(rules.LoadPlan{Plan: signalbox.Hash{2}, Name: "one", ID: "one", Source: "one.md",
		Tasks: []rules.PlanTask{{ID: "T1", Title: "only"}, {ID: "T2", Title: "second"},
			{ID: "T3", Title: "third"}}, Actor: "ann"})
	dispatch("w-aaaa000000000001.1", "l-1")
	dispatch("w-aaaa000000000002.1", "l-2")
	if diff := cmp.Diff([]inspect.Machine{{Name: "mac.example.com", Tasks: 2}},
		look()); diff != "" {
		t.Errorf("two processes (-want +got):\n%s", diff)
	}
	dispatch("w-bbbb000000000001.1", "l-3")
	if diff := cmp.Diff([]inspect.Machine{{Name: "mac-aaaa", Tasks: 2},
		{Name: "mac-bbbb", Tasks: 1}}, look()); diff != "" {
		t.Errorf("two machines (-want +got):\n%s", diff)
	}
}
