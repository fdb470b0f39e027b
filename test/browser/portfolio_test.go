package browser_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// lotsOnPage returns the lots at a loss on the page: ticker, account, day, shares, loss, what is
// disallowed.
const lotsOnPage = `[...document.querySelectorAll("#candidates tbody tr")].map((r) => [0, 1, 2, 3, 4, 8].map((i) => r.cells[i].querySelector("data")?.value ?? r.cells[i].textContent))`

// TestPortfolio compares the page with what the command prints, and uses its form and its links.
func TestPortfolio(t *testing.T) {
	t.Parallel()
	s := onSharedStage(t)
	p := loggedIn(t, s)
	compare := func(args ...string) {
		t.Helper()
		var harvest struct {
			Candidates []struct {
				Ticker     string      `json:"ticker"`
				Account    string      `json:"account_id"`
				Bought     string      `json:"lot_date"`
				Shares     json.Number `json:"shares"`
				Loss       json.Number `json:"unrealized_loss"`
				Disallowed json.Number `json:"disallowed_loss"`
			} `json:"candidates"`
		}
		must.Succeed(t, json.Unmarshal(
			[]byte(s.must(t, append([]string{"portfolio", "harvest", "--json"},
				args...)...)), &harvest))
		var want [][]string
		for _, c := range harvest.Candidates {
			want = append(want, []string{c.Ticker, c.Account, c.Bought, c.Shares.String(),
				c.Loss.String(), c.Disallowed.String()})
		}
		if len(want) < 3 {
			t.Errorf("%v gives %d lots, so this proves little", args, len(want))
		}
		if diff := cmp.Diff(want, eval[[][]string](p, lotsOnPage)); diff != "" {
			t.Errorf("%v: command -, page +\n%s", args, diff)
		}
	}
	p.click(`nav a[href="/portfolio"]`)
	compare()
	p.eachClick("#losses > summary") // all but what can be done today is folded
	p.click(`#candidates th:nth-child(6) a`)
	compare("--sort-by", "loss_pct")
	p.eachClick(".question summary")
	p.fill("#min_loss", "200")
	p.eachClick("[name=no_wash_sale_check]")
	p.click(".question button")
	compare("--sort-by", "loss_pct", "--min-loss", "200", "--no-wash-sale-check")

	p.open("/portfolio")
	p.eachClick("#dates > summary")
	p.click(`#windows a[href="/portfolio/SLV"]`)
	report := s.must(t, "portfolio", "exits", "SLV")
	if verdict := p.text(".verdict"); verdict == "" || !strings.Contains(report, verdict) {
		t.Errorf("the page says %q, and the command\n%s", verdict, report)
	}
	// The labels of the levels are beside their lines, and in the picture.
	for _, fault := range eval[[]string](p, `(() => {
		const chart = document.querySelector("svg.chart").getBoundingClientRect(), faults = [];
		for (const label of document.querySelectorAll("svg.chart text")) {
			const box = label.getBoundingClientRect();
			if (box.right > chart.right || box.left < chart.left || box.bottom > chart.bottom || box.top < chart.top) faults.push(label.textContent + " is cut off");
		}
		return faults;
	})()`) {
		t.Error(fault)
	}
	// What if the first lot is sold?
	p.open("/portfolio")
	p.eachClick("#lots > summary")
	p.click(`#lots a[href*="/portfolio/SLV?"]`)
	if got := p.text("#outcome"); !strings.Contains(got, "Selling 60 SLV realizes $3,021.60 long-term") {
		t.Errorf("the sale of a lot: %s", got)
	}
	p.fill("#cash", "2000")
	p.eachClick("form.fields button")
	p.until(`document.querySelector("#outcome")?.textContent.includes("Selling 27 SLV")`)
	p.open("/portfolio/VOO")
	p.click(`a[href="/portfolio/VOO?account=brk"]`)
	if got := p.text(".verdict"); !strings.HasPrefix(got, "VOO: ") {
		t.Errorf("VOO in one account: %s", got)
	}
	p.noFaults(t)

	visitor := newTab(t, s)
	visitor.open("/login")
	if got := fmt.Sprint(eval[int](visitor, `fetch("/portfolio").then((r) => r.status)`),
		eval[int](visitor, `fetch("/api/v1/portfolio/lots").then((r) => r.status)`)); got != "401 401" {
		t.Errorf("a visitor gets %s", got)
	}
}
