package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"

	"signalbox/brief"
	"signalbox/internal/portfolio"
	"signalbox/internal/portfolio/example"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/transfer"
	"signalbox/internal/testkit/must"
	"signalbox/internal/text"
)

// portfolioDay is the day of all questions.
func portfolioDay() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

// deskOf returns the desk of a folder with some files.
func deskOf(t testing.TB, files map[string]string) *portfolio.Desk {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return portfolio.NewDesk(dir, &portfolio.Options{Now: portfolioDay})
}

func exampleDesk(t testing.TB) *portfolio.Desk {
	t.Helper()
	dir := t.TempDir()
	if _, err := example.Write(dir); err != nil {
		t.Fatal(err)
	}
	return portfolio.NewDesk(dir, &portfolio.Options{Now: portfolioDay})
}

// generated returns a portfolio with losses, wash sales in both directions, and exit rules for each
// ticker.
func generated(seed uint64) map[string]string {
	r := rand.New(rand.NewPCG(seed, 7))
	tickers := []string{"AAA", "BBB", "CCC", "DDD"}
	methods := []string{"fifo", "lifo", "hifo", "specific"}
	accounts := []string{"one", "two", "ira"}
	yaml := fmt.Sprintf(
		"as_of: 2026-06-30\naccounts:\n  - {id: one, lot_method: %s}\n  - {id: two, owner: spouse, lot_method: %s}\n  - {id: ira, kind: ira}\nidentical: [[AAA, BBB]]\nfiling_status: %s\nrealized: {short_term: %d.25, carryover_long: %d}\nexit_rules:\n",
		methods[r.IntN(4)], methods[r.IntN(4)],
		[]string{"single", "married_joint", "married_separate"}[r.IntN(3)], r.IntN(900),
		r.IntN(900))
	var rows, prices strings.Builder
	rows.WriteString("date,account,action,ticker,quantity,price,fees,currency,lot_id\n")
	prices.WriteString("date,ticker,close,adjusted,currency\n")
	held := map[string]int{}
	for day := time.Date(2025, 3, 3, 0, 0, 0, 0, time.UTC); day.Before(time.Date(2026, 6, 30, 0, 0,
		0, 0, time.UTC)); day = day.AddDate(0, 0, 1+r.IntN(9)) {
		ticker, account := tickers[r.IntN(4)], accounts[r.IntN(3)]
		key, n := account+ticker, 1+r.IntN(40)
		action := "buy"
		if held[key] > n && r.IntN(3) == 0 {
			action, held[key] = "sell", held[key]-n
		} else {
			held[key] += n
		}
		price := 60 + r.IntN(60)
		if action == "sell" {
			price = 20 + r.IntN(60)
		}
		fmt.Fprintf(&rows, "%s,%s,%s,%s,%d,%d.%02d,%d.%d,,\n", day.Format(time.DateOnly), account,
			action, ticker, n, price, r.IntN(100), r.IntN(3), r.IntN(10))
	}
	for i, ticker := range tickers {
		level := 40 + r.IntN(60)
		for day := time.Date(2025, 6, 2, 0, 0, 0, 0,
			time.UTC); day.Before(portfolioDay()); day = day.AddDate(0, 0, 7) {
			level = max(5, level+r.IntN(9)-4)
			fmt.Fprintf(&prices, "%s,%s,%d.%02d,,\n", day.Format(time.DateOnly), ticker, level,
				r.IntN(100))
		}
		fmt.Fprintf(&prices, "2026-06-30,%s,%d.5,,\n", ticker, level)
		yaml += fmt.Sprintf(
			"  %s: {rules: {momentum_exit: {lookback: %d}, regime_check: {tickers: [AAA, CCC]}}, stop: {price: %d.75}}\n", ticker, 2+i, 5+r.IntN(60))
	}
	return map[string]string{"portfolio.yaml": yaml, "transactions/all.csv": rows.String(),
		"prices/all.csv": prices.String()}
}

// object is a decoded JSON object, with its numbers as they are written.
type object = map[string]any

func decodeJSON[T any](t testing.TB, data []byte) (value T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return value
}

// asCash formats a number of the JSON as the page shows money.
func asCash(t testing.TB, n any) string {
	t.Helper()
	d, err := decimal.Parse(fmt.Sprint(n))
	must.Succeed(t, err)
	sign := ""
	if d.IsNeg() {
		sign = "-"
	}
	return sign + "$" + text.Group(d.Abs().Rescale(2).String())
}

// asFloat formats a number of the JSON with some decimals.
func asFloat(t testing.TB, format string, n any, factor float64) string {
	t.Helper()
	f, err := n.(json.Number).Float64()
	must.Succeed(t, err)
	return fmt.Sprintf(format, f*factor)
}

var (
	tableRow  = regexp.MustCompile(`(?s)<tr>(.*?)</tr>`)
	tableCell = regexp.MustCompile(`(?s)<t[dh][^>]*>(.*?)</t[dh]>`)
	tagOf     = regexp.MustCompile(`(?s)<[^>]*>`)
)

