package steer

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/testkit/must"
)

// A task gets its title from its text, and the box its configuration, once.
func TestNewTask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), box.FolderName)
	options := &box.Options{KeyFile: filepath.Join(t.TempDir(), "box.key")}
	if _, err := box.Init(t.Context(), dir, "ann", options); err != nil {
		t.Fatal(err)
	}
	b, err := box.Open(t.Context(), dir, options)
	must.Succeed(t, err)
	defer b.Close()
	long := strings.Repeat("word ", 40)
	for _, tt := range []struct {
		task  NewTask
		title string
	}{
		{NewTask{Text: " fix the typo\n"}, "fix the typo"},
		{NewTask{Text: "one\n\ntwo"}, "one …"},
		{NewTask{Text: long}, long[:79] + "…"},
		{NewTask{Text: long + "\nmore"}, long[:79] + "…"},
		{NewTask{Text: "one", Title: "  a \n title ", Review: "full"}, "a title"},
	} {
		tt.task.Actor = "ann"
		answer, err := tt.task.Do(t.Context(), b)
		must.Succeed(t, err)
		var w *rules.Work
		b.Engine.View(func(s *rules.State) { w, _ = s.Work(answer.Work) })
		blob, err := b.Journal.GetBlob(t.Context(), w.Task.Text)
		must.Succeed(t, err)
		text, err := io.ReadAll(blob)
		must.Succeed(t, err)
		blob.Close()
		var got plan.Task
		must.Succeed(t, json.Unmarshal(text, &got))
		want := plan.Task{Title: tt.title, Criteria: []string{strings.TrimSpace(tt.task.Text)}}
		if diff := cmp.Diff(want, got); diff != "" || w.Title != tt.title ||
			w.Task.Review != rules.ReviewFull {
			t.Errorf("%q: %+v (-want +got):\n%s", tt.task.Text, w.Task, diff)
		}
	}
	tail := b.Engine.Tail().Seq
	for name, task := range map[string]NewTask{
		"no text":        {Text: "\n"},
		"a long text":    {Text: strings.Repeat("x", 65<<10)},
		"not UTF-8":      {Text: "a\xff"},
		"an escape":      {Text: "a\x1b[2J"},
		"in the title":   {Text: "a", Title: "a\x1b[2J"},
		"nothing to see": {Text: "\u200b"},
		"no review":      {Text: "a", Review: "none"},
	} {
		task.Actor = "ann"
		if _, err := task.Do(t.Context(), b); signalbox.CodeOf(err) != signalbox.CodeUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
	if now := b.Engine.Tail().Seq; now != tail {
		t.Errorf("%d events were recorded for what was refused", now-tail)
	}
}
