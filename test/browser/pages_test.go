package browser_test

import (
	_ "embed"
	"testing"
)

// pages are the pages of the demo.
var pages = []struct {
	name, path string
	// fails means that the page itself is an error.
	fails bool
	// open means that a visitor sees it, and is not asked to log in.
	open bool
	// calm means that the page has nothing that changes.
	calm bool
}{
	{name: "inbox", path: "/"},
	{name: "board", path: "/board"},
	{name: "run", path: "/run"},
	{name: "crew", path: "/crew"},
	{name: "cost", path: "/cost"},
	{name: "ledger", path: "/ledger"},
	{name: "oracle", path: "/oracle", calm: true},
	{name: "older ledger", path: "/ledger?before=60", calm: true},
	{name: "search", path: "/ledger?text=product&type=QuestionAsked", calm: true},
	{name: "empty search", path: "/ledger?text=nowhere", calm: true},
	{name: "event", path: "/ledger/30", calm: true},
	{name: "first event", path: "/ledger/1", calm: true},
	{name: "verification", path: "/ledger/verify"},
	{name: "check a proof", path: "/verify", calm: true, open: true},
	{name: "task", path: "/work/T3"},
	{name: "approval", path: "/work/T5"},
	{name: "completed", path: "/work/T2"},
	{name: "waiting", path: "/work/T6"},
	{name: "diff", path: "/work/T5/diff", calm: true},
	{name: "log", path: "/work/T3/log"},
	{name: "raw log", path: "/work/T3/log?raw=1&session=0&turn=0&at=0"},
	{name: "no log", path: "/work/T6/log"},
	{name: "portfolio", path: "/portfolio", calm: true},
	{name: "harvest on a day",
		path: "/portfolio?as_of=2026-03-20&sort_by=loss_pct&no_wash_sale_check=on", calm: true},
	{name: "position", path: "/portfolio/SLV", calm: true},
	{name: "position in two accounts", path: "/portfolio/VOO", calm: true},
	{name: "position without rules", path: "/portfolio/MSFT", calm: true},
	{name: "trees", path: "/trees"},
	{name: "tree", path: "/trees/oracle"},
	{name: "run of a tree", path: "/trees/{run}"},
	{name: "tick of a tree", path: "/trees/{run}?tick=2", calm: true},
	{name: "login", path: "/login", calm: true, open: true},
	{name: "login link", path: "/login?link=sbx_x", calm: true, open: true},
	{name: "error", path: "/work/T99", fails: true, calm: true},
}

//go:embed testdata/look.js
var look string

// TestPages looks at every page in both colour schemes and at the width of a phone: nothing fails
// and nothing is loaded from elsewhere, text can be read, fields and pictures have names, and the
// page fits.
func TestPages(t *testing.T) {
	t.Parallel()
	s := onSharedStage(t)
	for _, who := range []struct {
		name string
		open func(*testing.T, *stage) *tab
	}{{"logged in", loggedIn}, {"visitor", newTab}} {
		t.Run(who.name, func(t *testing.T) {
			t.Parallel()
			p := who.open(t, s)
			p.noFaults(t)
			for _, page := range pages {
				t.Run(page.name, func(t *testing.T) {
					p.t = t
					p.size(1280, 900)
					p.open(page.path)
					refused := who.name == "visitor" && !page.open
					if !page.calm && !refused {
						p.until(`document.getElementById("live").textContent.includes("live")`)
					}
					for _, scheme := range []string{"light", "dark"} {
						p.scheme(scheme)
						p.look(t, scheme, "contrast()")
					}
					p.look(t, "structure", "structure()")
					p.size(390, 844)
					p.look(t, "phone", "phone()")
					switch {
					case refused:
						p.noFaults(t, "401 (Unauthorized)")
						if got := p.text("h1"); got != "Log in" {
							t.Errorf("a visitor sees %q", got)
						}
					case page.fails:
						p.noFaults(t, "404 (Not Found)")
					default:
						p.noFaults(t)
					}
				})
			}
		})
	}
}

// look reports what a function of look.js finds.
func (p *tab) look(t *testing.T, where, call string) {
	t.Helper()
	for _, fault := range eval[[]string](p, "(() => {"+look+"\nreturn "+call+"})()") {
		t.Errorf("%s: %s", where, fault)
	}
}