// tableOf returns the texts of the cells of a table, without its head.
func tableOf(t testing.TB, page, start string) (rows [][]string) {
	t.Helper()
	_, rest, found := strings.Cut(page, start)
	if !found {
		return nil
	}
	table, _, _ := strings.Cut(rest, "</table>")
	if _, body, hasHead := strings.Cut(table, "</thead>"); hasHead {
		table = body
	}
	for _, row := range tableRow.FindAllStringSubmatch(table, -1) {
		var cells []string
		for _, cell := range tableCell.FindAllStringSubmatch(row[1], -1) {
			cells = append(cells,
				strings.TrimSpace(html.UnescapeString(tagOf.ReplaceAllString(cell[1], ""))))
		}
		rows = append(rows, cells)
	}
	return rows
}

func wantTable(t *testing.T, name string, got, want [][]string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: command -, page +\n%s", name, diff)
	}
}

// TestPortfolioNumbers compares every number on the pages with the JSON that the commands print,
// for the example and for generated portfolios.
func TestPortfolioNumbers(t *testing.T) {
	s := newStage(t)
	client := s.logIn(access.Read)
	desks := map[string]*portfolio.Desk{"example": exampleDesk(t)}
	for seed := range uint64(2) {
		desks[fmt.Sprint("seed ", seed)] = deskOf(t, generated(seed))
	}
	seen := map[string]int{}
	for name, desk := range desks {
		for _, q := range []portfolio.HarvestQuery{{}, {SortBy: "loss_pct", MinLoss: "150"},
			{SortBy: "days_held", SkipWashCheck: true, AsOf: "2026-05-20"}} {
			t.Run(fmt.Sprintf("%s %+v", name, q), func(t *testing.T) {
				s.desk = desk
				values := url.Values{"sort_by": {q.SortBy}, "min_loss": {q.MinLoss},
					"as_of": {q.AsOf}}
				if q.SkipWashCheck {
					values.Set("no_wash_sale_check", "on")
				}
				status, _, page := s.get(client, "/portfolio?"+values.Encode())
				if status != http.StatusOK {
					t.Fatalf("status %d: %s", status, page)
				}
				compareHarvest(t, desk, q, page, seen)
			})
		}
		for _, ticker := range []string{"AAA", "BBB", "CCC", "DDD", "SLV", "GLD", "TLT", "MSFT"} {
			for _, account := range []string{"", "one", "brk"} {
				compareExits(t, s, client, desk,
					portfolio.ExitQuery{Ticker: ticker, AccountID: account}, seen)
			}
		}
	}
	for _, what := range []string{"candidates", "wash_sale_warnings", "do_not_buy_before",
		"do_not_buy_now", "realized_wash_sales", "lots", "today", "triggered", "held back",
		"lots_not_reached", "errors"} {
		if seen[what] == 0 {
			t.Errorf("the portfolios have %d %s, so this proves little", seen[what], what)
		}
	}
}

