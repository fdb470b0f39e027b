//go:build unix

package contain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

// codexLogin returns a login of codex with a number in its tokens.
func codexLogin(number int) string {
	return fmt.Sprintf(`{"OPENAI_API_KEY": null, "tokens": {"access_token": "at-%d", "refresh_token": "rt-%d", "account_id": "acc"}}`, number, number)
}

// loginTest is a machine with a login of codex.
type loginTest struct {
	*machine
	t    *testing.T
	user string // the user's file
}

func newLoginTest(t *testing.T) *loginTest {
	m := newMachine(t, "")
	return &loginTest{m, t, m.write("home/.codex/auth.json", codexLogin(1))}
}

// start prepares an agent, and returns it with its copy of the login.
func (l *loginTest) start(name string) (p *Program, copied string) {
	l.t.Helper()
	p = l.Agent(Agent{Name: name, Config: config.Agent{Preset: config.PresetCodex},
		Role: "developer", Work: "T1",
		Temp: l.path("tmp/" + name), Dir: l.path("project/.signalbox/trees/T1"),
		Argv: []string{"tool"}})
	must.Succeed(l.t, p.Prepare())
	return p, filepath.Join(p.home, ".codex/auth.json")
}

func (l *loginTest) do(errs ...error) {
	l.t.Helper()
	must.Succeed(l.t, errors.Join(errs...))
}

// look lets a program's watcher look once.
func (l *loginTest) look(p *Program) {
	l.t.Helper()
	if !p.logins.watchOnce() {
		l.t.Error("the watch has ended")
	}
}

func (l *loginTest) want(file, text string) {
	l.t.Helper()
	if got, err := os.ReadFile(file); string(got) != text {
		l.t.Errorf("%s is %q, %v, want %q", file, got, err, text)
	}
}

func (l *loginTest) wantRenewed(p *Program, refused ...string) {
	l.t.Helper()
	if got, err := p.RenewLogins(); err != nil || !slices.Equal(got, refused) {
		l.t.Errorf("not copied back: %q, %v, want %q", got, err, refused)
	}
}

// No program of a preset may touch the user's login. It has a copy, in the folder that its variable
// names, and the copy is gone when it has ended.
func TestLoginIsACopy(t *testing.T) {
	for preset, tt := range map[string]struct{ variable, folder, below, login string }{
		"claude":   {"CLAUDE_CONFIG_DIR", ".claude", "", ".credentials.json"},
		"codex":    {"CODEX_HOME", ".codex", "", "auth.json"},
		"gemini":   {"GEMINI_CLI_HOME", ".gemini", ".gemini", "oauth_creds.json"},
		"opencode": {"XDG_DATA_HOME", ".local/share/opencode", "opencode", "auth.json"},
	} {
		for _, named := range []bool{false, true} {
			t.Run(fmt.Sprint(preset, ", folder named ", named), func(t *testing.T) {
				m := newMachine(t, "")
				m.Environ = slices.DeleteFunc(m.Environ,
					func(entry string) bool { return nameOf(entry) == "CODEX_HOME" })
				folder := filepath.Join("home", tt.folder)
				if named {
					m.Environ = append(m.Environ, tt.variable+"="+m.path("home/mine"))
					folder = filepath.Join("home/mine", tt.below)
				}
				user := m.write(filepath.Join(folder, tt.login), `{"x": 1}`)
				p := m.agent(config.Agent{Preset: preset})
				must.Succeed(t, p.Prepare())
				copied := filepath.Join(p.home, tt.folder, tt.login)
				if info, err := os.Lstat(copied); err != nil || !info.Mode().IsRegular() ||
					info.Mode().Perm() != 0o600 {
					t.Errorf("the copy is %v, %v", info, err)
				}
				if text, err := os.ReadFile(copied); string(text) != `{"x": 1}` {
					t.Errorf("the copy has %q, %v", text, err)
				}
				for _, name := range slices.Concat(p.Policy.Write, p.Policy.Read) {
					if within(user, name) {
						t.Errorf("%s is allowed", name)
					}
				}
				if _, err := p.RenewLogins(); err != nil {
					t.Error(err)
				}
				for _, name := range []string{copied, recordOf(p.home)} {
					if _, err := os.Lstat(name); err == nil {
						t.Errorf("%s is still there", name)
					}
				}
			})
		}
	}
}

