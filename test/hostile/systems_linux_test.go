package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMissingLandlock runs signalbox on systems that cannot enforce the sandbox: it refuses to run,
// and says what to choose.
func TestMissingLandlock(t *testing.T) {
	for _, system := range []string{withoutLandlock, landlockDisabled, landlockDenied} {
		t.Run(system, func(t *testing.T) {
			t.Run("enforce", func(t *testing.T) {
				t.Parallel()
				s := newStage(t, scene{system: system})
				s.startRun()
				s.awaitEnd()
				log := fileText(s.log)
				for _, text := range []string{"the sandbox cannot be enforced here: the kernel has no Landlock", "sandbox: warn", "sandbox: off"} {
					if !strings.Contains(log, text) {
						t.Errorf("signalbox did not print %q", text)
					}
				}
				if code := s.run.ProcessState.ExitCode(); code == 0 {
					t.Error("signalbox succeeded")
				}
				if s.find(victimReport) != "" {
					t.Error("an agent was started")
				}
			})
			for _, mode := range []string{"warn", "off"} {
				if system != withoutLandlock && !isFull() {
					continue // what it refuses has shown that it sees no Landlock
				}
				t.Run(mode, func(t *testing.T) {
					t.Parallel()
					s := newStage(t, scene{system: system, settings: "sandbox: " + mode + "\n"})
					s.Part = working
					s.startAttack()
					s.finish()
					if warned := strings.Contains(fileText(s.log),
						"the sandbox is incomplete: "); warned != (mode == "warn") {
						t.Errorf("signalbox warned: %v", warned)
					}
				})
			}
		})
	}
}

// TestLimitsWithoutGroups runs signalbox as a user without control groups: it names the limits
// the system does not enforce.
func TestLimitsWithoutGroups(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	const sentence = "limits.cpu has no effect, because the system grants no control group for it"
	s := newStage(t, scene{uid: unprivileged(), settings: "limits: {cpu: 2}\n"})
	s.needSandbox()
	if !strings.Contains(s.must(s.Program, "sandbox", "explain"), sentence) {
		t.Error("signalbox sandbox explain does not say it")
	}
	// it may find other problems
	if out, _ := s.output(s.Program, "doctor"); strings.Count(out, sentence) != 1 {
		t.Errorf("signalbox doctor does not say it once:\n%s", out)
	}
	s.Part = working
	s.startAttack()
	s.finish()
	if n := strings.Count(fileText(s.log), sentence); n != 1 {
		t.Errorf("signalbox run says it %d times", n)
	}
}

// TestPlantedSettings lets an agent with a preset change its own settings to links to the user's
// files, and to commands that would run in later sessions. At the next start of the agent the
// user's settings are back, and nothing was written through the links. A login that an agent
// renewed reaches the user.
func TestPlantedSettings(t *testing.T) {
	t.Parallel()
	of := scene{}
	if os.Getuid() == 0 {
		of.uid = unprivileged()
	}
	s := newStage(t, of)
	s.needSandbox()
	s.write(filepath.Join(s.Bin, "claude"), fmt.Sprintf("#!/bin/sh\nexec %s %s\n", s.program(),
		partClaude))
	s.check(os.Chmod(filepath.Join(s.Bin, "claude"), 0o755))
	s.write(filepath.Join(s.Home, ".claude", ".credentials.json"), claudeLogin)
	s.write(filepath.Join(s.Home, ".claude", "settings.json"), `{"model": "best"}`)
	s.write(filepath.Join(s.Box, "signalbox.yaml"),
		"agent: claude\nlimits: {timeouts: 1}\ngrace: 1s\n")
	s.check(writeJSON(filepath.Join(s.Bin, layoutName), s.layout))
	s.own()
	s.startRun()
	s.finish()
	if text := fileText(filepath.Join(s.Home, ".bashrc")); text != "# nothing\n" {
		t.Errorf("~/.bashrc is %q", text)
	}
	if text := fileText(filepath.Join(s.Home, ".ssh", "id_ed25519")); text != s.secret+"\n" {
		t.Errorf("~/.ssh/id_ed25519 is %q", text)
	}
	for name, want := range map[string]string{"settings.json": `{"model": "best"}`,
		".credentials.json": renewedLogin} {
		if text := fileText(filepath.Join(s.Home, ".claude", name)); text != want {
			t.Errorf("~/.claude/%s is %q", name, text)
		}
	}
	report := s.must("git", "show", "main:"+settingsReport)
	if want := `{"model": "best"} ` + claudeLogin + " false\n"; report != want {
		t.Errorf("the second session of the developer had %q, want %q", report, want)
	}
}

