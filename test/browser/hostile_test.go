package browser_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// attack is text that tries to run, to load, and to turn the text around it.
const attack = `pwned <script>window.pwned=1</script><img src=x onerror=window.pwned=2>"' onmouseover=window.pwned=3 </pre></title></textarea></bdi>` +
	`<svg onload=window.pwned=4><a href="javascript:window.pwned=5">x</a><style>*{display:none}</style>{{.}}` + "\u202eRTL\u2066"

// hostileTree is a tree with attacks in every text that it can have.
const hostileTree = `local attack = [==[` + attack + `]==]
return BT.tree("evil", { description = attack, blackboard = { text = { type = "string", default = attack } },
    root = BT.sequence("root", {
        BT.llm_call({ name = "think", prompt = attack, description = attack }),
        BT.action("parse", { fn = "parse_response_signal" }), BT.action("update", { fn = "update_signal_state" }), BT.action("log", { fn = "log_signal" }),
        BT.script("say", function(t) t:emit("say", attack) t:set("_" .. "x", { [attack] = attack }) end),
        BT.always_succeed(BT.script("fail", function(t) return t:fail(attack) end)),
    }),
})`

// hostileScene is agents that write attacks wherever they can. T1 failed a check and asks, T2 was
// sent back by the critic and then asks.
func hostileScene() scene {
	return scene{
		settings: "approve: merge\n",
		plan: "# A plan " + attack + "\n\n#### Task T1: One " + attack + "\n\n**Work**: " + attack +
			"\n\n**Acceptance Criteria**:\n\n- [ ] it is\n" +
			"\n#### Task T2: Two " + strings.Repeat("long", 60) +
			"\n\n**Work**: something\n\n**Acceptance Criteria**:\n\n- [ ] it is\n",
		files: map[string]string{"test.sh": "if [ -f evil.txt ]; then cat evil.txt; head -c 1000000 /dev/zero | tr '\\0' x; echo; exit 1; fi\n"},
		script: `on developer T1 attempt 1:
    say ` + attack + `
    bytes 1b5b33316d1b5d303b7777071b5b324a
    run head -c 1000000 /dev/zero | tr '\0' y
    write evil.txt <<END
` + "\x1b[31m\x1b]0;title\a" + attack + `
END
    signal READY_FOR_REVIEW: {task}
        Summary: ` + attack + `

on developer T2 attempt 1:
    write evil.html <<END
` + attack + `
END
    run head -c 1000000 /dev/zero | tr '\0' z >long.txt
    run cp evil.html 'a "b" <i>.html'
    signal READY_FOR_REVIEW: {task}
        Summary: ` + attack + `

on critic T2:
    signal REVIEW_FAILED: {task}
        Issues Found:
        - ` + attack + `
        Required Fixes:
        - ` + attack + `
        Priority: high

on developer *:
    say ` + attack + `
    signal SEEKING_DIVINE_CLARIFICATION
        Task: {task}
        Question: ` + attack + `
        Context: ` + attack + `
        Options Considered:
        - ` + attack + `

`,
		play: func(s *stage) error {
			files := map[string]string{"evil.lua": hostileTree, "evil.replies": attack +
				"<signal type=\"need_turn\"><reason>" + strings.ReplaceAll(attack, "<", "&lt;") +
				"</reason></signal>\n"}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text),
					0o600); err != nil {
					return err
				}
			}
			return s.runTree(filepath.Join(s.dir, "evil.lua"), filepath.Join(s.dir, "evil.replies"))
		},
	}
}

// TestHostileText checks that text of agents is shown as text: nothing in it runs, and the pages
// still load and fit.
func TestHostileText(t *testing.T) {
	t.Parallel()
	s := newStage(t, hostileScene())
	p := loggedIn(t, s)
	for _, path := range []string{"/", "/board", "/run", "/crew", "/cost", "/ledger", "/ledger/12",
		"/ledger?text=pwned", "/ledger?work=" + url.QueryEscape(attack), "/ledger/verify",
		"/work/T1", "/work/T1/log", "/work/T1/log?session=0", "/work/T1/log?session=0&raw=1&at=0",
		"/work/T1/diff",
		"/work/T2", "/work/T2/log", "/work/T2/log?session=0", "/work/T2/diff", "/trees",
		"/trees/{run}", "/trees/{run}?tick=1"} {
		t.Run(path, func(t *testing.T) {
			p.t = t
			p.size(1280, 900)
			p.open(path)
			if p.is("window.pwned") {
				t.Errorf("text has run: %d", eval[int](p, "window.pwned"))
			}
			if found := eval[[]string](p,
				`[...document.querySelectorAll("main script, img, iframe, style, svg svg, [onload], [onerror], [onmouseover], a[href^='javascript']")].map((e) => e.outerHTML)`); len(found) > 0 {
				t.Errorf("text became elements: %q", found)
			}
			if strings.ContainsAny(p.text("main"), "\x1b\a\u202e\u2066") {
				t.Error("control characters are shown unescaped")
			}
			p.look(t, "structure", "structure()")
			p.look(t, "light", "contrast()")
			p.size(390, 844)
			p.look(t, "phone", "phone()")
			p.noFaults(t)
		})
	}
	p.t = t
	for _, want := range []struct{ path, selector, text string }{
		{"/", "#requests", "<script>window.pwned=1</script>"},
		{"/board", "#track", "<img src=x onerror=window.pwned=2>"},
		{"/work/T1", "#trouble", "<svg onload=window.pwned=4>"},
		{"/work/T1", "#trouble .output", "xxxx"},
		{"/work/T1/log?session=0", "#log", "<script>window.pwned=1</script>"},
		{"/work/T2", "#trouble .finding", "<script>window.pwned=1</script>"},
		{"/work/T2/diff", "table.diff", "<script>window.pwned=1</script>"},
		{"/work/T2/diff", "#review", "zzzz"},
		{"/trees/{run}", "#picture", "<script>window.pwned=1</script>"},
		{"/trees/{run}", "#beside .reply", "<script>window.pwned=1</script>"},
		{"/trees/{run}", "#beside .board", "<img src=x onerror=window.pwned=2>"},
	} {
		p.open(want.path)
		if all := eval[string](p, "[...document.querySelectorAll("+quote(want.selector)+
			")].map((e) => e.textContent).join(' ')"); !strings.Contains(all, want.text) {
			t.Errorf("%s: %s does not show %q, but %.400q", want.path, want.selector, want.text,
				all)
		}
	}
}
