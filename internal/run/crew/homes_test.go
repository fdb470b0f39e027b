package crew

import (
	"archive/zip"
	"bytes"
	"cmp"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

// planted are files that programs obey, in a home folder.
const planted = ".gitconfig .claude/.claude.json .config/opencode/plugin/x.js"

// plant is a script that writes them, after it has noted in found which of them were there.
const plant = `found=
for f in ` + planted + `; do
	test -e "$HOME/$f" && found="$found $f"
	mkdir -p "$(dirname "$HOME/$f")" && printf '[diff]\n\texternal = true\n' >"$HOME/$f"
done
`

// inBothModes runs a test with home folders that the system shows below others, and with copied
// ones.
func inBothModes(t *testing.T, test func(t *testing.T, options Options)) {
	needSandbox(t)
	for name, copies := range map[string]bool{"layers": false, "copies": true} {
		t.Run(name, func(t *testing.T) { test(t, Options{seams: seams{copies: copies}, LeaveQuestions: true}) })
	}
}

// What one turn of a reviewer leaves in its home folder, because it runs what the developer wrote,
// does not reach the next turn, the next attempt or the next task. A developer keeps its home
// folder while the task lasts.
func TestReviewersBeginWithANewHome(t *testing.T) {
	inBothModes(t, func(t *testing.T, options Options) {
		s := set(t, scene{git: true, options: options,
			plan:     task("T1") + task("T2", "**Blocked By**: T1"),
			settings: "sandbox: enforce\nagent: shell\nslots: 1\nchecks: [{name: ok, command: 'true'}]\n",
			files: map[string]string{"agent.sh": "cat >/dev/null\n" + plant + `
case $SIGNALBOX_ROLE-$SIGNALBOX_ATTEMPT in
developer-1) date >$SIGNALBOX_WORK.txt; echo READY_FOR_REVIEW: $SIGNALBOX_WORK;;
developer-2) echo x >>$SIGNALBOX_WORK.txt; echo "$found" >kept.txt; echo READY_FOR_REVIEW: $SIGNALBOX_WORK;;
critic-1) echo "I do not know";; # the same session starts the program again
critic-2) echo REVIEW_FAILED: $SIGNALBOX_WORK; echo "Issues Found:"; echo "- first:$found";;
critic-*) if test -z "$found"; then echo REVIEW_PASSED: $SIGNALBOX_WORK; else echo REVIEW_FAILED: $SIGNALBOX_WORK; echo "Issues Found:"; echo "- later:$found"; fi;;
auditor-*) if test -z "$found"; then echo AUDIT_PASSED: $SIGNALBOX_WORK; else echo AUDIT_FAILED: $SIGNALBOX_WORK; echo "Issues Found:"; echo "- auditor:$found"; fi;;
esac
`}})
		s.run()
		s.wantCompleted("T1", "T2")
		for _, work := range []string{"T1", "T2"} {
			for i, e := range all[rules.ReworkOrdered](s, work) {
				if body := s.text(e.Body.Body); i > 0 || !strings.Contains(body, "first:") ||
					strings.Contains(body, ".gitconfig") {
					t.Errorf("%s: a reviewer found:\n%s", work, body)
				}
			}
		}
		if kept := s.git("show", "HEAD:kept.txt"); strings.TrimSpace(kept) != planted {
			t.Errorf("the developer's home folder kept %q", kept)
		}
		for _, pattern := range []string{"state/*/critic*", "state/*/auditor*", "tmp/home-*"} {
			if left, _ := filepath.Glob(filepath.Join(s.box.Dir, pattern)); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		}
	})
}

// Each check begins with what the setup commands left, at the same path, and with nothing that
// another check left. Neither does a reviewer get anything of them.
func TestChecksBeginWithANewHome(t *testing.T) {
	inBothModes(t, func(t *testing.T, options Options) {
		s := set(t, scene{git: true, options: options,
			plan: task("T1"),
			settings: `sandbox: enforce
slots: 1
roles: {critic: {agent: shell}}
setup:
  - {name: one, command: sh one.sh}
  - {name: two, command: 'echo from setup >~/tool/text'}
checks: [{name: first, command: sh first.sh}, {name: second, command: sh second.sh}]
`,
			files: map[string]string{
				"one.sh": "test ! -e ~/tool && mkdir ~/tool && echo \"cat $HOME/tool/text\" >~/tool/run",
				"first.sh": plant +
					`test -z "$found" && test "$(sh ~/tool/run)" = "from setup" && echo evil >~/tool/text && mv ~/tool/run ~/tool/gone`,
				"second.sh": plant +
					`echo "$found"; test -z "$found" && test "$(sh ~/tool/run)" = "from setup" && test ! -e ~/tool/gone`,
				"agent.sh": "cat >/dev/null\n" + plant + `
test -e ~/tool && echo REVIEW_FAILED: $SIGNALBOX_WORK && exit; test -z "$found" && echo REVIEW_PASSED: $SIGNALBOX_WORK`,
			}})
		s.run()
		s.wantCompleted("T1")
		ran := all[rules.ChecksRan](s, "")
		if len(ran) != 2 {
			t.Fatalf("%d runs of checks", len(ran))
		}
		for _, e := range ran {
			for _, row := range e.Body.Rows {
				if !row.Passed {
					t.Errorf("%s: %s fails:\n%s", e.Work, row.Check, s.blobText(row.Output))
				}
			}
		}
	})
}

// What setup commands and checks leave in the cache on the base reaches every program of a task.
// What a program of a task leaves there reaches no one, whatever it is, and the next baseline
// begins with what the last one left.
func TestOnlyTheBaseFillsTheCache(t *testing.T) {
	inBothModes(t, func(t *testing.T, options Options) {
		const folders = ".cache/go-build go/pkg/mod .npm/_cacache .cache/pip .cargo/registry .m2/repository"
		// Each program notes what it finds, and adds something and changes what it finds, as one
		// that poisons the cache.
		const use = `seen=
for f in ` + folders + `; do
	seen="$seen$(cat ~/$f/* 2>/dev/null | tr '\n' ' ')"
	mkdir -p ~/$f
	case $SIGNALBOX_WORK in
	B-*) echo "$SIGNALBOX_WORK" >~/$f/$SIGNALBOX_WORK.$1;;
	*) for name in ~/$f/*; do echo evil >"$name"; done; echo evil >~/$f/evil; rm -f ~/$f/B-1.one;;
	esac
done
`
		s := set(t, scene{git: true, options: options,
			plan:     task("T1"),
			settings: "sandbox: enforce\nagent: shell\nslots: 1\ncache: [.m2/repository]\nsetup: [{name: one, command: sh use.sh one}]\nchecks: [{name: two, command: sh use.sh two}]\n",
			files: map[string]string{
				"use.sh": use + `echo "seen: $seen"`,
				"agent.sh": "cat >/dev/null\n" + use + `
case $SIGNALBOX_ROLE in
developer) echo x >$SIGNALBOX_WORK.txt; echo "saw $seen"; echo READY_FOR_REVIEW: $SIGNALBOX_WORK;;
critic) echo "saw $seen"; echo REVIEW_PASSED: $SIGNALBOX_WORK;;
auditor) echo "saw $seen"; echo AUDIT_PASSED: $SIGNALBOX_WORK;;
esac
`}})
		s.run()
		s.commitByHand("--allow-empty")
		s.load(task("T1") + task("T2"))
		s.run()
		s.wantCompleted("T1", "T2")
		// what the setup command and the check of each baseline left in each folder
		base := strings.Repeat("B-1 B-1 ", 6)
		for work, base := range map[string]string{"T1": base,
			"T2": strings.Repeat("B-1 B-1 B-2 B-2 ", 6)} {
			// The setup commands of the author and of the reviewers have other home folders. That
			// of the check comes before it.
			for _, e := range all[rules.ChecksRan](s, work) {
				if got := s.blobText(e.Body.Rows[0].Output); strings.Contains(got, "B-1.one") ||
					got != "seen: "+strings.Repeat("evil ", len(strings.Fields(base)))+"\n" {
					t.Errorf("%s: a check after its setup command saw %q", work, got)
				}
			}
			for _, e := range all[rules.SetupRan](s, work) {
				if got := s.blobText(e.Body.Output); got != "seen: "+base+"\n" {
					t.Errorf("%s: a setup command saw %q, want %q", work, got, base)
				}
			}
			for i, e := range all[rules.AgentTurnEnded](s, work) {
				got := s.blobText(e.Body.Output)
				// the author's own setup command used its home folder
				if author := i == 0; !author && !strings.Contains(got, "saw "+base+"\n") {
					t.Errorf("%s: a reviewer saw %q", work, got)
				}
			}
		}
		for i, e := range all[rules.SetupRan](s, "B-2") {
			if got := s.blobText(e.Body.Output); i > 0 || got != "seen: "+base+"\n" {
				t.Errorf("the next baseline saw %q", got)
			}
		}
		left, _ := filepath.Glob(filepath.Join(s.box.Dir, contain.CacheFolder, "g-*"))
		if len(left) != 2 { // the current generation and its lock
			t.Errorf("left behind: %q", left)
		}
		if len(all[rules.SetupRan](s, "B-2")) == 0 {
			t.Error("there was no second baseline")
		}
	})
}

// goModule returns the files of a proxy for Go modules with one module, which has one package.
func goModule(t *testing.T, path string) map[string]string {
	t.Helper()
	var archive bytes.Buffer
	module := "module " + path + "\n\ngo 1.24\n"
	w := zip.NewWriter(&archive)
	for name, text := range map[string]string{"go.mod": module, "dep.go": "package dep\n"} {
		f, err := w.Create(path + "@v1.0.0/" + name)
		must.Succeed(t, err)
		_, err = f.Write([]byte(text))
		must.Succeed(t, err)
	}
	must.Succeed(t, w.Close())
	at := "proxy/" + path + "/@v/"
	return map[string]string{at + "list": "v1.0.0\n", at + "v1.0.0.info": `{"Version":"v1.0.0"}`,
		at + "v1.0.0.mod": module, at + "v1.0.0.zip": archive.String()}
}

// What go has compiled on the base is not compiled again, neither by developers nor by reviewers
// and checks. That includes modules, whose path is part of the compiled code. A developer could
// overwrite it to run code in a reviewer or a check, so neither sees what a developer writes there.
// With cache.developers: false, developers do not get it.
func TestDevelopersBeginWithTheCache(t *testing.T) {
	needSandbox(t)
	if _, err := exec.LookPath("go"); err != nil || !process.Support().Namespaces {
		t.Skip("needs go and namespaces: ", err)
	}
	for settings, compiles := range map[string]bool{"": false,
		"cache: {developers: false}\n": true} {
		t.Run(cmp.Or(settings, "default"), func(t *testing.T) {
			inBothModes(t, func(t *testing.T, options Options) {
				files := goModule(t, "example.org/dep")
				files["go.mod"] = "module own\n\ngo 1.24\n\nrequire example.org/dep v1.0.0\n"
				files["own.go"] = "package own\n\nimport _ \"example.org/dep\"\n"
				files["build.sh"] = `export GOPROXY=file://$PWD/proxy GONOSUMDB='*' GOFLAGS='-mod=mod -modcacherw' GOTOOLCHAIN=local
go build -v . 2>&1
cat $(go env GOMODCACHE)/example.org/dep@v1.0.0/dep.go
`
				files["agent.sh"] = `cat >/dev/null
test $SIGNALBOX_ROLE = developer && echo 'var X int' >>own.go
sh build.sh
case $SIGNALBOX_ROLE in
developer)
	mods=$(go env GOMODCACHE)
	for f in $(find ~/.cache/go-build $mods/ $mods/cache/ "$SIGNALBOX_BOX/cache" -type f); do
		chmod u+w $f; echo evil >$f
	done 2>/dev/null
	grep -q evil $mods/example.org/dep@v1.0.0/dep.go && echo READY_FOR_REVIEW: $SIGNALBOX_WORK;;
critic) echo REVIEW_PASSED: $SIGNALBOX_WORK;;
auditor) echo AUDIT_PASSED: $SIGNALBOX_WORK;;
esac
`
				s := set(t, scene{git: true, options: options, plan: task("T1"), files: files,
					settings: settings + "sandbox: enforce\nagent: shell\n" +
						"checks: [{name: build, command: sh build.sh}]\n"})
				s.run()
				s.wantCompleted("T1")
				for i, e := range all[rules.AgentTurnEnded](s, "T1") {
					developer := i == 0
					said := s.blobText(e.Body.Output)
					if !strings.Contains(said, "own\n") || !strings.Contains(said, "package dep\n") ||
						strings.Contains(said, "example.org/dep\n") != (developer && compiles) {
						t.Errorf("agent %d compiled:\n%s", i, said)
					}
				}
				for work, want := range map[string]bool{"B-1": true, "T1": false} {
					got := s.blobText(all[rules.ChecksRan](s, work)[0].Body.Rows[0].Output)
					if strings.Contains(got, "example.org/dep\n") != want ||
						!strings.Contains(got, "package dep\n") {
						t.Errorf("the check of %s compiled:\n%s", work, got)
					}
				}
			})
		})
	}
}

// Commands fill the cache on the base, also if there are no checks. One that fails is reported, and
// stops nothing.
func TestFillCache(t *testing.T) {
	inBothModes(t, func(t *testing.T, options Options) {
		s := set(t, scene{git: true, options: options, plan: task("T1"),
			settings: `sandbox: enforce
agent: shell
cache:
  fill: ['mkdir -p ~/.cache/go-build && echo filled >~/.cache/go-build/x', 'echo no luck; exit 7', 'echo $SIGNALBOX_WORK >>~/.cache/go-build/x']
`,
			files: map[string]string{"agent.sh": `cat >/dev/null
echo "saw $(cat ~/.cache/go-build/x | tr '\n' ' ')."
case $SIGNALBOX_ROLE in
developer) echo x >x.txt; echo READY_FOR_REVIEW: $SIGNALBOX_WORK;;
critic) echo REVIEW_PASSED: $SIGNALBOX_WORK;;
auditor) echo AUDIT_PASSED: $SIGNALBOX_WORK;;
esac
`}})
		s.run()
		s.wantCompleted("T1")
		for i, e := range all[rules.AgentTurnEnded](s, "T1") {
			if said := s.blobText(e.Body.Output); !strings.Contains(said, "saw filled B-1 .") {
				t.Errorf("agent %d: %s", i, said)
			}
		}
		if log := s.log.String(); !strings.Contains(log,
			"cache.fill: echo no luck; exit 7: exit status 7: no luck") {
			t.Errorf("the command that failed is not reported:\n%s", log)
		}
	})
}

// A crew that was killed leaves home folders. The next one removes all but those of authors.
func TestHomesOfAKilledCrewAreRemoved(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true}})
	for _, name := range []string{"state/T1/critic-player", "state/T1/checks",
		"state/T1/.layers/checks-left", "state/T1/developer-player", "cache/g-killed"} {
		s.write(filepath.Join("project", ".signalbox", name, ".gitconfig"),
			"[diff]\n\texternal = true\n")
	}
	s.write(filepath.Join("project", ".signalbox", "cache/g-killed.lock"), "")
	c, err := New(t.Context(), s.box, s.project, &Options{seams: seams{delays: shortDelays()}})
	must.Succeed(t, err)
	defer c.Close()
	var left []string
	for _, pattern := range []string{"state/T1/*", "state/T1/.layers", "cache/g-*", "tmp/home-*"} {
		found, _ := filepath.Glob(filepath.Join(s.box.Dir, pattern))
		left = append(left, found...)
	}
	if want := []string{filepath.Join(s.box.Dir, "state/T1/developer-player")}; !slices.Equal(left,
		want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}