// With a token in its environment, Claude Code needs no login, and gets none.
func TestTokenInsteadOfALogin(t *testing.T) {
	m := newMachine(t, "")
	m.write("home/.claude/.credentials.json", `{"claudeAiOauth": {"accessToken": "a"}}`)
	for name, a := range map[string]config.Agent{"mine": {Preset: "claude",
		Env: map[string]string{tokenVariable: "t"}}, "": {Preset: "claude"}} {
		p := m.agent(a)
		must.Succeed(t, p.Prepare())
		_, err := os.Lstat(filepath.Join(p.home, ".claude/.credentials.json"))
		if given := err == nil; given != (name == "") {
			t.Errorf("with %q: login given: %v", name, given)
		}
		if _, err := p.RenewLogins(); err != nil {
			t.Error(err)
		}
	}
}

// Renewed tokens reach the user's file, however the program writes them, and nothing else does:
// when it has ended, at the next start of a program or of a crew after signalbox was killed, and
// before its home folder is removed.
func TestRenewedLogin(t *testing.T) {
	const file = ".codex/auth.json: "
	for name, tt := range map[string]struct {
		change  func(file string) error
		want    int
		refused []string
	}{
		"by another file": {func(file string) error { return replaceFile(file, codexLogin(2)) }, 2,
			nil},
		"in place": {func(
			file string) error {
			return os.WriteFile(file, []byte(codexLogin(2)), 0o600)
		}, 2, nil},
		"and a key": {func(file string) error {
			return os.WriteFile(file,
				[]byte(strings.Replace(codexLogin(2), "null", `"sk-attacker"`, 1)), 0o600)
		}, 2, []string{file + "OPENAI_API_KEY was changed"}},
		"not at all": {func(string) error { return nil }, 1, nil},
		"not JSON": {func(file string) error { return replaceFile(file, "token") }, 1,
			[]string{file + "the copy: not valid JSON"}},
		"half": {func(
			file string) error {
			return os.WriteFile(file, []byte(codexLogin(2)[:40]), 0o600)
		}, 1,
			[]string{file + "the copy: not valid JSON"}},
		"empty": {func(file string) error { return os.Truncate(file, 0) }, 1,
			[]string{file + "the copy: not valid JSON"}},
		"too large": {func(file string) error { return replaceFile(file, codexLogin(2)+strings.Repeat(" ", maxLogin)) }, 1,
			[]string{file + "the copy has more than 1048576 bytes, or cannot be read"}},
		"removed":  {os.Remove, 1, nil},
		"a folder": {func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }, 1, []string{file + "the copy is not a regular file"}},
		"a pipe": {func(file string) error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) }, 1,
			[]string{file + "the copy is not a regular file"}},
		"a link elsewhere": {func(
			file string) error {
			return errors.Join(os.Remove(file), os.Symlink("/etc/hostname", file))
		}, 1,
			[]string{file + "the copy is not a regular file"}},
		"a link to the user's file": {func(file string) error {
			return errors.Join(os.Remove(file),
				os.Symlink("../../../../../../home/.codex/auth.json", file))
		}, 1, []string{file + "the copy is not a regular file"}},
		"another user's": {func(file string) error {
			return errors.Join(os.WriteFile(file, []byte(codexLogin(2)), 0o600),
				os.Chown(file, 12345, -1))
		}, 1, []string{file + "the copy belongs to another user"}},
		"the folder": {func(file string) error { return os.RemoveAll(filepath.Dir(file)) }, 1, nil},
	} {
		if name == "another user's" && os.Geteuid() != 0 {
			continue // only root can make it so
		}
		for how, end := range map[string]func(l *loginTest, p *Program) ([]string, error){
			"ended": func(_ *loginTest, p *Program) ([]string, error) { return p.RenewLogins() },
			"watched": func(l *loginTest,
				p *Program) ([]string, error) {
				l.look(p)
				return p.RenewLogins()
			},
			"next program": func(_ *loginTest, p *Program) ([]string, error) {
				err := p.Prepare()
				return p.logins.refused, err
			},
			"next crew": func(l *loginTest,
				p *Program) ([]string, error) {
				return RenewLeftovers(l.Box, "")
			},
			"the task is done": func(l *loginTest,
				p *Program) ([]string, error) {
				return tt.refused, RemoveState(l.Box, "T1")
			},
			"home removed": func(l *loginTest,
				p *Program) ([]string, error) {
				return tt.refused, RemoveHome(p.home)
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				l := newLoginTest(t)
				l.do(os.Rename(l.user, l.path("dotfiles.json")),
					os.Symlink("../../dotfiles.json", l.user),
					os.Chmod(l.path("dotfiles.json"), 0o640))
				p, copied := l.start("a")
				l.do(tt.change(copied))
				refused, err := end(l, p)
				if err != nil || !slices.Equal(refused, tt.refused) {
					t.Errorf("not copied back: %q, %v, want %q", refused, err, tt.refused)
				}
				l.want(l.user, codexLogin(tt.want))
				if info, err := os.Stat(l.path("dotfiles.json")); err != nil ||
					info.Mode() != 0o640 {
					t.Errorf("the file is %v, %v", info, err)
				}
				if to, err := os.Readlink(l.user); to != "../../dotfiles.json" {
					t.Errorf("the link is %q, %v", to, err)
				}
				_, copied = l.start("a")
				l.want(copied, codexLogin(tt.want))
			})
		}
	}
}

