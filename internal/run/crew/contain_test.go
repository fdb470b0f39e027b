package crew

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

// needSandbox skips a test on a system that cannot enforce a sandbox.
func needSandbox(t *testing.T) {
	t.Helper()
	if err := process.Support().Check(&sandbox.Policy{Mode: sandbox.Enforce,
		Hidden: []string{"/x"}}); err != nil {
		t.Skip(err)
	}
}

// attempts is a script that tries commands, and writes those that succeed to the file allowed.
func attempts(commands ...string) string {
	script := "cat >/dev/null\n: >allowed\ntry() { if (eval \"$1\") >/dev/null 2>&1; then echo \"$1\" >>allowed; fi; }\n"
	for _, command := range commands {
		script += "try '" + command + "'\n"
	}
	return script
}

// The agent and the check of a task can use their working copy, and nothing of the box, the key,
// the repository or the home folder.
func TestAgentsAndChecksAreContained(t *testing.T) {
	needSandbox(t)
	good := []string{"git status", "git log", "git diff HEAD",
		"echo x >a && mkdir -p d && mv a d/a && rm -r d", "echo x >$HOME/file",
		"test -d $TMPDIR && echo x >$TMPDIR/file",
		"test -f $HOME/file", "ls /usr/bin", "test $SIGNALBOX_SANDBOX = 1"}
	bad := []string{"cat $PWD/../../signalbox.yaml", "cat $PWD/../../*.db",
		"cat $PWD/../../../../key", "echo x >.git", "rm .git", "mv .git g",
		"git commit --allow-empty -m x", "git update-ref refs/heads/other HEAD", "git config a.b c",
		"git tag x",
		"echo x >$PWD/../../../.git/hooks/pre-commit", "cat $PWD/../../../agent.sh", "ls " +
			os.Getenv("HOME") + "/.ssh"}
	// Where the folders above the working copy are in a temporary folder of the program, these
	// succeed without an effect.
	const vain = "for f in $PWD/../../x $PWD/../x $PWD/../../../x $PWD/../../../../x; do echo x >$f; done 2>/dev/null\n"
	s := set(t, scene{
		plan: task("T1"), git: true,
		settings: "sandbox: enforce\nroles: {developer: {agent: shell}}\nchecks: [{name: contained, command: sh check.sh}]\n",
		files: map[string]string{
			"agent.sh": attempts(append(good, bad...)...) + vain +
				"echo READY_FOR_REVIEW: $SIGNALBOX_WORK\n",
			"check.sh": attempts(append(good, bad...)...) + vain + "cat allowed\nrm allowed\n",
		},
	})
	s.run()
	allowed, err := os.ReadFile(filepath.Join(s.root, "allowed"))
	must.Succeed(t, err)
	want := strings.Join(good, "\n") + "\n"
	if diff := cmp.Diff(want, string(allowed)); diff != "" {
		t.Errorf("the agent (-want +got):\n%s", diff)
	}
	checked := all[rules.ChecksRan](s, "T1")
	if len(checked) == 0 {
		t.Fatal("no checks ran")
	}
	row := checked[0].Body.Rows[0]
	if diff := cmp.Diff(want, s.blobText(row.Output)); diff != "" {
		t.Errorf("the check (-want +got):\n%s", diff)
	}
	for _, name := range []string{"x", "project/x", "project/.signalbox/x",
		"project/.signalbox/trees/x"} {
		if _, err := os.Lstat(filepath.Join(s.dir, name)); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	// The policy is on the ledger.
	for _, recorded := range []rules.Sandbox{all[rules.AgentStarted](s, "T1")[0].Body.Sandbox,
		row.Sandbox} {
		var policy sandbox.Policy
		if err := json.Unmarshal([]byte(s.blobText(recorded.Policy)), &policy); err != nil ||
			recorded.Mode != "enforce" || recorded.Layers == "" || len(policy.Write) == 0 {
			t.Errorf("recorded %+v, policy %+v, %v", recorded, policy, err)
		}
	}
	// Nothing of completed work is left.
	for _, pattern := range []string{"state/T1", "tmp/check-*"} {
		if left, _ := filepath.Glob(filepath.Join(s.box.Dir, pattern)); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

// In a shared folder the box is hidden.
func TestSharedFolderHidesTheBox(t *testing.T) {
	needSandbox(t)
	s := set(t, scene{
		plan: task("T1"), settings: "sandbox: enforce\nroles: {developer: {agent: shell}}\n",
		files: map[string]string{"agent.sh": attempts("echo x >shared",
			"cat .signalbox/signalbox.yaml", "echo x >.signalbox/x", "cat ../key",
			"echo x >$HOME/file") +
			"echo READY_FOR_REVIEW: $SIGNALBOX_WORK\n"},
	})
	s.run()
	allowed, err := os.ReadFile(filepath.Join(s.root, "allowed"))
	if diff := cmp.Diff("echo x >shared\necho x >$HOME/file\n", string(allowed)); diff != "" ||
		err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// The code under review redirects the program of the critic. It reaches its model server only,
// and the ledger says so.
func TestCriticReachesItsModelOnly(t *testing.T) {
	needSandbox(t)
	visited := make(chan string, 16)
	listen := func(name string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.Succeed(t, err)
		var running sync.WaitGroup
		running.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				visited <- name
				conn.Close()
			}
		})
		t.Cleanup(func() { l.Close(); running.Wait() })
		return strings.TrimPrefix(l.Addr().String(), "127.0.0.1:")
	}
	model, attacker := listen("model"), listen("attacker")
	bin := t.TempDir()
	text := `#!/bin/bash
cat >/dev/null
for port in $(cat redirect) ${ANTHROPIC_BASE_URL##*:}; do (exec 3<>/dev/tcp/127.0.0.1/$port && cat <&3) 2>/dev/null; done
cat <<'END'
{"type":"system","subtype":"init","session_id":"S"}
{"type":"assistant","message":{"content":[{"type":"text","text":"REVIEW_PASSED: T1"}]},"parent_tool_use_id":null,"session_id":"S"}
{"type":"result","subtype":"success","is_error":false,"result":"REVIEW_PASSED: T1","session_id":"S"}
END
`
	must.Succeed(t, os.WriteFile(filepath.Join(bin, "claude"), []byte(text), 0o700))
	s := set(t, scene{
		plan: task("T1"), git: true,
		settings: fmt.Sprintf(
			"sandbox: {mode: enforce, read: [%q]}\nroles: {developer: {agent: shell}, critic: {agent: fake}}\n", bin),
		agents: fmt.Sprintf(
			"  fake: {preset: claude, base_url: 'http://127.0.0.1:%s', env: {PATH: %q}}\n", model,
			bin+":/usr/bin:/bin"),
		files: map[string]string{"agent.sh": "echo " + attacker +
			" >redirect\necho READY_FOR_REVIEW: $SIGNALBOX_WORK\n"},
	})
	s.run()
	if first := <-visited; first != "model" || len(visited) > 0 {
		t.Errorf("the %s was visited first, and %d more", first, len(visited))
	}
	started := all[rules.AgentStarted](s, "T1")
	var networks []string
	for _, e := range started[:2] {
		networks = append(networks, e.Body.Agent+": "+e.Body.Sandbox.Network)
	}
	if diff := cmp.Diff([]string{"shell: on", "fake: model server 127.0.0.1:" + model + " only"},
		networks); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

// A program knows only that it got no answer. Why is known outside.
func TestUnreachableModel(t *testing.T) {
	l := &listener{format: signalbox.FormatClaude}
	l.stream.Failed, l.stream.Error = true, "API Error: Connection error."
	failed := &turn{listener: l,
		exit: process.Exit{Code: 1, Unreachable: "connect to m.example:443: no such host"}}
	if trouble, message := failed.trouble(); trouble != agent.TroubleServer ||
		message != "API Error: Connection error. (connect to m.example:443: no such host)" {
		t.Errorf("%s: %q", trouble, message)
	}
}

// An agent whose working copy becomes too large is ended, and a larger one is not saved.
func TestTreeIsTooLarge(t *testing.T) {
	delays := defaultDelays()
	delays.size = time.Millisecond
	s := set(t, scene{
		plan: task("T1"), git: true, settings: "limits: {tree: 1MB}\n",
		options: Options{seams: seams{delays: delays}},
		script: `
on developer T1 attempt 1:
    run head -c 2000000 /dev/zero >large
    hang
on developer T1 attempt 2:
    expect larger than 1MB
    run rm large
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	failed := all[rules.AgentFailed](s, "T1")
	if len(failed) != 1 || failed[0].Body.Cause != string(rules.FailCrash) ||
		!strings.Contains(failed[0].Body.Detail,
			"the working copy is larger than 1MB (limits.tree)") {
		t.Errorf("failures %+v", failed)
	}
}

// An agent that fills its home folder is ended, and the next one starts with an empty one.
func TestHomeIsTooLarge(t *testing.T) {
	needSandbox(t)
	delays := defaultDelays()
	delays.size = time.Millisecond
	s := set(t, scene{
		plan: task("T1"), git: true, settings: "sandbox: enforce\nlimits: {tree: 1MB}\n",
		options: Options{seams: seams{delays: delays}},
		script: `
on developer T1 attempt 1:
    run head -c 2000000 /dev/zero >$HOME/large
    hang
on developer T1 attempt 2:
    run ls $HOME/large && echo it is still there >large || true
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	failed := all[rules.AgentFailed](s, "T1")
	if len(failed) != 1 || !strings.Contains(failed[0].Body.Detail,
		"its working copy, home folder and temporary files are larger than 1MB together (limits.tree)") {
		t.Errorf("failures %+v", failed)
	}
	if _, err := os.Lstat(filepath.Join(s.root, "large")); err == nil {
		t.Error("the home folder was not emptied")
	}
}

// The limit that an agent exceeded is part of its failure.
func TestExceededLimitIsNamed(t *testing.T) {
	for want, exit := range map[string]process.Exit{
		"ended because it exceeded limits.memory": {Code: 137, Signal: "SIGKILL",
			Exceeded: "memory"},
		"exit status 2; it exceeded limits.processes": {Code: 2, Exceeded: "processes"},
		"ended by SIGKILL":                            {Code: 137, Signal: "SIGKILL"},
		"exit status 2":                               {Code: 2},
		// it got by with fewer
		"": {Exceeded: "processes"},
	} {
		if got := (&turn{exit: exit, listener: &listener{}}).failure(); got != want {
			t.Errorf("%+v: %q, want %q", exit, got, want)
		}
	}
}

// The files of a session in a private home folder are opened below it, because the program can
// replace the folder.
func TestSessionFilesArePrivate(t *testing.T) {
	home := t.TempDir()
	site := contain.Site{Host: contain.Host{Home: "/nowhere"}, Config: config.Default(), Box: home}
	private := site.Agent(contain.Agent{Name: "a", Config: config.Agent{Preset: config.PresetCodex},
		Role: "developer", Work: "T1", Dir: home})
	for want, m := range map[bool]*meter{
		true:  {contained: private, env: private.Env},
		false: {env: []string{"CODEX_HOME=" + home}},
	} {
		if files := m.sessionFiles(signalbox.FormatCodex); files.Private != want ||
			files.Dir == "" {
			t.Errorf("want private: %v, got %+v", want, files)
		}
	}
}

func (s *stage) blobText(digest [32]byte) string {
	s.t.Helper()
	r, err := s.box.Journal.GetBlob(s.t.Context(), digest)
	must.Succeed(s.t, err)
	defer r.Close()
	text, err := io.ReadAll(r)
	must.Succeed(s.t, err)
	return string(text)
}

// A crew that was killed together with its agents leaves tokens that they renewed. The next crew
// copies them to the user's login before an agent starts, whose login may not be valid any more.
func TestLoginsOfKilledAgents(t *testing.T) {
	s := set(t, scene{plan: task("T1"),
		script: "on developer T1:\n    run grep -q at-2 ../home/.codex/auth.json || echo old >old\n    signal READY_FOR_REVIEW: {task}\n"})
	const login = `{"tokens": {"access_token": "at-1", "refresh_token": "rt-1"}}`
	s.write("home/.codex/auth.json", login)
	site := contain.Site{Host: contain.Host{Home: filepath.Join(s.dir, "home")},
		Config: config.Default(), Box: s.box.Dir}
	killed := site.Agent(contain.Agent{Name: "a", Config: config.Agent{Preset: config.PresetCodex},
		Role: "developer", Work: "T9", Dir: s.root})
	must.Succeed(t, killed.Prepare())
	renewed := strings.NewReplacer("at-1", "at-2", "rt-1", "rt-2").Replace(login)
	s.write("project/.signalbox/state/T9/developer-a/.codex/auth.json",
		strings.Replace(renewed, "{", `{"OPENAI_API_KEY": "sk", `, 1))
	s.run()
	if text := s.file("../home/.codex/auth.json"); text != renewed {
		t.Errorf("the login is %s", text)
	}
	if _, err := os.Lstat(filepath.Join(s.root, "old")); err == nil {
		t.Error("an agent started before")
	}
	if !strings.Contains(s.log.String(), ".codex/auth.json: OPENAI_API_KEY is new") {
		t.Error("the log does not say what was not copied back")
	}
}