func compareHarvest(t *testing.T, desk *portfolio.Desk, q portfolio.HarvestQuery, page string,
	seen map[string]int) {
	q.Format = string(brief.FormatFull)
	full := decodeJSON[object](t, desk.SuggestTaxLossHarvest(t.Context(), q).JSON)
	q.Format = string(brief.FormatAgent)
	agent := decodeJSON[object](t, desk.SuggestTaxLossHarvest(t.Context(), q).JSON)
	lots, err := desk.Lots(t.Context(), portfolio.LotsQuery{AsOf: q.AsOf})
	must.Succeed(t, err)
	lotText, err := json.Marshal(lots)
	must.Succeed(t, err)
	list := func(name string) (objects []object) {
		for _, item := range full[name].([]any) {
			objects = append(objects, item.(object))
		}
		seen[name] += len(objects)
		return objects
	}
	if full["status"] != "success" {
		seen["errors"]++
		for _, want := range []any{full["error"], full["error_hint"]} {
			if !strings.Contains(html.UnescapeString(page), want.(string)) {
				t.Errorf("the page does not say %q", want)
			}
		}
		return
	}
	net := full["net_position"].(object)
	realized := net["realized"].(object)
	want := [][]string{{"Harvestable loss", asCash(t, full["total_harvestable_loss"])},
		{"Harvestable, short-term", asCash(t, full["short_term_loss"])},
		{"Harvestable, long-term", asCash(t, full["long_term_loss"])},
		{"Disallowed by wash sales", asCash(t, full["disallowed_loss"])}}
	if fmt.Sprint(full["disallowed_for_good"]) != "0" {
		want = append(want, []string{"Disallowed for good", asCash(t, full["disallowed_for_good"])})
	}
	want = append(want, [][]string{{"Realized this year, short-term",
		asCash(t, realized["short_term"])},
		{"Realized this year, long-term", asCash(t, realized["long_term"])},
		{"Losses carried over, short-term", asCash(t, realized["carryover_short"])},
		{"Losses carried over, long-term", asCash(t, realized["carryover_long"])},
		{"Net of the year after harvest", asCash(t, net["net"])},
		{"Annual deduction limit", asCash(t, net["deduction_limit"])},
		{"Carried into the next year", asCash(t, net["carryforward"])}}...)
	_, totals, _ := strings.Cut(page, `<dl id="totals"`)
	totals, _, _ = strings.Cut(totals, "</dl>")
	var got [][]string
	for _, row := range regexp.MustCompile(
		`(?s)<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>`).FindAllStringSubmatch(totals, -1) {
		got = append(got, []string{row[1], tagOf.ReplaceAllString(row[2], "")})
	}
	wantTable(t, "totals", got, want)

	want = nil
	for _, c := range list("candidates") {
		long, clean := "yes", ""
		if c["holding_period"] != "long_term" {
			long = c["long_term_from"].(string)
		}
		if date, ok := c["clean_date"]; ok {
			clean = date.(string)
		}
		want = append(want, []string{c["ticker"].(string), c["account_id"].(string),
			c["lot_date"].(string), fmt.Sprint(c["shares"]), asCash(t, c["unrealized_loss"]),
			asFloat(t, "%.1f", c["loss_pct"], 1),
			fmt.Sprint(c["days_held"]), long, asCash(t, c["disallowed_loss"]),
			asCash(t, c["allowed_loss"]), clean})
	}
	wantTable(t, "candidates", tableOf(t, page, `<table id="candidates"`), want)

	purchases := func(o object, name string) string {
		var texts []string
		found, _ := o[name].([]any)
		for _, p := range found {
			p := p.(object)
			texts = append(texts, fmt.Sprintf("%s %s on %s in %s", p["shares"], p["ticker"],
				p["date"], p["account"]))
		}
		return strings.Join(texts, ", ")
	}
	want = nil
	for _, w := range list("wash_sale_warnings") {
		want = append(want, []string{w["ticker"].(string), fmt.Sprint(w["disallowed_shares"]),
			asCash(t, w["disallowed_loss"]), w["clean_date"].(string), purchases(w, "purchases")})
	}
	wantTable(t, "warnings", tableOf(t, page, `<table id="warnings"`), want)
	want = nil
	for _, l := range list("lots_not_reached") {
		want = append(want, []string{l["ticker"].(string), l["account_id"].(string),
			l["lot_date"].(string), fmt.Sprint(l["shares"]), asCash(t, l["unrealized_loss"]),
			l["advice"].(string)})
	}
	wantTable(t, "unreached", tableOf(t, page, `<table id="unreached"`), want)
	want = nil
	for _, w := range list("realized_wash_sales") {
		want = append(want, []string{w["sale_date"].(string), w["account"].(string),
			w["ticker"].(string), fmt.Sprint(w["shares"]), asCash(t, w["loss"]),
			fmt.Sprint(w["disallowed_shares"]),
			asCash(t, w["disallowed_loss"]), asCash(t, w["permanent_loss"]),
			purchases(w, "replacements")})
	}
	wantTable(t, "realized", tableOf(t, page, `<table id="realized"`), want)
	want = nil
	for _, l := range decodeJSON[[]object](t, lotText) {
		seen["lots"]++
		want = append(want, []string{l["account"].(string), l["ticker"].(string),
			l["lot_date"].(string), l["holding_start"].(string), l["long_term_from"].(string),
			fmt.Sprint(l["quantity"]), asCash(t, l["basis_total"]),
			asCash(t, l["basis_adjustment"]), gainOf(t, l), l["lot_id"].(string), "what if?"})
	}
	wantTable(t, "lots", tableOf(t, page, `<table class="lots"`), want)

	known := append(compareToday(t, page, full, seen), "401k", json.Number(fmt.Sprint(len(lots))))
	overview, err := desk.Overview(t.Context(), q)
	must.Succeed(t, err)
	today, err := json.Marshal([]any{overview.Today, overview.Saves, overview.Positions})
	must.Succeed(t, err)

	if overview.Saves != nil && overview.Saves.Tax != nil {
		known = append(known, json.Number(overview.Saves.Tax.Abs().String()))
	}

	// The calendar has the dates of the JSON.
	windows := tableOf(t, page, `<table id="windows"`)
	row := func(ticker string) []string {
		for _, r := range windows {
			if r[0] == ticker {
				return r
			}
		}
		t.Errorf("%s is not in the calendar", ticker)
		return make([]string, 4)
	}
	for _, w := range list("wash_sale_warnings") {
		if got, want := row(w["ticker"].(string))[1], "from "+
			w["clean_date"].(string); got != want {
			t.Errorf("%s may be sold %s, want %s", w["ticker"], got, want)
		}
	}
	for _, b := range list("do_not_buy_now") {
		if got, want := row(b["ticker"].(string))[2], "from "+
			b["date"].(string); !strings.HasPrefix(got, want) {
			t.Errorf("%s may be bought %s, want %s", b["ticker"], got, want)
		}
	}
	for _, b := range list("do_not_buy_before") {
		if got, want := row(b["ticker"].(string))[2], "if you sell on "+
			full["metadata"].(object)["as_of"].(string)+", from "+
			b["date"].(string); !strings.Contains(got, want) {
			t.Errorf("%s may be bought %s, want %s", b["ticker"], got, want)
		}
		if !strings.Contains(page, ">if sold, buy from "+b["date"].(string)+"<") &&
			!strings.Contains(page, "; if sold, from "+b["date"].(string)+"<") {
			t.Errorf("the picture does not say when %s may be bought", b["ticker"])
		}
	}
	noOtherNumbers(t, page, full, agent, decodeJSON[any](t, lotText), decodeJSON[any](t, today), known)
	for _, flag := range full["flags"].([]any) { // the agent format may be shortened
		if message := flag.(object)["message"].(string); !strings.Contains(page,
			html.EscapeString(message)) && !strings.Contains(html.UnescapeString(page), message) {
			t.Errorf("the page does not have the flag %q", message)
		}
	}
}

