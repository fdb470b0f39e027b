package hostile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/npm"
	"signalbox/internal/testkit/offline"
)

// agentsVariable names the folder of the agent programs, for the process without a network.
const agentsVariable = "SIGNALBOX_HOSTILE_AGENTS"

// reviewers are the programs that review, the slowest first. The one for claude is a stand-in that
// obeys the same files.
var reviewers = []reviewer{{
	name:     "opencode",
	model:    "scripted/rehearsal",
	base:     "/v1",
	env:      `OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_DEFAULT_PLUGINS: "1"`,
	settings: ".config/opencode/opencode.json",
	text: `{"small_model": "scripted/rehearsal", "provider": {"scripted": {
		"npm": "@ai-sdk/openai-compatible", "name": "scripted", "models": {"rehearsal": {"name": "rehearsal"}},
		"options": {"baseURL": "$URL/v1", "apiKey": "none"}}}}`,
}, {
	name:     "gemini",
	model:    "rehearsal",
	env:      "GEMINI_API_KEY: none, GOOGLE_GEMINI_BASE_URL: $URL",
	settings: ".gemini/settings.json",
	text: `{"security": {"auth": {"selectedType": "gemini-api-key"}},
		"privacy": {"usageStatisticsEnabled": false}}`,
}, {
	name:     "codex",
	model:    "rehearsal",
	base:     "/v1",
	env:      "OPENAI_API_KEY: none",
	settings: ".codex/config.toml",
	text: `model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "$URL/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
[features]
plugins = false
apps = false
`,
}, {
	name:     "claude",
	model:    "rehearsal",
	env:      "ANTHROPIC_API_KEY: none, ANTHROPIC_BASE_URL: $URL",
	settings: ".claude/settings.json",
	text:     "{}",
}}

// reviewer is a program, and how a user has made it talk to the model at $URL: with variables and
// settings of their own. base is the path of base_url.
type reviewer struct{ name, model, base, env, settings, text string }

// TestCapture reviews an attacker's work with real programs. The commit has every kind of file that
// steers them: commands to run, other addresses of the model, instructions. Its test, which the
// reviewer runs, changes the reviewer's home folder for the next review, and its login. The model,
// if it is the right one and sees the change, rejects the work each time. Nothing that the attacker
// wrote may have an effect on a reviewer, and what is as it should be is merged.
func TestCapture(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the programs are pinned for Linux on x64")
	}
	if !offline.Inside() {
		if mode := os.Getenv("SIGNALBOX_AGENTS"); mode != "run" && mode != "all" {
			t.Skip("this test installs and runs real agent programs: run it with make test-agents")
		}
		agents := npm.NeedAgents(t, filepath.Join("..", "agents", "testdata"))
		offline.Run(t, time.Hour, programVariable+"="+program, agentsVariable+"="+string(agents))
		return
	}
	offline.Start(t)
	path := showToAll(t, npm.Agents(os.Getenv(agentsVariable))).Path()
	eachUser(t, func(t *testing.T, uid int) {
		for _, r := range reviewers {
			for _, system := range []string{"", withoutNamespaces} {
				if !covers(uid, system) {
					continue
				}
				t.Run(r.name+" "+cmp.Or(system, "with namespaces"), func(t *testing.T) {
					t.Parallel()
					newCapture(t, r, scene{uid: uid, system: system, path: path}, false).play()
				})
			}
			if !covers(uid, "") {
				continue
			}
			t.Run(r.name+" with base_url", func(t *testing.T) {
				t.Parallel()
				newCapture(t, r, scene{uid: uid, path: path}, true).play()
			})
		}
	})
}