// claudeLogin is the user's login, and renewedLogin what an agent makes of it.
const (
	claudeLogin  = `{"claudeAiOauth": {"accessToken": "a", "refreshToken": "r", "expiresAt": 1}}`
	renewedLogin = `{"claudeAiOauth": {"accessToken": "b", "refreshToken": "s", "expiresAt": 2}}`
)

// settingsReport is a file in which the second session of the developer reports its settings.
const settingsReport = "settings.txt"

// playClaude is an agent program that keeps its settings in CLAUDE_CONFIG_DIR.
func playClaude([]string) error {
	task, settings := os.Getenv("SIGNALBOX_WORK"), os.Getenv("CLAUDE_CONFIG_DIR")
	file := func(name string) string { return filepath.Join(settings, name) }
	planted := filepath.Join(os.Getenv("HOME"), ".bashrc")
	switch {
	case os.Getenv("SIGNALBOX_ROLE") == "critic":
		if exists(planted) || exists(file("hook")) {
			return say("REVIEW_FAILED: " + task)
		}
		return say("REVIEW_PASSED: " + task)
	case os.Getenv("SIGNALBOX_ROLE") == "auditor":
		// the last one renews the login, by replacing its copy, and adds something
		if task == attackTask {
			renewed := strings.Replace(renewedLogin, "{", `{"apiKeyHelper": "sh", `, 1)
			if err := os.WriteFile(file("new"), []byte(renewed), 0o600); err != nil {
				return err
			}
			if err := os.Rename(file("new"), file(".credentials.json")); err != nil {
				return err
			}
		}
		return say("AUDIT_PASSED: " + task)
	case task != attackTask:
		if err := os.WriteFile("victim", nil, 0o644); err != nil {
			return err
		}
		return say("READY_FOR_REVIEW: " + task)
	case !exists(planted): // the first session
		home := readLayout().Home
		os.Remove(file("settings.json"))
		os.Remove(file(".credentials.json"))
		for _, err := range []error{
			os.Symlink(filepath.Join(home, ".bashrc"), file("settings.json")),
			os.Symlink(filepath.Join(home, ".ssh", "id_ed25519"), file(".credentials.json")),
			os.WriteFile(file("hook"), []byte("#!/bin/sh\n"), 0o755),
			os.WriteFile(planted, []byte("planted\n"), 0o644),
		} {
			if err != nil {
				return err
			}
		}
		return say("TASK_INCOMPLETE: " + task)
	}
	info, err := os.Lstat(file("settings.json"))
	if err != nil {
		return err
	}
	report := fmt.Sprintf("%s %s %v\n", fileText(file("settings.json")),
		fileText(file(".credentials.json")), info.Mode()&os.ModeSymlink != 0)
	if err := os.WriteFile(settingsReport, []byte(report), 0o644); err != nil {
		return err
	}
	return say("READY_FOR_REVIEW: " + task)
}

// TestBombs lets agents use as much as they can of the machine. Limits stop them, and the run
// continues.
func TestBombs(t *testing.T) {
	if !isFull() {
		t.Skip("part of make fault")
	}
	for _, bomb := range []struct {
		part, limits string
		crash        string // what signalbox says about the first session
	}{
		{forking, "limits: {processes: 100}\n", ""},
		{allocating, "limits: {memory: 300MB}\n", "crashed"},
		{filling, "limits: {tree: 50MB}\n", "crashed"},
	} {
		t.Run(bomb.part, func(t *testing.T) {
			eachUser(t, func(t *testing.T, uid int) {
				s := newStage(t, scene{uid: uid, settings: bomb.limits})
				s.needSandbox()
				s.Part = bomb.part
				s.startAttack()
				most := 0
				s.await("work of the agent", func() bool {
					most = max(most, len(hiddenProcesses(s.Tag)))
					return s.find("work") != ""
				})
				s.finish()
				// in a session that was not stopped
				started, _ := strconv.Atoi(s.must("git", "show", "main:work"))
				stopped := strings.Contains(fileText(s.log), "exceeded limits.processes")
				if most = max(most, started); bomb.part == forking &&
					(most < 5 && !stopped || most > 200) {
					t.Errorf("there were %d processes at once", most)
				}
				if !strings.Contains(fileText(s.log), bomb.crash) {
					t.Error("the agent was not stopped")
				}
				if left := hiddenProcesses(s.Tag); len(left) > 0 {
					t.Errorf("%d processes are left", len(left))
				}
			})
		})
	}
}