// A reviewer that waited for an expert begins a new conversation. Its prompt has the advice, what
// was asked, and the words of the human.
func TestReviewerBeginsANewConversation(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true},
		settings: "roles: {critic: {agent: again-claude}, auditor: {agent: again-codex}}\nexperts: [{name: database, agent: player}]\n", script: `
on critic T1 attempt 1:
    signal EXPERT_REQUEST
        Target Agent: database
        Request Type: advice
        Context Snapshot: a query
        ---DELEGATION PROMPT START---
        Is this query fast?
        ---DELEGATION PROMPT END---
on critic T1 attempt 2:
    expect "You are a critic"
    expect "Is this query fast?"
    expect "add an index"
    expect "Acceptance criteria"
    signal REVIEW_PASSED: {task}
on auditor T1 attempt 1:
    signal EXPERT_REQUEST
        Target Agent: database
        Request Type: advice
        Context Snapshot: another query
        ---DELEGATION PROMPT START---
        And this one?
        ---DELEGATION PROMPT END---
on auditor T1 attempt 2:
    expect "You are an auditor"
    expect "And this one?"
    signal AUDIT_PASSED: {task}
on expert *:
    signal EXPERT_ADVICE: {task}
        Summary: add an index
`})
	s.run()
	s.wantCompleted("T1")
	if opened := all[rules.ConversationOpened](s, "T1"); len(opened) == 0 {
		t.Error("no program named a conversation that could be resumed")
	}
	for _, e := range all[rules.AgentStarted](s, "T1") {
		if e.Body.Resumes != "" {
			t.Errorf("%s resumed %s", e.Body.Agent, e.Body.Resumes)
		}
	}
	// developer, checks, critic, auditor, merge: none had to start again
	if n := len(all[rules.LeaseGranted](s, "T1")); n != 5 {
		t.Errorf("%d leases", n)
	}
}

