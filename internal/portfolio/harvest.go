package portfolio

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/govalues/decimal"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/tax"
)

// Harvest looks for losses to take. What is wrong is a result of status error.
func (d *Desk) Harvest(ctx context.Context, q HarvestQuery) answer.HarvestResult {
	result, problem := d.harvest(ctx, q)
	if problem == nil {
		return result
	}
	failed := failedHarvest(problem)
	// What was already sold does not depend on what failed after it was read.
	failed.RealizedWashSales, failed.PermanentlyDisallowed, failed.IncompleteHistory =
		result.RealizedWashSales, result.PermanentlyDisallowed, result.IncompleteHistory
	failed.Metadata.AsOf = result.Metadata.AsOf
	return failed
}

func failedHarvest(problem *Problem) answer.HarvestResult {
	return answer.HarvestResult{Status: string(brief.StatusError), Error: problem.Text,
		Problem: answer.Problem{ErrorKind: problem.Kind, ErrorHint: problem.Hint}}
}

func (d *Desk) harvest(ctx context.Context, q HarvestQuery) (answer.HarvestResult, *Problem) {
	var none answer.HarvestResult
	opts := tax.HarvestOptions{SortBy: or(tax.SortBy(q.SortBy), tax.ByLossAmount), SkipWashCheck: q.SkipWashCheck}
	if !slices.Contains([]tax.SortBy{tax.ByLossAmount, tax.ByLossPct, tax.ByDaysHeld}, opts.SortBy) {
		return none, problemf(BadArgument, "use loss_amount, loss_pct or days_held", "sort_by %q is not known", cut(q.SortBy))
	}
	if q.MinLoss != "" {
		var err error
		if opts.MinLoss, err = decimal.Parse(q.MinLoss); err != nil || opts.MinLoss.IsNeg() {
			return none, problemf(BadArgument, "give dollars, such as 100", "min_loss %q is no amount of money", cut(q.MinLoss))
		}
	}
	data, day, problem := d.open(ctx, q.AsOf)
	if problem != nil {
		return none, problem
	}
	accounts, problem := data.chosen(q.Account, q.Source)
	if problem != nil {
		return none, problem
	}
	opts.Accounts = accounts
	book, problem := data.build(day)
	if problem != nil {
		return none, problem
	}
	wanted := func(account string) bool { return len(accounts) == 0 || slices.Contains(accounts, account) }
	result, problem := alreadySold(book, wanted)
	if problem != nil {
		return none, problem
	}
	prices, stale, problem := data.values(book, accounts)
	if problem != nil {
		return result, problem
	}
	found, err := tax.Harvest(book, prices, opts)
	if err != nil {
		return result, asProblem(err, NotComputable, "check quantities and prices")
	}
	cover, err := tax.Cover(book, prices, accounts)
	if err != nil {
		return result, asProblem(err, NotComputable, "check quantities and prices")
	}
	harvestable(&result, found, cover, !q.SkipWashCheck)
	if result.WashSaleWarnings, problem = warnings(found.Candidates); problem != nil {
		return result, problem
	}
	result.StalePrices, result.NotUnderstood = stale, data.notUnderstood()
	for _, twin := range data.Twins {
		result.PossibleDuplicates = append(result.PossibleDuplicates, answer.TwinRows{First: place(twin.First), Second: place(twin.Second)})
	}
	result.Metadata.SortBy, result.Metadata.Account, result.Metadata.Source = string(opts.SortBy), q.Account, q.Source
	result.Metadata.IncludeWashSaleCheck, result.Metadata.MinLoss = !q.SkipWashCheck, amount(opts.MinLoss)
	result.Metadata.DuplicatesLeftOut, result.Metadata.WashSalesNotChecked = data.Duplicates, q.SkipWashCheck
	if result.Net, problem = data.net(book, found, accounts); problem != nil {
		return result, problem
	}
	return result, nil
}

// chosen are the accounts that the question is about; none for all taxable ones.
func (d *Data) chosen(account, source string) ([]string, *Problem) {
	if account != "" {
		a, known := d.account(account)
		if !known {
			return nil, problemf(UnknownAccount, "name one of "+strings.Join(d.accountIDs(), ", "), "account %q is not in the portfolio", cut(account))
		}
		if a.Kind != tax.Taxable {
			return nil, problemf(BadArgument, "name a taxable account, or none", "account %s is not taxable (%s): its losses do not count", account, a.Kind)
		}
	}
	if source == "" {
		if account == "" {
			return nil, nil
		}
		return []string{account}, nil
	}
	from, known := make(map[string]bool), make(map[string]bool)
	for _, s := range d.Sources {
		base := strings.TrimPrefix(s.Name, transactionsFolder+"/")
		known[s.Format], known[base] = true, true
		if source == s.Format || source == base || source == s.Name || ofKind(base, source) {
			maps.Copy(from, s.Accounts)
		}
	}
	if len(from) == 0 {
		return nil, problemf(BadArgument, "it is one of "+strings.Join(slices.Sorted(maps.Keys(known)), ", "), "source %q is not among the transactions", cut(source))
	}
	var chosen []string
	for _, a := range d.Rules.Accounts {
		if from[a.ID] && a.Kind == tax.Taxable && (account == "" || account == a.ID) {
			chosen = append(chosen, a.ID)
		}
	}
	if len(chosen) == 0 {
		return nil, problemf(BadArgument, "name another source, or none", "source %s has nothing to do with the taxable accounts asked about", cut(source))
	}
	return chosen, nil
}

