//go:build unix

package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/config"
)

// A login that a program renewed by replacing the link reaches the user's file. Nothing else does.
func TestRenewedLogin(t *testing.T) {
	const old = `{"token": 1}`
	for name, tt := range map[string]struct {
		replace func(file string) error
		want    string // the user's file; "" means none
		fails   bool
	}{
		"renewed":        {func(file string) error { return replaceFile(file, `{"token": 2, "more": true}`) }, `{"token": 2, "more": true}`, false},
		"shorter":        {func(file string) error { return replaceFile(file, `{}`) }, `{}`, false},
		"in place":       {func(file string) error { return os.WriteFile(file, []byte(`{"token": 3}`), 0o600) }, `{"token": 3}`, false},
		"not JSON":       {func(file string) error { return replaceFile(file, "token") }, old, true},
		"empty":          {func(file string) error { return replaceFile(file, "") }, old, true},
		"too large":      {func(file string) error { return replaceFile(file, `"`+strings.Repeat("x", maxLogin)+`"`) }, old, true},
		"removed":        {os.Remove, old, false},
		"a folder":       {func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }, old, false},
		"a pipe":         {func(file string) error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) }, old, false},
		"link elsewhere": {func(file string) error { return errors.Join(os.Remove(file), os.Symlink("/etc/hostname", file)) }, old, false},
		"older": {func(file string) error {
			return errors.Join(replaceFile(file, `{"token": 0}`), os.Chtimes(file, time.Time{}, time.Unix(1, 0)))
		}, old, false},
	} {
		for _, killed := range []bool{false, true} { // then the next start renews it
			t.Run(fmt.Sprint(name, ", killed ", killed), func(t *testing.T) {
				m := newMachine(t, "")
				login := m.write("home/.codex/real.json", old)
				if err := errors.Join(os.Chmod(login, 0o600), os.Chtimes(login, time.Time{}, time.Unix(1e9, 0)), os.Symlink("real.json", m.path("home/.codex/auth.json"))); err != nil {
					t.Fatal(err)
				}
				before, err := os.Stat(login)
				if err != nil {
					t.Fatal(err)
				}
				p := m.agent(config.Agent{Preset: "codex"})
				if err := p.Prepare(); err != nil {
					t.Fatal(err)
				}
				if err := tt.replace(filepath.Join(p.home, ".codex/auth.json")); err != nil {
					t.Fatal(err)
				}
				if killed {
					err = p.Prepare()
				} else if err = p.RenewLogins(); (err != nil) == tt.fails {
					err = nil
				}
				if err != nil {
					t.Errorf("%v", err)
				}
				text, err := os.ReadFile(login)
				if string(text) != tt.want {
					t.Errorf("the login is %q, %v", text, err)
				}
				if after, err := os.Stat(login); err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
					t.Errorf("another file: %v, %v", after, err)
				}
				if err := p.Prepare(); err != nil {
					t.Fatal(err)
				}
				if to, err := os.Readlink(filepath.Join(p.home, ".codex/auth.json")); to != m.path("home/.codex/auth.json") {
					t.Errorf("the next program has %q, %v", to, err)
				}
			})
		}
	}
}

// Only a login that the program was given is replaced, or one that another program has renewed: not that of a user who logged in again.
func TestRenewedLoginOfAnother(t *testing.T) {
	m := newMachine(t, "")
	login := m.write("home/.codex/auth.json", `{"token": 0}`)
	tick := int64(1e9)
	write := func(name, text string, put func(name, text string) error) { // each write is newer than the one before
		t.Helper()
		tick += 10
		if err := errors.Join(put(name, text), os.Chtimes(name, time.Time{}, time.Unix(tick, 0))); err != nil {
			t.Fatal(err)
		}
	}
	inPlace := func(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }
	write(login, `{"token": 0}`, inPlace)
	agent := func(name string) *Program {
		p := m.Agent(Agent{Name: name, Config: config.Agent{Preset: "codex"}, Role: "developer", Work: "T1", Temp: m.path("tmp/" + name), Dir: m.path("project/.signalbox/trees/T1"), Argv: []string{"tool"}})
		if err := p.Prepare(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	renew := func(p *Program, text, want string, fails bool) {
		t.Helper()
		write(filepath.Join(p.home, ".codex/auth.json"), text, replaceFile)
		if err := p.RenewLogins(); (err != nil) != fails {
			t.Errorf("%s: %v", text, err)
		}
		if got, err := os.ReadFile(login); err != nil || string(got) != want {
			t.Errorf("%s: the login is %s, %v, want %s", text, got, err, want)
		}
		if err := os.Chtimes(login, time.Time{}, time.Unix(tick, 0)); err != nil {
			t.Fatal(err)
		}
	}
	a, b, c := agent("a"), agent("b"), agent("c")
	renew(a, `{"token": 1}`, `{"token": 1}`, false)
	renew(b, `{"token": 2}`, `{"token": 2}`, false) // it was renewed for the first meanwhile
	renew(a, `{"token": 3}`, `{"token": 3}`, false)
	write(login, `{"account": 2}`, inPlace) // the user logs in
	renew(c, `{"token": 4}`, `{"account": 2}`, true)
	c = agent("c")
	renew(c, `{"account": 2, "token": 5}`, `{"account": 2, "token": 5}`, false)
	// What the program leaves beside its home folder, or in it, is not what it was given.
	if within(c.givenFile(), c.home) || !strings.HasPrefix(c.givenFile(), c.home) {
		t.Errorf("the record is %s", c.givenFile())
	}
}

// A login that the user has removed does not come back.
func TestLoggedOut(t *testing.T) {
	m := newMachine(t, "")
	login := m.write("home/.codex/auth.json", `{}`)
	p := m.agent(config.Agent{Preset: "codex"})
	if err := p.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(replaceFile(filepath.Join(p.home, ".codex/auth.json"), `{"token": 2}`), os.Remove(login), p.RenewLogins()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(login); err == nil {
		t.Error("the login is back")
	}
}

// replaceFile writes a new file and renames it.
func replaceFile(name, text string) error {
	return errors.Join(os.WriteFile(name+".new", []byte(text), 0o600), os.Rename(name+".new", name))
}