// gainOf returns the gain on a lot as the page shows it: shares × price − basis.
func gainOf(t testing.TB, lot object) string {
	t.Helper()
	if lot["price"] == nil {
		return ""
	}
	var parts []decimal.Decimal
	for _, key := range []string{"quantity", "price", "basis_total"} {
		d, err := decimal.Parse(fmt.Sprint(lot[key]))
		must.Succeed(t, err)
		parts = append(parts, d)
	}
	value, err := parts[0].Mul(parts[1])
	must.Succeed(t, err)
	gain, err := value.Sub(parts[2])
	must.Succeed(t, err)
	if want := asCash(t, gain.Round(2)); want == asCash(t, json.Number(fmt.Sprint(lot["gain"]))) {
		return want
	}
	return asCash(t, lot["gain"]) // a gift that was worth less than its basis, or half a cent
}

// compareToday adds up the candidates by ticker: the rows of the first screen have these sums, and
// its cards the sums of the rows. It returns the sums of all.
func compareToday(t *testing.T, page string, full object, seen map[string]int) []any {
	t.Helper()
	asOf := full["metadata"].(object)["as_of"].(string)
	type sums struct {
		clean, later         decimal.Decimal
		cleanLots, laterLots int
	}
	byTicker, all := map[string]*sums{}, &sums{}
	for _, item := range full["candidates"].([]any) {
		c := item.(object)
		date, checked := c["clean_date"]
		if !checked {
			return nil // wash sales were not checked
		}
		ticker := c["ticker"].(string)
		if byTicker[ticker] == nil {
			byTicker[ticker] = &sums{}
		}
		loss, err := decimal.Parse(fmt.Sprint(c["unrealized_loss"]))
		must.Succeed(t, err)
		for _, s := range []*sums{byTicker[ticker], all} {
			if date.(string) <= asOf {
				s.clean, err = s.clean.Add(loss)
				s.cleanLots++
			} else {
				s.later, err = s.later.Add(loss)
				s.laterLots++
			}
			must.Succeed(t, err)
		}
	}
	show := func(sum decimal.Decimal, lots int) []string {
		if lots == 0 {
			return []string{"", ""}
		}
		return []string{asCash(t, sum), fmt.Sprint(lots)}
	}
	rows := 0
	for _, part := range strings.Split(page, `class="today-rows"`)[1:] {
		for _, row := range tableOf(t, part, "") {
			want := byTicker[row[0]]
			if want == nil {
				t.Errorf("%s is on the first screen, and not a candidate", row[0])
				continue
			}
			rows++
			wantEqual := append(show(want.clean, want.cleanLots), show(want.later, want.laterLots)...)
			if diff := cmp.Diff(wantEqual, row[2:6]); diff != "" {
				t.Errorf("%s: sums of the candidates -, page +\n%s", row[0], diff)
			}
		}
	}
	if rows != len(byTicker) {
		t.Errorf("%d tickers on the first screen, want %d", rows, len(byTicker))
	}
	seen["today"] += rows
	for card, want := range map[string][]string{"Clean today": show(all.clean, all.cleanLots),
		"Clean later": show(all.later, all.laterLots)} {
		if want[0] != "" && !strings.Contains(tagOf.ReplaceAllString(page, ""), card+want[0]+want[1]+" lot") {
			t.Errorf("the card %q does not have %v", card, want)
		}
	}
	return []any{json.Number(all.clean.String()), json.Number(all.later.String()),
		json.Number(fmt.Sprint(all.cleanLots)), json.Number(fmt.Sprint(all.laterLots))}
}

var numberText = regexp.MustCompile(`-?\$?[0-9][0-9,]*(\.[0-9]+)?`)

// noOtherNumbers checks that each number in the text of a page is one of the JSON. Pictures and the
// form are left out.
func noOtherNumbers(t *testing.T, page string, answers ...any) {
	t.Helper()
	known := map[string]bool{"30": true, "500": true} // days before and after; rows of a table
	var texts []string
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case json.Number:
			known[v.String()], known[asCash(t, v)] = true, true
			for _, format := range []string{"%.0f", "%.1f", "%.2f"} {
				known[asFloat(t, format, v, 1)] = true
			}
			for _, format := range []string{"%+.2f", "%.2f"} {
				known[strings.TrimPrefix(asFloat(t, format, v, 100), "+")] = true
			}
		case []any:
			for _, item := range v {
				collect(item)
			}
		case object:
			for _, item := range v {
				collect(item)
			}
		}
	}
	for _, a := range answers {
		collect(a)
	}
	_, main, _ := strings.Cut(page, "<main")
	main, _, _ = strings.Cut(main, "</main>")
	main = regexp.MustCompile(
		`(?s)<svg.*?</svg>|<details class="question".*?</details>`).ReplaceAllString(main, "")
	plain := html.UnescapeString(tagOf.ReplaceAllString(main, "\n"))
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
	for _, known := range texts {
		if len(known) > 3 {
			plain = strings.ReplaceAll(plain, known, "\n")
		}
	}
	for _, found := range numberText.FindAllString(plain, -1) {
		if found = strings.TrimRight(found, ","); !known[found] &&
			!known[strings.TrimPrefix(found, "-")] {
			t.Errorf("%s is on the page, and not in the answer of the command", found)
		}
	}
}

