package crew

import (
	"strings"
	"testing"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/questions"
)

// look prints what the files that steer agents have in the folder of a role.
const look = `for f in CLAUDE.md AGENTS.md .claude/settings.json .opencode/plugin/evil.js sub/.env node_modules/x/.mcp.json main.go .gemini/.env; do printf "%s=" $f; cat $f 2>/dev/null || echo none; done`

// The files that steer agents are those of the base for all who judge, also in the second turn of a
// session, in which something that the first one ran could have changed them. What a setup command
// makes of the commit does not count, but what the human copies does.
func TestReviewersAreNotSteeredByTheCommit(t *testing.T) {
	s := set(t, scene{
		git:  true,
		plan: task("T1"),
		files: map[string]string{"CLAUDE.md": "base\n", "rules.txt": "base rules\n",
			".claude/settings.json": "{}\n", "main.go": "base\n",
			".gitignore": "/node_modules\n/.gemini/.env\n"},
		settings: `setup: [{name: modules, command: 'mkdir -p node_modules/x && echo evil >node_modules/x/.mcp.json && echo evil >.env && test $SIGNALBOX_WORK = B-1 || echo evil >.mcp.json'}]
copy: [.gemini/.env]
approve: never
experts: [{name: sage}]
`,
		script: `
on developer T1 attempt 1:
    run echo evil > CLAUDE.md; mkdir -p .opencode/plugin sub; echo evil > .opencode/plugin/evil.js; echo evil > sub/.env; echo evil > rules.txt; echo evil > .claude/settings.json; echo new > main.go
    signal EXPERT_REQUEST
        Target Agent: sage
        Request Type: advice
        Context Snapshot: x
        ---DELEGATION PROMPT START---
        what now?
        ---DELEGATION PROMPT END---
on developer T1 attempt 2:
    signal READY_FOR_REVIEW: {task}
on expert *:
    run (` + look + `) > "$SIGNALBOX_BOX/expert-saw"
    signal EXPERT_ADVICE: {task}
        Summary: go on
on critic T1 attempt 1:
    expect "In your folder they are as on the base"
    expect ".claude/settings.json, .opencode/plugin/evil.js, AGENTS.md, CLAUDE.md, sub/.env."
    run (` + look + `) > "$SIGNALBOX_BOX/critic-saw"; echo evil > CLAUDE.md; mkdir -p .opencode/plugin; echo evil > .opencode/plugin/evil.js
    say no signal
on critic T1 attempt 2:
    run (` + look + `) > "$SIGNALBOX_BOX/critic-again-saw"
    signal REVIEW_PASSED: {task}
on auditor T1:
    run (` + look + `) > "$SIGNALBOX_BOX/auditor-saw"
    signal AUDIT_PASSED: {task}
`})
	s.shell(s.root, "ln -s rules.txt AGENTS.md && git add AGENTS.md && git -c user.name=me -c user.email=me@localhost commit -q -m link && mkdir .gemini && echo mine > .gemini/.env")
	s.run()
	s.wantCompleted("T1")
	want := "CLAUDE.md=base\nAGENTS.md=base rules\n.claude/settings.json={}\n.opencode/plugin/evil.js=none\nsub/.env=none\nnode_modules/x/.mcp.json=none\nmain.go=new\n.gemini/.env=mine\n"
	for _, role := range []string{"expert", "critic", "critic-again", "auditor"} {
		if saw := s.file(".signalbox/" + role + "-saw"); saw != want {
			t.Errorf("the %s saw\n%s", role, saw)
		}
	}
	if got := s.git("show", "main:CLAUDE.md"); got != "evil" {
		t.Errorf("%q was merged", got)
	}
	if ran := only[rules.ChecksRan](s, "T1").Body; strings.Join(ran.Steering,
		" ") != ".claude/settings.json .opencode/plugin/evil.js AGENTS.md CLAUDE.md rules.txt sub/.env" {
		t.Errorf("recorded %q", ran.Steering)
	}
}

// A task that changes what steers agents waits for the human, without any setting.
func TestSteeringNeedsApproval(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1") + task("T2"), script: `
on developer T1:
    write .claude/settings.json {}
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	s.until("T1 waits for approval", func() bool { return len(s.status().Approvals) == 1 })
	if got := s.git("ls-files", ".claude"); got != "" {
		t.Error("it was merged without approval")
	}
	var text string
	s.box.Engine.View(func(state *rules.State) { text = questions.ApprovalText(state, "T1") })
	if !strings.HasSuffix(text, "; it changes files that steer agents: .claude/settings.json") {
		t.Errorf("the human is told %q", text)
	}
	s.do(rules.Order{What: rules.OrderApprove, Work: "T1", Actor: "me"})
	r.complete("T1", "T2")
	if n := len(all[rules.MergeApproved](s, "")); n != 1 { // of T2 nothing is asked
		t.Errorf("%d approvals", n)
	}
	if got := s.git("ls-files", ".claude"); got != ".claude/settings.json" {
		t.Error("it was not merged")
	}
}
