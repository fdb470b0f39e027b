package browser_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"signalbox/internal/core/journal/sqlite"
	"signalbox/internal/testkit/must"
)

// putBlob stores a blob in the box of a stage, and returns the address of its page.
func putBlob(t *testing.T, s *stage, text []byte) string {
	t.Helper()
	j, err := sqlite.Open(context.Background(), filepath.Join(s.project, ".signalbox"), nil)
	must.Succeed(t, err)
	defer j.Close()
	digest, err := j.PutBlob(t.Context(), bytes.NewReader(text))
	must.Succeed(t, err)
	return "/blob/" + digest.String()
}

// seen is the text of the lines that the user sees.
const seen = `(() => { const box = document.getElementById("log")?.getBoundingClientRect();
	return !box ? [] : [...document.querySelectorAll("#log .line")].filter((l) => { const r = l.getBoundingClientRect(); return r.bottom > box.top && r.top < box.bottom; }); })()`

// sees waits until the user sees a text in the transcript.
func (p *tab) sees(text string) {
	p.t.Helper()
	p.until(seen + `.some((l) => l.querySelector(".words").textContent.includes(` + quote(text) +
		`))`)
}

// TestHugeTranscript opens a transcript of 64 MB, and reads in its middle and at its end. The page
// stays small.
func TestHugeTranscript(t *testing.T) {
	t.Parallel()
	s := newStage(t, scene{})
	const size = 64 << 20
	var text bytes.Buffer
	for n := 0; text.Len() < size; n++ {
		fmt.Fprintf(&text, "line %d of a long transcript, with words that an agent might write\n",
			n)
	}
	lines := bytes.Count(text.Bytes(), []byte("\n"))
	text.WriteString("READY_FOR_REVIEW: T1\n")
	path := putBlob(t, s, text.Bytes())
	p := loggedIn(t, s)
	small := func(where string) {
		t.Helper()
		if n := eval[int](p, `document.querySelectorAll("*").length`); n > 12000 {
			t.Errorf("%s: the page has %d elements", where, n)
		}
	}
	p.open(path)
	p.sees(fmt.Sprintf("line %d of", lines-1)) // the end
	small("at the end")
	// Its signals are looked for in steps. The last one is marked as soon as all of it was read.
	p.until(`document.querySelector("#log mark.accepted") && document.getElementById("about").textContent.includes("1 signal") && !document.getElementById("about").textContent.includes("%")`)
	p.sees("✔ READY_FOR_REVIEW: T1")
	if large := eval[[]string](p,
		`performance.getEntries().filter((e) => e.decodedBodySize > 400_000).map((e) => e.name + ": " + e.decodedBodySize)`); len(large) > 0 {
		t.Errorf("large answers: %q", large)
	}
	if n := eval[int](p,
		`performance.getEntriesByType("resource").filter((e) => e.name.includes("/piece")).length`); n < 1 || n > 20 {
		t.Errorf("the first screen needs %d pieces", n)
	}

	p.press("g")
	p.sees("line 0 of")
	small("at the start")

	// The scroll bar reaches every place.
	for _, part := range []int{2, 4, 3} {
		eval[bool](p, fmt.Sprintf(
			`(() => { const log = document.getElementById("log"); log.scrollTop = log.scrollHeight * %d / 5; return true; })()`, part))
		p.until(seen + `.length > 5`)
		number := eval[int](p, seen+
			`.map((l) => Number(l.querySelector(".words").textContent.split(" ")[1]))[3]`)
		if want := lines * part / 5; number < want*9/10-1000 || number > want*11/10+1000 {
			t.Errorf("at %d/5 of the scroll bar: line %d, not about %d", part, number, want)
		}
		small("in the middle")
	}
	// Scrolling step by step loses nothing: every line is followed by the next.
	for n := range 60 {
		step := "+= log.clientHeight / 2"
		if n >= 40 {
			step = "-= log.clientHeight"
		}
		eval[bool](p, `(() => { const log = document.getElementById("log"); log.scrollTop `+step+
			`; return true; })()`)
		p.until(seen + `.length > 5`)
	}
	if gap := eval[string](p, `(() => { const n = [...document.querySelectorAll("#log .words")].map((l) => Number(l.textContent.split(" ")[1]));
		for (let i = 1; i < n.length; i++) if (n[i] !== n[i - 1] + 1) return n[i - 1] + " is followed by " + n[i]; return ""; })()`); gap != "" {
		t.Error(gap)
	}
	small("after scrolling")
	p.press("G")
	p.sees(fmt.Sprintf("line %d of", lines-1))

	// Every byte has an address.
	at := bytes.Index(text.Bytes(), []byte("line 300000 of"))
	p.open(fmt.Sprintf("%s?at=%d", path, at+7))
	p.sees("line 300000 of")
	// The page may still replace lines, so one step must do both: find the line and read it.
	p.until(`document.querySelector(".line.here .words")?.textContent.startsWith("line 300000 of")`)
	small("at a byte")

	// Search goes from there to the next hit, in steps, and back.
	p.fill("input[type=search]", "LINE 700000 of")
	p.until(`document.querySelector("input[type=search]").value === "LINE 700000 of"`)
	p.leaving(chromedp.KeyEvent("\r"))
	p.sees("line 700000 of")
	eval[bool](p, `!!(document.querySelector("input[type=search]").value = "line 300001 of")`)
	p.leaving(chromedp.Click(chromedp.CSS("button[value=previous]")))
	p.sees("line 300001 of")
	p.noFaults(t)
}