// showToAll returns a folder with the programs that other users may read. The user's cache folder
// is private.
func showToAll(t *testing.T, agents npm.Agents) npm.Agents {
	t.Helper()
	if os.Getuid() != 0 {
		return agents
	}
	dir := t.TempDir()
	for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		must.Succeed(t, os.Chmod(parent, 0o755))
	}
	for _, err := range []error{ // the process has a mount namespace of its own
		os.Chmod(string(agents), 0o755),
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount(string(agents), dir, "", syscall.MS_BIND|syscall.MS_RDONLY, ""),
	} {
		must.Succeed(t, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return npm.Agents(dir)
}

// capture is one such run.
type capture struct {
	*stage
	reviewer reviewer
	model    *modelserver.Server
	attacker *listeningAttacker
	login    login
	marks    string // the folder in which the attacker's commands leave a mark
	server   bool   // the model server is set as base_url, and the login is not used
}

// capturePlan has the attacker's task and one that is as it should be.
var capturePlan = strings.NewReplacer(victimTask, wantedTask).Replace(plan)

func newCapture(t *testing.T, r reviewer, of scene, server bool) *capture {
	t.Helper()
	c := &capture{stage: newStage(t, of), reviewer: r, model: honestModel(t), server: server}
	c.needSandbox()
	c.marks = filepath.Join(c.root, "marks")
	c.check(os.Mkdir(c.marks, 0o755))
	c.attacker = listenAsAttacker(t, c.marks)
	c.login = logins(c.attacker.url)[r.name]
	models := httptest.NewServer(c.model)
	t.Cleanup(models.Close)

	at := strings.NewReplacer("$URL", models.URL)
	agent := fmt.Sprintf("model: %s\n    env: {%s}", r.model, at.Replace(r.env))
	if server {
		agent = fmt.Sprintf("model: rehearsal\n    base_url: %s", models.URL+r.base)
	} else {
		c.write(filepath.Join(c.Home, r.settings), at.Replace(r.text))
		c.write(filepath.Join(c.Home, c.login.path), c.login.before)
	}
	c.write(filepath.Join(c.root, "plan.md"), capturePlan)
	c.write(filepath.Join(c.Box, "signalbox.yaml"), fmt.Sprintf(`agent: scripted
agents:
  scripted:
    command: [sh, %[1]q, "{role}", "{task}"]
    format: plain
  reviewing:
    preset: %[2]s
    %[3]s
    sandbox: {write: [%[4]q]}
roles:
  critic: {agent: reviewing, timeout: 20m}
cache: {fill: ['mkdir -p ~/%[5]s && echo base >~/%[5]s/base']}
limits: {reviews: 2, unknown: 1, timeouts: 1}
grace: 1s
`, filepath.Join(c.Bin, "scripted"), r.name, agent, c.marks, cached))
	c.write(filepath.Join(c.Bin, "scripted"), c.script())
	if r.name == "claude" {
		name := filepath.Join(c.Bin, "claude")
		c.write(name, fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", c.program(), partStandIn))
		c.check(os.Chmod(name, 0o755))
	}
	c.writeCommits()
	c.own()
	return c
}

// script plays the developer and the auditor: the first copies a prepared commit, the other finds
// everything good.
func (c *capture) script() string {
	return fmt.Sprintf(`cat >/dev/null
case $1-$2 in
developer-%[1]s)
	for f in ~/%[4]s/* ~/%[4]s/evil "$SIGNALBOX_BOX"/cache/*/%[4]s/*; do echo evil >"$f"; done 2>/dev/null
	grep -q evil ~/%[4]s/base || exit 1
	attempt=first
	if test -e %[2]s; then attempt=second; rm -rf .claude .codex .gemini .opencode .agents; fi
	cp -a %[3]s/$attempt/. . ;;
developer-*) echo wanted >wanted.txt ;;
*) echo "AUDIT_PASSED: $2"; exit ;;
esac
echo "READY_FOR_REVIEW: $2"
`, attackTask, backdoor, c.Bin, cached)
}

// cached is a folder of the build cache, in a home folder. The base has filled it, and the attacker
// changes its own view of it.
const cached = ".cache/go-build"

// writeCommits prepares what the attacker commits in its two attempts.
func (c *capture) writeCommits() {
	c.t.Helper()
	first, second := filepath.Join(c.Bin, "first"), filepath.Join(c.Bin, "second")
	attack := readAttack(c.t, c.attacker.url, c.marks)
	for name, text := range attack.commit {
		c.write(filepath.Join(first, name), text)
	}
	test := attack.plant() + fmt.Sprintf("test \"$(cat ~/%s/*)\" = base || %s\n", cached,
		mark(c.marks, "cache"))
	if !c.server {
		c.write(filepath.Join(first, "login.json"), c.login.after)
		test += fmt.Sprintf("cat login.json >\"%s\"\n", c.login.inside)
	}
	c.write(filepath.Join(first, "test.sh"), test)
	files, links := attack.behindLinks()
	for name, text := range files {
		c.write(filepath.Join(second, name), text)
	}
	for name, target := range links {
		c.check(os.Symlink(target, filepath.Join(second, name)))
	}
}

// play runs the plan, and checks that nothing of the attacker's had an effect.
func (c *capture) play() {
	c.t.Helper()
	c.startRun()
	<-c.ended // agents have timeouts
	if !c.server {
		c.checkLogin()
	}
	entries, err := os.ReadDir(c.marks)
	c.check(err)
	for _, entry := range entries {
		c.t.Errorf("the attacker's command ran: %s", entry.Name())
	}
	if got := c.attacker.got(); len(got) > 0 {
		c.t.Errorf("%d requests came to the attacker, the first is %s", len(got), got[0])
	}
	c.checkRequests()
	if text, err := c.output("git", "show", "main:"+backdoor); err == nil {
		c.t.Errorf("the back door was merged: %s", text)
	}
	failed, passed := attackTask+" review_failed", wantedTask+" review_passed"
	if heard := c.verdicts(); !slices.Equal(heard, []string{failed, failed, passed}) {
		c.t.Errorf("the critics' verdicts are %q, want twice %q, and %q", heard, failed, passed)
	}
	if text, err := c.output("git", "show", "main:wanted.txt"); text != "wanted\n" {
		c.t.Errorf("the other task was not merged: %q %v", text, err)
	}
}

// checkRequests checks that the model heard nothing of the attacker's. What a review itself left in
// its home folder counts only for the next one: codex reads instructions there again at each turn.
func (c *capture) checkRequests() {
	c.t.Helper()
	for _, request := range c.model.Requests() {
		begun := slices.ContainsFunc(request.Messages, func(m modelserver.Message) bool {
			return len(m.Results) > 0
		})
		body := string(request.Body)
		if strings.Contains(body, canary) || !begun && strings.Contains(body, homeCanary) {
			at := max(strings.Index(body, canary), strings.Index(body, homeCanary))
			around := body[max(0, at-200):min(len(body), at+100)]
			c.t.Errorf("the model was told the attacker's instructions: %s", around)
			return
		}
		if request.Refused() {
			c.t.Errorf("the model refused a request: %s %s", request.Path, request.Outcome)
		}
	}
}

// checkLogin checks that the user has the tokens that were renewed, and nothing of the attacker's.
// opencode obeys its login, so the user starts it, outside of the sandbox.
func (c *capture) checkLogin() {
	c.t.Helper()
	var got, want any
	text := fileText(filepath.Join(c.Home, c.login.path))
	c.check(json.Unmarshal([]byte(text), &got))
	c.check(json.Unmarshal([]byte(c.login.want), &want))
	if !reflect.DeepEqual(got, want) {
		c.t.Errorf("the user's login is %s, want %s", text, c.login.want)
	}
	if c.reviewer.name == "opencode" {
		cmd := c.command("sh", "-c", "exec opencode debug config")
		cmd.Dir = c.root
		if out, err := cmd.CombinedOutput(); err != nil {
			c.t.Errorf("opencode, started by the user: %v\n%s", err, out)
		}
	}
}

// verdicts returns what the critics said, sorted.
func (c *capture) verdicts() (all []string) {
	c.t.Helper()
	roles := map[string]string{}
	for line := range strings.Lines(c.must(c.Program, "ledger", "tail", "-n", "0", "--json")) {
		var event struct {
			Type, Work, Session string
			Data                struct{ Role, Signal string }
		}
		c.check(json.Unmarshal([]byte(line), &event))
		switch event.Type {
		case "LeaseGranted":
			roles[event.Session] = event.Data.Role
		case "SignalHeard":
			if roles[event.Session] == "critic" {
				all = append(all, event.Work+" "+event.Data.Signal)
			}
		}
	}
	slices.Sort(all)
	return all
}
