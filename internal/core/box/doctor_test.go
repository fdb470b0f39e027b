package box

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/testkit/must"
)

// patient is a box with a project around it, for Doctor to look at.
type patient struct {
	*kit
	project string
	opts    DoctorOptions
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the fake programs are scripts of sh")
	}
	for _, variable := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"} {
		t.Setenv(variable, "")
		os.Unsetenv(variable)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "none"))
	t.Setenv("GIT_CONFIG_SYSTEM", filepath.Join(t.TempDir(), "none"))
	k := newFrom(t, "patient", func(k *kit) {
		p := &patient{kit: k, project: filepath.Dir(k.dir)}
		p.git(t, "init", "-q", "-b", "main", "--template=")
		k.put(t, "../.gitignore", "box.key*\n")
		p.git(t, "add", ".gitignore")
		p.git(t, "-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit", "-q", "-m",
			"first")
	})
	p := &patient{kit: k, project: filepath.Dir(k.dir)}
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(p.project))
	sys := realSystem()
	sys.goos = "linux"
	sys.freeBytes = func(string) (uint64, error) { return 10 << 30, nil }
	sys.openFileLimit = func() (uint64, error) { return 1024, nil }
	sys.lockTimeout, sys.runTimeout, sys.versionTimeout = time.Minute, time.Minute, time.Minute
	p.opts = DoctorOptions{Options: *k.opts, Version: "v1", Project: p.project, Dir: k.dir,
		Slots: 5, system: sys,
		Agents: []AgentCommand{{Name: "robot",
			Argv: []string{program(t, "robot", "echo robot 1.2.3"), "-p"}}}}
	return p
}

