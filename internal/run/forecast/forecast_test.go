package forecast

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/run/plan"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// TestWaves checks that every task is in one wave, after the tasks that it waits for, and that no
// wave has more tasks than slots while another task could start.
func TestWaves(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "tasks")
		p := &plan.Plan{}
		for i := range n {
			task := plan.Task{ID: fmt.Sprintf("T%d", i),
				Priority: rapid.IntRange(-1, 1).Draw(t, "priority")}
			for j := range i {
				if rapid.IntRange(0, 3).Draw(t, "blocked") == 0 {
					task.BlockedBy = append(task.BlockedBy, fmt.Sprintf("T%d", j))
				}
			}
			p.Tasks = append(p.Tasks, task)
		}
		f := &Forecast{Slots: rapid.IntRange(1, 4).Draw(t, "slots")}
		must.Succeed(t, f.addWaves(t.Context(), nil, p, nil, ""))
		wave := map[string]int{}
		for i, tasks := range f.Waves {
			if len(tasks) == 0 || len(tasks) > f.Slots {
				t.Fatalf("wave %d has %d tasks, with %d slots", i, len(tasks), f.Slots)
			}
			for _, task := range tasks {
				if _, twice := wave[task.ID]; twice {
					t.Fatalf("%s is in two waves", task.ID)
				}
				wave[task.ID] = i
			}
		}
		for _, task := range p.Tasks {
			at, started := wave[task.ID]
			if !started {
				t.Fatalf("%s is in no wave", task.ID)
			}
			ready := 0 // the first wave in which it could start
			for _, blocker := range task.BlockedBy {
				if wave[blocker] >= at {
					t.Fatalf("%s starts in wave %d, its blocker %s in wave %d", task.ID, at,
						blocker, wave[blocker])
				}
				ready = max(ready, wave[blocker]+1)
			}
			for i := ready; i < at; i++ {
				if len(f.Waves[i]) < f.Slots {
					t.Fatalf("%s starts in wave %d, and wave %d has a free slot", task.ID, at, i)
				}
			}
		}
	})
}

// Text of the plan cannot reach the terminal unescaped.
func TestTextIsEscaped(t *testing.T) {
	hostile := "a\x1b[2J\nmissing: nothing"
	f := &Forecast{Name: hostile, Waves: [][]Task{{{ID: "T1", Title: hostile}}},
		Roles:         []Role{{Program: hostile, Others: []Substitute{{hostile, hostile}}}},
		Setup:         []string{hostile},
		SetupCommands: []Setup{{hostile, hostile, []string{hostile}, "1s"}},
		Copy:          []string{hostile}, Checks: []Check{{Name: "c", Command: hostile}},
		Branch: "main", Missing: []Missing{{hostile, hostile}}, Notes: []string{hostile}}
	text := f.Text(hostile, 0)
	if strings.Contains(text, "\x1b") || strings.Count(text, "\nmissing: ") != 1 {
		t.Errorf("%q", text)
	}
}