func compareExits(t *testing.T, s *stage, client *http.Client, desk *portfolio.Desk,
	q portfolio.ExitQuery, seen map[string]int) {
	t.Helper()
	s.desk = desk
	q.Format = string(brief.FormatFull)
	full := decodeJSON[object](t, desk.CheckExitSignals(t.Context(), q).JSON)
	q.Format = string(brief.FormatAgent)
	agent := decodeJSON[object](t, desk.CheckExitSignals(t.Context(), q).JSON)
	status, _, page := s.get(client, "/portfolio/"+q.Ticker+"?account="+q.AccountID)
	verdict := agent["snapshot"].(object)["verdict"].(string)
	switch full["error_kind"] {
	case portfolio.UnknownTicker:
		if status != http.StatusNotFound {
			t.Errorf("%+v: status %d", q, status)
		}
		return
	case portfolio.UnknownAccount:
		if status != http.StatusBadRequest {
			t.Errorf("%+v: status %d", q, status)
		}
		return
	}
	if status != http.StatusOK || !strings.Contains(html.UnescapeString(page), verdict) {
		t.Errorf("%+v: status %d, want the verdict %q in\n%s", q, status, verdict, page)
	}
	for _, flag := range full["flags"].([]any) { // the agent format may be shortened
		if message := flag.(object)["message"].(string); !strings.Contains(
			html.UnescapeString(page), message) {
			t.Errorf("%+v: the page does not have the flag %q", q, message)
		}
	}
	if full["status"] != "success" {
		return
	}
	signed := func(v any, unit string) string {
		if v == nil {
			return ""
		}
		return asFloat(t, "%+.2f"+unit, v, 100)
	}
	var want [][]string
	for _, item := range full["signals"].([]any) {
		signal := item.(object)
		name, triggered, month, below, state := signal["rule_name"].(string), "no", "", "",
			signal["status"].(string)
		if signal["is_primary"] == true {
			name += " (primary)"
		}
		if signal["triggered"] == true {
			triggered = "yes"
			seen["triggered"]++
		} else {
			seen["held back"]++
		}
		if m, ok := signal["month"]; ok {
			month = m.(string)
		}
		if e, ok := signal["error"]; ok {
			state += ": " + e.(string)
		}
		if close, ok := signal["trigger_close"]; ok {
			below = asFloat(t, "%.2f", close, 1)
			if picture := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindString(
				page); !strings.Contains(picture, "below "+below+"<") {
				t.Errorf("%+v: the chart does not have the level %s", q, below)
			}
		}
		severity := ""
		if signal["severity"] != nil {
			severity = asFloat(t, "%.2f", signal["severity"], 1)
		}
		want = append(want, []string{name, state, triggered, severity,
			signed(signal["return"], "%%"), signed(signal["mean"], "%%"),
			signed(signal["gap"], " pp"), month, below})
	}
	wantTable(t, fmt.Sprintf("%+v: rules", q), tableOf(t, page, `<table id="rules"`), want)
	want = nil
	for _, item := range full["recommended_actions"].([]any) {
		a := item.(object)
		order := a["order_type"].(string)
		if price, ok := a["stop_price"]; ok {
			order += fmt.Sprintf(" at %s", price)
		}
		if force, ok := a["time_in_force"]; ok {
			order += ", " + force.(string)
		}
		want = append(want, []string{fmt.Sprint(a["step"]), a["action"].(string),
			fmt.Sprint(a["quantity"]), order})
	}
	wantTable(t, fmt.Sprintf("%+v: actions", q), tableOf(t, page, `<table id="actions"`), want)
}

