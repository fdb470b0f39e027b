package oracle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

var update = flag.Bool("update", false, "write what is expected of the conversations")

const conversationGlob = "testdata/conversation/*.txtar"

// rows maps each row of the decision table to the files that show it.
var rows = map[string][]string{
	"cancelled": {"cancelled"},
	"token, cost or time budget spent": {"budget-tokens", "budget-cost",
		"budget-time", "budget-no-answer"},
	"turn limit reached": {"turns", "turns-default"},
	"context_sufficient or partial_answer": {"context-sufficient", "partial-answer",
		"signal-without-text"},
	"stuck, or the same reason 3 times": {"stuck", "same-reason"},
	"need_capability": {"capability", "capability-workaround",
		"capability-own-workaround"},
	"delegation_recommended":      {"delegation", "delegation-no-sub-agent"},
	"need_turn, confidence ≥ 0.5": {"need-turn"},
	"tool calls pending": {"tool-calls", "tools-at-once",
		"tool-unknown", "tool-arguments", "tool-repeated"},
	"3 turns without a signal, or confidence < 0.3": {"silence", "silence-text", "low-confidence",
		"low-confidence-text"},
	"text and no tool calls":                          {"plain", "thanks", "hesitant"},
	"(neither text nor calls, which no row is about)": {"nothing-said"},
}

// setting is the file "setting" of a conversation in JSON. Only the question is required.
type setting struct {
	Question string `json:"question"`
	Tools    []struct {
		Name   string `json:"name"`
		Result string `json:"result"`
		Error  string `json:"error"`
		Source string `json:"source"`
		Takes  string `json:"takes"`
		// Cancel cancels the conversation while the tool runs.
		Cancel bool `json:"cancel"`
	} `json:"tools"`
	TurnLimit   int               `json:"turn_limit"`
	Tokens      int64             `json:"tokens"`
	CostUSD     float64           `json:"cost_usd"`
	Time        string            `json:"time"`
	Workarounds map[string]string `json:"workarounds"`
	// SubAgents are names; the files "model NAME" have the scripts of their models.
	SubAgents []string `json:"sub_agents"`
}

// TestConversations plays the conversations of testdata with both protocols. A file has the
// question and its setting (setting), the script of the model (model), and the expected chunks,
// decisions and requests to the model. With -update the last three are written.
func TestConversations(t *testing.T) {
	for _, path := range conversationFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel() // most of the time is spent waiting for the disk
			archive, err := txtar.ParseFile(path)
			must.Succeed(t, err)
			both(t, func(t *testing.T, p model.Provider) {
				got := play(t, p, archive)
				if *update && p == model.OpenAI {
					rewrite(t, path, archive, got)
				}
				for _, name := range []string{"chunks", "decisions", "told"} {
					if diff := cmp.Diff(file(archive, name), got[name]); diff != "" {
						t.Errorf("%s (-want +got):\n%s", name, diff)
					}
				}
			})
		})
	}
}

func conversationFiles(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(conversationGlob)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", conversationGlob, len(paths), err)
	}
	return paths
}

func file(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func rewrite(t *testing.T, path string, archive *txtar.Archive, got map[string]string) {
	t.Helper()
	for _, name := range []string{"chunks", "decisions", "told"} {
		at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == name })
		if at < 0 {
			at = len(archive.Files)
			archive.Files = append(archive.Files, txtar.File{Name: name})
		}
		archive.Files[at].Data = []byte(got[name])
	}
	must.Succeed(t, os.WriteFile(path, txtar.Format(archive), 0o644))
}