// Tokens that one program renews reach the other programs, and those that the user's own program
// renews reach all. A login that the user has changed counts more than what a program renewed from
// the old one.
func TestRenewedLoginOfAnother(t *testing.T) {
	l := newLoginTest(t)
	a, ofA := l.start("a")
	b, ofB := l.start("b")
	l.do(replaceFile(ofA, codexLogin(2)))
	l.look(a)
	l.look(b)
	l.want(l.user, codexLogin(2))
	l.want(ofB, codexLogin(2))
	l.do(os.WriteFile(ofB, []byte(codexLogin(3)), 0o600)) // from the token of a
	l.look(b)
	l.look(a)
	l.want(l.user, codexLogin(3))
	l.want(ofA, codexLogin(3))
	l.do(replaceFile(l.user, codexLogin(4))) // the user's own program
	l.look(a)
	l.look(b)
	l.want(ofA, codexLogin(4))
	l.want(ofB, codexLogin(4))
	other := strings.Replace(codexLogin(5), `"acc"`, `"other"`, 1)
	// the user has logged in again
	l.do(replaceFile(l.user, other), replaceFile(ofA, codexLogin(6)))
	l.look(a)
	l.look(b)
	l.want(l.user, other)
	l.want(ofA, other)
	l.want(ofB, other)
	l.do(replaceFile(ofB, strings.Replace(codexLogin(7), `"acc"`, `"other"`, 1)))
	l.wantRenewed(b)
	l.want(l.user, strings.Replace(codexLogin(7), `"acc"`, `"other"`, 1))
	l.wantRenewed(a, ".codex/auth.json: tokens.access_token was renewed, but your file was changed meanwhile")
}

// What was refused once is refused forever: the record of what a killed program had does not move
// on without its copy.
func TestRefusedLeftoverStaysRefused(t *testing.T) {
	l := newLoginTest(t)
	_, copied := l.start("a")
	l.do(os.WriteFile(copied, []byte(codexLogin(2)), 0o600), replaceFile(l.user, codexLogin(9)))
	for range 3 {
		if _, err := RenewLeftovers(l.Box, ""); err != nil {
			t.Fatal(err)
		}
		l.want(l.user, codexLogin(9))
	}
}

// While the program or the user writes a file, it is left alone, and is looked at again.
func TestHalfALogin(t *testing.T) {
	l := newLoginTest(t)
	p, copied := l.start("a")
	for _, half := range []string{"", codexLogin(2)[:50]} {
		l.do(os.WriteFile(copied, []byte(half), 0o600))
		l.look(p)
		l.want(l.user, codexLogin(1))
		l.want(copied, half)
	}
	l.do(os.WriteFile(copied, []byte(codexLogin(2)), 0o600))
	l.look(p)
	l.want(l.user, codexLogin(2))
	for _, half := range []string{"", codexLogin(3)[:50]} {
		l.do(os.WriteFile(l.user, []byte(half), 0o600))
		l.look(p)
		l.want(l.user, half)
		l.want(copied, codexLogin(2))
	}
	l.do(os.WriteFile(l.user, []byte(codexLogin(3)), 0o600))
	l.look(p)
	l.want(copied, codexLogin(3))
	l.wantRenewed(p)
}