// TestHugeLine opens a transcript that is one line of 64 MB. It is neither lost nor does it break
// the page.
func TestHugeLine(t *testing.T) {
	t.Parallel()
	s := newStage(t, scene{})
	text := bytes.Repeat([]byte("0123456789abcde "), 4<<20)
	copy(text[40<<20:], "THE MIDDLE OF IT")
	path := putBlob(t, s, text)
	p := loggedIn(t, s)
	p.open(path)
	p.sees("MB of a long line")
	p.open(path + "?raw=1&at=0")
	p.sees("0123456789abcde 0123456789")
	p.open(fmt.Sprintf("%s?raw=1&at=%d", path, 40<<20))
	p.sees("THE MIDDLE OF IT")
	if n := eval[int](p, `document.body.textContent.length`); n > 4<<20 {
		t.Errorf("the page has %d characters", n)
	}
	p.noFaults(t)
}

// TestMarksAreAtTheirBytes compares what is marked with the bytes of the transcript, in several
// formats, after characters of every length and with both kinds of line ends.
func TestMarksAreAtTheirBytes(t *testing.T) {
	t.Parallel()
	s := newStage(t, scene{})
	p := loggedIn(t, s)
	const said, fence = "Zürich — 漢字 🚂", "```"
	for name, text := range map[string]string{
		"plain": said + "\r\nI will say READY_FOR_REVIEW: T7 soon.\r\nREADY_FOR_REVIEW: T7\r\n\r\n" + fence + "\r\nREVIEW_PASSED: T7\r\n" + fence + "\r\n",
		"claude": `{"type":"system","subtype":"init","session_id":"s"}` + "\r\n" +
			`{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"READY_FOR_REVIEW: T7"},{"type":"text","text":"` + said + ` \u6f22\ud83d\ude82 \"q\"\r\nREADY_FOR_REVIEW: T7\r\n\n` + fence + `\nREVIEW_PASSED: T7\n` + fence + `"}]},"parent_tool_use_id":null,"session_id":"s"}` + "\r\n",
		"codex": `{"type":"thread.started","thread_id":"t"}` + "\n" +
			`{"type":"item.completed","item":{"id":"i","type":"command_execution","aggregated_output":"READY_FOR_REVIEW: T7","exit_code":0}}` + "\n" + `{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"` + said + `\nREADY_FOR_REVIEW: T7\n\n` + fence + `\nREVIEW_PASSED: T7\n` + fence + `"}}` + "\n",
	} {
		path := putBlob(t, s, []byte(text))
		for _, form := range []string{"?raw=1&at=0", "?at=0"} {
			p.open(path + form)
			marks := eval[[]struct {
				Text, Kind, Note string
				From, To         int
			}](p, `[...document.querySelectorAll("#log mark")].map((m) => ({ text: m.textContent, kind: m.className, note: m.closest(".words").querySelector("em")?.textContent ?? "", from: Number(m.dataset.from), to: Number(m.dataset.to) }))`)
			if len(marks) != 2 {
				t.Errorf("%s%s: %d marks: %+v", name, form, len(marks), marks)
				continue
			}
			for i, want := range []struct{ text, kind string }{{"READY_FOR_REVIEW: T7", "accepted"}, {"REVIEW_PASSED: T7", "refused"}} {
				m := marks[i]
				if got := text[m.From:m.To]; got != want.text || m.Kind != want.kind ||
					!strings.HasSuffix(m.Text, want.text) {
					t.Errorf("%s%s: %+v marks %q, not %+v", name, form, m, got, want)
				}
			}
			if !strings.Contains(marks[1].Note, "refused: fenced") {
				t.Errorf("%s%s: no reason: %q", name, form, marks[1].Note)
			}
		}
		// The keys lead from signal to signal, and to the other form at the same place.
		p.open(path + "?raw=1&at=0")
		for _, key := range []struct{ key, text string }{{"s", "READY_FOR_REVIEW: T7"}, {"s", "REVIEW_PASSED: T7"}, {"S", "READY_FOR_REVIEW: T7"}} {
			p.press(key.key)
			p.until(`new URLSearchParams(location.search).get("at") === "` +
				fmt.Sprint(strings.LastIndex(text, key.text)) +
				`" && document.body?.dataset.pieces`)
		}
		p.press("r")
		p.until(`!document.querySelector("#log.raw") && document.querySelector("#log .here")`)
	}
	p.noFaults(t)
}

