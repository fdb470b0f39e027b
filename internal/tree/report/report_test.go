package report_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree"
	"signalbox/internal/tree/report"
	"signalbox/internal/tree/runner"
)

const source = `return BT.tree("small", {
    blackboard = { word = "string", long = "string" },
    root = BT.sequence({
        BT.condition("ready", { fn = function() return true end }),
        BT.script("say", function(t) t:set("word", "yes") t:emit("said", "yes") t:set("long", string.rep("é", 300)) end),
        BT.script("break", function(t) return t:fail("out of paper\27[31m") end),
    }),
})`

// run runs a tree and returns its descriptions after every tick.
func run(t *testing.T, source, journal string) (r *tree.Run, ticks []report.Tick, lines []string) {
	t.Helper()
	file, err := luatree.Load(t.Context(), "small.lua", []byte(source), nil)
	must.Succeed(t, err)
	t.Cleanup(file.Close)
	r, err = runner.Do(t.Context(), file.Tree(),
		&runner.Options{Run: tree.RunOptions{ID: "T-1", Observe: true}, Journal: journal,
			File: file.Name, Source: source,
			Ticked: func(run *tree.Run) {
				ticks, lines = append(ticks, report.LastTick(run)),
					append(lines, report.Lines(run)...)
			}})
	must.Succeed(t, err)
	return r, ticks, lines
}

func TestReport(t *testing.T) {
	r, ticks, lines := run(t, source, "")
	if want := []string{
		"tick 1: success sequence/say",
		`tick 1: failure sequence/break: out of paper\x1b[31m`,
		`tick 1: said "yes"`,
	}; cmp.Diff(want, lines) != "" {
		t.Errorf("lines (-want +got):\n%s", cmp.Diff(want, lines))
	}
	if len(ticks) != 1 || ticks[0].Status != "FAILURE" || len(ticks[0].Transitions) != 4 ||
		len(ticks[0].Emitted) != 1 {
		t.Errorf("ticks %+v", ticks)
	}
	if want := "sequence/break: out of paper\x1b[31m"; report.FailureCause(r) != want {
		t.Errorf("cause %q, want %q", report.FailureCause(r), want)
	}
	if end := report.NewEnd(r, nil); end.End != "FAILURE" || end.Error != report.FailureCause(r) ||
		end.Blackboard["word"] != "yes" || end.Ticks != 1 || end.Run != "T-1" {
		t.Errorf("end %+v", end)
	}
	if end := report.NewEnd(r,
		&tree.Ending{End: runner.Interrupted, Error: "x"}); end.End != runner.Interrupted ||
		end.Error != "x" {
		t.Errorf("interrupted: %+v", end)
	}
	board := report.Blackboard(r)
	if len(board) != 2 || board[0] != `word = "yes"` && board[1] != `word = "yes"` {
		t.Errorf("blackboard %q", board)
	}
	for _, line := range board {
		if value := strings.SplitN(line, " = ", 2)[1]; len([]rune(value)) > 200 {
			t.Errorf("%d characters: %s", len([]rune(value)), line)
		}
	}
}

// A failed leaf without an error is named only if no node failed with an error.
func TestFailureCauseWithoutError(t *testing.T) {
	r, _, _ := run(t, `return BT.tree("small", { root = BT.sequence({ BT.script("no", function(t) return BT.FAILURE end) }) })`, "")
	if got := report.FailureCause(r); got != "sequence/no" {
		t.Errorf("cause %q", got)
	}
}

func TestPicture(t *testing.T) {
	r, _, _ := run(t, source, "")
	lines, focus, status := report.Picture(r, false)
	if status != "tick 1" || focus != 0 || !strings.Contains(strings.Join(lines, "\n"), "break") ||
		lines[len(lines)-1] == "" {
		t.Errorf("focus %d, status %q, lines %q", focus, status, lines)
	}
}

// A replay reports the same ticks as the run.
func TestReplayReportsTheSame(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "run.journal")
	_, want, _ := run(t, source, journal)
	if !runner.IsJournal(journal) || runner.IsJournal(journal+"x") {
		t.Error("IsJournal is wrong")
	}
	var got []report.Tick
	replayed, j, err := runner.Replay(journal, 0, func(h tree.Header) (*tree.Tree, error) {
		file, err := luatree.Load(t.Context(), h.File, []byte(h.Source), nil)
		if err != nil {
			return nil, err
		}
		t.Cleanup(file.Close)
		return file.Tree(), nil
	}, func(run *tree.Run) error {
		got = append(got, report.LastTick(run))
		return nil
	})
	must.Succeed(t, err)
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" || !j.Ended() ||
		replayed.Ticks() != 1 {
		t.Errorf("ended %t, ticks %d (-run +replay):\n%s", j.Ended(), replayed.Ticks(), diff)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must.Succeed(t, err)
	return string(text)
}