func (p *patient) git(t *testing.T, args ...string) {
	t.Helper()
	if output, err := exec.Command("git",
		append([]string{"-C", p.project}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v: %s", args, err, output)
	}
}

// program makes a program of sh, and returns its path.
func program(t *testing.T, name, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Succeed(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return path
}

// Whoever follows the advice to commit changes must not commit a box: it has secrets.
func TestDoctorIgnoresTheBox(t *testing.T) {
	p := newPatient(t)
	must.Succeed(t, os.Remove(filepath.Join(p.dir, ".gitignore")))
	for _, dir := range []string{p.dir, filepath.Join(p.project, "part", FolderName)} {
		must.Succeed(t, errors.Join(os.MkdirAll(dir, 0o700),
			os.WriteFile(filepath.Join(dir, "cluster.secret"), []byte("secret"),
				0o600)))
	}
	for _, check := range Doctor(t.Context(), p.opts) {
		if check.Name == "changes" && check.Health != Healthy {
			t.Errorf("%+v", check)
		}
	}
}

func TestDoctorHealthyBox(t *testing.T) {
	p := newPatient(t)
	var names []string
	for _, check := range Doctor(t.Context(), p.opts) {
		names = append(names, check.Name)
		if check.Health != Healthy || check.Detail == "" || check.Fix != "" {
			t.Errorf("%+v", check)
		}
	}
	for _, want := range []string{"platform", "git", "repository", "branch", "changes", "box",
		"configuration", "journal", "ledger", "snapshot",
		"locks", "disk", "clock", "key", "checkpoint", "files", "agent robot"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s was not looked at, only %q", want, names)
		}
	}
	p.opts.system = realSystem()
	p.opts.system.lockTimeout, p.opts.system.runTimeout = time.Minute, time.Minute
	if len(Doctor(t.Context(), p.opts)) != len(names) {
		t.Error("on the real system other things are looked at")
	}
}

// ailment is something to harm a box or its surroundings with, and what Doctor is to say of it.
type ailment struct {
	harm   func(*testing.T, *patient)
	check  string
	health Health
	detail string
	fix    string
}

// ailmentsAround are those of the surroundings.
func ailmentsAround() map[string]ailment {
	return map[string]ailment{
		"another platform": {func(_ *testing.T, p *patient) { p.opts.system.goos = "windows" },
			"platform", Warning, "cannot run", "Linux or macOS"},
		"no git": {func(t *testing.T, _ *patient) { t.Setenv("PATH", t.TempDir()) },
			"git", Problem, "not in the PATH", "install git 2.39"},
		"an old git": {func(t *testing.T, _ *patient) {
			t.Setenv("PATH", filepath.Dir(program(t, "git", "echo git version 2.38.9")))
		},
			"git", Problem, "git 2.38.9", "install git 2.39"},
		"a broken git": {func(t *testing.T,
			_ *patient) {
			t.Setenv("PATH", filepath.Dir(program(t, "git", "exit 3")))
		},
			"git", Problem, "exit status 3", "reinstall"},
		"no repository": {func(t *testing.T, p *patient) { p.opts.Project = t.TempDir() },
			"repository", Warning, "not in a git repository", "git init"},
		"no branch": {func(t *testing.T, p *patient) { p.git(t, "checkout", "-q", "--detach") },
			"branch", Warning, "no branch", "check out"},
		"no commit": {func(t *testing.T,
			p *patient) {
			p.git(t, "checkout", "-q", "--orphan", "new")
		}, "branch", Warning,
			"new has no commit", "first commit"},
		"changes": {func(t *testing.T,
			p *patient) {
			p.git(t, "rm", "-q", "--cached", ".gitignore")
		},
			"changes", Warning, "uncommitted", "commit them"},
		"no box": {func(_ *testing.T, p *patient) {
			p.opts.Dir, p.opts.FindError = "", noBox(errors.New("there is no box here"))
		}, "box", Problem, "there is no box here", "signalbox init"},
		"a bad configuration": {func(t *testing.T,
			p *patient) {
			p.put(t, config.FileName, "lease:\n  ttl: 1y\n")
		},
			"configuration", Problem, "line 2", ""},
	}
}

// ailmentsInside are those of the box, mostly.
func ailmentsInside() map[string]ailment {
	return map[string]ailment{
		"no ledger": {func(t *testing.T, p *patient) { p.remove(t, "ledger.db") }, "journal",
			Problem, "is missing", "restore"},
		"noise for a ledger": {func(t *testing.T,
			p *patient) {
			p.put(t, "ledger.db", strings.Repeat("noise ", 1000))
		},
			"journal", Problem, "damaged", "restore"},
		"a changed event": {func(t *testing.T,
			p *patient) {
			p.tamper(t, "UPDATE events SET actor = 'eve' WHERE seq = 1")
		},
			"ledger", Problem, "event 1 was changed", "ledger verify"},
		"an empty ledger": {func(t *testing.T, p *patient) {
			p.opts.Dir, p.opts.KeyFile = emptyBox(t), ""
		}, "ledger", Problem, "not initialized", "signalbox init"},
		"a held lock": {func(t *testing.T, p *patient) {
			lock, err := durable.Acquire(t.Context(), filepath.Join(p.dir, "ledger.lock"))
			must.Succeed(t, err)
			t.Cleanup(func() { lock.Release() })
			p.opts.system.lockTimeout = 50 * time.Millisecond
		}, "locks", Problem, "ledger.lock for 50ms", "hangs"},
		"little room": {func(_ *testing.T, p *patient) {
			p.opts.system.freeBytes = func(string) (uint64, error) { return 1<<30 - 1, nil }
		}, "disk", Warning, "less than 1 GiB", "free disk space"},
		"a disk that does not say": {func(_ *testing.T, p *patient) {
			p.opts.system.freeBytes = func(string) (uint64,
				error) {
				return 0, errors.New("no idea")
			}
		}, "disk", Warning, "no idea", "check the disk"},
		"an event in the future": {func(_ *testing.T, p *patient) {
			p.opts.system.now = func() time.Time { return time.Now().Add(-time.Hour) }
		}, "clock", Problem, "ahead", "correct the clock"},
		"a clock at its start": {func(_ *testing.T, p *patient) {
			p.opts.system.now = func() time.Time { return time.Unix(0, 0) }
		}, "clock", Problem, "1970-01-01", "set the clock"},
		"no key": {func(t *testing.T, p *patient) { p.rename(t, p.made.KeyFile) }, "key", Warning,
			"not on this host", "SIGNALBOX_KEY"},
		"an open key": {func(t *testing.T, p *patient) {
			must.Succeed(t, os.Chmod(p.made.KeyFile, 0o644))
		}, "key", Problem, "(mode 0644)", "chmod 600"},
		"the key of another box": {func(t *testing.T,
			p *patient) {
			p.opts.KeyFile = otherKit(t).made.KeyFile
		}, "key", Problem,
			"it belongs to", "the right one"},
		"another public key": {func(t *testing.T,
			p *patient) {
			p.put(t, publicKeyName, newPublicKey(t, origin(p.made.ID)))
		},
			"key", Problem, "is not the public key", "ledger verify"},
		"no checkpoint": {func(t *testing.T,
			p *patient) {
			p.remove(t, checkpointName)
			p.forget(t)
		}, "checkpoint", Warning,
			"nothing is signed", "ledger checkpoint"},
		"an old checkpoint": {func(t *testing.T, p *patient) { write(t, p.open(t), "t1", "t2") },
			"checkpoint", Warning, "2 events not signed yet", "ledger checkpoint"},
		"a checkpoint of more": {func(t *testing.T, p *patient) {
			p.writeAndSign(t, "t1")
			p.tamper(t, "DELETE FROM events WHERE seq = 2")
		}, "checkpoint", Problem, "it has 1 events, but 2 were signed", "ledger verify"},
		"a checkpoint that was edited": {func(t *testing.T,
			p *patient) {
			p.put(t, checkpointName, "nonsense")
		}, "checkpoint", Problem,
			"malformed", "restore it"},
		"few files": {func(_ *testing.T, p *patient) { p.opts.Slots = 100 },
			"files", Warning, "1024 files", "ulimit -n"},
		"no agent": {func(_ *testing.T, p *patient) {
			p.opts.Agents[0] = AgentCommand{Name: "robot", Argv: []string{"no-such-agent"},
				Install: "npm install robot"}
		}, "agent robot", Problem, "no-such-agent is not on the PATH",
			"install it with npm install robot"},
		"an agent that another program can replace": {func(_ *testing.T, p *patient) {
			p.opts.Agents[0] = AgentCommand{Name: "robot", Argv: []string{"no-such-agent"}}
			p.opts.Instead = func(string) string { return "write agent: codex" }
		}, "agent robot", Problem, "no-such-agent is not on the PATH", "or write agent: codex"},
		"an agent without a command": {func(_ *testing.T,
			p *patient) {
			p.opts.Agents[0].Argv = nil
		}, "agent robot", Problem, "no command",
			config.FileName},
		"an agent without a version": {func(t *testing.T,
			p *patient) {
			p.opts.Agents[0].Argv[0] = program(t, "mute", "exit 1")
		},
			"agent robot", Healthy, "does not print its version", ""},
	}
}

func TestDoctorFinds(t *testing.T) {
	ailments := ailmentsAround()
	maps.Copy(ailments, ailmentsInside())
	for name, tt := range ailments {
		t.Run(name, func(t *testing.T) {
			p := newPatient(t)
			tt.harm(t, p)
			checks := Doctor(t.Context(), p.opts)
			i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == tt.check })
			if i < 0 {
				t.Fatalf("%s was not looked at: %+v", tt.check, checks)
			}
			if c := checks[i]; c.Health != tt.health || !strings.Contains(c.Detail, tt.detail) ||
				!strings.Contains(c.Fix, tt.fix) {
				t.Errorf("found %+v\nwant %s with %q, and to do %q", c, tt.health, tt.detail,
					tt.fix)
			}
		})
	}
}

func (k *kit) rename(t *testing.T, name string) {
	t.Helper()
	must.Succeed(t, os.Rename(name, name+".away"))
}

// A read-only box is a problem. Root can write anything, so the test does not apply to it.
func TestDoctorReadOnlyBox(t *testing.T) {
	p := newPatient(t)
	if os.Geteuid() == 0 {
		t.Skip("root may write everything")
	}
	for name, mode := range map[string]os.FileMode{"ledger.db": 0o400, ".": 0o500} {
		path := filepath.Join(p.dir, name)
		must.Succeed(t, os.Chmod(path, mode))
		t.Cleanup(func() { os.Chmod(path, 0o700) })
	}
	checks := Doctor(t.Context(), p.opts)
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "journal" })
	if checks[i].Health != Problem || !strings.Contains(checks[i].Fix, "who owns") {
		t.Errorf("%+v", checks[i])
	}
	if slices.ContainsFunc(checks,
		func(c Check) bool { return c.Name == "ledger" && c.Health != Healthy }) {
		t.Errorf("%+v", checks)
	}
}
