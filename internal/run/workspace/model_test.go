package workspace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

// model predicts the files in the base branch and in the worktrees of the tasks.
type model struct {
	base  map[string]string
	tasks map[string]*modelTask
}

type modelTask struct {
	files     map[string]string // in the folder
	committed map[string]string // on the branch
	ancestor  map[string]string // the base branch at the last merge
	commit    string
}

// merge merges file by file. Each file has one line, so two different changes to a file conflict.
func merge(ancestor, ours,
	theirs map[string]string) (merged map[string]string, conflicts []string) {
	merged = map[string]string{}
	names := maps.Clone(ancestor)
	maps.Copy(names, ours)
	maps.Copy(names, theirs)
	for name := range names {
		text := ours[name]
		switch {
		case ours[name] == theirs[name], ancestor[name] == theirs[name]:
		case ancestor[name] == ours[name]:
			text = theirs[name]
		default:
			conflicts = append(conflicts, name)
		}
		if text != "" {
			merged[name] = text
		}
	}
	slices.Sort(conflicts)
	return merged, conflicts
}

func TestModel(t *testing.T) {
	t.Parallel()
	runs, finished, failed := 0, true, false
	property.Check(t, func(rt *rapid.T) {
		failed = failed || !finished // rapid now shrinks the failure
		if runs++; runs > modelRuns && !failed {
			return // a hundred cases with a hundred git calls each would take too long
		}
		finished = false
		start := map[string]string{"a": "start a\n", "b": "start b\n", "c": "start c\n"}
		k := newKit(t, start)
		defer os.RemoveAll(filepath.Dir(k.dir))
		m := &model{base: start, tasks: map[string]*modelTask{}}
		tasks, files := rapid.SampledFrom([]string{"T1", "T2", "T3"}),
			rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		counter := 0
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			task := tasks.Draw(rt, "task")
			tree := m.open(k, task)
			at := m.tasks[task]
			switch rapid.SampledFrom([]string{"edit", "edit", "remove", "keep", "discard",
				"refresh", "merge"}).Draw(rt, "do") {
			case "edit":
				name := files.Draw(rt, "file")
				counter++
				at.files[name] = fmt.Sprintf("%s %d\n", name, counter)
				write(t, tree.Dir, map[string]string{name: at.files[name]})
			case "remove":
				if name := files.Draw(rt, "file"); at.files[name] != "" {
					delete(at.files, name)
					write(t, tree.Dir, map[string]string{name: ""})
				}
			case "keep":
				m.keep(rt, k, tree)
			case "discard":
				if err := tree.Discard(t.Context(), at.commit); err != nil {
					rt.Fatal(err)
				}
				at.files = maps.Clone(at.committed)
			case "refresh":
				m.keep(rt, k, tree)
				m.refresh(rt, k, tree)
			case "merge":
				m.keep(rt, k, tree)
				m.merge(rt, k, task)
			}
			m.check(rt, k)
		}
		k.sound()
		finished = true
	})
}

const modelRuns = 3

func (m *model) open(k *kit, task string) *Tree {
	tree := k.open(task)
	if m.tasks[task] == nil {
		m.tasks[task] = &modelTask{maps.Clone(m.base), maps.Clone(m.base), maps.Clone(m.base),
			k.base()}
	}
	return tree
}

func (m *model) keep(rt *rapid.T, k *kit, tree *Tree) {
	at := m.tasks[tree.Task]
	commit, changed, err := tree.Save(k.t.Context(), "model")
	if err != nil || changed == maps.Equal(at.files, at.committed) ||
		changed == (commit == at.commit) {
		rt.Fatalf("save %s: %s %v %v, was %s", tree.Task, commit, changed, err, at.commit)
	}
	at.committed, at.commit = maps.Clone(at.files), commit
}

func (m *model) refresh(rt *rapid.T, k *kit, tree *Tree) {
	at := m.tasks[tree.Task]
	merged, want := merge(at.ancestor, at.committed, m.base)
	conflict, err := tree.Refresh(rt.Context(), k.base())
	if err != nil || (conflict != nil) != (len(want) > 0) || conflict != nil &&
		!slices.Equal(conflict.Files, want) {
		rt.Fatalf("refresh %s: %v %v, want %v", tree.Task, conflict, err, want)
	}
	if len(want) > 0 {
		return
	}
	at.files, at.committed, at.ancestor = maps.Clone(merged), merged, m.base
	if at.commit, err = tree.Commit(rt.Context()); err != nil {
		rt.Fatal(err)
	}
}

func (m *model) merge(rt *rapid.T, k *kit, task string) {
	at := m.tasks[task]
	result, want := merge(at.ancestor, at.committed, m.base)
	merged, err := k.Merge(rt.Context(), task, "", nil)
	if conflict := (*ConflictError)(nil); errors.As(err, &conflict) {
		if !slices.Equal(conflict.Files, want) {
			rt.Fatalf("merge %s: %v, want %v", task, err, want)
		}
		return
	}
	if errors.Is(err, ErrUnchanged) && len(want) == 0 && maps.Equal(result, m.base) {
		return
	}
	if err != nil || len(want) > 0 || maps.Equal(result, m.base) {
		rt.Fatalf("merge %s: %+v %v, want conflicts %v", task, merged, err, want)
	}
	// The base branch now contains the task's branch, but not the other way round.
	m.base, at.ancestor = result, at.committed
}

func (m *model) check(rt *rapid.T, k *kit) {
	if diff := cmp.Diff(m.base, read(k.t, k.dir)); diff != "" {
		rt.Fatalf("base (-want +got):\n%s", diff)
	}
	for task, at := range m.tasks {
		if diff := cmp.Diff(at.files, read(k.t, filepath.Join(k.folder, task))); diff != "" {
			rt.Fatalf("%s (-want +got):\n%s", task, diff)
		}
	}
}
