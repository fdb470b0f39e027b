package portfolio

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/tax"
)

// Exists reports whether the folder has a portfolio. It may still be one that cannot be read.
func (d *Desk) Exists() bool {
	info, err := os.Stat(filepath.Join(d.dir, config.PortfolioFile))
	return err == nil && info.Mode().IsRegular()
}

// Overview is a portfolio on a day: the answers of [Desk.Harvest] and [Desk.Lots], from one reading
// of the folder.
type Overview struct {
	Harvest answer.HarvestResult
	// Calendar is when the tickers of the harvest may be sold at a loss and bought. It is empty if
	// the harvest failed.
	Calendar []CalendarRow
	Lots     []Lot
	// Today is what can be done today, and Saves what selling all lots that are clean today does to
	// the year, nil if nothing is.
	Today []TodayRow
	Saves *answer.YearEffect
	// Positions are the broker's, compared with the lots. They are empty if there is no list, or if
	// it has a later day.
	Positions []CheckedPosition
	// ExitTickers are the tickers with exit rules, as in portfolio.yaml.
	ExitTickers []string
	// Accounts are the taxable accounts, and Sources the files and formats, that a [HarvestQuery]
	// may name.
	Accounts, Sources []string
}

// Overview returns a portfolio on the day of a question. The error is a *[Problem]: the question is
// not valid, or the folder cannot be read. If only the harvest fails, its result says so.
func (d *Desk) Overview(ctx context.Context, q HarvestQuery) (*Overview, error) {
	opts, problem := q.parse()
	if problem != nil {
		return nil, problem
	}
	data, day, problem := d.open(ctx, q.AsOf)
	if problem != nil {
		return nil, problem
	}
	o := &Overview{Harvest: data.harvestResult(q, opts, day)}
	o.Calendar, o.Today = Calendar(o.Harvest), Today(o.Harvest)
	if o.Saves, problem = data.cleanToday(o.Harvest, day); problem != nil {
		return nil, problem
	}
	if len(data.Positions) > 0 {
		if o.Positions, problem = data.reconcile(day); problem != nil {
			return nil, problem
		}
	}
	if o.Lots, problem = data.lots(LotsQuery{}, day); problem != nil {
		return nil, problem
	}
	for _, rules := range data.Config.ExitRules {
		o.ExitTickers = append(o.ExitTickers, normalTicker(rules.Ticker))
	}
	for _, a := range data.Rules.Accounts {
		if a.Kind == tax.Taxable {
			o.Accounts = append(o.Accounts, a.ID)
		}
	}
	known := make(map[string]bool)
	for _, s := range data.Sources {
		known[s.Format], known[strings.TrimPrefix(s.Name, transactionsFolder+"/")] = true, true
	}
	o.Sources = slices.Sorted(maps.Keys(known))
	return o, nil
}

// PositionView is a ticker on a day: the answers of [Desk.Exits] and [Desk.Lots], and its prices,
// from one reading of the folder.
type PositionView struct {
	Exits answer.ExitResult
	Lots  []Lot
	// Prices are the plain closes up to the day, in Currency. Those from before the last split are
	// left out, because they are for a different number of shares; then Split is its day.
	Prices   []ClosingPrice
	Currency string
	Split    string
	// Stop is the configured stop, nil if there is none, and TimeInForce that of its order.
	Stop        *Amount
	TimeInForce string
}

// ClosingPrice is the close of a day.
type ClosingPrice struct {
	Day   time.Time // midnight UTC
	Close Amount
}

// Position returns what there is about a ticker. The error is a *[Problem]: the question is not
// valid, the folder cannot be read, or the ticker is not in it. If only the exit rules cannot be
// evaluated, their result says so.
func (d *Desk) Position(ctx context.Context, q ExitQuery) (*PositionView, error) {
	ticker, shares, problem := q.parse()
	if problem != nil {
		return nil, problem
	}
	data, day, problem := d.open(ctx, q.AsOf)
	if problem != nil {
		return nil, problem
	}
	v := &PositionView{}
	if v.Exits, problem = data.exits(q, ticker, shares, day); problem != nil {
		if problem.Kind == UnknownTicker || problem.Kind == UnknownAccount {
			return nil, problem
		}
		v.Exits = failedExit(q, problem)
	}
	if data.traded(ticker) {
		if v.Lots, problem = data.lots(LotsQuery{Ticker: ticker}, day); problem != nil {
			return nil, problem
		}
	}
	split := data.splits(day)[ticker]
	for _, p := range data.prices[ticker] {
		switch {
		case p.date > day:
		case p.date < split:
			v.Split = split.String()
		default:
			v.Prices, v.Currency = append(v.Prices,
				ClosingPrice{p.date.Time(), amount(p.close)}), p.currency
		}
	}
	if rules, configured, err := exitConfig(data.Config, ticker); err == nil && configured &&
		rules.Stop.Price.IsPos() {
		stop := amount(rules.Stop.Price)
		v.Stop, v.TimeInForce = &stop, rules.Stop.TimeInForce
	}
	return v, nil
}