// TestTranscriptKeys uses a transcript without a mouse. It takes one press of Tab to pass it,
// however many links it has.
func TestTranscriptKeys(t *testing.T) {
	t.Parallel()
	s := newStage(t, scene{})
	var text strings.Builder
	for n := range 3000 {
		fmt.Fprintf(&text, "line %d, %d of ten\n", n, n%10)
	}
	path := putBlob(t, s, []byte(text.String()))
	at := func(line int) int { return strings.Index(text.String(), fmt.Sprintf("line %d,", line)) }
	p := loggedIn(t, s)
	isOn := func(what, selector string) {
		t.Helper()
		if !p.is("document.activeElement.matches(" + quote(selector) + ")") {
			t.Errorf("%s leads to %s", what,
				eval[string](p, "document.activeElement.outerHTML.slice(0, 200)"))
		}
	}
	isAt := func(place int) {
		t.Helper()
		p.until(fmt.Sprintf(
			`new URLSearchParams(location.search).get("at") === "%d" && document.body?.dataset.pieces`, place))
		p.sees(fmt.Sprintf("line %d,", strings.Count(text.String()[:place], "\n")))
	}
	start := fmt.Sprint(path, "?at=", at(1500))
	p.open(start)
	isAt(at(1500))
	p.tabTo("#log")
	p.press(kb.Tab)
	isOn("Tab in the transcript", ":not(#log, #log *)")

	// The links of lines, also of those that were not loaded yet.
	p.open(start)
	isAt(at(1500))
	p.tabTo("#log")
	p.press("j")
	first := eval[int](p, "Number(document.activeElement.textContent)")
	if first == 0 || !p.is(seen+".slice(0, 2).some((l) => l.contains(document.activeElement))") {
		t.Errorf("j leads to %d, not to the first line", first)
	}
	p.press("j")
	isOn("j", "#log a.at")
	if second := eval[int](p, "Number(document.activeElement.textContent)"); second <= first {
		t.Errorf("from %d, j leads to %d", first, second)
	}
	p.press("k")
	isOn("k", fmt.Sprintf(`#log a.at[href$="at=%d"]`, first))
	for n := range 300 {
		before := eval[int](p, "Number(document.activeElement.textContent)")
		// the lines before it are loaded, which may take a moment
		p.until(`[...document.querySelectorAll("#log a")].indexOf(document.activeElement) > 0`)
		p.press("k")
		if now := eval[int](p, "Number(document.activeElement.textContent)"); now >= before ||
			!p.is(seen+".some((l) => l.contains(document.activeElement))") {
			t.Fatalf("press %d: from %d, k leads to %d", n, before, now)
		}
	}
	there := eval[int](p, "Number(document.activeElement.textContent)")
	p.leaving(chromedp.KeyEvent(kb.Enter))
	isAt(there)

	// Search.
	p.open(start)
	isAt(at(1500))
	// Unlike press, this types nothing if the page prevents it.
	call(p, input.DispatchKeyEvent,
		input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "/", Text: "/"})
	isOn("/", "input[type=search]")
	p.press("7 of ten n N /") // typed, not obeyed
	if got := eval[string](p, "document.activeElement.value"); got != "7 of ten n N /" {
		t.Errorf("the field has %q", got)
	}
	eval[bool](p, `!!(document.activeElement.value = "7 OF ten")`)
	p.press(kb.Enter)
	hit := func(line int) int { return at(line) + len("line 1507, ") }
	isAt(hit(1507))
	for _, step := range []struct {
		key  string
		line int
	}{{"n", 1517}, {"n", 1527}, {"N", 1517}, {"N", 1507}, {"N", 1497}, {"n", 1507}} {
		p.press(step.key)
		isAt(hit(step.line))
	}
	p.noFaults(t)
}

