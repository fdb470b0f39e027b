package oracle_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnlog"
	"signalbox/internal/tree/turnsignal"
)

// TestToolFailureTriggersNeedTurnSignal is T026 of the seed: the code search fails, the model asks
// for another turn and names the failure, and all of that is on the blackboard, on the ledger, in
// the chunks and in the next request.
func TestToolFailureTriggersNeedTurnSignal(t *testing.T) {
	const reason = "search_code failed, trying vault search instead"
	both(t, func(t *testing.T, p model.Provider) {
		server := newServer(t, script(
			calls(says("Let me search for that function."), "call_1", "search_code",
				`{"query":"auth function"}`),
			modelserver.Turn{Parts: []modelserver.Part{{Cut: modelserver.Cut{EveryByte: true},
				Text: "The search encountered an error. Let me try a different approach.\n\n<signal type=\"need_turn\">\n  <reason>" + reason +
					"</reason>\n  <confidence>0.8</confidence>\n</signal>"}}},
			says("The notes say that it lets everybody in."+enough)))
		b := newBox(t)
		s := newSession(t)
		o := newOracle(t, oracle.Options{Model: client(t, p, server, nil),
			Tools:  []toolbox.Tool{fails("search_code", "Index not ready")},
			Record: turnlog.To(b.Engine, "ann")})
		h := &heard{}
		answer, err := o.Ask(t.Context(), s, question, h.take)
		must.Succeed(t, err)
		if done := h.done(t, answer); done.Reason != "context_sufficient" || done.Turns != 3 {
			t.Errorf("it ended with %+v", done)
		}
		if want := "The notes say that it lets everybody in."; answer.Text != want {
			t.Errorf("the answer is %q, want %q", answer.Text, want)
		}

		// on the blackboard, when the turn was over
		wantLast := turnsignal.Signal{Type: "need_turn", Confidence: 0.8, Fields: map[string]any{"reason": reason}}
		var last, emitted, results, shown any
		replay(t, s, "", "", func(run *tree.Run) {
			if turn, _ := run.Board().Get("_turn"); turn == int64(2) {
				last, _ = run.Board().Get("last_signal")
				emitted, _ = run.Board().Get("signals_emitted")
				results, _ = run.Board().Get("tool_results")
				shown, _ = run.Board().Get("accumulated_content")
			}
		})
		got, ok := turnsignal.ParseSignal(last)
		got.RawXML, got.Timestamp = "", ""
		if diff := cmp.Diff(wantLast, got); !ok || diff != "" {
			t.Errorf("last_signal (-want +got):\n%s", diff)
		}
		if list, _ := emitted.([]any); len(list) != 1 ||
			tree.FormatValue(list[0]) != tree.FormatValue(last) {
			t.Errorf("signals_emitted is %s", tree.FormatValue(emitted))
		}
		if text, _ := shown.(string); text != "The search encountered an error. Let me try a different approach." {
			t.Errorf("accumulated_content is %q", shown)
		}
		wantResults := []any{map[string]any{"tool": "search_code", "success": false,
			"error": "Index not ready"}}
		if diff := cmp.Diff(any(wantResults), results); diff != "" {
			t.Errorf("tool_results (-want +got):\n%s", diff)
		}

		// on the ledger
		var signals []string
		for _, e := range onLedger(t, b) {
			signals = append(signals, e.Signal+": "+e.Reason)
		}
		if diff := cmp.Diff([]string{"need_turn: " + reason, "context_sufficient: "},
			signals); diff != "" {
			t.Errorf("on the ledger (-want +got):\n%s", diff)
		}

		// what is shown, and what is recorded
		wantText := map[int]string{1: "Let me search for that function.", 2: "The search encountered an error. Let me try a different approach.",
			3: "The notes say that it lets everybody in."}
		if diff := cmp.Diff(wantText, h.text()); diff != "" {
			t.Errorf("text (-want +got):\n%s", diff)
		}
		if strings.Contains(strings.Join(contents(h.chunks), ""), "<signal") {
			t.Errorf("signals are shown:\n%s", lines(h.chunks))
		}
		wantResult := []chunk.ToolResult{{Turn: 1, ID: "call_1", Name: "search_code", Text: "Index not ready"}}
		if diff := cmp.Diff(wantResult, of[chunk.ToolResult](h.chunks)); diff != "" {
			t.Errorf("tool results (-want +got):\n%s", diff)
		}
		heardSignals := of[chunk.Signal](h.chunks)
		if len(heardSignals) != 2 || heardSignals[0].Turn != 2 ||
			heardSignals[0].Name != "need_turn" || heardSignals[0].Fields["reason"] != reason {
			t.Errorf("signals: %+v", heardSignals)
		}
		recorded := 0
		for _, e := range s.Entries() {
			if e.Kind == session.Result && e.Call.Name == "search_code" && !e.OK &&
				e.Text == "Index not ready" {
				recorded++
			}
		}
		if recorded != 1 {
			t.Errorf("the failed result is %d times in the record", recorded)
		}
		// the model was told of the failure
		if told := told(server); !strings.Contains(told, "result call_1: Index not ready") {
			t.Errorf("the model was told:\n%s", told)
		}
	})
}
