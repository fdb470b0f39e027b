package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
)

// oracleScript is a model that looks at a file, and then answers in pieces, between which it waits
// for the test.
const oracleScript = `
conversations:
  - match: {user: calc_file}
    turns:
      - match: {turn: 1}
        usage: {input: 1800, output: 60}
        parts:
          - reasoning: The file has the answer.
          - text: |
              Let me look at the tests.
              <signal type="need_turn"><reason>read the tests first</reason><confidence>0.8</confidence></signal>
          - call: {id: call-1, name: read_file, arguments: {path: test.sh}}
          - call: {id: call-2, name: read_file, arguments: {path: missing.sh}}
      - match: {turn: 2}
        every: 1s
        usage: {input: 2100, output: 80}
        parts:
          - pieces:
              - "## How it is tested\n\nAs **one** file, "
              - "with:\n\n| step | command |\n|---|---:|\n| run | ` + "`sh test.sh`" + ` |\n\n"
              - "1. Run it\n2. Read the end of its output:\n\n` + "```sh\\nsh test.sh | tail -1\\n```" + `\n\nThe [shell's manual](https://www.gnu.org/software/bash/manual/) has more.\n"
              - <signal type="context_sufficient"><sources_found>1</sources_found><source_types>["code"]</source_types><confidence>0.9</confidence></signal>
      - match: {user: sure}
        parts: [{text: Quite sure.}]
  - match: {user: evil}
    turns: [{parts: [{text: ATTACK}], times: 9}]
  - match: {user: broken}
    turns: [{parts: [{text: x}], faults: [{kind: status, status: 401, times: -1}]}]
  - match: {user: slow}
    turns: [{match: {user: slow}, every: 1s, parts: [{pieces: [The beginning, " and the end."]}]}]
`

// evilMarkdown has attacks in every place that Markdown has.
const evilMarkdown = "# " + attack + "\n\n" + attack + "\n\n- " + attack + "\n  - " + attack +
	"\n\n> " + attack + "\n\n| a | " + attack + " |\n|---|---|\n| b | " + attack + " |\n\n" +
	"```" + "html\n" + attack + "\n```\n\n`" + attack + "`\n\n**" + attack + "**\n\n" +
	"[run](javascript:window.pwned=6) [data](data:text/html,<script>window.pwned=7</script>) [vb](vbscript:x) [file](file:///etc/passwd) [rel](/logout) [proto](//evil.example/x) " +
	"[tab](java\tscript:window.pwned=8) [bank](https://evil.example/\"onmouseover=window.pwned=9) ![pixel](https://evil.example/pixel.png) <https://evil.example/auto> https://evil.example/bare.\n\n" +
	"<div style=\"position:fixed\">x</div>\n\n<iframe src=https://evil.example></iframe>\n\n[ref]: javascript:window.pwned=10\n\n[ref]\n"

// oracleStage is a stage with a scripted model.
type oracleStage struct {
	*stage
	// waits has an element for each piece that the model has yet to send; it continues when the
	// test calls more. left has an element for each whose client has left instead.
	waits, next, left chan struct{}
}