// TestTranscriptWithoutScripting pages through a transcript without the script.
func TestTranscriptWithoutScripting(t *testing.T) {
	t.Parallel()
	s := newStage(t, scene{})
	var text strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&text, "line %d <b>of</b> it\n", n)
	}
	p := loggedIn(t, s)
	call(p, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	p.open(putBlob(t, s, []byte(text.String())))
	for n := 0; !strings.Contains(p.text("#log"), "line 0 <b>of</b> it"); n++ {
		if n == 0 && !strings.Contains(p.text("#log"), "line 999 <b>of</b> it") || n > 20 {
			t.Fatalf("step %d: %.200s", n, p.text("#log"))
		}
		p.click("#paging a") // the first is Earlier
	}
	p.click("#paging a:last-child")
	p.fill("input[type=search]", "Line 777 <b>")
	p.click("button[value=next]")
	if got := p.text(".line.here .words"); got != "line 777 <b>of</b> it" {
		t.Errorf("search leads to %q", got)
	}
	p.noFaults(t)
}

// TestLiveTranscript follows an agent that is working. The page stays at the end while the user is
// there, and only then.
func TestLiveTranscript(t *testing.T) {
	t.Parallel()
	s := newStage(t, scene{script: `on developer T1 attempt 1:
    say The first words.
    wait for step1
    run seq 1 300
    say ` + strings.Repeat("many words\n        ", 200) + `
    say The second words.
    wait for step2
    say The third words.
    wait for step3
    say The last words.
    signal SEEKING_DIVINE_CLARIFICATION
        Task: {task}
        Question: What now?
        Context: none

`})
	cmd := exec.CommandContext(t.Context(), program, "run", filepath.Join(s.dir, "plan.md"),
		"--plain", "--no-wait")
	cmd.Dir, cmd.Env = s.project, s.env
	// so that it ends its agents
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) },
		time.Minute
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { cmd.Wait() })
	step := func(n int) {
		t.Helper()
		trees, err := s.command("git", "worktree", "list", "--porcelain")
		must.Succeed(t, err)
		for line := range strings.Lines(trees) {
			if tree, ok := strings.CutPrefix(strings.TrimSpace(line), "worktree "); ok &&
				tree != s.project {
				must.Succeed(t, os.WriteFile(filepath.Join(tree, fmt.Sprint("step", n)), nil,
					0o600))
			}
		}
	}
	p := loggedIn(t, s)
	p.open("/board")
	p.until(`document.getElementById("task-T1")`)
	p.open("/work/T1/log")
	p.sees("The first words.")
	eval[bool](p, "window.sameDocument = true")
	step(1)
	p.sees("The second words.")

	// The user scrolls up at the moment at which more arrives, and reads. Nothing moves, however
	// much is written.
	eval[bool](p, `(() => {
		const log = document.getElementById("log"), load = window.fetch;
		window.answers = 0;
		window.fetch = async (...request) => {
			const answer = await load(...request), asked = new URL(request[0], location.href);
			if (window.holds && asked.pathname.endsWith("/piece") && !asked.searchParams.has("at") && !asked.searchParams.has("before")) {
				window.holds = false;
				const until = window.answers + 3;
				while (window.answers < until) await new Promise((resolve) => setTimeout(resolve, 20));
			}
			if (!window.answers && (await answer.clone().text()).includes("The third words.")) log.scrollTop = window.answers = 1;
			else if (window.answers && String(request[0]).includes("/piece")) window.answers++;
			return answer;
		};
		return true;
	})()`)
	step(2)
	p.until("window.answers > 4")
	// 0 if there was space for lines that are not shown
	if top := eval[int](p, `document.getElementById("log").scrollTop`); top > 1 {
		t.Errorf("who scrolled to the start is moved to %d", top)
	}
	p.sees("The first words.")
	// The way to the end is slow, and more is looked for meanwhile.
	eval[bool](p, "window.holds = true")
	p.press("G")
	p.sees("The third words.")
	if p.is("window.holds") {
		t.Error("the way to the end was not slow: the test is broken")
	}
	step(3)
	p.sees("The last words.")
	p.until(`document.querySelector("#log mark.accepted")?.textContent.includes("SEEKING_DIVINE_CLARIFICATION")`)
	p.until(`!document.querySelector("#source[data-running]")`)
	if !p.is("window.sameDocument") {
		t.Error("the page was loaded again")
	}
	p.noFaults(t)
}
