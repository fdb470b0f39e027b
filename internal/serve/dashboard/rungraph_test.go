package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// loadLarge loads a plan of 30 tasks in layers of five. Each task waits for two of the layer before
// it.
func (s *stage) loadLarge() {
	s.t.Helper()
	large := rules.LoadPlan{Plan: signalbox.Hash{2}, Name: "large " + onlyText, ID: "large",
		Source: "large.md", Actor: "op", Replace: true}
	for i := range 30 {
		task := rules.PlanTask{ID: fmt.Sprintf("L%d", i), Title: fmt.Sprintf("L%d %s", i, onlyText),
			Text: s.blob("x")}
		if i >= 5 {
			task.BlockedBy = []string{fmt.Sprintf("L%d", i-5), fmt.Sprintf("L%d", i/5*5-1-i%5)}
		}
		large.Tasks = append(large.Tasks, task)
	}
	for !s.do(large).Plan.Loaded {
	}
}

// TestPlanIsDrawn looks at the picture of 30 tasks: each is in it, in a place of its own, right of
// the tasks that it waits for, with its state, a link, and a line from each blocker.
func TestPlanIsDrawn(t *testing.T) {
	s := newStage(t)
	if _, _, page := s.get(s.viewer(), "/run"); !strings.Contains(page, "needs approval</text>") ||
		!strings.Contains(page, "asking</text>") {
		t.Errorf("the states of the tasks are missing:\n%s", page)
	}
	s.loadLarge()
	var g graph
	s.box.Engine.View(func(state *rules.State) { g = newGraph(state, "large", nil, time.Now()) })
	if len(g.Boxes) != 30 || len(g.Lines) != 25*2 {
		t.Fatalf("%d boxes, %d lines", len(g.Boxes), len(g.Lines))
	}
	at := map[string]graphBox{}
	critical := 0
	for i, b := range g.Boxes {
		at[b.Task.ID] = b
		if b.X < 0 || b.Y < 0 || b.X+g.BoxWidth > g.Width || b.Y+g.BoxHeight > g.Height {
			t.Errorf("%s is outside of the picture: %+v", b.Task.ID, b.Box)
		}
		for _, other := range g.Boxes[:i] {
			if b.X < other.X+g.BoxWidth && other.X < b.X+g.BoxWidth && b.Y < other.Y+g.BoxHeight &&
				other.Y < b.Y+g.BoxHeight {
				t.Errorf("%s covers %s", b.Task.ID, other.Task.ID)
			}
		}
		if b.Critical {
			critical++
		}
	}
	for _, b := range g.Boxes {
		for _, id := range b.Task.Blockers {
			if at[id].X >= b.X {
				t.Errorf("%s is not right of %s", b.Task.ID, id)
			}
		}
	}
	if critical != 6 {
		t.Errorf("%d tasks are critical, want the longest chain of 6", critical)
	}
	_, _, page := s.get(s.viewer(), "/run?plan=large")
	for id, b := range at {
		if want := fmt.Sprintf(`<a href="/work/%s" aria-label="%s: `, id,
			id); !strings.Contains(page, want) || !strings.Contains(page, ">"+b.State()+"</text>") {
			t.Errorf("%s has no link, or no label %q", id, b.State())
		}
	}
	if n := strings.Count(page, "edge critical"); n != 5 {
		t.Errorf("%d critical lines, want 5", n)
	}
}

// TestCriticalPathInThePicture: what decided how long the run took is marked, not the longest
// chain.
func TestCriticalPathInThePicture(t *testing.T) {
	s := newStage(t)
	var g graph
	s.box.Engine.View(func(
		state *rules.State) {
		g = newGraph(state, "counter", map[string]bool{"T2": true}, time.Now())
	})
	for _, b := range g.Boxes {
		if b.Critical != (b.Task.ID == "T2") {
			t.Errorf("%s: critical %t", b.Task.ID, b.Critical)
		}
	}
}

func TestTooManyTasksAreNotDrawn(t *testing.T) {
	s := newStage(t)
	many := rules.LoadPlan{Plan: signalbox.Hash{3}, Name: "many", ID: "many", Source: "many.md",
		Actor: "op", Replace: true}
	for i := range maxGraph + 1 {
		many.Tasks = append(many.Tasks, rules.PlanTask{ID: fmt.Sprintf("M%d", i), Title: "x",
			Text: signalbox.Hash{9}})
	}
	for !s.do(many).Plan.Loaded {
	}
	if _, _, page := s.get(s.viewer(), "/run"); !strings.Contains(page, "301 tasks are too many") ||
		strings.Contains(page, "class=\"node") {
		t.Error("the picture has too many tasks")
	}
}

// TestSlotChart draws two agents that overlap, and a check, which needs no slot.
func TestSlotChart(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	agent := func(from, to int, class string) span {
		return span{From: noon.Add(time.Duration(from) * time.Minute),
			To: noon.Add(time.Duration(to) * time.Minute), Class: class}
	}
	spans := []span{agent(0, 60, "role-developer"), agent(20, 30, "role-critic busy"),
		agent(0, 60, "role-ci")}
	var page runPage
	page.measure(spans)
	c := newSlotChart(newTimeline(spans), spans, 4, page.Most)
	if page.Most != 2 || c.Limit != 6 ||
		c.Area != "M0 62 L0 62 L0 48 L318 48 L318 34 L478 34 L478 48 L956 48 L956 62 L956 62 L956 62 Z" {
		t.Errorf("at most %d agents, limit at %d, area %s", page.Most, c.Limit, c.Area)
	}
	if empty := newSlotChart(newTimeline(nil), nil, 4, 0); empty.Area != "" {
		t.Errorf("without sessions: %+v", empty)
	}
}
