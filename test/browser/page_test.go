package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a tab of a browser, with a profile of its own.
type tab struct {
	t     *testing.T
	ctx   context.Context
	stage *stage

	mu     sync.Mutex
	faults []string
}

// newTab opens a tab. What goes wrong in it is collected from the beginning.
func newTab(t *testing.T, s *stage) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(needChromium(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // opens the tab, which lives as long as ctx
		t.Fatal(err)
	}
	p := &tab{t: t, ctx: ctx, stage: s}
	p.collect()
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true})
	p.size(1280, 900)
	return p
}

// run runs an action, with patience.
func run[T any](p *tab, a chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeoutCause(p.ctx, patience, errors.New("it takes too long"))
	defer cancel()
	value, err := chromedp.Run(ctx, a)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return value, err
}

// call calls a command of the browser's protocol.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	answer, err := run(p, func(ctx context.Context,
		t *chromedp.Target) (R, error) {
		return cdp.Call(ctx, t, command, params)
	})
	if err != nil {
		p.t.Fatalf("%s: %v", command.Method, err)
	}
	return answer
}

// loggedIn opens a tab that is logged in, with a link of its own.
func loggedIn(t *testing.T, s *stage) *tab {
	t.Helper()
	p := newTab(t, s)
	p.open(strings.TrimPrefix(strings.TrimSpace(s.must(t, "token", "link", "--address", s.url)),
		s.url))
	p.click("main button")
	return p
}

// collect starts to record what must not happen in a page.
func (p *tab) collect() {
	each(p, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		p.fault("exception: %s", e.ExceptionDetails.Exception.Description)
	})
	each(p, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		if e.Type == runtime.ConsoleAPICalledTypeError ||
			e.Type == runtime.ConsoleAPICalledTypeWarning {
			p.fault("console.%s", e.Type)
		}
	})
	each(p, log.EntryAdded, func(e log.EventEntryAdded) { // also violations of the content policy
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.fault("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	})
	each(p, network.LoadingFailed, func(e network.EventLoadingFailed) {
		if !e.Canceled { // a stream of events is when its page is left
			p.fault("a request failed: %s %s", e.Type, e.ErrorText)
		}
	})
	each(p, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme+"://"+u.Host != p.stage.url {
			p.fault("a request to elsewhere: %s", e.Request.URL)
		}
	})
}

// each calls a function for every event of a kind.
func each[E any](p *tab, kind cdp.Event[E], f func(E)) {
	events := chromedp.Events(p.ctx, kind)
	go func() {
		for e, err := range events {
			if err != nil {
				return // the tab is closed
			}
			f(e)
		}
	}()
}

func (p *tab) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// noFaults reports what has gone wrong since the last call, except for what contains one of the
// texts.
func (p *tab) noFaults(t *testing.T, except ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fault := range p.faults {
		if !slices.ContainsFunc(except,
			func(text string) bool { return strings.Contains(fault, text) }) {
			t.Error(fault)
		}
	}
	p.faults = nil
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if _, err := run(p, chromedp.Steps(actions...)); err != nil {
		p.t.Fatal(err)
	}
}

// open opens a page of the server.
func (p *tab) open(path string) {
	p.t.Helper()
	if _, err := run(p, chromedp.Navigate(p.stage.url+strings.ReplaceAll(path, "{run}",
		p.stage.treeRun))); err != nil {
		p.t.Fatalf("open %s: %v", path, err)
	}
}

// size sets the size of the window. A narrow one is that of a phone.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1,
			Mobile: width < 600})
}

// scheme sets the colour scheme: light or dark.
func (p *tab) scheme(name string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: name},
			{Name: "prefers-reduced-motion", Value: "reduce"}}})
}

// eval evaluates an expression in the page, and waits for its value if it is a promise.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	value, err := run(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// is reports whether a condition holds in the page.
func (p *tab) is(condition string) bool {
	p.t.Helper()
	return eval[bool](p, "!!("+condition+")")
}

// until waits until a condition holds in the page.
func (p *tab) until(condition string) {
	p.t.Helper()
	// A page that is left can take the answer with it, so the page is asked again and again.
	wait := `new Promise((resolve) => { let n = 0; const look = () => (` + condition +
		`) ? resolve(true) : ++n < 50 ? setTimeout(look, 20) : resolve(false); look(); })`
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(p.ctx, patience/6)
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](wait, chromedp.EvalAwaitPromise))
		expired := ctx.Err() != nil
		cancel()
		if err == nil && holds {
			return
		}
		if err == nil || expired {
			continue
		}
		if text := err.Error(); !strings.Contains(text, "navigat") &&
			!strings.Contains(text, "context") && !strings.Contains(text, "collected") {
			p.t.Fatalf("%s: %v", condition, err)
		}
		// The page was left meanwhile. Wait in the next one.
	}
	p.t.Fatalf("it never holds: %s\nthe page is %s", condition, eval[string](p,
		`location.href + ", at " + document.activeElement?.outerHTML.slice(0, 200) + ":\n" + document.body.innerText.slice(0, 2000)`))
}

// leaving does something that leads to another page, and waits until that is loaded.
func (p *tab) leaving(do chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if _, err := run(p, chromedp.WaitEvent(page.LoadEventFired, nil, do)); err != nil {
		p.t.Fatal(err)
	}
}

// click clicks what a selector finds, which leads to another page.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.leaving(chromedp.Click(chromedp.CSS(selector)))
}

// fill types a text into the field that a selector finds.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// press presses keys.
func (p *tab) press(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// text returns the text of what a selector finds, "" if it finds nothing.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, "document.querySelector("+quote(selector)+")?.textContent ?? ''")
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// eachClick clicks on things that stay on the page.
func (p *tab) eachClick(selectors ...string) {
	p.t.Helper()
	for _, selector := range selectors {
		p.do(chromedp.Click(chromedp.CSS(selector)))
	}
}
