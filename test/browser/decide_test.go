package browser_test

import (
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestDecide logs in with a link, answers a question, sends a task back with a comment on a line of
// its diff, and approves it when it is better. The agents get the words.
func TestDecide(t *testing.T) {
	t.Parallel()
	s := newStage(t, demoScene())
	p := newTab(t, s)
	p.open("/")
	if got := p.text("main"); p.is(`document.querySelector("form")`) ||
		!strings.Contains(got, "signalbox token link") {
		t.Errorf("a visitor sees %s", got)
	}
	p.noFaults(t, "401 (Unauthorized)")
	link := strings.TrimPrefix(s.link, s.url)
	p.open(link)
	p.click("main button")
	if got := p.text("h1"); got != "Inbox" {
		t.Fatalf("the login leads to %q: %s", got, p.text("main"))
	}
	p.noFaults(t)

	p.fill("#answer-Q-1", "1, as in mathematics")
	p.click("#request-Q-1 button.primary")
	if p.is(`document.getElementById("request-Q-1")`) {
		t.Error("the answered question is still shown")
	}
	if out := s.must(t, "questions", "--all", "--json"); !strings.Contains(out,
		"1, as in mathematics") {
		t.Errorf("the answer is not recorded: %s", out)
	}
	if prompt := s.must(t, "prompt", "developer", "T3"); !strings.Contains(prompt,
		"1, as in mathematics") {
		t.Errorf("the next developer does not get the answer:\n%s", prompt)
	}

	p.open("/work/T5/diff")
	p.eachClick(`table[data-file="lib/file.sh"] button[data-line="3"]`,
		`table[data-file="lib/file.sh"] button[data-line="12"]`)
	p.fill(`textarea[aria-label="Comment on line 3 of lib/file.sh"]`, "Say why.")
	p.fill(`textarea[aria-label="Comment on line 12 of lib/file.sh"]`,
		"Is it quoted?\nI think not.")
	p.fill("#review-text", "Nearly.")
	p.click("#review button:not([type=button])")
	if got := p.text("h1"); !strings.Contains(got, "Evaluate a file") {
		t.Errorf("the form leads to %q: %s", got, p.text("main"))
	}
	prompt := s.must(t, "prompt", "developer", "T5")
	for _, want := range []string{"Nearly.", "lib/file.sh:3: Say why.",
		"lib/file.sh:12: Is it quoted?\n", "I think not."} {
		if !strings.Contains(prompt, want) {
			t.Errorf("the next developer does not get %q:\n%s", want, prompt)
		}
	}

	must.Succeed(t, s.run())
	p.open("/")
	p.click(`form[action="/work/T5/approve"] button`)
	if p.is(`document.querySelector('form[action="/work/T5/approve"]')`) {
		t.Error("the approved task is still shown")
	}
	if out := s.must(t, "ledger", "tail", "--work", "T5"); !strings.Contains(out, "MergeApproved") {
		t.Errorf("the approval is not recorded: %s", out)
	}
	p.noFaults(t)

	other := newTab(t, s)
	other.open(link)
	other.click("main button")
	if got := other.text("main"); !strings.Contains(got, "was used") {
		t.Errorf("the link works twice: %s", got)
	}
}