// play runs a conversation and returns its results.
func play(t *testing.T, p model.Provider, archive *txtar.Archive) map[string]string {
	t.Helper()
	var set setting
	decoder := json.NewDecoder(strings.NewReader(file(archive, "setting")))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&set); err != nil {
		t.Fatalf("setting: %v", err)
	}
	stage := func(t *testing.T) map[string]string {
		server := newServer(t, parseModel(t, file(archive, "model")))
		connect := func(s *modelserver.Server) *model.Client { return client(t, p, s, priced) }
		if set.Time != "" { // a synctest bubble, and therefore no network
			connect = func(s *modelserver.Server) *model.Client {
				c, end := pipeClient(t, p, s)
				t.Cleanup(end)
				return c
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		opts := set.options(t, cancel)
		opts.Model = connect(server)
		for _, name := range set.SubAgents {
			sub := oracle.Options{Model: connect(newServer(t,
				parseModel(t, file(archive, "model "+name))))}
			if opts.SubAgents == nil {
				opts.SubAgents = map[string]*oracle.Oracle{}
			}
			opts.SubAgents[name] = newOracle(t, sub)
		}
		return converse(t, ctx, newOracle(t, opts), set.Question, server)
	}
	if set.Time == "" {
		return stage(t)
	}
	var got map[string]string
	synctest.Test(t, func(t *testing.T) { got = stage(t) })
	return got
}

// priced makes a token cost a dollar, so that costs are integers.
func priced(o *model.Options) { o.Price = model.Price{Input: 1e6, Output: 1e6, Cached: 1e6} }

func (s *setting) options(t *testing.T, cancel context.CancelFunc) oracle.Options {
	t.Helper()
	opts := oracle.Options{TurnLimit: s.TurnLimit, Workarounds: s.Workarounds,
		Limit: decide.Resources{Tokens: s.Tokens, CostUSD: s.CostUSD}}
	if s.Time != "" {
		opts.Limit.Time = duration(t, s.Time)
	}
	for _, described := range s.Tools {
		var takes time.Duration
		if described.Takes != "" {
			takes = duration(t, described.Takes)
		}
		opts.Tools = append(opts.Tools,
			tool(described.Name, func(ctx context.Context, _ toolbox.Call) (toolbox.Result, error) {
				if described.Cancel {
					cancel()
				}
				if takes > 0 {
					select {
					case <-time.After(takes): // on the clock of the bubble
					case <-ctx.Done():
					}
				}
				if described.Error != "" {
					return toolbox.Result{}, errors.New(described.Error)
				}
				result := toolbox.Result{Text: described.Result}
				if described.Source != "" {
					result.Sources = []chunk.Source{{Type: "code", Path: described.Source}}
				}
				return result, ctx.Err()
			}))
	}
	return opts
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	must.Succeed(t, err)
	return d
}

var usageLine = regexp.MustCompile(`^usage (\d+) (\d+)$`)

// parseModel parses the script of a model. Lines of "---" separate turns. A turn has text, calls
// ("call NAME ARGUMENTS") and its cost ("usage INPUT OUTPUT", by default 100 and 10). "when
// PATTERN" makes a turn answer every request that matches.
func parseModel(t *testing.T, text string) *modelserver.Script {
	t.Helper()
	var turns []modelserver.Turn
	for n, part := range strings.Split("\n"+strings.TrimSuffix(text, "\n"), "\n---") {
		turn := modelserver.Turn{Usage: &modelserver.Usage{Input: 100, Output: 10}}
		var said []string
		var made []modelserver.Part
		for _, line := range strings.Split(strings.TrimPrefix(part, "\n"), "\n") {
			if call, ok := strings.CutPrefix(line, "call "); ok {
				name, arguments, _ := strings.Cut(call, " ")
				made = append(made, modelserver.Part{Call: &modelserver.Call{ID: fmt.Sprintf(
					"call_%d_%d", n+1, len(made)+1), Name: name,
					Arguments: json.RawMessage(arguments)}})
			} else if m := usageLine.FindStringSubmatch(line); m != nil {
				fmt.Sscan(m[1]+" "+m[2], &turn.Usage.Input, &turn.Usage.Output)
			} else if pattern, ok := strings.CutPrefix(line, "when "); ok {
				turn.Match = &modelserver.Match{User: pattern}
			} else if thought, ok := strings.CutPrefix(line, "thinks "); ok {
				turn.Parts = append(turn.Parts, modelserver.Part{Reasoning: thought})
			} else {
				said = append(said, line)
			}
		}
		if text := strings.Join(said, "\n"); text != "" {
			turn.Parts = append(turn.Parts,
				modelserver.Part{Text: text, Cut: modelserver.Cut{EveryByte: true}})
		}
		turn.Parts = append(turn.Parts, made...)
		turns = append(turns, turn)
	}
	return &modelserver.Script{Conversations: []modelserver.Conversation{{Turns: turns}}}
}

func converse(t *testing.T, ctx context.Context, o *oracle.Oracle, question string,
	server *modelserver.Server) map[string]string {
	t.Helper()
	s := newSession(t)
	h := &heard{}
	answer, err := o.Ask(ctx, s, question, h.take)
	must.Succeed(t, err)
	done := h.done(t, answer)
	if strings.Contains(strings.Join(contents(h.chunks), ""), "<signal") {
		t.Errorf("signals are shown:\n%s", lines(h.chunks))
	}
	var decisions bytes.Buffer
	byTurn := map[int64]map[string]any{}
	replay(t, s, "", "", func(run *tree.Run) {
		turn, _ := run.Board().Get("_turn")
		made, _ := run.Board().Get("_decision")
		// before the end of a turn it is the decision of the turn before
		if n, ok := turn.(int64); ok && made != nil {
			byTurn[n], _ = made.(map[string]any)
		}
	})
	for n := range int64(done.Turns) {
		if d := byTurn[n+1]; d != nil {
			fmt.Fprintln(&decisions, d["decision"], d["reason"])
		}
	}
	// no turn ended, so there is no decision on the blackboard
	if done.Reason == string(decide.ReasonCancelled) {
		fmt.Fprintln(&decisions, decide.Stop, decide.ReasonCancelled)
	}
	return map[string]string{"chunks": lines(joined(h.chunks)), "decisions": decisions.String(),
		"told": told(server)}
}

func contents(chunks []chunk.Chunk) []string {
	var all []string
	for _, c := range of[chunk.Content](chunks) {
		all = append(all, c.Text)
	}
	return all
}

// told returns what each request adds to the one before, and which tools it offers.
func told(server *modelserver.Server) string {
	var out strings.Builder
	for _, r := range server.Requests() {
		var tools []string
		for _, tool := range r.Tools {
			tools = append(tools, tool.Name)
		}
		fmt.Fprintf(&out, "request %d: %s\n", r.Number,
			strings.Join(append([]string{"tools"}, tools...), " "))
		from := 0
		for i, m := range r.Messages {
			if m.Role == modelserver.RoleAssistant {
				from = i + 1
			}
		}
		for _, m := range r.Messages[from:] {
			for _, result := range m.Results {
				fmt.Fprintf(&out, "  result %s: %s\n", result.ID, indented(result.Text))
			}
			if m.Text != "" {
				fmt.Fprintf(&out, "  user: %s\n", indented(m.Text))
			}
		}
	}
	return out.String()
}

func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n    ") }

// TestEveryRow checks that there is a conversation for each row of the table, for each action, and
// for each reason.
func TestEveryRow(t *testing.T) {
	there := map[string]bool{}
	done := map[decide.Action]bool{}
	why := map[decide.Reason]bool{}
	for _, path := range conversationFiles(t) {
		there[strings.TrimSuffix(filepath.Base(path), ".txtar")] = true
		archive, err := txtar.ParseFile(path)
		must.Succeed(t, err)
		for line := range strings.Lines(file(archive, "decisions")) {
			what, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
			done[decide.Action(what)], why[decide.Reason(reason)] = true, true
		}
	}
	listed := map[string]bool{}
	for row, files := range rows {
		for _, name := range files {
			listed[name] = true
			if !there[name] {
				t.Errorf("the row %q has no conversation %s", row, name)
			}
		}
	}
	for name := range there {
		if !listed[name] {
			t.Errorf("conversation %s belongs to no row", name)
		}
	}
	if len(rows) != 12 {
		t.Errorf("%d rows, want the 11 of the table and its rest", len(rows))
	}
	for _, do := range []decide.Action{decide.Continue, decide.AskFinal, decide.OtherStrategy,
		decide.Acknowledge, decide.ForceAnswer, decide.Hint,
		decide.Delegate, decide.Final, decide.Stop} {
		if !done[do] {
			t.Errorf("no conversation comes to %s", do)
		}
	}
	for _, reason := range []decide.Reason{decide.ReasonCancelled, decide.ReasonBudgetSpent,
		decide.ReasonMaxTurns, decide.ReasonContextSufficient,
		decide.ReasonPartialAnswer, decide.ReasonStuck, decide.ReasonSameReason,
		decide.ReasonNeedCapability, decide.ReasonDelegation,
		decide.ReasonNeedTurn, decide.ReasonToolCalls, decide.ReasonNoSignal,
		decide.ReasonLowConfidence, decide.ReasonAnswered,
		decide.ReasonNothingSaid, decide.ReasonNoAnswer} {
		if !why[reason] {
			t.Errorf("no conversation has the reason %s", reason)
		}
	}
}
