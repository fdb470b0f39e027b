package checks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/mutation"
	"signalbox/internal/run/workspace"
	"signalbox/internal/testkit/must"
)

// Whatever a command left where a mutant is written, nothing outside the worktree is changed.
func TestMutantsStayInside(t *testing.T) {
	top := t.TempDir()
	dir, outside := filepath.Join(top, "tree"), filepath.Join(top, "outside")
	for _, folder := range []string{dir, outside, filepath.Join(dir, "full", "of", "files")} {
		must.Succeed(t, os.MkdirAll(folder, 0o755))
	}
	secret := filepath.Join(outside, "a.go")
	must.Succeed(t, os.WriteFile(secret, []byte("as it was"), 0o644))
	must.Succeed(t, os.Link(secret, filepath.Join(dir, "hard")))
	must.Succeed(t, os.Symlink(secret, filepath.Join(dir, "link")))
	must.Succeed(t, os.Symlink(outside, filepath.Join(dir, "folder")))
	must.Succeed(t, os.Symlink("link", filepath.Join(dir, "loop")))
	b := &bench{Scratch: &workspace.Scratch{Dir: dir}}
	for _, name := range []string{"hard", "link", "loop", "full", "new/a.go", "-x 'y' $(z).go"} {
		must.Succeed(t, b.write(name, []byte("mutant")))
		info, err := os.Lstat(filepath.Join(dir, name))
		must.Succeed(t, err)
		if text, err := os.ReadFile(filepath.Join(dir, name)); !info.Mode().IsRegular() ||
			string(text) != "mutant" || err != nil {
			t.Errorf("%s: %v %q %v", name, info.Mode(), text, err)
		}
	}
	for _, name := range []string{"folder/a.go", "folder/new.go", "../outside/a.go"} {
		fault := (*faultError)(nil)
		if err := b.write(name, []byte("mutant")); !errors.As(err, &fault) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	must.Succeed(t, b.write("new/a.go", nil))
	must.Succeed(t, b.write("missing", nil))
	if _, err := os.Lstat(filepath.Join(dir, "new/a.go")); err == nil {
		t.Error("new/a.go is not deleted")
	}
	if text, err := os.ReadFile(secret); string(text) != "as it was" || err != nil {
		t.Errorf("outside: %q %v", text, err)
	}
	if entries, err := os.ReadDir(outside); len(entries) != 1 || err != nil {
		t.Errorf("outside: %v %v", entries, err)
	}
}

func newTrial(mutants, candidates int) *trial {
	m := &mutationCheck{Job: &Job{Show: func(string) {}}, check: config.Check{Name: "bite",
		Mutants: mutants, Timeout: time.Minute}}
	return &trial{mutationCheck: m, mutants: mutation.Sample(mutation.Find("a.py", nil,
		[]byte(strings.Repeat("x += 1\n", candidates))), 1)[:candidates],
		fates: make([]fate, candidates), builds: map[string]bool{}}
}

// Which mutants are tried does not depend on how many worktrees there are: those that are discarded
// are replaced by the next ones, and there is a bound.
func TestMutantsThatAreTried(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		s := newTrial(4, 40)
		taken, open := 0, []int{}
		for {
			for len(open) < workers {
				i := s.take(t.Context())
				if i < 0 {
					break
				}
				open = append(open, i)
				taken++
			}
			if len(open) == 0 {
				break
			}
			i := open[len(open)-1] // the last one ends first
			open = open[:len(open)-1]
			if i%3 == 0 {
				s.settle(i, discarded)
			} else {
				s.settle(i, noticed)
			}
		}
		if taken != 6 || s.tried() != 4 || s.fates[5] != noticed {
			t.Errorf("%d worktrees: %d taken, %d tried", workers, taken, s.tried())
		}
	}
	s := newTrial(2, 40)
	for range 2 * (1 + maxDiscarded) {
		s.settle(s.take(t.Context()), discarded)
	}
	if i := s.take(t.Context()); i >= 0 {
		t.Errorf("mutant %d is tried although the others were discarded", i)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if i := newTrial(2, 40).take(late); i >= 0 {
		t.Errorf("mutant %d is tried when the time is over", i)
	}
}

// What is not read is named, and files that are no code do not take the place of code.
func TestUnreadFiles(t *testing.T) {
	m := &mutationCheck{check: config.Check{FailsOnBase: config.FailsOnBaseOff},
		files: []workspace.ChangedFile{{Path: "large.py", Unread: true},
			{Path: "photo.png", Unread: true}, {Path: "small.py", Old: []byte("x\n")}}}
	passed, err := m.run(t.Context(), time.Now())
	if got := m.report.String(); err != nil || !passed ||
		got != "1 file not read, too large or in too large a change: large.py\n" {
		t.Errorf("passed: %t, %v: %q", passed, err, got)
	}
	names := []string{"b.txt", "a.txt", "z.go", "c.json", "y.py", "run"}
	slices.SortFunc(names, readLimits(nil).Order)
	if slices.Sort(names[:3]); !slices.Equal(names[:3], []string{"run", "y.py", "z.go"}) {
		t.Errorf("read in the order %q", names)
	}
}

func TestMutationReport(t *testing.T) {
	for _, tt := range []struct {
		fates   []fate
		max     int
		late    bool
		tooLong int
		passed  bool
		want    string
	}{
		{fates: []fate{noticed, noticed, noticed, noticed}, passed: true,
			want: "survivors: 0 of 4 mutants (max_survivors: 0); the change has 9 in all\n"},
		{fates: []fate{noticed, survived, discarded, noticed, noticed}, tooLong: 1,
			want: "a.py:2: the check bite passes if `x += 1` becomes `x += 2`\n" +
				"survivors: 1 of 4 mutants (max_survivors: 0); for 1 the command took too long; " +
				"1 more cannot be built; the change has 9 in all\n"},
		{fates: []fate{survived}, max: 1, late: true, passed: true,
			want: "a.py:1: the check bite passes if `x += 1` becomes `x += 2`\n" +
				"survivors: 1 of 1 mutant (max_survivors: 1); 3 were not tried, because the time was " +
				"over (timeout: 1m00s); the change has 9 in all\n"},
		{late: true, want: "survivors: 0 of 0 mutants (max_survivors: 0); 4 were not tried, because " +
			"the time was over (timeout: 1m00s); the change has 9 in all\n"},
		{fates: []fate{discarded, discarded, discarded, discarded, discarded, discarded, discarded,
			discarded, discarded}, late: true, passed: true,
			want: "survivors: 0 of 0 mutants (max_survivors: 0); 9 more cannot be built\n"},
	} {
		s := newTrial(4, 9)
		for i := range s.mutants {
			s.mutants[i].Line, s.mutants[i].Before, s.mutants[i].After = i+1, "x += 1", "x += 2"
		}
		s.check.MaxSurvivors, s.late, s.tooLong = tt.max, tt.late, tt.tooLong
		for _, f := range tt.fates {
			s.next++
			s.settle(s.next-1, f)
		}
		passed, err := s.conclude()
		if got := s.report.String(); got != tt.want || passed != tt.passed || err != nil {
			t.Errorf("%v: passed %v, %v\n%swant %v\n%s", tt.fates, passed, err, got, tt.passed, tt.want)
		}
		for _, f := range s.found {
			if f.Note != passed || f.Place == "" {
				t.Errorf("%+v", f)
			}
		}
	}
}

// changes is what differs between two commits, in a fake repository.
type changes map[string][]workspace.ChangedFile

func (c changes) Has(_ context.Context, commit string) (bool, error) { return c[commit] != nil, nil }

func (c changes) ChangedFiles(_ context.Context, from, to string,
	limits workspace.ReadLimits) (files []workspace.ChangedFile, err error) {
	if to != "now" {
		return nil, errors.New("compared with " + to)
	}
	for _, f := range c[from] {
		if limits.Wanted(f.Path) {
			files = append(files, f)
		}
	}
	return files, nil
}

// An earlier finding is followed to where its line is now. What was waived is one line, and not an
// equal one.
func TestEarlierFindings(t *testing.T) {
	repo := changes{"one": {{Path: "a.py", Old: []byte("x += 1\ny\nx += 1\n"),
		New: []byte("new\nx += 1\ny\nx += 1\n")}, {Path: "large.py", Unread: true},
		{Path: "gone.py", Old: []byte("x += 1\n")}, {Path: "other.py", Old: []byte("x\n")}}}
	finding := func(id, commit, place string, state rules.FindingState) rules.TaskFinding {
		return rules.TaskFinding{RaisedFinding: rules.RaisedFinding{ID: id, Place: place, Text: "x"},
			Commit: commit, State: state}
	}
	known, err := locate(t.Context(), repo, Change{Commit: "now", Known: []rules.TaskFinding{
		finding("F1", "one", "a.py:3", rules.FindingWaived),
		finding("F2", "one", "a.py:1", rules.FindingOpen),
		finding("F3", "one", "large.py:7", rules.FindingOpen),
		finding("F4", "one", "gone.py:1", rules.FindingOpen),
		finding("F5", "lost", "a.py:9", rules.FindingOpen),
		finding("F6", "now", "a.py:4", rules.FindingOpen), // as F1, which was waived
		finding("F7", "one", "", rules.FindingNote)}})
	must.Succeed(t, err)
	got := map[string]string{}
	for at, f := range known {
		got[at.place] = f.ID
	}
	want := map[string]string{"a.py:4": "F1", "a.py:2": "F2", "large.py:7": "F3", "a.py:9": "F5",
		"": "F7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m := &mutationCheck{check: config.Check{Name: "bite"}}
	mutants := mutation.Find("a.py", nil, []byte("x += 1\nx += 1\n"))
	m.known = map[point]rules.TaskFinding{}
	place, words := m.finding(mutants[0]).AsRecorded()
	m.known[point{place, words}] = finding("F1", "now", place, rules.FindingWaived)
	ids := 0
	for _, mutant := range mutants {
		if m.earlier(m.finding(mutant)).ID == "F1" {
			ids++
		}
	}
	if ids != 1 {
		t.Errorf("%d mutants are F1", ids)
	}
}