// values finds the price of everything that is judged. One that is missing fails the question: a total without it
// would be a wrong number.
func (d *Data) values(book *tax.Book, accounts []string) (map[string]Decimal, []answer.StalePrice, *Problem) {
	prices := make(map[string]Decimal)
	var stale []answer.StalePrice
	splits := d.splits(book.AsOf)
	var missing []*Problem
	var without []string
	for i := range book.Lots {
		l := &book.Lots[i]
		if _, done := prices[l.Ticker]; done || !l.Taxable || len(accounts) > 0 && !slices.Contains(accounts, l.Account) {
			continue
		}
		q, problem := d.quote(l.Ticker, book.AsOf, splits[l.Ticker])
		prices[l.Ticker] = q.Decimal
		if problem != nil && problem.Kind == MissingPrice {
			missing, without = append(missing, problem), append(without, l.Ticker)
			continue
		}
		if problem != nil {
			return nil, nil, problem
		}
		if days := int(book.AsOf - q.date); days > freshDays {
			stale = append(stale, answer.StalePrice{Ticker: l.Ticker, Date: q.date.String(), Days: days})
		}
	}
	if missing != nil {
		return nil, nil, missingPrices(missing, without, book.AsOf)
	}
	// Shares without lots are valued where that is possible; they are not part of any total.
	for _, gap := range book.Incomplete {
		if _, done := prices[gap.Ticker]; !done {
			if q, problem := d.quote(gap.Ticker, book.AsOf, splits[gap.Ticker]); problem == nil {
				prices[gap.Ticker] = q.Decimal
			}
		}
	}
	slices.SortFunc(stale, func(a, b answer.StalePrice) int { return strings.Compare(a.Ticker, b.Ticker) })
	return prices, stale, nil
}

// missingPrices tells all of them at once, with lines to fill in.
func missingPrices(missing []*Problem, tickers []string, on tax.Date) *Problem {
	const most = 8
	text := missing[0].Text
	if n := len(missing); n > 1 {
		text = fmt.Sprintf("%s, and so it is with %d more: %s", text, n-1, strings.Join(tickers[1:min(n, most)], ", "))
		if n > most {
			text += ", …"
		}
	}
	lines := make([]string, 0, most)
	for _, ticker := range tickers[:min(len(tickers), most)] {
		lines = append(lines, fmt.Sprintf("%s,%s,CLOSE", on, ticker))
	}
	return problemf(MissingPrice, fmt.Sprintf("add to a file in %s, below its header date,ticker,close: %s", pricesFolder, strings.Join(lines, " / ")), "%s", text)
}

// notUnderstood are the records of brokers' files that move shares and gave no row.
func (d *Data) notUnderstood() []answer.SkippedRecord {
	var records []answer.SkippedRecord
	for _, source := range d.Sources {
		for _, skipped := range source.Skipped {
			if skipped.Shares {
				records = append(records, answer.SkippedRecord{File: source.Name, Line: skipped.Line, Why: skipped.Why})
			}
		}
	}
	return records
}

// lostForGood is what the loss sales already made lost to retirement accounts.
func lostForGood(book *tax.Book, wanted func(account string) bool) (answer.Amount, *Problem) {
	var sum Decimal
	for i := range book.WashSales {
		var err error
		if !wanted(book.WashSales[i].Account) {
			continue
		}
		if sum, err = sum.Add(book.WashSales[i].PermanentLoss); err != nil {
			return answer.Amount{}, asProblem(err, NotComputable, "check quantities and prices")
		}
	}
	return amount(sum.Trim(0)), nil
}

