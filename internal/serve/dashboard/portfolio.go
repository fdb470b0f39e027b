package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"signalbox/brief"
	"signalbox/internal/portfolio"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/serve/access"
	"signalbox/internal/text"
)

// The most rows of a table, and the most trades in a row, so that a portfolio of any size gives a
// page that a browser can show.
const (
	maxPortfolioRows = 500
	maxTrades        = 40
)

// showsPortfolio reports whether there is a portfolio that a caller may see. A reader without a
// login may not: the shell of an agent is one.
func (d *Dashboard) showsPortfolio(caller access.Caller) bool {
	return caller.Name != "" && caller.Scope.Allows(access.Private) && d.desk() != nil
}

// desk returns the desk of the portfolio, nil if there is none.
func (d *Dashboard) desk() *portfolio.Desk {
	if d.opts.Portfolio == nil {
		return nil
	}
	desk := d.opts.Portfolio()
	if desk == nil || !desk.Exists() {
		return nil
	}
	return desk
}

// portfolioPage is what could be harvested, when tickers may be sold and bought, and the lots. If
// there is no portfolio, the page explains how to begin.
type portfolioPage struct {
	Missing bool
	// Problem is why there is no answer, nil if there is one.
	Problem *problem
	Form    harvestForm
	Harvest answer.HarvestResult
	// Snapshot and Flags are those of the command's answer.
	Snapshot answer.HarvestSnapshot
	Flags    []brief.Flag
	// Cut means that a list of the harvest has more entries than the page shows.
	Cut bool
	// Candidates and Lots are the first of them; Sales are the candidates that need more than a
	// sale of their shares.
	Candidates  []answer.HarvestCandidate
	Sales       []answer.HarvestCandidate
	Calendar    []portfolio.CalendarRow
	Picture     calendarPicture
	Lots        []portfolio.Lot
	AllLots     int
	ExitTickers []string
	Disclaimer  string
	// Today is what can be done today, with its sums, and Saves what it does to the year.
	Today    []portfolio.TodayRow
	TodaySum portfolio.TodayRow
	Saves    *answer.YearEffect
	// Positions are those of the broker's list that differ from the lots, of Compared.
	Positions []portfolio.CheckedPosition
	Compared  int
	// Severe is the number of flags that are errors or warnings.
	Severe int
}

// DoNotBuy returns what must not be bought because losses on it were realized.
func (p portfolioPage) DoNotBuy() []answer.DoNotBuy { return p.Harvest.DoNotBuyNow }

// Differences returns the positions whose lots and shares held differ.
func (p portfolioPage) Differences() []answer.PositionDifference {
	return append(p.Harvest.LotsMissing[:len(p.Harvest.LotsMissing):len(p.Harvest.LotsMissing)],
		p.Harvest.LotsNotHeld...)
}

// harvestForm has the parameters of a harvest, as in the address of the page, and what can be
// chosen.
type harvestForm struct {
	portfolio.HarvestQuery
	Accounts, Sources []string
}

// Names of the parameters. They are those of the tool, except for the last one, which is the flag
// of the command.
const (
	paramMinLoss = "min_loss"
	paramSortBy  = "sort_by"
	paramAccount = "account"
	paramSource  = "source"
	paramAsOf    = "as_of"
	paramNoWash  = "no_wash_sale_check"

	// of a simulated sale
	paramTry    = "try"
	paramSell   = "sell"
	paramCash   = "cash"
	paramMethod = "method"
	paramLot    = "lot"
)

func parseHarvestForm(values url.Values) harvestForm {
	get := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	return harvestForm{HarvestQuery: portfolio.HarvestQuery{MinLoss: get(paramMinLoss),
		SortBy: get(paramSortBy), Account: get(paramAccount), Source: get(paramSource),
		AsOf: get(paramAsOf), SkipWashCheck: get(paramNoWash) != ""}}
}

// Order returns the order of the candidates.
func (f harvestForm) Order() string { return cmp.Or(f.SortBy, "loss_amount") }

