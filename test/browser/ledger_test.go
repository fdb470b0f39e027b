package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"signalbox/internal/testkit/must"
)

// TestVerifyTheLedger clicks on the button, and waits for the result without reloading the page.
func TestVerifyTheLedger(t *testing.T) {
	t.Parallel()
	s := newStage(t, scene{})
	p := loggedIn(t, s)
	p.open("/ledger")
	p.click(`form[action="/ledger/verify"] button`)
	p.until(`document.getElementById("verification").textContent.includes("Verified")`)
	key := strings.TrimSpace(s.must(t, "ledger", "key"))
	if got := p.text("#verification"); !strings.Contains(got, key) ||
		!strings.Contains(got, "intact") {
		t.Errorf("the page shows %s", got)
	}
	p.noFaults(t)
}

// TestEventKeys moves between events with the arrow keys, and not while something is typed.
func TestEventKeys(t *testing.T) {
	t.Parallel()
	p := loggedIn(t, onSharedStage(t))
	p.open("/ledger/30")
	p.leaving(chromedp.KeyEvent(kb.ArrowRight))
	if got := p.text("h1"); !strings.HasPrefix(got, "Event 31 ") {
		t.Errorf("the next event: %s", got)
	}
	p.leaving(chromedp.KeyEvent(kb.ArrowLeft))
	if got := p.text("h1"); !strings.HasPrefix(got, "Event 30 ") {
		t.Errorf("the previous event: %s", got)
	}
	p.noFaults(t)
}

// TestSearchForm fills in the form, and follows a result to its event.
func TestSearchForm(t *testing.T) {
	t.Parallel()
	p := loggedIn(t, onSharedStage(t))
	p.open("/ledger")
	p.eachClick(".search summary")
	p.fill("#text", "What is the PRODUCT")
	p.leaving(chromedp.KeyEvent(kb.Enter))
	if got := eval[int](p, `document.querySelectorAll("#events tbody tr").length`); got != 1 ||
		!p.is(`document.getElementById("text").value === "What is the PRODUCT"`) {
		t.Errorf("found %d events: %s", got, p.text("main"))
	}
	p.click("#events tbody a")
	if got := p.text("main"); !strings.Contains(got, "QuestionAsked") {
		t.Errorf("the event: %s", got)
	}
	p.noFaults(t)
}

// choose chooses a file with a text in a field.
func (p *tab) choose(id, text string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf(`(() => {
		const field = document.getElementById(%q), files = new DataTransfer();
		files.items.add(new File([%s], "chosen"));
		field.files = files.files;
		return field.dispatchEvent(new Event("change"));
	})()`, id, quote(text)))
}

// paste puts a text into a field.
func (p *tab) paste(id, text string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf(
		`(() => { const field = document.getElementById(%q); field.value = %s; return field.dispatchEvent(new Event("input")); })()`, id, quote(text)))
}

// check clicks on the button, and returns what the page says.
func (p *tab) check() string {
	p.t.Helper()
	eval[bool](p, `document.getElementById("result").replaceChildren() === undefined`)
	p.eachClick("#check button")
	p.until(`document.getElementById("result").textContent`)
	return p.text("#result")
}

// TestCheckAProof checks proofs on the page: from files and from text, without a connection, and in
// a copy of the page on disk.
func TestCheckAProof(t *testing.T) {
	t.Parallel()
	s := newStage(t, scene{})
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	proof, key := s.must(t, "ledger", "prove", "1"), s.must(t, "ledger", "key")
	reader, visitor := loggedIn(t, s), newTab(t, s)
	reader.open("/ledger/1")
	if got := eval[string](reader,
		`fetch(document.querySelector("a[download]").href).then((a) => a.text())`); got != proof {
		t.Errorf("the page offers another proof than ledger prove:\n%s\n%s", got, proof)
	}
	changed := strings.Replace(proof, `"type": "BoxOpened"`, `"type": "BoxClosed"`, 1)
	saved := func() string { // as browsers save a page with its files
		visitor.open("/verify")
		page := eval[string](visitor, `fetch("/verify").then((a) => a.text())`)
		for _, name := range []string{"style.css", "ledger.css", "verify.js"} {
			write(name, eval[string](visitor, `fetch("/static/`+name+`").then((a) => a.text())`))
		}
		return write("verify.html", strings.ReplaceAll(page, "/static/", "./"))
	}()
	for _, how := range []struct {
		name string
		open func(*tab)
	}{
		{"page", func(p *tab) { p.open("/verify") }},
		{"saved", func(p *tab) {
			if _, err := run(p, chromedp.Navigate("file://"+saved)); err != nil {
				t.Fatal(err)
			}
		}},
		{"without a connection", func(p *tab) {
			p.open("/verify")
			s.stop()
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			p := newTab(t, s)
			how.open(p)
			if got := p.check(); !strings.Contains(got, "There is no public key") {
				t.Errorf("without a key: %s", got)
			}
			p.paste("key-text", strings.TrimSpace(key))
			if got := p.check(); !strings.Contains(got, "There is no proof") {
				t.Errorf("without a proof: %s", got)
			}
			p.choose("proof-file", proof)
			if got := p.check(); !strings.Contains(got, "Event 1 is in the ledger") ||
				!strings.Contains(got, "BoxOpened") {
				t.Errorf("a valid proof: %s", got)
			}
			p.choose("proof-file", changed)
			if got := p.check(); !strings.Contains(got, "Not valid") ||
				!strings.Contains(got, "was changed") {
				t.Errorf("a changed proof: %s", got)
			}
			p.choose("key-file", key)
			p.paste("proof-text", strings.TrimSpace(proof))
			if got := p.check(); !strings.Contains(got, "Event 1 is in the ledger") {
				t.Errorf("a proof as text, and a key in a file: %s", got)
			}
			p.choose("key-file", proof)
			if got := p.check(); !strings.Contains(got, "not a public key") {
				t.Errorf("a proof instead of a key: %s", got)
			}
			if how.name == "page" {
				p.size(390, 844)
				p.look(t, "phone", "phone()")
				p.look(t, "contrast", "contrast()")
				p.noFaults(t)
				// As on a page without encryption, where nothing can be checked.
				eval[bool](p, `Object.defineProperty(crypto, "subtle", { value: undefined }) === crypto`)
				if got := p.check(); !strings.Contains(got, "Not checked") ||
					!strings.Contains(got, "https") || strings.Contains(got, "Not valid") {
					t.Errorf("where nothing can be checked: %s", got)
				}
			}
		})
	}
}
