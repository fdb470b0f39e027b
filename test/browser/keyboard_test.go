package browser_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// focused describes the element that has the focus, if it is one that the user can see.
const focused = `(() => {
	const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
	if (e === document.body) return "body";
	if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) return "no outline: " + e.outerHTML.slice(0, 100);
	if (box.width < 1 || box.right < 1 || box.left > innerWidth || box.bottom < 1 || box.top > innerHeight) return "not visible: " + e.outerHTML.slice(0, 100);
	if (!e.dataset.reached) e.dataset.reached = "yes";
	return "";
})()`

// unreached lists what the user can do on a page, but has not reached. Other keys lead to the links
// of a transcript: see TestTranscriptKeys.
const unreached = `[...document.querySelectorAll("a[href], button, textarea, select, input:not([type=hidden]), [tabindex='0']")]
	.filter((e) => e.checkVisibility() && !e.dataset.reached && !e.matches("#log a[tabindex='-1']")).map((e) => e.outerHTML.slice(0, 100))`

// TestKeyboard uses the pages without a mouse.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := newStage(t, demoScene())
	p := loggedIn(t, s)
	for _, page := range pages {
		if page.fails {
			continue
		}
		p.open(page.path)
		p.press(kb.Tab)
		if got := eval[string](p, focused); got != "" ||
			!p.is(`document.activeElement.matches(".skip")`) {
			t.Errorf("%s: the first key reaches %s, not the link to the content", page.name, got)
		}
		for n := 0; n < 400; n++ {
			got := eval[string](p, focused)
			if got == "body" { // past the end
				break
			}
			if got != "" {
				t.Errorf("%s: %s", page.name, got)
			}
			p.press(kb.Tab)
			if p.is(`document.activeElement.matches(".skip")`) {
				break // around
			}
		}
		for _, missed := range eval[[]string](p, unreached) {
			t.Errorf("%s: not reached: %s", page.name, missed)
		}
	}

	p.open("/")
	p.press(kb.Tab)
	p.press(kb.Enter)
	if !p.is(`document.activeElement.id === "main"`) {
		t.Error("the link to the content leads elsewhere")
	}
	p.tabTo("#answer-Q-1")
	p.press("an error")
	p.press(kb.Tab)
	p.leaving(chromedp.KeyEvent(kb.Enter))
	if out := s.must(t, "questions", "--all", "--json"); !strings.Contains(out, "an error") {
		t.Errorf("the answer is not recorded: %s", out)
	}

	p.open("/work/T5/diff")
	p.tabTo(`table[data-file="lib/file.sh"] button[data-line="2"]`)
	p.press(kb.Enter)
	p.press("by key")
	p.tabTo("#review-text")
	p.press(kb.Tab)
	p.leaving(chromedp.KeyEvent(kb.Enter))
	if prompt := s.must(t, "prompt", "developer", "T5"); !strings.Contains(prompt,
		"lib/file.sh:2: by key") {
		t.Errorf("the next developer does not get the comment:\n%s", prompt)
	}
}

// tabTo presses Tab until the focus is on what a selector finds.
func (p *tab) tabTo(selector string) {
	p.t.Helper()
	for n := 0; n < 200; n++ {
		if p.is("document.activeElement.matches(" + quote(selector) + ")") {
			return
		}
		p.press(kb.Tab)
	}
	p.t.Fatalf("Tab does not reach %s", selector)
}