// A user's file that somebody is writing at the last look does not cost the renewed login: it is
// waited for, and if it stays broken, the copy is kept until it can be read. Without new tokens
// there is nothing to keep.
func TestHalfALoginAtTheEnd(t *testing.T) {
	half := codexLogin(1)[:50]
	t.Run("written soon", func(t *testing.T) {
		l := newLoginTest(t)
		p, copied := l.start("a")
		l.do(replaceFile(copied, codexLogin(2)), os.WriteFile(l.user, []byte(half), 0o600))
		synctest.Test(t, func(t *testing.T) {
			var writer sync.WaitGroup
			writer.Go(func() {
				time.Sleep(loginPause * 3 / 2)
				if err := replaceFile(l.user, codexLogin(1)); err != nil {
					t.Error(err)
				}
			})
			l.wantRenewed(p)
			writer.Wait()
		})
		l.want(l.user, codexLogin(2))
	})
	t.Run("written later", func(t *testing.T) {
		l := newLoginTest(t)
		p, copied := l.start("a")
		l.do(replaceFile(copied, codexLogin(2)), os.WriteFile(l.user, []byte(half), 0o600))
		synctest.Test(t, func(t *testing.T) {
			if _, err := p.RenewLogins(); !errors.Is(err, errUnsettled) {
				t.Errorf("the last look: %v", err)
			}
			if err := RemoveHome(p.home); !errors.Is(err, errUnsettled) {
				t.Errorf("the home folder is removed: %v", err)
			}
		})
		l.want(l.user, half)
		l.want(copied, codexLogin(2))
		l.do(replaceFile(l.user, codexLogin(1)))
		if refused, err := RenewLeftovers(l.Box, ""); err != nil || refused != nil {
			t.Errorf("the next run: %q, %v", refused, err)
		}
		l.want(l.user, codexLogin(2))
	})
	for name, tt := range map[string]struct {
		copied  string
		refused []string
	}{
		"nothing is renewed": {codexLogin(1), nil},
		"the copy is broken": {"token", []string{".codex/auth.json: your file: not valid JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoginTest(t)
			p, copied := l.start("a")
			l.do(replaceFile(copied, tt.copied), os.WriteFile(l.user, []byte(half), 0o600))
			l.wantRenewed(p, tt.refused...)
			if _, err := os.Lstat(copied); err == nil {
				t.Error("the copy is still there")
			}
		})
	}
}

// What a program of the user writes between reading the user's file and replacing it is not undone:
// the look starts over.
func TestLoginWrittenMeanwhile(t *testing.T) {
	const changed = ".codex/auth.json: tokens.access_token was renewed, but your file was changed meanwhile"
	key := func(login string) string { return strings.Replace(login, "null", `"sk-mine"`, 1) }
	for name, tt := range map[string]struct {
		write   func(file string) error
		want    string // "" means that there is no file
		refused []string
	}{
		"a new login": {func(file string) error { return replaceFile(file, codexLogin(9)) },
			codexLogin(9), []string{changed}},
		"something else": {func(file string) error { return replaceFile(file, key(codexLogin(1))) },
			key(codexLogin(2)), nil},
		"logged out": {os.Remove, "", nil},
	} {
		for how, look := range map[string]func(l *loginTest, p *Program){
			"watched": func(l *loginTest, p *Program) { l.look(p); l.look(p) },
			"ended":   func(*loginTest, *Program) {},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				l := newLoginTest(t)
				p, copied := l.start("a")
				l.do(replaceFile(copied, codexLogin(2)))
				written := false
				p.logins.all[0].beforeWrite = func() {
					if !written {
						l.do(tt.write(l.user))
					}
					written = true
				}
				look(l, p)
				synctest.Test(t, func(*testing.T) { l.wantRenewed(p, tt.refused...) })
				if !written {
					t.Error("nothing was written meanwhile")
				}
				if _, err := os.Lstat(l.user); tt.want == "" && err == nil {
					t.Error("the login is back")
				} else if tt.want != "" {
					l.want(l.user, tt.want)
				}
			})
		}
	}
}

