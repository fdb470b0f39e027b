package browser_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// TestWithoutScripting reads every page and sends every kind of form in a browser that runs no
// scripts.
func TestWithoutScripting(t *testing.T) {
	t.Parallel()
	s := newStage(t, demoScene())
	p := newTab(t, s)
	call(p, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	p.open(strings.TrimPrefix(s.link, s.url))
	p.click("main button")
	for path, want := range map[string]string{
		"/":               "What is the product of no numbers",
		"/board":          "Sum of squares",
		"/run":            "Multiply",
		"/crew":           "slots are in use",
		"/cost":           "By task",
		"/ledger":         "MergeRequested",
		"/ledger/2":       "Download the proof",
		"/ledger?work=T3": "QuestionAsked",
		"/ledger/verify":  "Nobody has verified it",
		"/verify":         "this browser runs none",
		"/work/T3":        "Sessions",
		"/work/T5/diff":   "calc_file()",
		"/work/T3/log":    "The test fails: the product is always 0.",
		"/portfolio":      "Harvestable loss",
		"/portfolio/SLV":  "STRONG EXIT",
		"/work/T99":       "That did not work",
		"/trees":          "Recorded runs",
		"/trees/{run}":    "It checks the token and returns the user.",
		"/login?link=sbx": "Log in on this device",
	} {
		p.open(path)
		if p.is(`document.getElementById("live")?.textContent`) {
			t.Fatalf("%s: a script ran", path)
		}
		if got := p.text("main"); !strings.Contains(got, want) {
			t.Errorf("%s does not contain %q: %s", path, want, got)
		}
	}
	p.noFaults(t, "404 (Not Found)")

	p.open("/")
	p.fill("#answer-Q-1", "plain answer")
	p.click("#request-Q-1 button.primary")
	p.open("/work/T5/diff")
	if !p.is(`document.querySelector("noscript")?.textContent.includes("file:line")`) {
		t.Error("the page does not explain how to comment on a line")
	}
	p.fill("#review-text", "lib/file.sh:3: in words")
	p.click("#review button:not([type=button])")
	p.open("/work/T4")
	p.fill("#tell", "mind the gap")
	p.click(`form[action="/work/T4/tell"] button`)
	p.open("/work/T6")
	p.click(`button[value="pause"]`)
	if got := p.text("#head"); !strings.Contains(got, "paused") {
		t.Errorf("T6 is not paused: %s", got)
	}
	for _, want := range []struct{ task, text string }{{"T3", "plain answer"}, {"T4", "mind the gap"}, {"T5", "lib/file.sh:3: in words"}} {
		if prompt := s.must(t, "prompt", "developer", want.task); !strings.Contains(prompt,
			want.text) {
			t.Errorf("the next developer of %s does not get %q:\n%s", want.task, want.text, prompt)
		}
	}
	p.open("/")
	p.click("footer button")
	p.open("/")
	if p.is(`document.querySelector("form")`) {
		t.Error("still logged in")
	}
}