// net is the year's net with the candidates sold. What portfolio.yaml says was realized comes on top of what the
// transactions say. Who files separately nets without the spouse.
func (d *Data) net(book *tax.Book, found *tax.HarvestResult, accounts []string) (*answer.NetPosition, *Problem) {
	counted := d.filing(accounts)
	var n sums
	var short, long, shortLoss, longLoss Decimal
	year := book.AsOf.Year()
	for i := range book.Sales {
		sale := &book.Sales[i]
		if !sale.Taxable || sale.Date.Year() != year || !counted[sale.Account] {
			continue
		}
		into := &short
		if sale.LongTerm {
			into = &long
		}
		n.add(into, sale.Gain)
		n.add(into, sale.Disallowed)
	}
	for i := range found.Candidates {
		c := &found.Candidates[i]
		if !counted[c.Account] {
			continue
		}
		into := &shortLoss
		if c.LongTerm {
			into = &longLoss
		}
		n.add(into, c.Loss.Neg())
		n.add(into, c.CombinedLoss)
	}
	r := d.Config.Realized
	n.add(&short, n.decimal(r.ShortTerm))
	n.add(&long, n.decimal(r.LongTerm))
	realized := answer.Realized{ShortTerm: amount(short.Trim(0)), LongTerm: amount(long.Trim(0)),
		CarryoverShort: amount(n.decimal(r.CarryoverShort)), CarryoverLong: amount(n.decimal(r.CarryoverLong))}
	if n.err != nil {
		return nil, asProblem(n.err, NotComputable, "check the amounts under realized in portfolio.yaml, and of the year's sales")
	}
	position, err := answer.NetOf(d.Config.FilingStatus, realized, amount(shortLoss), amount(longLoss))
	if err != nil {
		return nil, asProblem(err, NotComputable, "check the amounts under realized in portfolio.yaml, and of the year's sales")
	}
	return position, nil
}

// filing are the accounts of one tax return: all of them, but separate returns have those of one owner, who is the owner
// of the accounts asked about.
func (d *Data) filing(accounts []string) map[string]bool {
	owner := tax.Self
	if len(accounts) > 0 {
		if a, ok := d.account(accounts[0]); ok {
			owner = a.Owner
		}
	}
	filing := make(map[string]bool)
	for _, a := range d.Rules.Accounts {
		filing[a.ID] = d.Config.FilingStatus != answer.FilingSeparate || a.Owner == owner
	}
	return filing
}

// sums adds decimals and keeps the first error.
type sums struct{ numbers }

func (s *sums) add(to *Decimal, d Decimal) {
	sum, err := to.Add(d)
	if err != nil && s.err == nil {
		s.err = err
	}
	*to = sum
}

// alreadySold is what the sales of the accounts that are wanted have come to. It needs no prices.
func alreadySold(book *tax.Book, wanted func(account string) bool) (answer.HarvestResult, *Problem) {
	result := answer.HarvestResult{Metadata: answer.HarvestMetadata{AsOf: book.AsOf.String()}}
	result.RealizedWashSales = make([]answer.RealizedWashSale, 0, len(book.WashSales))
	for _, w := range book.WashSales {
		if !wanted(w.Account) {
			continue
		}
		result.RealizedWashSales = append(result.RealizedWashSales, answer.RealizedWashSale{
			SaleDate: w.SaleDate.String(), Account: w.Account, Ticker: w.Ticker, Shares: amount(w.Shares), Loss: amount(w.Loss),
			DisallowedShares: amount(w.DisallowedShares), DisallowedLoss: amount(w.DisallowedLoss), PermanentLoss: amount(w.PermanentLoss),
			Replacements: purchases(w.Replacements)})
	}
	for _, gap := range book.Incomplete {
		if !wanted(gap.Account) {
			continue
		}
		result.IncompleteHistory = append(result.IncompleteHistory, answer.IncompleteSale{
			Date: gap.Date.String(), Account: gap.Account, Ticker: gap.Ticker, Shares: amount(gap.Quantity), Why: gap.Why})
	}
	var problem *Problem
	result.PermanentlyDisallowed, problem = lostForGood(book, wanted)
	return result, problem
}

// harvestable adds what could be sold, as an answer has it: losses are negative there.
func harvestable(result *answer.HarvestResult, found *tax.HarvestResult, cover tax.Coverage, checked bool) {
	result.Status = string(brief.StatusSuccess)
	result.TotalHarvestableLoss, result.ShortTermLoss, result.LongTermLoss = loss(found.AllowedLoss), loss(found.ShortTermLoss), loss(found.LongTermLoss)
	result.DisallowedLoss, result.DisallowedForGood = amount(found.DisallowedLoss), amount(found.PermanentLoss)
	result.DataCoveragePct, result.CandidateCount = brief.Number(cover.CountPct), len(found.Candidates)
	result.Metadata.PositionsAnalyzed, result.Metadata.PositionsWithLots = cover.Positions, cover.WithLots
	result.Metadata.BelowMinLossCount = found.BelowMinLoss
	if cover.Positions > 0 {
		value := brief.Number(cover.ValuePct)
		result.ValueCoveragePct = &value
	}
	sold := make(map[string]bool)
	result.Candidates = make([]answer.HarvestCandidate, 0, len(found.Candidates))
	for i := range found.Candidates {
		result.Candidates = append(result.Candidates, candidate(&found.Candidates[i], found.AsOf, checked))
		sold[found.Candidates[i].Ticker] = true
	}
	result.DoNotBuyBefore = embargoes(found.DoNotBuy, func(ticker string) bool { return sold[ticker] })
	result.AlreadyClosed = embargoes(found.DoNotBuyNow, func(string) bool { return true })
}

