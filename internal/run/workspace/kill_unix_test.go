//go:build !windows

package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// killVariable makes this test binary the process that is killed. Its value is the number of the
// step, and how.
const killVariable = "WORKSPACE_TEST_KILL"

// TestKilledProcess is that process, not a test.
func TestKilledProcess(t *testing.T) {
	at, found := os.LookupEnv(killVariable)
	if !found {
		t.Skip("it is for TestKill")
	}
	how, number, _ := strings.Cut(at, " ")
	n, err := strconv.Atoi(number)
	must.Succeed(t, err)
	dir, err := os.Getwd()
	must.Succeed(t, err)
	repo, err := Find(t.Context(), dir, filepath.Join(dir, "..", "trees"))
	must.Succeed(t, err)
	// Git runs no filter that the repository or the user has configured.
	repo.repository.Settings = append(repo.repository.Settings, "filter.boom.clean=/bin/cat",
		"filter.boom.smudge=test -e '"+filepath.Join(dir, "..", "boom")+"' && kill -9 0; /bin/cat")
	repo.step = func(name string) {
		fmt.Println("step", name)
		n--
		switch {
		case n == 0 && how == "before":
			syscall.Kill(0, syscall.SIGKILL)
			time.Sleep(time.Hour) // until the signal arrives
		case n == 0: // kill git while it writes files
			os.WriteFile(filepath.Join(dir, "..", "boom"), nil, 0o600)
		}
	}
	must.Succeed(t, killedWork(t.Context(), repo))
}

// killedWork uses every operation. It can be repeated after a kill at any point.
func killedWork(ctx context.Context, repo *Repo) error {
	tree, err := repo.Open(ctx, "T1")
	if err != nil {
		return err
	}
	prepared := filepath.Join(repo.Root, "..", "prepared") // as a caller records it
	merge, err := os.ReadFile(prepared)
	landed := false
	if err == nil {
		if landed, err = repo.Landed(ctx, string(merge)); err != nil {
			return err
		}
	}
	if !landed {
		for name, text := range killedFiles {
			if err := os.WriteFile(filepath.Join(tree.Dir, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
		commit, _, err := tree.Save(ctx, "work")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tree.Dir, "critic.txt"), []byte("scribble"),
			0o600); err != nil {
			return err
		}
		if err := tree.Discard(ctx, commit); err != nil {
			return err
		}
		base, err := repo.BaseCommit(ctx)
		if err != nil {
			return err
		}
		if conflict, err := tree.Refresh(ctx, base); err != nil || conflict != nil {
			return errors.Join(err, fmt.Errorf("conflict: %v", conflict))
		}
		if commit, err = tree.Commit(ctx); err != nil {
			return err
		}
		_, err = repo.Merge(ctx, MergeRequest{Task: "T1", Commit: commit, Base: base,
			Check:    noCheck,
			Prepared: func(merge string) error { return os.WriteFile(prepared, []byte(merge), 0o600) }})
		if err != nil {
			return err
		}
	}
	return repo.Close(ctx, "T1")
}

var killedFiles = map[string]string{"a.txt": "new\n", "b.boom": "new\n", "c.txt": "new\n",
	"z.boom": "new\n"}

// killedKit returns a repository with files for a filter. In TestKilledProcess, the filter kills
// git's process group while git writes files, if the file boom exists.
func killedKit(t *testing.T) (k *kit, other string) {
	k = newKit(t, map[string]string{".gitattributes": "*.boom filter=boom\n", "a.txt": "old\n",
		"b.boom": "old\n", "c.txt": "old\n", "d.boom": "old\n", "e.txt": "old\n"})
	k.open("T1") // before the base branch moves, so that Refresh has something to do
	write(t, k.dir, map[string]string{"d.boom": "other\n", "e.txt": "other\n"})
	return k, k.commit("other")
}

func killed(t *testing.T, k *kit, at string) (steps []string, died bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), killVariable+"="+at, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if step, found := strings.CutPrefix(line, "step "); found {
			steps = append(steps, strings.TrimSpace(step))
		}
	}
	if err != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v\n%s", err, out)
	}
	return steps, err != nil
}

func TestKill(t *testing.T) {
	t.Parallel()
	first, other := killedKit(t)
	k := first.copied(t)
	steps, died := killed(t, k, "before 0")
	if died || len(steps) < 20 {
		t.Fatalf("steps %v", steps)
	}
	k.sound()
	for i, step := range steps {
		hows := []string{"before"}
		switch step {
		case "added", "committed", "merged", "checked",
			"landing": // nothing that can be interrupted happens between these and the next step
			continue
		case "creating worktree", "index copied", "moving", "discarding":
			hows = append(hows, "in")
		}
		for _, how := range hows {
			t.Run(fmt.Sprint(i+1, " ", how, " ", step), func(t *testing.T) {
				t.Parallel()
				k := first.copied(t)
				_, died := killed(t, k, fmt.Sprint(how, " ", i+1))
				if !died && step != "discarding" { // it may have no files to write
					t.Fatal("the process was not killed")
				}
				os.Remove(filepath.Join(filepath.Dir(k.dir), "boom"))
				k.afterKill(other)
			})
		}
	}
}

// afterKill checks what a killed process left, and finishes the work.
func (k *kit) afterKill(other string) {
	t := k.t
	t.Helper()
	k.find() // fails if something was left in the checkout
	want := map[string]string{".gitattributes": "*.boom filter=boom\n", "a.txt": "old\n",
		"b.boom": "old\n", "c.txt": "old\n", "d.boom": "other\n", "e.txt": "other\n"}
	merged := k.base() != other
	if merged {
		maps.Copy(want, killedFiles)
	}
	wantFiles(t, k.dir, want)
	if merge, err := os.ReadFile(filepath.Join(filepath.Dir(k.dir), "prepared")); err == nil {
		if landed, err := k.Landed(t.Context(), string(merge)); err != nil || landed != merged ||
			merged && string(merge) != k.base() {
			t.Errorf("landed %s: %v %v, base is at %s", merge, landed, err, k.base())
		}
	} else if merged {
		t.Error("merged without being prepared")
	}
	if !merged {
		must.Succeed(t, killedWork(t.Context(), k.Repo))
	}
	if err := errors.Join(k.Close(t.Context(), "T1"), k.Prune(t.Context())); err != nil {
		t.Error(err)
	}
	maps.Copy(want, killedFiles)
	wantFiles(t, k.dir, want)
	if got := gitRun(t, k.dir, "rev-list", "--count", "--first-parent", other+
		"..main"); got != "1" {
		t.Errorf("merged %s times", got)
	}
	if left := k.trees(); len(left) > 0 {
		t.Errorf("git still lists %v", left)
	}
	entries, err := os.ReadDir(k.folder)
	var names []string
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".lock") {
			names = append(names, entry.Name())
		}
	}
	if diff := cmp.Diff([]string{".gitignore", viewFolder}, names); diff != "" || err != nil {
		t.Error(err, diff)
	}
	k.sound()
}