func newOracleStage(t *testing.T) *oracleStage {
	t.Helper()
	needChromium(t)
	s := &oracleStage{waits: make(chan struct{}, 100), next: make(chan struct{}),
		left: make(chan struct{}, 100)}
	text, err := json.Marshal(evilMarkdown)
	must.Succeed(t, err)
	script, err := modelserver.ParseScript("model.yaml",
		[]byte(strings.ReplaceAll(oracleScript, "ATTACK", string(text))))
	must.Succeed(t, err)
	handler, err := modelserver.New(script,
		&modelserver.Options{Sleep: func(ctx context.Context, _ time.Duration) error {
			s.waits <- struct{}{}
			select {
			case <-s.next:
				return nil
			case <-ctx.Done():
				s.left <- struct{}{}
				return ctx.Err()
			}
		}})
	must.Succeed(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s.stage = newStage(t,
		scene{settings: fmt.Sprintf(
			"models: {main: {provider: openai, model: rehearsal, base_url: %q, tries: 1}}\n",
			server.URL+"/v1")})
	return s
}

// more lets the model send its next piece, for which it must be waiting.
func (s *oracleStage) more() {
	<-s.waits
	s.next <- struct{}{}
}

// asks types a question and presses Enter.
func (p *tab) asks(question string) {
	p.t.Helper()
	p.fill("#question", question)
	p.press(kb.Enter)
}

const answered = `document.getElementById("stop").hidden && document.querySelector(".exchange:last-child .note:last-child")?.textContent.startsWith("■")`

// shows waits until the last answer contains a text.
func (p *tab) shows(text string) {
	p.t.Helper()
	p.until(`document.querySelector(".exchange:last-child .answer")?.textContent.includes(` +
		quote(text) + `)`)
}

var sessionID = regexp.MustCompile(`O-[0-9a-f]{12}`)

// TestOracle asks in the browser: the pieces of the answer appear while the model still thinks,
// rendered, with the tool calls; the chunks are those of the command; and the conversation can be
// continued and read again.
func TestOracle(t *testing.T) {
	t.Parallel()
	s := newOracleStage(t)
	const question = "How is calc_file tested?"
	command := make(chan string, 1)
	go func() {
		out, err := s.signalbox("oracle", "--json", question)
		if err != nil {
			t.Error(err)
		}
		command <- out
	}()
	for range 3 {
		s.more()
	}
	p := loggedIn(t, s.stage)
	p.open("/")
	p.click(`nav a[href="/oracle"]`)
	eval[bool](p, `(() => { const real = window.fetch; window.fetch = async (...a) => { const r = await real(...a); r.clone().text().then((t) => { window.got = t; }); return r; }; return true; })()`)
	p.asks(question)
	p.shows("one file,")
	if got := p.text(".exchange:last-child .answer"); strings.Contains(got, "with:") ||
		p.is(answered) {
		t.Errorf("more than the model has said: %s", got)
	}
	if !p.is(`document.querySelector(".markdown strong").textContent === "one" && document.querySelector(".markdown [role=heading]").textContent === "How it is tested"`) {
		t.Error("the first piece is not rendered yet")
	}
	s.more()
	p.until(`document.querySelector(".markdown td.number code")?.textContent === "sh test.sh"`)
	s.more()
	p.until(`document.querySelector(".markdown pre code")?.textContent === "sh test.sh | tail -1"`)
	if p.is(answered) {
		t.Error("the page says that the answer is complete")
	}
	s.more()
	p.until(answered)
	answer := p.text(".exchange:last-child .answer")
	for _, want := range []string{"Thinking", "The file has the answer.",
		"Let me look at the tests.", `→ read_file {"path":"test.sh"}✓ `, `{"path":"missing.sh"}✗ `,
		"• need_turn (0.80): read the tests first",
		"• context_sufficient (0.90)", "‣ test.sh",
		"shell's manual (https://www.gnu.org/software/bash/manual/)",
		"■ context_sufficient, 2 turns"} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer does not show %q: %s", want, answer)
		}
	}
	if strings.Contains(answer, "<signal") {
		t.Error("the answer shows a signal's text")
	}
	if got := eval[string](p,
		`(() => { const a = document.querySelector(".markdown a"); return [a.href, a.rel, a.target].join(" "); })()`); got != "https://www.gnu.org/software/bash/manual/ noopener noreferrer nofollow _blank" {
		t.Errorf("the link is %s", got)
	}
	if got, want := unordered(eval[string](p, "window.got")), unordered(<-command); got != want {
		t.Errorf("the page got\n%s\nand the command printed\n%s", got, want)
	}

	// The page is now that of the conversation.
	session := sessionID.FindString(eval[string](p, "location.pathname"))
	if session == "" || !strings.Contains(s.must(t, "oracle", "--show", session), question) {
		t.Errorf("the page has the address %s", eval[string](p, "location.pathname"))
	}
	p.fill("#question", "Are you")
	p.do(chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierShift)))
	p.fill("#question", "sure?")
	p.press(kb.Enter)
	p.shows("Quite sure.")
	p.until(answered)
	if got := p.text(".exchange:last-child .asked"); got != "Are you\nsure?" {
		t.Errorf("the second question is %q", got)
	}
	if list := s.must(t, "oracle", "--sessions", "--json"); !strings.Contains(list, `"session":"`+
		session+`","questions":2`) {
		t.Errorf("it was not continued: %s", list)
	}
	// Neither thoughts nor sources are recorded.
	recorded := func() string {
		text := strings.NewReplacer("ThinkingThe file has the answer.", "", "‣ test.sh:1",
			"").Replace(p.text("#conversation"))
		return strings.Join(strings.Fields(text), "")
	}
	before := recorded()
	p.open("/oracle/" + session)
	p.until(answered)
	if got := recorded(); got != before {
		t.Errorf("read again:\n%s\nwas\n%s", got, before)
	}
	p.open("/oracle")
	p.click("#conversations a[href='/oracle/" + session + "']")
	p.until(answered)
	p.noFaults(t)
	p.looksGood(t)
}