// candidate is one of them as an answer has it. Where nobody looked for wash sales, it does not know a clean date.
func candidate(c *tax.Candidate, asOf tax.Date, checked bool) answer.HarvestCandidate {
	term, long, clean := "short_term", c.LongTermFrom, c.CleanFrom.String()
	if c.LongTerm {
		term = "long_term"
		if long > asOf {
			long = c.HoldingStart // inherited shares are from their first day on
		}
	}
	if !checked {
		clean = ""
	}
	allowed, err := c.Loss.Sub(c.DisallowedLoss)
	if err != nil {
		allowed = decimal.Zero // cannot be: no more is disallowed than there is
	}
	return answer.HarvestCandidate{
		Ticker: c.Ticker, AccountID: c.Account, LotID: c.LotID, LotDate: c.LotDate.String(), HoldingStart: c.HoldingStart.String(),
		Shares: amount(c.Quantity), BasisTotal: amount(c.Basis), Price: amount(c.Price), MarketValue: amount(c.Value),
		UnrealizedLoss: loss(c.Loss), LossPct: brief.Number(answer.Round(-c.LossPct, 4)), DaysHeld: c.DaysHeld, HoldingPeriod: term,
		LongTermFrom: long.String(), WashSaleRisk: !c.DisallowedShares.IsZero(), DisallowedShares: amount(c.DisallowedShares),
		DisallowedLoss: amount(c.DisallowedLoss), PermanentLoss: amount(c.PermanentLoss), AllowedLoss: loss(allowed),
		WashSalePurchases: purchases(c.Causes), CleanDate: clean,
	}
}

func place(s tax.Source) string { return fmt.Sprintf("%s:%d", s.File, s.Line) }

func loss(d Decimal) answer.Amount { return amount(d.Neg()) }

func purchases(list []tax.Replacement) []answer.Purchase {
	var purchases []answer.Purchase
	for _, r := range list {
		purchases = append(purchases, answer.Purchase{Date: r.Date.String(), Account: r.Account, Ticker: r.Ticker, Shares: amount(r.Shares)})
	}
	return purchases
}

// embargoes lists, for each ticker that is wanted, until when neither it nor what is identical may be bought.
func embargoes(list []tax.Restriction, wanted func(ticker string) bool) []answer.DoNotBuy {
	var closed []answer.DoNotBuy
	for _, e := range list {
		for i, ticker := range e.Tickers {
			if wanted(ticker) {
				identical := slices.Delete(slices.Clone(e.Tickers), i, i+1)
				closed = append(closed, answer.DoNotBuy{Ticker: ticker, Identical: identical, Date: e.Before.String()})
			}
		}
	}
	return closed
}

// warnings say which tickers would make a wash sale, if any one of their lots is sold alone. The amounts are for
// selling all candidates together. A purchase is listed once, with the most shares that one lot would find in it.
func warnings(candidates []tax.Candidate) ([]answer.WashSaleWarning, *Problem) {
	type bought struct {
		warning         int
		date            tax.Date
		account, ticker string
	}
	var list []answer.WashSaleWarning
	tickers, listed := make(map[string]int), make(map[bought]int)
	for i := range candidates {
		c := &candidates[i]
		if c.DisallowedShares.IsZero() {
			continue
		}
		n, seen := tickers[c.Ticker]
		if !seen {
			n = len(list)
			tickers[c.Ticker] = n
			list = append(list, answer.WashSaleWarning{Ticker: c.Ticker})
		}
		w := &list[n]
		shares, err := w.DisallowedShares.Add(c.CombinedShares)
		if err != nil {
			return nil, asProblem(err, NotComputable, "check quantities and prices")
		}
		loss, err := w.DisallowedLoss.Add(c.CombinedLoss)
		if err != nil {
			return nil, asProblem(err, NotComputable, "check quantities and prices")
		}
		w.DisallowedShares, w.DisallowedLoss = amount(shares.Trim(0)), amount(loss.Trim(0))
		w.CleanDate = max(w.CleanDate, c.CleanFrom.String())
		for j, p := range purchases(c.Causes) {
			key := bought{n, c.Causes[j].Date, p.Account, p.Ticker}
			at, seen := listed[key]
			if !seen {
				listed[key] = len(w.Purchases)
				w.Purchases = append(w.Purchases, p)
			} else if p.Shares.Cmp(w.Purchases[at].Shares.Decimal) > 0 {
				w.Purchases[at].Shares = p.Shares
			}
		}
	}
	return list, nil
}