// TestPortfolioIsPrivate asks for the pages as everybody who can connect: only callers with a login
// or a token that may read see them, and only they see that there is a portfolio. Other pages can
// be read without one, on this server.
func TestPortfolioIsPrivate(t *testing.T) {
	s := newStage(t)
	s.allowAnonymousReads()
	tokens := map[access.Scope]string{}
	for _, scope := range []access.Scope{access.Read, access.Answer, access.Operate,
		access.Session("w-1.2")} {
		secret, err := s.store.Create(t.Context(),
			access.Token{Name: strings.ReplaceAll(string(scope), ":", "-"), Kind: access.KindToken,
				Scope: scope, Created: time.Now()})
		must.Succeed(t, err)
		tokens[scope] = "Bearer " + secret
	}
	callers := []struct {
		name, authorization string
		want                int
	}{
		{"no login", "", http.StatusUnauthorized},
		{"a wrong token", "Bearer sbx_x", http.StatusUnauthorized},
		{"a session", tokens[access.Session("w-1.2")], http.StatusForbidden},
		{"a lease", "Bearer secret-x", http.StatusForbidden},
		{"a reader", tokens[access.Read], http.StatusOK},
		{"an answerer", tokens[access.Answer], http.StatusOK},
		{"an operator", tokens[access.Operate], http.StatusOK},
	}
	get := func(path, authorization string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		must.Succeed(t, err)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		answer, err := http.DefaultClient.Do(r)
		must.Succeed(t, err)
		defer answer.Body.Close()
		var body bytes.Buffer
		if _, err := body.ReadFrom(answer.Body); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, body.String()
	}
	const entry = `href="/portfolio"`
	for _, has := range []bool{false, true} {
		if has {
			s.desk = exampleDesk(t)
		}
		for _, caller := range callers {
			for _, path := range []string{"/portfolio", "/portfolio?min_loss=1", "/portfolio/SLV"} {
				status, body := get(path, caller.authorization)
				if status != caller.want {
					t.Errorf("%s for %s, with a portfolio %t: %d, want %d", path, caller.name, has,
						status, caller.want)
				}
				if shows := strings.Contains(body, "2026-06-30"); shows != (has &&
					caller.want == http.StatusOK) {
					t.Errorf("%s for %s, with a portfolio %t: it is shown %t", path, caller.name,
						has, shows)
				}
				if begins := strings.Contains(body, "signalbox portfolio init"); begins != (!has &&
					caller.want == http.StatusOK) {
					t.Errorf("%s for %s, with a portfolio %t: it explains how to begin %t", path,
						caller.name, has, begins)
				}
			}
			if status, body := get("/board", caller.authorization); strings.Contains(body,
				entry) != (has && caller.want == http.StatusOK) {
				t.Errorf("the navigation for %s, with a portfolio %t, status %d: %t", caller.name,
					has, status, strings.Contains(body, entry))
			}
		}
	}
}

// TestPortfolioTextStaysText has hostile text wherever files can have text.
func TestPortfolioTextStaysText(t *testing.T) {
	s := newStage(t)
	files := generated(1)
	files["portfolio.yaml"] = strings.Replace(files["portfolio.yaml"], "stop: {",
		"stop: {time_in_force: '<script>alert(1)</script>\u202e', ", 1)
	lines := strings.Split(strings.TrimSpace(files["transactions/all.csv"]), "\n")
	for i := range lines[1:] {
		if strings.Contains(lines[i+1], ",buy,") {
			lines[i+1] += fmt.Sprintf(
				`"%d </title><img src=x onerror=alert(2)>"" onmouseover=x {{.}}"`, i)
		}
	}
	delete(files, "transactions/all.csv")
	files["transactions/<svg onload=alert(3)>.csv"] = strings.Join(lines, "\n") + "\n"
	s.desk = deskOf(t, files)
	client := s.logIn(access.Read)
	shown := ""
	for _, path := range []string{"/portfolio",
		"/portfolio?account=%3Cscript%3Ealert(1)%3C/script%3E",
		"/portfolio?as_of=%22%3E%3Cscript%3Ealert(1)", "/portfolio?min_loss=%3Cimg&sort_by=%3Cimg",
		"/portfolio?source=%3Cimg", "/portfolio/AAA", "/portfolio/AAA?account=one",
		"/portfolio/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/portfolio/AAA?shares=%3Cimg"} {
		_, _, body := s.get(client, path)
		shown += body
		if !strings.Contains(body, "<main") {
			t.Errorf("%s is not a page: %s", path, body)
		}
		for name, pattern := range map[string]*regexp.Regexp{"an inline script": inlineScript,
			"an inline handler": handler, "an inline style": inlineStyle} {
			if found := pattern.FindString(strings.ReplaceAll(body,
				`<script src="/static/live.js" defer></script>`, "")); found != "" {
				t.Errorf("%s has %s: %q", path, name, found)
			}
		}
		for _, raw := range []string{"<script>alert", "<img", "<svg onload", "\u202e"} {
			if strings.Contains(body, raw) {
				t.Errorf("%s contains %q", path, raw)
			}
		}
	}
	for _, want := range []string{"&lt;img src=x onerror=alert(2)&gt;",
		"&lt;svg onload=alert(3)&gt;.csv", "&lt;script&gt;alert(1)"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the pages do not show %q, so this proves nothing", want)
		}
	}
}

