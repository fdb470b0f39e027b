package browser_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestEmpty looks at the pages before there is a plan.
func TestEmpty(t *testing.T) {
	t.Parallel()
	s := newStage(t, scene{})
	p := loggedIn(t, s)
	for path, want := range map[string]string{"/": "Nothing waits for you.",
		"/board": "No plan was run yet.", "/run": "Nothing has run yet.",
		"/crew": "Nobody works at the moment.",
		"/cost": "Nothing was spent yet.", "/ledger": "BoxOpened",
		"/trees":     "No run of a tree was recorded yet.",
		"/portfolio": "signalbox portfolio init", "/portfolio/SLV": "signalbox portfolio init"} {
		p.open(path)
		if got := p.text("main"); !strings.Contains(got, want) {
			t.Errorf("%s does not contain %q: %s", path, want, got)
		}
		p.size(1280, 900)
		p.look(t, path, "structure()")
		p.look(t, path, "contrast()")
		p.size(390, 844)
		p.look(t, path, "phone()")
		p.noFaults(t)
	}
}

// manyScene is a plan of 60 tasks with long titles. Fourteen of them ask, and the others wait for
// the first.
func manyScene() scene {
	var plan strings.Builder
	plan.WriteString("# A large plan\n")
	for n := 1; n <= 60; n++ {
		blocker := "none"
		if n > 14 {
			blocker = "T1"
		}
		fmt.Fprintf(&plan, "\n#### Task T%d: Rewrite part %d of the calculator so that all operations take any number of arguments, of any size\n\n**Work**: do it\n\n"+
			"**Acceptance Criteria**:\n\n- [ ] it is\n\n**Blocked By**: %s\n", n, n, blocker)
	}
	return scene{
		plan: plan.String(), settings: "slots: 8\n", play: func(*stage) error { return nil },
		script: `on developer *:
    usage 2100 340 0.009
    signal SEEKING_DIVINE_CLARIFICATION
        Task: {task}
        Question: Which of the two libraries for numbers of any size may {task} use?
        Context: Both have the same licence, and neither is used yet.

`}
}

// TestMany looks at a large plan with many requests.
func TestMany(t *testing.T) {
	t.Parallel()
	s := newStage(t, manyScene())
	p := loggedIn(t, s)
	// The base has a card and a row, too.
	for path, want := range map[string]int{"/": 14, "/board": 61, "/run": 15} {
		p.size(1280, 900)
		p.open(path)
		if got := eval[int](p,
			`document.querySelectorAll("article.request, #track .card, .gantt .rows li").length`); got != want {
			t.Errorf("%s shows %d, not %d", path, got, want)
		}
		if eval[int](p, "document.scrollingElement.scrollWidth") > 1280 {
			t.Errorf("%s is wider than the window", path)
		}
		p.look(t, path, "structure()")
		p.look(t, path, "contrast()")
		p.size(390, 844)
		p.look(t, path, "phone()")
	}
	p.noFaults(t)
	// The bars are beside the rows that they belong to.
	p.size(1280, 900)
	p.open("/run")
	for _, fault := range eval[[]string](p, `(() => {
		const rows = [...document.querySelectorAll(".gantt .rows li")], faults = [];
		for (const bar of document.querySelectorAll(".gantt .bar")) {
			const b = bar.getBoundingClientRect(), middle = (b.top + b.bottom) / 2, id = bar.closest("a").getAttribute("aria-label").split(" ")[0];
			const row = rows.find((r) => r.querySelector("a").textContent === id).getBoundingClientRect();
			if (middle < row.top || middle > row.bottom) faults.push(id + ": bar at " + middle + ", row at " + row.top + " to " + row.bottom);
		}
		return faults;
	})()`) {
		t.Error(fault)
	}
}
