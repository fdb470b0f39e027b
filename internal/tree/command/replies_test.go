package command

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/runner"
)

func TestSplitReplies(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"none":                  {"", []string{""}},
		"one":                   {"hello", []string{"hello"}},
		"two":                   {"hello\n---\nbye\n", []string{"hello\n", "bye\n"}},
		"of several lines":      {"a\n\nb\n---\nc\nd", []string{"a\n\nb\n", "c\nd"}},
		"an end like any other": {"a\n---\nb\n---\n", []string{"a\n", "b\n"}},
		"only white at the end": {"a\n---\n \n\n", []string{"a\n"}},
		"empty ones count":      {"---\n---\na", []string{"", "", "a"}},
		"empty first":           {"---\na\n", []string{"", "a\n"}},
		"of Windows":            {"a\r\n---\r\nb\r\n", []string{"a\r\n", "b\r\n"}},
		"spaces after the line": {"a\n--- \t\nb", []string{"a\n", "b"}},
		"no separators": {"a\n----\n --- x\n -- -\n --\n---x\nb",
			[]string{"a\n----\n --- x\n -- -\n --\n---x\nb"}},
		"indented is text": {"a\n  ---\nb", []string{"a\n  ---\nb"}},
	} {
		if diff := cmp.Diff(c.want, SplitReplies(c.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// asking returns a tree with a model call for each key, one after the other.
func asking(t *testing.T, keys ...string) *tree.Tree {
	t.Helper()
	def := &tree.Definition{Name: "asking", Root: &tree.Node{Kind: tree.Sequence}}
	for _, key := range keys {
		def.Keys = append(def.Keys, tree.Key{Name: key, Type: tree.String})
		def.Root.Children = append(def.Root.Children,
			&tree.Node{Kind: tree.LLMCall,
				Args: map[string]any{"prompt": "go on", "response_key": key}})
	}
	compiled, err := tree.Compile(def, nil)
	must.Succeed(t, err)
	return compiled
}

func TestReplies(t *testing.T) {
	services := &tree.Registry{}
	services.Add(tree.LLMCall, "", Replies([]string{"one", "two"}))
	options := &runner.Options{Journal: filepath.Join(t.TempDir(), "journal"),
		Run: tree.RunOptions{ID: "r", Services: services}, MaxTicks: 2}
	// The run is stopped after the first reply. The resumed run does not use the first reply again.
	if _, err := runner.Do(t.Context(), asking(t, "a", "b", "c"), options); err == nil {
		t.Fatal("two ticks were enough")
	}
	options.MaxTicks = 0
	run, err := runner.Do(t.Context(), asking(t, "a", "b", "c"), options)
	must.Succeed(t, err)
	board := run.Board().Snapshot()
	if board["a"] != "one" || board["b"] != "two" || board["c"] != nil {
		t.Errorf("the board has %v", board)
	}
	if got := run.View(3); run.Status() != tree.Failure || got.Err != "all 2 replies were used" {
		t.Errorf("%s; the third call: %+v", run.Status(), got)
	}
}
