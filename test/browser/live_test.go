package browser_test

import (
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestLive changes the box with other processes while pages are open: cards move without a reload,
// what the user types and where the focus is stays, and after a restart of the server the pages
// catch up.
func TestLive(t *testing.T) {
	t.Parallel()
	s := newStage(t, demoScene())
	board, inbox := loggedIn(t, s), loggedIn(t, s)
	const isLive = `document.getElementById("live").textContent.includes("live")`
	board.open("/board")
	board.until(isLive)
	eval[bool](board, `window.sameDocument = true`)
	eval[bool](board, `document.querySelector('nav a[href="/run"]').focus() ?? true`)
	inbox.until(isLive)
	inbox.fill("#answer-Q-1", "half an ans")
	if board.is(`document.querySelector('[aria-label="Completed"] #task-T5')`) ||
		!inbox.is(`document.getElementById("request-T5")`) {
		t.Fatal("T5 does not wait for approval")
	}

	s.must(t, "approve", "T5")
	must.Succeed(t, s.run())
	board.until(`document.querySelector('[aria-label="Completed"] #task-T5')`)
	board.until(`document.getElementById("waiting").textContent === "1"`)
	if n := eval[int](board, `document.querySelectorAll("#task-T5").length`); n != 1 {
		t.Errorf("the board has %d cards of T5", n)
	}
	if got := eval[string](board,
		`document.activeElement.getAttribute("href") ?? ""`); got != "/run" {
		t.Errorf("the focus is on %q, not on the link that had it", got)
	}
	inbox.until(`!document.getElementById("request-T5")`)
	inbox.press("wer")
	if got := eval[string](inbox,
		`document.getElementById("answer-Q-1").value`); got != "half an answer" {
		t.Errorf("the answer is %q", got)
	}
	inbox.until(`document.getElementById("now").textContent.includes("3 of 6 tasks")`)

	// A hidden page gives up its connection, and catches up when it is shown again.
	hide := func(hidden string) {
		eval[bool](board, `Object.defineProperty(document, "hidden", { configurable: true, value: `+
			hidden+` }) && document.dispatchEvent(new Event("visibilitychange"))`)
	}
	hide("true")
	if board.is("stream") || board.is(isLive) {
		t.Error("a hidden page still has a stream")
	}
	s.must(t, "pause", "T6")
	hide("false")
	board.until(isLive)
	board.until(`document.getElementById("task-T6").textContent.includes("paused")`)
	s.must(t, "resume", "T6")

	s.stop()
	board.until(`document.getElementById("live").textContent.includes("reconnecting")`)
	s.must(t, "answer", "Q-1", "an error")
	must.Succeed(t, s.serve(s.address))
	board.until(isLive)
	board.until(`!document.getElementById("waiting")`)
	if !board.is("window.sameDocument") {
		t.Error("the board was loaded again")
	}
	inbox.until(isLive)
	if got := eval[string](inbox,
		`document.getElementById("answer-Q-1").value`); got != "half an answer" {
		t.Errorf("after the restart, the answer is %q", got)
	}
	s.must(t, "pause", "T6")
	board.until(`document.getElementById("task-T6").textContent.includes("paused")`)

	// A login that has ended does not show anything more, and the page says so.
	name := strings.TrimPrefix(board.text("footer button"), "Log out ")
	s.must(t, "token", "revoke", name)
	s.must(t, "resume", "T6") // the stream ends with the next event
	board.until(`document.getElementById("live").textContent.includes("logged out")`)
	if !board.is(`document.getElementById("task-T6").textContent.includes("paused")`) {
		t.Error("the board has changed for somebody who is logged out")
	}
}
