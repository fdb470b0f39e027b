package browser_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp/kb"

	"signalbox/internal/testkit/must"
)

// TestTreeSteps steps through a recorded run with keys, with the slider and with links, and opens
// the address of a step.
func TestTreeSteps(t *testing.T) {
	t.Parallel()
	s := onSharedStage(t)
	p := loggedIn(t, s)
	p.open("/trees")
	p.click(`a[href="/trees/` + s.treeRun + `"]`)
	atTick := func(n string) {
		t.Helper()
		p.until(`document.querySelector("#position strong")?.textContent === "tick ` + n +
			`" && document.getElementById("tick").value === "` + n + `"`)
	}
	atTick("4")
	eval[bool](p, `window.sameDocument = true`)
	p.press(kb.ArrowLeft)
	atTick("3")
	p.press(kb.Home)
	atTick("1")
	if p.is(`document.querySelector(".reply")`) ||
		!p.is(`document.querySelector(".bt .leaf.running.live")`) {
		t.Error("in the first tick, the model has replied already")
	}
	p.press(kb.ArrowRight)
	atTick("2")
	if got := p.text(".reply mark"); !strings.Contains(got, `<signal type="need_turn">`) {
		t.Errorf("the signal in the reply is %q", got)
	}
	if !p.is(`[...document.querySelectorAll(".board .changed code")].some((e) => e.textContent === "llm_response")`) ||
		p.is(`[...document.querySelectorAll(".board .changed code")].some((e) => e.textContent === "question")`) {
		t.Errorf("not only what changed is marked: %s", p.text(".board"))
	}
	if got := p.text(".bt .noted"); !strings.HasPrefix(got, "need_turn") {
		t.Errorf("the note in the picture is %q", got)
	}
	if !strings.HasSuffix(eval[string](p, "location.href"), "/trees/"+s.treeRun+"?tick=2") {
		t.Errorf("the address is %s", eval[string](p, "location.href"))
	}
	p.eachClick(`#steps a[data-key="Shift+ArrowRight"]`)
	atTick("4")
	eval[bool](p, `(() => { const e = document.getElementById("tick"); e.focus(); e.value = "3"; return e.dispatchEvent(new Event("input")) && e.dispatchEvent(new Event("change")); })()`)
	atTick("3")
	p.press(kb.ArrowLeft) // on the slider itself
	atTick("2")
	if !p.is("window.sameDocument") {
		t.Error("the page was loaded again")
	}
	p.open("/trees/{run}?tick=2")
	atTick("2")
	p.noFaults(t)
}

// TestTreeStepsWithoutScripting follows the links.
func TestTreeStepsWithoutScripting(t *testing.T) {
	t.Parallel()
	s := onSharedStage(t)
	p := loggedIn(t, s)
	call(p, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	p.open("/trees/{run}?tick=1")
	for _, step := range []struct{ link, want string }{{"next", "tick 2"}, {"next", "tick 3"}, {"prev", "tick 2"}} {
		p.click(`#steps a[rel="` + step.link + `"]`)
		if got := p.text("#position strong"); got != step.want {
			t.Errorf("%s leads to %q, not %s", step.link, got, step.want)
		}
	}
	if !p.is(`document.querySelector("#slide button, #slide noscript")`) {
		t.Error("the slider has no button")
	}
	p.noFaults(t)
}

// TestTreeLive watches a run: the picture, the reply and the blackboard change while the model
// works.
func TestTreeLive(t *testing.T) {
	t.Parallel()
	s := newStage(t, scene{})
	file, err := filepath.Abs("../../examples/trees/turn.lua")
	must.Succeed(t, err)
	reply := filepath.Join(s.dir, "reply")
	// The model replies when the test has written the reply to a pipe.
	if out, err := exec.Command("mkfifo", reply).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(program, "tree", "run", file, "--model", "cat '"+reply+"'", "--journal",
		filepath.Join(s.dir, "tree.journal"))
	cmd.Dir, cmd.Env = s.project, s.env
	stderr, err := cmd.StderrPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	for !strings.Contains(lines.Text(), "running") {
		if !lines.Scan() {
			t.Fatalf("the run has ended: %v", lines.Err())
		}
	}
	go func() { // or the pipe would fill
		for lines.Scan() {
		}
	}()
	must.Succeed(t, s.findTree())
	p := loggedIn(t, s)
	p.open("/trees/{run}")
	p.until(`document.querySelector(".bt .leaf.running.live") && document.getElementById("position").textContent.includes("running")`)
	eval[bool](p, `window.sameDocument = true`)
	say := func(text string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(reply, []byte(text), 0o600))
	}
	say(`Let me look. <signal type="need_turn"><reason>look</reason><confidence>0.9</confidence></signal>`)
	p.until(`document.querySelector(".reply mark")?.textContent.includes("need_turn") && document.querySelector(".bt .leaf.running.live")`)
	say(`It returns the user. <signal type="context_sufficient"><sources_found>1</sources_found></signal>`)
	p.until(`document.getElementById("position").textContent.includes("succeeded") && document.querySelector(".board").textContent.includes("It returns the user.")`)
	if p.is(`document.querySelector("[data-running]")`) || !p.is("window.sameDocument") {
		t.Error("the page still looks for new ticks, or was loaded again")
	}
	p.noFaults(t)
}