// TestPortfolioProblems asks questions that have no answer. The page says why, and keeps the form.
func TestPortfolioProblems(t *testing.T) {
	s := newStage(t)
	client := s.logIn(access.Read)
	files := generated(2)
	s.desk = deskOf(t, files)
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/portfolio?as_of=2030-01-01":      {400, "is in the future"},
		"/portfolio?as_of=soon":            {400, "is not a date"},
		"/portfolio?min_loss=-1":           {400, "is not an amount of money"},
		"/portfolio?sort_by=name":          {400, "is not known"},
		"/portfolio?account=three":         {400, "is not in the portfolio"},
		"/portfolio?account=ira":           {400, "is not taxable"},
		"/portfolio?source=schwab":         {400, "is not among the transactions"},
		"/portfolio/ZZZ":                   {404, "ZZZ is not in the portfolio"},
		"/portfolio/a%20b":                 {400, "is not valid"},
		"/portfolio/AAA?account=three":     {400, "is not in the portfolio"},
		"/portfolio/AAA?as_of=2030-01-01":  {400, "is in the future"},
		"/portfolio/AAA?shares=none":       {400, "is not a number above 0"},
		"/portfolio/aaa?account=one":       {200, "AAA: "},
		"/portfolio?as_of=2025-01-01":      {200, "There are no losses to harvest."},
		"/portfolio/AAA?as_of=2025-01-01":  {200, "There are not enough prices for a chart."},
		"/portfolio?%zz":                   {200, "Harvestable loss"},
		"/portfolio?account=one&account=x": {200, "Harvestable loss"},
	} {
		if status, _, body := s.get(client, path); status != want.status ||
			!strings.Contains(html.UnescapeString(body), want.text) {
			t.Errorf("%s: %d, want %d and %q in\n%s", path, status, want.status, want.text, body)
		}
	}
	files["prices/all.csv"] = "date,ticker,close\n2026-06-30,AAA,5\n"
	s.desk = deskOf(t, files)
	if status, _, body := s.get(client, "/portfolio"); status != http.StatusOK ||
		!strings.Contains(body, "there is no price of BBB") ||
		!strings.Contains(body, `<table class="lots"`) || !strings.Contains(body, "<form") {
		t.Errorf("without prices: %d %s", status, body)
	}
	files["portfolio.yaml"] = "accounts: 3\n"
	s.desk = deskOf(t, files)
	for _, path := range []string{"/portfolio", "/portfolio/AAA"} {
		if status, _, body := s.get(client, path); status != http.StatusOK ||
			!strings.Contains(body, "portfolio.yaml") {
			t.Errorf("%s with a faulty file: %d %s", path, status, body)
		}
	}
}

// TestPortfolioPageIsBounded shows a portfolio with many lots.
func TestPortfolioPageIsBounded(t *testing.T) {
	s := newStage(t)
	files := generated(3)
	rows := strings.Builder{}
	for i := range 20_000 {
		fmt.Fprintf(&rows, "%s,one,buy,AAA,1,%d,,,\n",
			time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, i%180).Format(time.DateOnly),
			200+i%50)
	}
	for i := range 5000 { // wash sales
		fmt.Fprintf(&rows, "%s,one,sell,AAA,1,20,,,\n",
			time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC).AddDate(0, 0, i%20).Format(time.DateOnly))
	}
	files["transactions/all.csv"] += rows.String()
	s.desk = deskOf(t, files)
	client := s.logIn(access.Read)
	for _, path := range []string{"/portfolio", "/portfolio/AAA?account=one"} {
		_, _, page := s.get(client, path)
		if len(page) > 2<<20 || !strings.Contains(page, "The first 500 of 15") {
			t.Errorf("%s has %d bytes", path, len(page))
		}
		if path == "/portfolio" && !strings.Contains(page, "Some lists are too long") {
			t.Errorf("%s does not say that it is not complete", path)
		}
	}
}

// TestPortfolioPagesWaitForASlot: reading a portfolio takes much memory.
func TestPortfolioPagesWaitForASlot(t *testing.T) {
	s := newStage(t)
	s.desk = exampleDesk(t)
	client := s.logIn(access.Read)
	*s.dashboard.heavy = *transfer.NewSlots(maxHeavy, time.Nanosecond)
	for range maxHeavy {
		must.Succeed(t, s.dashboard.heavy.Enter(t.Context()))
	}
	for _, path := range []string{"/portfolio", "/portfolio/SLV"} {
		if status, _, _ := s.get(client, path); status != http.StatusServiceUnavailable {
			t.Errorf("%s without a slot: %d", path, status)
		}
	}
}

// TestSortLinksKeepTheQuestion follows the links of the columns.
func TestSortLinksKeepTheQuestion(t *testing.T) {
	s := newStage(t)
	s.desk = exampleDesk(t)
	client := s.logIn(access.Read)
	_, _, page := s.get(client,
		"/portfolio?account=brk&min_loss=20&no_wash_sale_check=on&as_of=2026-06-30")
	links := regexp.MustCompile(`<th [^>]*><a href="(/portfolio\?[^"]*)"`).FindAllStringSubmatch(
		page, -1)
	if len(links) != 3 {
		t.Fatalf("%d links: %s", len(links), page)
	}
	for i, order := range []string{"loss_amount", "loss_pct", "days_held"} {
		address := html.UnescapeString(links[i][1])
		values, err := url.ParseQuery(strings.TrimPrefix(address, "/portfolio?"))
		if diff := cmp.Diff(url.Values{"account": {"brk"}, "min_loss": {"20"},
			"no_wash_sale_check": {"on"}, "as_of": {"2026-06-30"}, "sort_by": {order}},
			values); diff != "" || err != nil {
			t.Errorf("%s: %v %s", address, err, diff)
		}
		_, _, sorted := s.get(client, address)
		if !strings.Contains(sorted, `<option value="`+order+`" selected>`) ||
			strings.Count(sorted, `aria-sort="descending"`) != 1 ||
			!strings.Contains(sorted, `checked>`) {
			t.Errorf("%s does not show its order", address)
		}
	}
}

