package luatree

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// seedFunctions returns the functions that the seed's trees use: the signal functions, and one that
// builds a request.
func seedFunctions() *tree.Registry {
	r := &tree.Registry{}
	turnsignal.Register(r)
	r.Add(tree.Action, "build_llm_request", tree.Leaf{Do: turnsignal.Noop})
	return r
}

// The Lua code in testdata is copied from the seed without changes.
func TestSeedT024(t *testing.T) {
	const file = "testdata/seed_t024.lua"
	source, err := os.ReadFile(file)
	must.Succeed(t, err)
	f, err := Load(t.Context(), file, source, &Options{Functions: seedFunctions()})
	must.Succeed(t, err)
	defer f.Close()
	if got := f.Tree().Name(); got != "agent-turn" {
		t.Errorf("the tree is called %q", got)
	}
	noops := []string{"sequence/selector/sequence/noop", "sequence/selector/sequence#2/noop", "sequence/selector/noop"}
	for _, tt := range []struct {
		name, reply string
		visits      []int
		signal      string
	}{
		{"stuck", `I tried. <signal type="stuck"><attempted>grep</attempted><blocker>no index</blocker><confidence>0.9</confidence></signal>`, []int{1, 0, 0}, "stuck"},
		{"context_sufficient",
			`Found it. <signal type="context_sufficient"><sources_found>3</sources_found><confidence>0.8</confidence></signal>`, []int{0, 1, 0}, "context_sufficient"},
		{"need_turn", `Wait. <signal type="need_turn"><reason>look again</reason><confidence>0.8</confidence></signal>`, []int{0, 0, 1}, "need_turn"},
		{"no signal", "Hello.", []int{0, 0, 1}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := func(c *tree.Call) tree.Status {
				if err := c.Set("accumulated_content", tt.reply); err != nil {
					t.Error(err)
				}
				return tree.Success
			}
			run, err := tree.NewRun(f.Tree(),
				&tree.RunOptions{Replace: []tree.Replacement{{Pattern: "llm_call:*", Do: model}}})
			must.Succeed(t, err)
			if st := run.Tick(time.Unix(0, 0)); st != tree.Success {
				t.Errorf("the tree answered %s: %+v", st, run.Views())
			}
			var visits []int
			for _, path := range noops {
				i, ok := f.Tree().Find(path)
				if !ok {
					t.Fatalf("there is no %s", path)
				}
				visits = append(visits, run.View(i).Visits)
			}
			if diff := cmp.Diff(tt.visits, visits); diff != "" {
				t.Errorf("visits of the three noops (-want +got):\n%s", diff)
			}
			last, _ := run.Board().Get("last_signal")
			fields, _ := last.(map[string]any)
			if got, _ := fields["type"].(string); got != tt.signal {
				t.Errorf("last_signal is of type %q, want %q", got, tt.signal)
			}
		})
	}
}

// The seed's file must not load if one of its functions is missing. The error names the function
// and the line.
func TestSeedT024NeedsItsFunctions(t *testing.T) {
	source, err := os.ReadFile("testdata/seed_t024.lua")
	must.Succeed(t, err)
	functions := &tree.Registry{}
	turnsignal.Register(functions)
	_, err = Load(context.Background(), "agent.lua", source, &Options{Functions: functions})
	want := "agent.lua:9: unknown function 'backend.src.bt.actions.oracle.build_llm_request'"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