// unordered returns the lines of chunks without what differs between two runs: sessions, and the
// order of tools that run at the same time.
func unordered(lines string) string {
	all := strings.Split(sessionID.ReplaceAllString(strings.TrimSpace(lines), "O"), "\n")
	slices.SortStableFunc(all, func(a, b string) int {
		if strings.HasPrefix(a, `{"type":"tool_`) && strings.HasPrefix(b, `{"type":"tool_`) {
			return strings.Compare(a, b)
		}
		return 0
	})
	return strings.Join(all, "\n")
}

// looksGood looks at the page as TestPages does.
func (p *tab) looksGood(t *testing.T) {
	t.Helper()
	p.size(1280, 900)
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		p.look(t, scheme, "contrast()")
	}
	p.look(t, "structure", "structure()")
	p.size(390, 844)
	p.look(t, "phone", "phone()")
	p.size(1280, 900)
	p.noFaults(t)
}

// TestOracleStops stops an answer with the button, resumes it, and then leaves while the model
// thinks. The model need not think any more then.
func TestOracleStops(t *testing.T) {
	t.Parallel()
	s := newOracleStage(t)
	p := loggedIn(t, s.stage)
	p.open("/oracle")
	p.asks("slow")
	p.shows("The beginning")
	<-s.waits
	p.looksGood(t)
	p.asks("not yet") // stays in the field
	if !p.is(`document.getElementById("question").value === "not yet" && document.querySelectorAll(".exchange").length === 1`) {
		t.Errorf("a second question was asked at the same time, or is lost: %q",
			eval[string](p, `document.getElementById("question").value + document.getElementById("conversation").textContent`))
	}
	p.eachClick("#stop")
	<-s.left
	p.until(answered)
	if got := p.text(".exchange:last-child .answer"); !strings.Contains(got, "✗ ") ||
		!strings.Contains(got, "■ cancelled") {
		t.Errorf("stopped: %s", got)
	}
	if list := s.must(t, "oracle", "--sessions", "--json"); !strings.Contains(list,
		`"reason":"cancelled"`) {
		t.Errorf("the end is not recorded: %s", list)
	}
	p.looksGood(t)
	p.eachClick("#resume button")
	<-s.waits
	s.next <- struct{}{}
	p.shows("The beginning and the end.")
	p.until(answered)
	if !p.is(`document.getElementById("resume").hidden && document.querySelectorAll(".exchange").length === 1`) {
		t.Error("the answer can be resumed again")
	}
	eval[bool](p, `(document.getElementById("question").value = "", true)`)
	p.asks("slow again")
	p.shows("The beginning")
	<-s.waits
	p.open("/board")
	<-s.left
	p.open("/oracle")
	p.click("#conversations a")
	if got := p.text("#conversation"); !strings.Contains(got, "the answer was cut off here") &&
		!strings.Contains(got, "cancelled") || p.is(`document.getElementById("resume").hidden`) {
		t.Errorf("after leaving: %s", got)
	}
	p.noFaults(t)
}

