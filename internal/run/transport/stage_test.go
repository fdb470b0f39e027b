package transport

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
	"signalbox/internal/testkit/memory"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/output"
)

func TestMain(m *testing.M) {
	memory.UseForTempFiles()
	os.Exit(m.Run())
}

// stage is a machine of a box, with a repository and a plan.
type stage struct {
	t    *testing.T
	dir  string // contains everything
	root string // the repository
	box  *box.Box
	repo *workspace.Repo
	log  *output.Buffer
}

// set creates a repository and a box with a plan. The test runs in parallel with others.
func set(t *testing.T, settings string) *stage {
	t.Helper()
	t.Parallel()
	return setUp(t, settings)
}

// setUp is set for a test that does not run in parallel with others.
func setUp(t *testing.T, settings string) *stage {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	s := &stage{t: t, dir: dir, root: filepath.Join(dir, "project"), log: &output.Buffer{}}
	folder := filepath.Join(s.root, box.FolderName)
	s.write(filepath.Join("project", box.FolderName, config.FileName), settings)
	opts := &box.Options{KeyFile: filepath.Join(dir, "key"),
		Log: slog.New(slog.NewTextHandler(s.log, nil))}
	if _, err := box.Init(t.Context(), folder, "me", opts); err != nil {
		t.Fatal(err)
	}
	s.write("project/f", "start\n")
	s.git("init", "-q", "-b", "main")
	s.git("add", "-A")
	s.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "-q", "-m", "start")
	s.find()
	if s.box, err = box.Open(context.Background(), folder, opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", s.log)
		}
		s.box.Close()
	})
	s.do(rules.Configure{Policy: rules.Policy{Slots: 1, Limits: rules.DefaultLimits()},
		Actor: "me"})
	s.do(rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "plan", ID: "plan", Source: "plan.md",
		Actor: "me",
		Tasks: []rules.PlanTask{{ID: "T1", Title: "The task T1"}}})
	return s
}

// find opens the repository of the machine.
func (s *stage) find() {
	s.t.Helper()
	trees := filepath.Join(s.root, box.FolderName, workspace.TreesFolder)
	repo, err := workspace.Find(s.t.Context(), s.root, trees)
	must.Succeed(s.t, err)
	log := slog.New(slog.NewTextHandler(s.log, nil))
	repo.Warn = func(text string) { log.Warn(text) }
	s.repo = repo
}

// machine returns another machine of the box: it has its own clone, and shares only the ledger.
func (s *stage) machine(name string) *stage {
	s.t.Helper()
	m := *s
	m.root = filepath.Join(s.dir, name)
	s.git("clone", "--quiet", "--no-hardlinks", s.root, m.root)
	m.git("remote", "remove", "origin")
	m.join()
	return &m
}

// join makes a clone the repository of a machine, which reads the ledger as it is now.
func (s *stage) join() {
	s.t.Helper()
	dir := filepath.Join(s.root, box.FolderName)
	err := errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o600))
	must.Succeed(s.t, err)
	s.find()
	opened, err := box.Open(s.t.Context(), s.box.Dir,
		&box.Options{KeyFile: filepath.Join(s.dir, "key")})
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { opened.Close() })
	ledger := *opened.Ledger
	ledger.Dir = dir
	b := *opened
	b.Ledger = &ledger
	s.box = &b
}

// exchange returns the exchange of a process that was just started, and that uses bundles.
func (s *stage) exchange() *Exchange {
	return &Exchange{box: s.box, repo: s.repo, actor: "crew",
		carrier: &bundles{box: s.box, repo: s.repo, actor: "crew", max: rules.MaxBundle}}
}

// follower returns a follower of such a process.
func (s *stage) follower() *Follower {
	seen := func(context.Context, string) {}
	return NewFollower(s.exchange(), slog.New(slog.NewTextHandler(s.log, nil)), seen)
}

// checkBase runs the first checks on the base, after which the ledger knows it.
func (s *stage) checkBase() {
	s.t.Helper()
	base := s.git("rev-parse", "main")
	granted := s.do(rules.Dispatch{Roles: []signalbox.Role{signalbox.RoleCI}, Session: "c.1",
		Actor: "crew",
		Lease: "l-1", TTL: time.Hour})
	s.do(rules.ReportChecks{Session: granted.Session, Epoch: granted.Lease.Epoch, Commit: base,
		Base: base})
	if known := s.exchange().KnownBase(); known != base {
		s.t.Fatalf("the ledger knows the base %q, want %s", known, base)
	}
}

func (s *stage) do(c rules.Command) rules.Answer {
	s.t.Helper()
	answer, err := s.box.Engine.Do(s.t.Context(), c)
	must.Succeed(s.t, err)
	return answer
}

func (s *stage) write(name, text string) {
	s.t.Helper()
	name = filepath.Join(s.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, []byte(text), 0o644))
	must.Succeed(s.t, err)
}

// git runs a git command and returns its output without the last line end.
func (s *stage) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// person commits a change of a file, as a person would, and returns the commit.
func (s *stage) person(file, text string) string {
	s.t.Helper()
	must.Succeed(s.t, os.WriteFile(filepath.Join(s.root, file), []byte(text), 0o600))
	s.git("add", file)
	s.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "-q", "--allow-empty",
		"-m", text)
	return s.git("rev-parse", "main")
}

// all returns the events of a type, in order.
func all[T any](s *stage) (found []T) {
	s.t.Helper()
	for e, err := range s.box.Events(context.Background(), 0) {
		must.Succeed(s.t, err)
		if e.Type != reflect.TypeFor[T]().Name() {
			continue
		}
		var body T
		must.Succeed(s.t, json.Unmarshal(e.Data, &body))
		found = append(found, body)
	}
	return found
}