// TodayRow is what can be done with a ticker today. Losses are negative, and for selling each lot
// alone.
type TodayRow struct {
	Ticker   string
	Accounts []string
	// Clean is the loss of the lots that can be sold today without a wash sale.
	Clean     Amount
	CleanLots int
	// Later is the loss of the others, from From for the first to Until for the last of them.
	Later       Amount
	LaterLots   int
	From, Until string
	// Disallowed and Permanent describe the worst sale of one lot today.
	Disallowed, Permanent Amount
	// DoNotBuyBefore is until when not to buy it, if it is sold today.
	DoNotBuyBefore string
	// Replacements are what the user's list offers to buy instead until then.
	Replacements []string
	// Reinvestment is the next expected one that would make a wash sale.
	Reinvestment string
	// LongTerm is the next day on which a loss of it becomes long-term.
	LongTerm string
}

// Add adds the losses and lots of another row.
func (t *TodayRow) Add(row *TodayRow) {
	t.Clean.Decimal, _ = t.Clean.Add(row.Clean.Decimal)
	t.Later.Decimal, _ = t.Later.Add(row.Later.Decimal)
	t.CleanLots, t.LaterLots = t.CleanLots+row.CleanLots, t.LaterLots+row.LaterLots
	t.Until = max(t.Until, row.Until)
	if t.From == "" || row.From != "" && row.From < t.From {
		t.From = row.From
	}
}

// Today returns what can be done today, the largest clean losses first. It is empty if wash sales
// were not checked, because then it is not known.
func Today(r answer.HarvestResult) []TodayRow {
	if r.Metadata.WashSalesNotChecked {
		return nil
	}
	var rows []TodayRow
	at := make(map[string]int)
	for i := range r.Candidates {
		c := &r.Candidates[i]
		n, seen := at[c.Ticker]
		if !seen {
			n = len(rows)
			at[c.Ticker], rows = n, append(rows, TodayRow{Ticker: c.Ticker})
		}
		row := &rows[n]
		if !slices.Contains(row.Accounts, c.AccountID) {
			row.Accounts = append(row.Accounts, c.AccountID)
		}
		sum, lots := &row.Clean, &row.CleanLots
		if !c.CleanToday(r) {
			sum, lots = &row.Later, &row.LaterLots
			row.Until = max(row.Until, c.CleanDate)
			if row.From == "" || c.CleanDate < row.From {
				row.From = c.CleanDate
			}
		}
		*lots++
		// The sum of all losses was computed before, so these are not too large.
		sum.Decimal, _ = sum.Add(c.UnrealizedLoss.Decimal)
		row.Disallowed = answer.Larger(row.Disallowed, c.DisallowedLoss)
		row.Permanent = answer.Larger(row.Permanent, c.PermanentLoss)
		if c.HoldingPeriod == "short_term" && (row.LongTerm == "" || c.LongTermFrom < row.LongTerm) {
			row.LongTerm = c.LongTermFrom
		}
	}
	for _, d := range r.DoNotBuyBefore {
		if n, sold := at[d.Ticker]; sold {
			rows[n].DoNotBuyBefore, rows[n].Replacements = d.Date, d.Replacements
		}
	}
	for _, e := range r.ExpectedReinvestments {
		if n, sold := at[e.Ticker]; sold && e.Restricted && (rows[n].Reinvestment == "" ||
			e.Next < rows[n].Reinvestment) {
			rows[n].Reinvestment = e.Next
		}
	}
	slices.SortStableFunc(rows, func(a, b TodayRow) int {
		return cmp.Or(a.Clean.Cmp(b.Clean.Decimal), a.Later.Cmp(b.Later.Decimal))
	})
	return rows
}

// cleanToday returns what selling all lots that are clean today does to the year. A lot that is
// clean alone is clean together with others too: what is sold on that day replaces nothing.
func (d *Data) cleanToday(r answer.HarvestResult, day tax.Date) (*answer.YearEffect, *Problem) {
	var o answer.SaleOutcome
	var n sums
	account := ""
	for i := range r.Candidates {
		if c := &r.Candidates[i]; c.CleanToday(r) {
			into := &o.ShortTerm.Decimal
			if c.HoldingPeriod == "long_term" {
				into = &o.LongTerm.Decimal
			}
			n.add(into, c.UnrealizedLoss.Decimal)
			account = c.AccountID
		}
	}
	a, known := d.account(account)
	if !known || n.err != nil {
		return nil, nil
	}
	book, problem := d.build(day)
	if problem != nil {
		return nil, problem
	}
	return d.yearEffect(book, o, a)
}