// SortedBy returns the address of the page in another order.
func (f harvestForm) SortedBy(order string) string {
	values := url.Values{paramSortBy: {order}}
	for name, value := range map[string]string{paramMinLoss: f.MinLoss, paramAccount: f.Account,
		paramSource: f.Source, paramAsOf: f.AsOf} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if f.SkipWashCheck {
		values.Set(paramNoWash, "on")
	}
	return "/portfolio?" + values.Encode()
}

// Position returns the address of the page about a ticker on the same day.
func (f harvestForm) Position(ticker string) string {
	address := "/portfolio/" + url.PathEscape(ticker)
	if f.AsOf != "" {
		address += "?" + url.Values{paramAsOf: {f.AsOf}}.Encode()
	}
	return address
}

func (d *Dashboard) portfolio(ctx context.Context, r *http.Request) (view, error) {
	shown := view{template: "portfolio", title: "Portfolio"}
	page := portfolioPage{Form: parseHarvestForm(r.URL.Query()), Disclaimer: answer.Disclaimer}
	desk := d.desk()
	if desk == nil {
		page.Missing = true
		shown.data = page
		return shown, nil
	}
	found, err := desk.Overview(ctx, page.Form.HarvestQuery)
	if err != nil {
		page.Problem, shown.status = problemOf(err)
		shown.data = page
		return shown, ctx.Err()
	}
	page.Form.Accounts, page.Form.Sources = found.Accounts, found.Sources
	page.Harvest, page.Snapshot = found.Harvest, answer.SnapshotHarvest(found.Harvest)
	page.Flags = answer.FlagsHarvest(page.Snapshot)
	if brief.StatusOf(found.Harvest.Status) != brief.StatusSuccess {
		page.Problem, shown.status = problemOf(&portfolio.Problem{Kind: found.Harvest.ErrorKind,
			Text: found.Harvest.Error, Hint: found.Harvest.ErrorHint})
	}
	page.Calendar, page.Today, page.Saves = found.Calendar, found.Today, found.Saves
	for _, flag := range page.Flags {
		if flag.Severity == brief.Error || flag.Severity == brief.Warning {
			page.Severe++
		}
	}
	for i := range page.Today {
		page.TodaySum.Add(&page.Today[i])
	}
	page.Compared = len(found.Positions)
	page.Positions = slices.DeleteFunc(found.Positions,
		func(c portfolio.CheckedPosition) bool { return c.Agrees })
	page.shorten()
	for _, c := range page.Candidates {
		if c.HowToSell() != "" {
			page.Sales = append(page.Sales, c)
		}
	}
	page.Lots, page.AllLots = found.Lots[:min(maxPortfolioRows, len(found.Lots))], len(found.Lots)
	page.Picture = drawCalendar(page.Calendar, found.Harvest.Metadata.AsOf)
	page.ExitTickers = found.ExitTickers
	shown.data = page
	return shown, nil
}

// shorten cuts the lists of the harvest and of the calendar.
func (p *portfolioPage) shorten() {
	h := &p.Harvest
	p.Candidates = first(h.Candidates, maxPortfolioRows, &p.Cut)
	h.WashSaleWarnings = first(h.WashSaleWarnings, maxPortfolioRows, &p.Cut)
	for i := range h.WashSaleWarnings {
		h.WashSaleWarnings[i].Purchases = first(h.WashSaleWarnings[i].Purchases, maxTrades, &p.Cut)
	}
	h.NotReached = first(h.NotReached, maxPortfolioRows, &p.Cut)
	h.LotsMissing, h.LotsNotHeld = first(h.LotsMissing, maxPortfolioRows, &p.Cut),
		first(h.LotsNotHeld, maxPortfolioRows, &p.Cut)
	h.RealizedWashSales = first(h.RealizedWashSales, maxPortfolioRows, &p.Cut)
	for i := range h.RealizedWashSales {
		h.RealizedWashSales[i].Replacements = first(h.RealizedWashSales[i].Replacements, maxTrades,
			&p.Cut)
	}
	h.IncompleteHistory = first(h.IncompleteHistory, maxPortfolioRows, &p.Cut)
	h.LeftOut, h.NotUnderstood = first(h.LeftOut, maxPortfolioRows, &p.Cut),
		first(h.NotUnderstood, maxPortfolioRows, &p.Cut)
	p.Today = first(p.Today, maxPortfolioRows, &p.Cut)
	p.Positions = first(p.Positions, maxPortfolioRows, &p.Cut)
	p.Calendar = first(p.Calendar, maxPortfolioRows, &p.Cut)
	for i := range p.Calendar {
		p.Calendar[i].Windows = first(p.Calendar[i].Windows, maxTrades, &p.Cut)
	}
}