// TestOracleHostile shows an answer that attacks the page: live, and from the record.
func TestOracleHostile(t *testing.T) {
	t.Parallel()
	s := newOracleStage(t)
	p := loggedIn(t, s.stage)
	p.open("/oracle")
	p.asks("evil " + strings.ReplaceAll(attack, "\u202e", ""))
	p.until(answered)
	session := sessionID.FindString(eval[string](p, "location.pathname"))
	for _, path := range []string{"", "/oracle/" + session, "/oracle"} {
		if path != "" {
			p.open(path)
		}
		if p.is("window.pwned") {
			t.Errorf("%s: text has run: %d", path, eval[int](p, "window.pwned"))
		}
		if found := eval[[]string](p,
			`[...document.querySelectorAll("main script, img, iframe, style, svg, [style], [onload], [onerror], [onmouseover], main .markdown a:not([href^='https://evil.example'])")].map((e) => e.outerHTML)`); len(found) > 0 {
			t.Errorf("%s: text became elements: %q", path, found)
		}
		if strings.ContainsAny(p.text("main"), "\x1b\a\u202e\u2066") {
			t.Errorf("%s: control characters are shown unescaped", path)
		}
		p.looksGood(t)
		if path == "/oracle" {
			continue
		}
		text := p.text(".answer")
		if n := strings.Count(text, "<script>window.pwned=1</script>"); n != 10 {
			t.Errorf("%s: %d of the attacks are shown: %s", path, n, text)
		}
		for _, want := range []string{"run (javascript:window.pwned=6)",
			"file (file:///etc/passwd)", "rel (/logout)", "proto (//evil.example/x)",
			"image: pixel (https://evil.example/pixel.png)",
			`<div style="position:fixed">x</div>`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is hidden: %s", path, want, text)
			}
		}
		if got := eval[[]string](p,
			`[...document.querySelectorAll(".markdown a")].map((a) => a.rel)`); len(got) != 5 ||
			slices.ContainsFunc(got,
				func(rel string) bool { return !strings.Contains(rel, "noopener") }) {
			t.Errorf("%s: the links are %q", path, got)
		}
	}
}

// TestOracleProblems shows what went wrong: at the model, and at the server.
func TestOracleProblems(t *testing.T) {
	t.Parallel()
	s := newOracleStage(t)
	p, other := loggedIn(t, s.stage), loggedIn(t, s.stage)
	p.open("/oracle")
	p.asks("broken")
	p.until(answered)
	if got := p.text(".exchange:last-child .answer"); !strings.Contains(got, "✗ ") ||
		!strings.Contains(got, "■ model_failed") {
		t.Errorf("the model refused the key: %s", got)
	}
	p.open("/oracle")
	other.open("/oracle")
	other.asks("slow")
	other.shows("The beginning")
	<-s.waits
	session := sessionID.FindString(eval[string](other, "location.pathname"))
	p.open("/oracle/" + session)
	p.asks("slow") // the conversation is in use
	p.until(`document.querySelector(".exchange:last-child .note.bad") && document.getElementById("stop").hidden`)
	if got := p.text(".exchange:last-child .answer"); !strings.Contains(got, "in use") {
		t.Errorf("a conversation that is in use: %s", got)
	}
	if !p.is(`document.getElementById("question").value === "slow" && document.getElementById("stop").hidden`) {
		t.Error("the question cannot be sent again")
	}
	p.noFaults(t, "409 (Conflict)")
	s.stop()
	other.until(`document.getElementById("stop").hidden`)
	if got := other.text(".exchange:last-child .answer"); !strings.Contains(got, "✗ ") {
		t.Errorf("the server has ended: %s", got)
	}
}

// oraclePictures is how many pictures takeOraclePictures takes.
const oraclePictures = 3

// takeOraclePictures takes the pictures of a conversation.
func takeOraclePictures(t *testing.T) {
	s := newOracleStage(t)
	p := loggedIn(t, s.stage)
	p.open("/oracle")
	p.asks("How is calc_file tested?")
	for range 3 {
		s.more()
	}
	p.until(answered)
	path := eval[string](p, "location.pathname")
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		p.picture("oracle-"+scheme, path, 1280, 1100)
	}
	p.scheme("light")
	p.picture("oracle-phone", path, 390, 844)
}

// TestOracleWithoutScripting asks in a browser that runs no scripts, and gets the whole answer.
func TestOracleWithoutScripting(t *testing.T) {
	t.Parallel()
	s := newOracleStage(t)
	p := loggedIn(t, s.stage)
	call(p, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	p.open("/oracle")
	p.fill("#question", "evil")
	p.click("#ask .primary")
	text := p.text("#conversation")
	if n := strings.Count(text, "<script>window.pwned=1</script>"); n != 10 ||
		!strings.Contains(text, "■ answered") {
		t.Errorf("the answer: %s", text)
	}
	p.fill("#question", "evil again")
	p.click("#ask .primary")
	if got := eval[int](p, `document.querySelectorAll(".exchange").length`); got != 2 {
		t.Errorf("%d questions", got)
	}
	p.size(390, 844)
	p.look(t, "phone", "phone()")
	p.noFaults(t)
}