// TestCalendarPicture draws one row, and looks where its bands begin and end.
func TestCalendarPicture(t *testing.T) {
	row := portfolio.CalendarRow{Ticker: "AAA", Candidate: true, SellFrom: "2026-07-11",
		BuyFrom: "2026-07-06", BuyFromIfSold: "2026-07-31", Windows: []portfolio.Window{
			{Kind: portfolio.WindowPurchase, Date: "2026-06-10", From: "2026-05-11",
				To:      "2026-07-10",
				Account: "one", Ticker: "AAA"},
			{Kind: portfolio.WindowLoss, Date: "2026-06-05", From: "2026-05-06", To: "2026-07-05",
				Ticker: "AAA"},
			{Kind: portfolio.WindowWashSale, Date: "2026-03-01", From: "2026-01-30",
				To:      "2026-03-31",
				Account: "one", Ticker: "AAA"},
		}}
	p := drawCalendar([]portfolio.CalendarRow{row}, "2026-06-30")
	// The picture shows April to August.
	scale := float64(calendarWidth-calendarLeft) / days(mustDay(t, "2026-04-01"),
		mustDay(t, "2026-09-01"))
	at := func(day string) float64 {
		return rounded(calendarLeft + days(mustDay(t, "2026-04-01"), mustDay(t, day))*scale)
	}
	if len(p.Months) != 5 || p.Months[0].Label != "Apr 2026" || p.Today != at("2026-06-30") ||
		len(p.Rows) != 1 {
		t.Fatalf("%+v", p)
	}
	type span struct{ class, from, until string }
	want := []span{{"window purchase", "2026-05-11", "2026-07-11"}, {"window loss", "2026-05-06", "2026-07-06"}, {"closed sell", "2026-06-30", "2026-07-11"},
		{"closed planned", "2026-06-30", "2026-07-31"}, {"closed buy", "2026-06-30", "2026-07-06"}}
	if len(p.Rows[0].Bands) != len(want) { // the wash sale is before April
		t.Fatalf("bands %+v", p.Rows[0].Bands)
	}
	for i, w := range want {
		b := p.Rows[0].Bands[i]
		if b.Class != w.class || b.X != at(w.from) || rounded(b.X+b.Width) != at(w.until) {
			t.Errorf("band %d is %+v, want %s from %g to %g", i, b, w.class, at(w.from),
				at(w.until))
		}
	}
	if len(p.Rows[0].Marks) != 2 || p.Rows[0].Marks[0].X <= at("2026-06-10") ||
		p.Rows[0].Marks[0].X >= at("2026-06-11") {
		t.Errorf("marks %+v", p.Rows[0].Marks)
	}
	var captions []string
	for _, c := range p.Rows[0].Captions {
		captions = append(captions, c.Text)
	}
	if diff := cmp.Diff([]string{"sell from 2026-07-11",
		"buy from 2026-07-06; if sold, from 2026-07-31"}, captions); diff != "" {
		t.Error(diff)
	}
}

func mustDay(t *testing.T, date string) time.Time {
	t.Helper()
	day, ok := parseDay(date)
	if !ok {
		t.Fatal(date)
	}
	return day
}

// TestPriceChart draws levels at the height of their prices, and labels that do not cover each
// other.
func TestPriceChart(t *testing.T) {
	for seed := range uint64(4) {
		desk := deskOf(t, generated(seed))
		for _, ticker := range []string{"AAA", "BBB", "CCC", "DDD"} {
			v, err := desk.Position(t.Context(),
				portfolio.ExitQuery{Ticker: ticker, AccountID: "one"})
			must.Succeed(t, err)
			c := drawPrices(v)
			if len(c.Scale) < 3 || len(c.Scale) > 8 || len(c.Months) < 4 || len(c.Months) > 14 {
				t.Errorf("%s: scale %+v, months %+v", ticker, c.Scale, c.Months)
			}
			stop, _ := v.Stop.Float64()
			top, low := c.Scale[len(c.Scale)-1], c.Scale[0]
			var topPrice, lowPrice float64
			fmt.Sscan(top.Label, &topPrice)
			fmt.Sscan(low.Label, &lowPrice)
			classes := map[string]bool{}
			for i, l := range c.Levels {
				classes[l.Class] = true
				if l.Y < chartTop || l.Y > chartBottom || i > 0 &&
					l.LabelY-c.Levels[i-1].LabelY < 14 {
					t.Errorf("%s: level %+v", ticker, l)
				}
				if want := low.Y + (stop-lowPrice)/(topPrice-lowPrice)*(top.Y-low.Y); l.Class == "stop" && (l.Y < want-1 || l.Y > want+1) {
					t.Errorf("%s: the stop of %g is at %g, want %g", ticker, stop, l.Y, want)
				}
			}
			if !classes["stop"] || !classes["last"] {
				t.Errorf("%s: levels %+v", ticker, c.Levels)
			}
		}
	}
}
