package workspace

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// openTrain opens a train on the base branch.
func (k *kit) openTrain() *Train {
	k.t.Helper()
	train, err := k.Repo.OpenTrain(k.t.Context(), k.base())
	must.Succeed(k.t, err)
	k.t.Cleanup(train.Close)
	return train
}

// board adds the branch of a task to a train.
func (k *kit) board(train *Train, task string, squash bool) error {
	k.t.Helper()
	tip, err := k.BranchCommit(k.t.Context(), task)
	must.Succeed(k.t, err)
	return train.Add(k.t.Context(), MergeRequest{Task: task, Commit: tip, Squash: squash})
}

// TestTrain: each task has a merge commit of its own, with the task's commit unchanged in it; the
// checks see all of them together; and the base branch moves once.
func TestTrain(t *testing.T) {
	t.Parallel()
	for name, squash := range map[string]bool{"merges": false, "squashed": true} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, map[string]string{"a": "1\n"})
			tasks, before := []string{"T1", "T2", "T3"}, k.base()
			want := map[string]string{"a": "1\n"}
			for _, task := range tasks {
				k.work(task, map[string]string{task: task + "\n"})
				want[task] = task + "\n"
			}
			train := k.openTrain()
			for _, task := range tasks {
				must.Succeed(t, k.board(train, task, squash))
			}
			must.Succeed(t, train.Check(t.Context(), 3, func(_ context.Context, dir string) error {
				wantFiles(t, dir, want)
				write(t, dir, map[string]string{"smuggled": "x\n"})
				return nil
			}))
			must.Succeed(t, train.Check(t.Context(), 1, func(_ context.Context, dir string) error {
				wantFiles(t, dir, map[string]string{"a": "1\n", "T1": "T1\n"})
				return nil
			}))
			if k.base() != before {
				t.Error("the base branch has moved before the train lands")
			}
			if err := train.Land(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, k.dir, want)
			k.sound()
			tree, err := train.Tree(t.Context(), 3)
			must.Succeed(t, err)
			if got := gitRun(t, k.dir, "rev-parse", "main^{tree}"); got != tree ||
				train.Commit(3) != k.base() || train.Commit(0) != before {
				t.Errorf("the base has %s, the train %s", got, tree)
			}
			var log []string
			for i, task := range tasks {
				line := train.Commit(i+1) + " " + train.Commit(i)
				if !squash {
					line += " " + gitRun(t, k.dir, "rev-parse", "signalbox/"+task)
				}
				log = append(log, line)
			}
			got := gitRun(t, k.dir, "log", "--reverse", "--first-parent", "--format=%H %P",
				before+"..main")
			if diff := cmp.Diff(log, strings.Split(got, "\n")); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
			moves := gitRun(t, k.dir, "reflog", "--format=%gs", "main")
			if n := strings.Count(moves, "signalbox: merge"); n != 1 ||
				!strings.Contains(moves, "signalbox: merge T1, T2, T3") {
				t.Errorf("%d moves:\n%s", n, moves)
			}
		})
	}
}

// TestTrainWithoutATask: a task that cannot be merged is not in the train, and the error says
// whether that is because of the base or because of the tasks before it.
func TestTrainWithoutATask(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	for task, files := range map[string]map[string]string{
		"first":             {"a": "first\n"},
		"conflicts-with-it": {"a": "other\n"},
		"same":              {"a": "first\n"},
		"conflicts":         {"b": "theirs\n"},
		"last":              {"c": "last\n"},
	} {
		k.work(task, files)
	}
	k.open("unchanged")
	write(t, k.dir, map[string]string{"b": "ours\n"})
	k.commit("move the base")
	before, train := k.base(), k.openTrain()
	conflict := (*ConflictError)(nil)
	must.Succeed(t, k.board(train, "first", false))
	for _, task := range []string{"conflicts-with-it", "same"} {
		if err := k.board(train, task, false); !errors.Is(err, ErrNextTrain) {
			t.Errorf("%s: %v", task, err)
		}
	}
	if err := k.board(train, "conflicts", false); !errors.As(err, &conflict) ||
		conflict.Theirs != before {
		t.Errorf("conflicts: %v", err)
	}
	if err := k.board(train, "unchanged", false); !errors.Is(err, ErrUnchanged) {
		t.Errorf("unchanged: %v", err)
	}
	if err := train.Add(t.Context(), MergeRequest{Task: "../x"}); err == nil {
		t.Error("a bad name is accepted")
	}
	must.Succeed(t, k.board(train, "last", false))
	if err := train.Land(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, k.dir, map[string]string{"a": "first\n", "b": "ours\n", "c": "last\n"})
	k.sound()
}

// TestTrainAfterTheBaseMoved: the base branch moves by compare-and-swap.
func TestTrainAfterTheBaseMoved(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.work("T1", map[string]string{"b": "1\n"})
	train, from := k.openTrain(), k.base()
	must.Succeed(t, k.board(train, "T1", false))
	write(t, k.dir, map[string]string{"a": "2\n"})
	to := k.commit("by a person")
	err := train.Land(t.Context(), 1)
	if moved := (*MovedError)(nil); !errors.As(err, &moved) || moved.From != from ||
		moved.To != k.base() {
		t.Errorf("landed: %v", err)
	}
	if k.base() != to {
		t.Errorf("the base is %s, want %s", k.base(), to)
	}
	k.sound()
}