// CalendarRow is when a ticker may be sold at a loss, and bought, without a wash sale. Dates are as
// in the result; empty ones mean that there is no restriction.
type CalendarRow struct {
	Ticker string
	// Identical are the tickers that count as the same for purchases.
	Identical []string
	// Candidate means that a lot of it could be harvested. SellFrom is the first day on which all
	// of them could be sold without a wash sale.
	Candidate bool
	SellFrom  string
	// BuyFrom is the first day on which a purchase does no harm after past losses, and
	// BuyFromIfSold if the candidates are sold on the day of the question.
	BuyFrom, BuyFromIfSold string
	// LongTerm is the next day on which a loss of it becomes long-term, and Reinvestments are the
	// next ones that are expected.
	LongTerm      string
	Reinvestments []answer.ExpectedReinvestment
	Windows       []Window
}

// Window is the 61 days around a trade in which a trade of the other kind makes a wash sale.
type Window struct {
	// Kind is the trade: WindowPurchase, WindowLoss, WindowWashSale or WindowPlanned.
	Kind string
	// Date is the day of the trade, From and To the first and the last day of the window.
	Date, From, To string
	// Account and Shares are empty for a loss with only a date in the result, and for a
	// planned sale. Ticker is what was traded: it may be an identical security, or an option.
	Account, Ticker string
	Shares          Amount
}

// The kinds of windows.
const (
	WindowPurchase = "bought"         // a loss in the window is disallowed
	WindowLoss     = "sold at a loss" // a purchase in the window disallows the loss
	WindowWashSale = "wash sale"      // a purchase in the window has disallowed it
	WindowPlanned  = "to be sold"     // the candidates, on the day of the question
)

// Calendar returns the calendar of a harvest: a row for each ticker with a candidate, with a
// restriction, or with a wash sale whose window reaches into the 61 days around the day of the
// question. Rows are sorted by ticker.
func Calendar(r answer.HarvestResult) []CalendarRow {
	asOf, err := tax.ParseDate(r.Metadata.AsOf)
	if err != nil {
		return nil
	}
	rows := make(map[string]*CalendarRow)
	row := func(ticker string) *CalendarRow {
		if rows[ticker] == nil {
			rows[ticker] = &CalendarRow{Ticker: ticker}
		}
		return rows[ticker]
	}
	for i := range r.Candidates {
		c := row(r.Candidates[i].Ticker)
		c.Candidate = true
		if from := r.Candidates[i].LongTermFrom; r.Candidates[i].HoldingPeriod == "short_term" &&
			(c.LongTerm == "" || from < c.LongTerm) {
			c.LongTerm = from
		}
	}
	for _, w := range r.WashSaleWarnings {
		c := row(w.Ticker)
		c.SellFrom = w.CleanDate
		for _, p := range w.Purchases {
			c.add(WindowPurchase, p.Date, p)
		}
	}
	for _, d := range r.DoNotBuyBefore {
		c := row(d.Ticker)
		c.BuyFromIfSold, c.Identical = d.Date, d.Identical
		c.add(WindowPlanned, r.Metadata.AsOf, answer.Purchase{Ticker: d.Ticker})
	}
	for _, d := range r.DoNotBuyNow {
		c := row(d.Ticker)
		c.BuyFrom, c.Identical = d.Date, d.Identical
		c.add(WindowLoss, d.LastLoss, answer.Purchase{Ticker: d.Ticker})
	}
	for _, w := range r.RealizedWashSales {
		if sold, err := tax.ParseDate(w.SaleDate); err != nil ||
			sold.AddDays(2*tax.WashDays) < asOf {
			continue
		}
		c := row(w.Ticker)
		c.add(WindowWashSale, w.SaleDate, answer.Purchase{Account: w.Account, Ticker: w.Ticker,
			Shares: w.DisallowedShares})
		for _, p := range w.Replacements {
			c.add(WindowPurchase, p.Date, p)
		}
	}
	for _, e := range r.ExpectedReinvestments {
		if c := rows[e.Ticker]; c != nil {
			c.Reinvestments = append(c.Reinvestments, e)
		}
	}
	list := make([]CalendarRow, 0, len(rows))
	for _, ticker := range slices.Sorted(maps.Keys(rows)) {
		slices.SortStableFunc(rows[ticker].Windows,
			func(a, b Window) int { return cmp.Compare(a.Date, b.Date) })
		list = append(list, *rows[ticker])
	}
	return list
}

// add adds the window of a trade.
func (c *CalendarRow) add(kind, date string, trade answer.Purchase) {
	day, err := tax.ParseDate(date)
	if err != nil {
		return
	}
	c.Windows = append(c.Windows,
		Window{Kind: kind, Date: date, From: day.AddDays(-tax.WashDays).String(),
			To:      day.AddDays(tax.WashDays).String(),
			Account: trade.Account, Ticker: trade.Ticker, Shares: trade.Shares})
}
