package inspect

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// TestEveryQuestionIsARequest asks a question of every kind, about a task and about the run: it
// waits for the human as a request of its kind, and the rules accept the answers that are offered.
// Faults of the machine and the base, and budgets, are marked as such.
func TestEveryQuestionIsARequest(t *testing.T) {
	faults := map[rules.QuestionKind][]string{rules.AskedBaseline: {"again", "repair", "accept"},
		rules.AskedRemediation: {"healthy", "halt"}, rules.AskedTimeout: nil,
		rules.AskedAgent: {"retry"}, rules.AskedSetup: {"again"}}
	for _, kind := range rules.QuestionKinds() {
		works := []string{"T1"}
		if kind == rules.AskedBudget || kind == rules.AskedAgent || kind == rules.AskedSetup {
			works = append(works, "")
		}
		for _, work := range works {
			want := RequestQuestion
			if _, fault := faults[kind]; fault {
				want = RequestFault
			} else if kind == rules.AskedBudget {
				want = RequestBudget
			}
			answers := []string{"some words"}
			for i := 0; i < len(answers); i++ {
				h := begin(t, nil, task("T1"))
				h.ask(work, kind)
				requests := NewStatus(h.s, h.now).Requests
				if len(requests) != 1 || requests[0].Kind != want || requests[0].ID != "Q-1" ||
					requests[0].Work != work || requests[0].Text == "" || requests[0].Since == nil {
					t.Fatalf("%s about %q: %+v", kind, work, requests)
				}
				if list, fault := faults[kind]; fault && !slices.Equal(requests[0].Answers, list) {
					t.Errorf("%s offers %q, want %q", kind, requests[0].Answers, list)
				}
				if i == 0 {
					answers = append(answers, requests[0].Answers...)
				}
				if d := rules.Decide(h.s, h.now,
					rules.AnswerQuestion{Question: "Q-1", Answer: answers[i],
						Actor: "ann"}); d.Err != nil {
					t.Errorf("%s about %q: the answer %q is refused: %v", kind, work, answers[i],
						d.Err)
				}
			}
		}
	}
}

// ask adds a question, as the rules would.
func (h *history) ask(work string, kind rules.QuestionKind) {
	h.t.Helper()
	data, err := json.Marshal(rules.QuestionAsked{Question: "Q-1", Kind: kind, Text: "why?"})
	must.Succeed(h.t, err)
	h.now = h.now.Add(time.Second)
	must.Succeed(h.t, h.s.Apply(&signalbox.Event{Seq: h.s.Seq() + 1, Time: h.now,
		Type: rules.TypeQuestionAsked, Work: work, Actor: "crew", Data: data}))
}

// TestQuestionKindsAreComplete compares the list of kinds with the constants.
func TestQuestionKindsAreComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../core/rules/question.go", nil,
		parser.SkipObjectResolution)
	must.Succeed(t, err)
	constants := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "QuestionKind" {
				constants += len(spec.Names)
			}
		}
		return true
	})
	kinds := rules.QuestionKinds()
	slices.Sort(kinds)
	if listed := len(slices.Compact(kinds)); listed != constants || constants == 0 {
		t.Errorf("%d kinds are listed, and there are %d constants", listed, constants)
	}
}
