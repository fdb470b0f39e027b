package contain

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

func TestSettingsAndLogins(t *testing.T) {
	for preset, tt := range map[string]struct {
		settings, login string
		variable, home  string // home is relative to the private home folder
	}{
		"claude": {".claude/settings.json", ".claude/.credentials.json", "CLAUDE_CONFIG_DIR",
			".claude"},
		"codex":  {".codex/config.toml", ".codex/auth.json", "CODEX_HOME", ".codex"},
		"gemini": {".gemini/settings.json", ".gemini/oauth_creds.json", "GEMINI_CLI_HOME", ""},
		"opencode": {".config/opencode/opencode.json", ".local/share/opencode/auth.json",
			"XDG_DATA_HOME", ".local/share"},
	} {
		t.Run(preset, func(t *testing.T) {
			m := newMachine(t, "")
			m.write("home/"+tt.settings, "settings")
			m.write("home/"+tt.login, "login")
			p := m.agent(config.Agent{Preset: preset})
			home := m.path("project/.signalbox/state/T1/developer-a")
			for range 2 { // the second time, over what a program left
				must.Succeed(t, p.Prepare())
				if text, err := os.ReadFile(filepath.Join(home, tt.settings)); string(
					text) != "settings" {
					t.Errorf("settings %q, %v", text, err)
				}
				if text, err := os.ReadFile(filepath.Join(home,
					tt.login)); string(text) != "login" {
					t.Errorf("the login is %q, %v", text, err)
				}
				must.Succeed(t, os.WriteFile(filepath.Join(home, tt.settings), []byte("planted"),
					0o600))
			}
			if got := process.Getenv(p.Env, tt.variable); got != filepath.Join(home, tt.home) {
				t.Errorf("%s=%s", tt.variable, got)
			}
			m.want("write", p.Policy.Write, "project/.signalbox/state/T1/developer-a",
				"project/.signalbox/trees/T1")
			// Settings that the user removed do not stay, and neither does a login for another
			// server.
			must.Succeed(t, os.Remove(m.path("home/"+tt.settings)))
			p = m.agent(config.Agent{Preset: preset, BaseURL: "http://h"})
			must.Succeed(t, p.Prepare())
			if _, err := os.Lstat(filepath.Join(home, tt.settings)); err == nil {
				t.Error("old settings stayed")
			}
			m.want("write", p.Policy.Write, "project/.signalbox/state/T1/developer-a",
				"project/.signalbox/trees/T1")
		})
	}
}

// Links that an agent left in its home folder are not followed when files are copied into it.
func TestPlantedLinks(t *testing.T) {
	m := newMachine(t, "")
	m.write("home/.codex/config.toml", "settings")
	victim := m.write("victim/config.toml", "untouched")
	home := m.path("project/.signalbox/state/T1/developer-a")
	for name, plant := range map[string]func() error{
		"file":     func() error { return os.Symlink(victim, filepath.Join(home, ".codex/config.toml")) },
		"folder":   func() error { return os.Symlink(filepath.Dir(victim), filepath.Join(home, ".codex")) },
		"relative": func() error { return os.Symlink("../../../../../victim", filepath.Join(home, ".codex")) },
		"regular":  func() error { return os.WriteFile(filepath.Join(home, ".codex"), nil, 0o600) },
		"in place": func() error { return os.MkdirAll(filepath.Join(home, ".codex/config.toml/x"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			must.Succeed(t, os.RemoveAll(home))
			folder := home
			if name == "file" {
				folder = filepath.Join(home, ".codex")
			}
			must.Succeed(t, os.MkdirAll(folder, 0o700))
			must.Succeed(t, plant())
			must.Succeed(t, m.agent(config.Agent{Preset: "codex"}).Prepare())
			if text, err := os.ReadFile(victim); string(text) != "untouched" {
				t.Errorf("the other file has %q, %v", text, err)
			}
			if text, err := os.ReadFile(filepath.Join(home, ".codex/config.toml")); string(
				text) != "settings" {
				t.Errorf("settings %q, %v", text, err)
			}
		})
	}
}

func TestCleanAndRemoveState(t *testing.T) {
	m := newMachine(t, "")
	p := m.agent(config.Agent{})
	must.Succeed(t, p.Prepare())
	for _, name := range []string{"project/.signalbox/tmp/w-1.1/a/b",
		"project/.signalbox/state/T1/developer-a/go/pkg/mod/x"} {
		m.write(name, "")
		// like go's module cache
		must.Succeed(t, os.Chmod(filepath.Dir(m.path(name)), 0o500))
	}
	if err := p.Clean(); err != nil {
		t.Error(err)
	}
	if err := RemoveState(m.Box, "T1"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"tmp/w-1.1", "state/T1"} {
		if _, err := os.Lstat(filepath.Join(m.Box, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestPublicParts(t *testing.T) {
	m := newMachine(t, "")
	for name, mode := range map[string]os.FileMode{"etc/passwd": 0o644, "etc/shadow": 0o640,
		"etc/ssh/host_key": 0o600, "etc/ssh/config": 0o644, "etc/ssl/cert": 0o644} {
		must.Succeed(t, os.Chmod(m.write(name, ""), mode))
	}
	for _, name := range []string{"etc", "etc/ssh", "etc/ssl"} {
		must.Succeed(t, os.Chmod(m.path(name), 0o755))
	}
	// A policy would allow what a link leads to.
	for name, to := range map[string]string{"etc/shell": "/usr/bin",
		"etc/mtab": "/proc/self/mounts", "etc/secret": m.path("etc/shadow"),
		"etc/private": m.path("home")} {
		must.Succeed(t, os.Symlink(to, m.path(name)))
	}
	m.want("public", publicParts(m.path("etc")), "etc/passwd", "etc/shell", "etc/ssh/config",
		"etc/ssl")
	m.want("all", publicParts(m.path("etc/ssl")), "etc/ssl")
}

// Git in a private home folder knows a name, and uses the working copy whoever owns it. What a
// program planted there is replaced.
func TestGitSettings(t *testing.T) {
	m := newMachine(t, "")
	for name, p := range map[string]*Program{
		"agent": m.agent(config.Agent{}),
		"check": m.Check(Check{Work: "T1", Session: "c",
			Dir: m.path("project/.signalbox/trees/T1")}),
		"setup": m.Setup(Setup{Work: "T2", Session: "s",
			Dir: m.path("project/.signalbox/trees/T1")}),
		"tool": m.Tool(config.Sandbox{}, nil, m.path(`project/a "b" \c`), m.path("temp")),
	} {
		home := process.Getenv(p.Env, "HOME")
		settings := filepath.Join(home, ".config/git/config")
		must.Succeed(t, os.MkdirAll(filepath.Dir(settings), 0o700))
		must.Succeed(t, os.Symlink(m.write("victim", "untouched"), settings))
		must.Succeed(t, p.Prepare())
		if text, err := os.ReadFile(m.path("victim")); string(text) != "untouched" {
			t.Errorf("%s: wrote %q, %v", name, text, err)
		}
		get := func(setting string) string {
			cmd := exec.Command("git", "config", "--file", settings, "--get", setting)
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%s: git config %s: %v", name, setting, err)
			}
			return strings.TrimSpace(string(out))
		}
		for setting, want := range map[string]string{"user.name": "signalbox",
			"user.email": "signalbox@localhost", "init.defaultBranch": "main",
			"safe.directory": resolve(p.dir)} {
			if got := get(setting); got != want {
				t.Errorf("%s: %s is %q, want %q", name, setting, got, want)
			}
		}
	}
}