// A login that the user has removed does not come back, and one that the user creates reaches the
// program.
func TestLoggedOut(t *testing.T) {
	l := newLoginTest(t)
	p, copied := l.start("a")
	l.do(os.WriteFile(copied, []byte(codexLogin(2)), 0o600), os.Remove(l.user))
	l.look(p)
	l.wantRenewed(p)
	if _, err := os.Lstat(l.user); err == nil {
		t.Error("the login is back")
	}
	p, copied = l.start("a")
	if _, err := os.Lstat(copied); err == nil {
		t.Error("the program has a login, but the user has none")
	}
	l.do(os.WriteFile(l.user, []byte(codexLogin(3)), 0o600))
	l.look(p)
	l.want(copied, codexLogin(3))
	l.wantRenewed(p)
}

// A login that cannot be written now is not lost: the copy stays until it can.
func TestUnwritableLogin(t *testing.T) {
	l := newLoginTest(t)
	p, copied := l.start("a")
	l.do(os.WriteFile(copied, []byte(codexLogin(2)), 0o600))
	locks := filepath.Dir(p.logins.all[0].Lock)
	// no lock can be had
	l.do(os.RemoveAll(locks), os.MkdirAll(filepath.Dir(locks), 0o700),
		os.WriteFile(locks, nil, 0o600))
	if _, err := p.RenewLogins(); err == nil {
		t.Error("no error")
	}
	if err := RemoveState(l.Box, "T1"); err == nil {
		t.Error("the home folder was removed")
	}
	if err := RemoveHome(p.home); err == nil {
		t.Error("the home folder was removed")
	}
	l.want(copied, codexLogin(2))
	l.do(os.Remove(locks), RemoveState(l.Box, "T1"))
	l.want(l.user, codexLogin(2))
}

// A running program is watched: what it renews reaches the user and the other programs while all of
// them run. So does what it keeps renewing although its folder was replaced.
func TestWatchLogins(t *testing.T) {
	l := newLoginTest(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a, ofA := l.start("a")
	b, ofB := l.start("b")
	a.WatchLogins(ctx)
	b.WatchLogins(ctx)
	await := func(file, text string) {
		t.Helper()
		for {
			if got, _ := os.ReadFile(file); string(got) == text {
				return
			}
			select {
			case <-time.After(time.Millisecond):
			case <-t.Context().Done():
				t.Fatalf("%s does not become %s", file, text)
			}
		}
	}
	l.do(replaceFile(ofA, codexLogin(2)))
	await(l.user, codexLogin(2))
	await(ofB, codexLogin(2))
	l.do(os.RemoveAll(filepath.Dir(ofB)), os.Mkdir(filepath.Dir(ofB), 0o700),
		os.WriteFile(ofB, []byte(codexLogin(3)), 0o600))
	await(l.user, codexLogin(3))
	await(ofA, codexLogin(3))
	l.wantRenewed(a)
	l.wantRenewed(b)
	l.do(os.WriteFile(ofB, []byte(codexLogin(4)), 0o600))
	l.wantRenewed(b) // once more does nothing
	l.want(l.user, codexLogin(3))
}

// Programs without a sandbox use the user's own file, and there is nothing to renew.
func TestNoCopyWithoutASandbox(t *testing.T) {
	m := newMachine(t, "sandbox: off")
	m.write("home/.codex/auth.json", codexLogin(1))
	p := m.agent(config.Agent{Preset: "codex"})
	must.Succeed(t, p.Prepare())
	p.WatchLogins(t.Context())
	if refused, err := p.RenewLogins(); err != nil || refused != nil ||
		process.Getenv(p.Env, "CODEX_HOME") != "" {
		t.Errorf("%q, %v, environment %q", refused, err, p.Env)
	}
}

// replaceFile writes a new file and renames it.
func replaceFile(name, text string) error {
	return errors.Join(os.WriteFile(name+".new", []byte(text), 0o600), os.Rename(name+".new", name))
}