// first returns at most n entries of a list, and sets cut if it has more.
func first[T any](list []T, n int, cut *bool) []T {
	*cut = *cut || len(list) > n
	return list[:min(n, len(list))]
}

// problemOf returns a problem of a portfolio and the status of the page that shows it. Wrong
// parameters are the fault of the request, and faulty files are not.
func problemOf(err error) (*problem, int) {
	found, ok := errors.AsType[*portfolio.Problem](err)
	if !ok {
		return &problem{Message: err.Error()}, 0
	}
	status := 0
	switch found.Kind {
	case portfolio.UnknownTicker:
		status = http.StatusNotFound
	case portfolio.BadArgument, portfolio.FutureDate, portfolio.UnknownAccount:
		status = http.StatusBadRequest
	}
	return &problem{found.Text, found.Hint}, status
}

// lotTable is lots on a day, empty for the default.
type lotTable struct {
	Lots []portfolio.Lot
	AsOf string
}

func lotsOf(lots []portfolio.Lot, asOf string) lotTable { return lotTable{lots, asOf} }

// WhatIf returns the address that simulates the sale of a lot.
func (t lotTable) WhatIf(l portfolio.Lot) string {
	values := url.Values{paramAccount: {l.Account}, paramLot: {l.LotID}, paramTry: {"on"}}
	if t.AsOf != "" {
		values.Set(paramAsOf, t.AsOf)
	}
	return "/portfolio/" + url.PathEscape(l.Ticker) + "?" + values.Encode() + "#what-if"
}

// maxToday is the number of tickers on the first screen. The others are folded.
const maxToday = 8

// Now returns the first rows of what can be done today, and More the others.
func (p portfolioPage) Now() []portfolio.TodayRow  { return p.Today[:min(maxToday, len(p.Today))] }
func (p portfolioPage) More() []portfolio.TodayRow { return p.Today[min(maxToday, len(p.Today)):] }

// TaxOfToday says what selling all lots that are clean today costs or saves.
func (p portfolioPage) TaxOfToday() string {
	tax := p.Saves.Tax
	switch {
	case tax == nil:
		return "tax not known"
	case tax.IsNeg():
		return "saves " + answer.Cash(answer.Amount{Decimal: tax.Neg()})
	}
	return "costs " + answer.Cash(*tax)
}

// todayTable is rows of what can be done today, in a table with an id.
type todayTable struct {
	Page portfolioPage
	ID   string
	Rows []portfolio.TodayRow
	// Replaced means that some rows have replacements.
	Replaced bool
}

// Table returns rows for the template.
func (p portfolioPage) Table(id string, rows []portfolio.TodayRow) todayTable {
	replaced := slices.ContainsFunc(rows,
		func(r portfolio.TodayRow) bool { return len(r.Replacements) > 0 })
	return todayTable{p, id, rows, replaced}
}

// positionPage is a ticker: its exit rules on a chart of its prices, and its lots.
type positionPage struct {
	Ticker   string
	Problem  *problem
	Form     exitForm
	Exits    answer.ExitResult
	Snapshot answer.ExitSnapshot
	Flags    []brief.Flag
	// Answered means that the rules were evaluated.
	Answered bool
	Lots     []portfolio.Lot
	AllLots  int
	// Holders are the accounts with lots.
	Holders  []string
	Chart    priceChart
	Currency string
	Split    string
	Stop     *portfolio.Amount
	// Force is how long the stop order is valid.
	Force string
	// Sale is a simulated sale, nil if none was asked for.
	Sale *simulatedSale
}