// A reviewer gets what it judges as a file that nothing in the commit can empty and that it cannot
// change.
func TestReviewersGetTheDiff(t *testing.T) {
	needSandbox(t)
	s := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true},
		settings: "sandbox: enforce\nagent: shell\nchecks: [{name: ok, command: 'true'}]\n",
		files: map[string]string{"agent.sh": `prompt=$(cat)
case $SIGNALBOX_ROLE in
developer) echo backdoor >run.sh; echo '* -diff' >.gitattributes; test -z "$SIGNALBOX_DIFF" && echo READY_FOR_REVIEW: T1;;
critic) git diff $(git merge-base HEAD HEAD~1) HEAD | grep backdoor && exit 1 # or the attack does not work
	case $prompt in *"$SIGNALBOX_DIFF"*) ;; *) exit 1;; esac
	case $SIGNALBOX_DIFF in "$PWD"/*) exit 1;; esac
	grep -q '^+backdoor$' "$SIGNALBOX_DIFF" && grep -q 'attributes of git differ: .gitattributes (new)' "$SIGNALBOX_DIFF" || exit 1
	(echo x >"$SIGNALBOX_DIFF" || rm "$SIGNALBOX_DIFF" || chmod 777 "$SIGNALBOX_DIFF") 2>/dev/null && exit 1
	echo REVIEW_PASSED: T1;;
auditor) grep -q '^+backdoor$' "$SIGNALBOX_DIFF" && echo AUDIT_PASSED: T1;;
esac
`}})
	s.run()
	s.wantCompleted("T1")
	if left, _ := filepath.Glob(filepath.Join(s.box.Dir, "tmp", "*.diff")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