// simulatedSale is a sale that was asked for, and what it would do.
type simulatedSale struct {
	portfolio.SimulateQuery
	Result   answer.SimulationResult
	Snapshot answer.SimulationSnapshot
	Flags    []brief.Flag
}

// Done reports whether the sale could be simulated.
func (s *simulatedSale) Done() bool {
	return brief.StatusOf(s.Result.Status) == brief.StatusSuccess
}

// simulate answers what a sale would do, if the parameters ask for it.
func (p *positionPage) simulate(ctx context.Context, desk *portfolio.Desk, values url.Values) {
	get := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	asked := &simulatedSale{SimulateQuery: portfolio.SimulateQuery{Ticker: p.Ticker,
		AccountID: p.Form.AccountID, AsOf: p.Form.AsOf, Shares: get(paramSell), Cash: get(paramCash),
		Method: get(paramMethod)}}
	if lot := get(paramLot); lot != "" {
		asked.Lots = []string{lot}
	}
	p.Sale = asked
	if get(paramTry) == "" {
		return
	}
	asked.Result = desk.Simulate(ctx, asked.SimulateQuery)
	asked.Snapshot = answer.SnapshotSimulation(asked.Result)
	asked.Flags = answer.FlagsSimulation(asked.Snapshot)
}

// Methods are those that a sale can be simulated with.
func (positionPage) Methods() []string { return []string{"fifo", "lifo", "hifo", "min_tax"} }

// Lot returns the lot that was named, or nothing.
func (s *simulatedSale) Lot() string { return strings.Join(s.Lots, " ") }

// exitForm has the parameters of a check of exit rules.
type exitForm struct{ portfolio.ExitQuery }

// In returns the address of the page for the position in an account.
func (f exitForm) In(account string) string {
	values := url.Values{paramAccount: {account}}
	if f.AsOf != "" {
		values.Set(paramAsOf, f.AsOf)
	}
	return "/portfolio/" + url.PathEscape(f.Ticker) + "?" + values.Encode()
}

func (d *Dashboard) position(ctx context.Context, r *http.Request) (view, error) {
	values := r.URL.Query()
	query := portfolio.ExitQuery{Ticker: r.PathValue("ticker"),
		Shares:    strings.TrimSpace(values.Get("shares")),
		AccountID: strings.TrimSpace(values.Get(paramAccount)),
		AsOf:      strings.TrimSpace(values.Get(paramAsOf))}
	name := text.Shorten(query.Ticker, 40)
	shown := view{template: "position", title: name}
	page := positionPage{Ticker: name, Form: exitForm{query}}
	desk := d.desk()
	if desk == nil {
		return view{template: "portfolio", title: "Portfolio", data: portfolioPage{Missing: true}},
			nil
	}
	found, err := desk.Position(ctx, query)
	if err != nil {
		page.Problem, shown.status = problemOf(err)
		shown.data = page
		return shown, ctx.Err()
	}
	page.Exits, page.Snapshot = found.Exits, answer.SnapshotExit(found.Exits)
	page.Ticker, page.Flags = found.Exits.Ticker, answer.FlagsExit(page.Snapshot)
	page.Answered = brief.StatusOf(found.Exits.Status) == brief.StatusSuccess
	page.Lots, page.AllLots = found.Lots[:min(maxPortfolioRows, len(found.Lots))], len(found.Lots)
	for _, l := range found.Lots {
		if n := len(page.Holders); n == 0 || page.Holders[n-1] != l.Account {
			page.Holders = append(page.Holders, l.Account)
		}
	}
	page.simulate(ctx, desk, values)
	page.Chart = drawPrices(found)
	page.Currency, page.Split, page.Stop, page.Force = found.Currency, found.Split, found.Stop,
		found.TimeInForce
	shown.title, shown.data = page.Ticker, page
	return shown, nil
}
