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
	if problem != nil {
		return failedHarvest(problem)
	}
	return result
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
	opts.Account = only(accounts)
	book, problem := data.build(day)
	if problem != nil {
		return none, problem
	}
	prices, stale, problem := data.values(book, accounts)
	if problem != nil {
		return none, problem
	}
	found, err := tax.Harvest(book, prices, opts)
	if err != nil {
		return none, asProblem(err, NotComputable, "check quantities and prices")
	}
	cover, err := tax.Cover(book, prices, only(accounts))
	if err != nil {
		return none, asProblem(err, NotComputable, "check quantities and prices")
	}
	wanted := func(account string) bool { return len(accounts) == 0 || slices.Contains(accounts, account) }
	result := harvestResult(book, found, cover, wanted)
	result.StalePrices, result.NotUnderstood = stale, data.notUnderstood()
	for _, twin := range data.Twins {
		result.PossibleDuplicates = append(result.PossibleDuplicates, answer.TwinRows{First: place(twin.First), Second: place(twin.Second)})
	}
	if result.PermanentlyDisallowed, problem = lostForGood(book, wanted); problem != nil {
		return none, problem
	}
	result.Metadata.SortBy, result.Metadata.Account, result.Metadata.Source = string(opts.SortBy), q.Account, q.Source
	result.Metadata.IncludeWashSaleCheck, result.Metadata.MinLoss = !q.SkipWashCheck, amount(opts.MinLoss)
	result.Metadata.DuplicatesLeftOut = data.Duplicates
	if result.Net, problem = data.net(book, &result); problem != nil {
		return none, problem
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
		if source == s.Format || source == base || source == s.Name {
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
	for i := range book.Lots {
		l := &book.Lots[i]
		if _, done := prices[l.Ticker]; done || !l.Taxable || len(accounts) > 0 && !slices.Contains(accounts, l.Account) {
			continue
		}
		q, problem := d.quote(l.Ticker, book.AsOf, splits[l.Ticker])
		if problem != nil {
			return nil, nil, problem
		}
		prices[l.Ticker] = q.Decimal
		if days := int(book.AsOf - q.date); days > freshDays {
			stale = append(stale, answer.StalePrice{Ticker: l.Ticker, Date: q.date.String(), Days: days})
		}
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
// transactions say.
func (d *Data) net(book *tax.Book, result *answer.HarvestResult) (*answer.NetPosition, *Problem) {
	fail := func(err error) (*answer.NetPosition, *Problem) {
		return nil, asProblem(err, NotComputable, "check the amounts under realized in portfolio.yaml")
	}
	short, long, err := book.Realized(book.AsOf.Year())
	if err != nil {
		return fail(err)
	}
	var n numbers
	r := d.Config.Realized
	realized := answer.Realized{CarryoverShort: amount(n.decimal(r.CarryoverShort)), CarryoverLong: amount(n.decimal(r.CarryoverLong))}
	if short, err = short.Add(n.decimal(r.ShortTerm)); err != nil {
		return fail(err)
	}
	if long, err = long.Add(n.decimal(r.LongTerm)); err != nil {
		return fail(err)
	}
	if n.err != nil {
		return fail(n.err)
	}
	realized.ShortTerm, realized.LongTerm = amount(short.Trim(0)), amount(long.Trim(0))
	position, err := answer.NetOf(d.Config.FilingStatus, realized, result.ShortTermLoss, result.LongTermLoss)
	if err != nil {
		return fail(err)
	}
	return position, nil
}

// harvestResult is what was found as an answer has it: losses are negative there. Of what was already sold, it has
// the sales of the accounts that are wanted.
func harvestResult(book *tax.Book, found *tax.HarvestResult, cover tax.Coverage, wanted func(account string) bool) answer.HarvestResult {
	result := answer.HarvestResult{
		Status: string(brief.StatusSuccess), TotalHarvestableLoss: loss(found.AllowedLoss), ShortTermLoss: loss(found.ShortTermLoss),
		LongTermLoss: loss(found.LongTermLoss), DisallowedLoss: amount(found.DisallowedLoss), DisallowedForGood: amount(found.PermanentLoss), CandidateCount: len(found.Candidates),
		DataCoveragePct: brief.Number(cover.CountPct),
		Metadata: answer.HarvestMetadata{AsOf: found.AsOf.String(), PositionsAnalyzed: cover.Positions, PositionsWithLots: cover.WithLots,
			BelowMinLossCount: found.BelowMinLoss},
	}
	if cover.Positions > 0 {
		value := brief.Number(cover.ValuePct)
		result.ValueCoveragePct = &value
	}
	for i := range found.Candidates {
		result.Candidates = append(result.Candidates, candidate(&found.Candidates[i]))
	}
	result.WashSaleWarnings = warnings(found.Candidates)
	sold := make(map[string]bool)
	for i := range found.Candidates {
		sold[found.Candidates[i].Ticker] = true
	}
	result.DoNotBuyBefore = embargoes(found.DoNotBuy, func(ticker string) bool { return sold[ticker] })
	result.AlreadyClosed = embargoes(found.StillClosed, func(string) bool { return true })
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
	return result
}

func candidate(c *tax.Candidate) answer.HarvestCandidate {
	term := "long_term"
	if !c.LongTerm {
		term = "short_term"
	}
	allowed, err := c.Loss.Sub(c.DisallowedLoss)
	if err != nil {
		allowed = decimal.Zero // cannot be: no more is disallowed than there is
	}
	return answer.HarvestCandidate{
		Ticker: c.Ticker, AccountID: c.Account, LotID: c.LotID, LotDate: c.LotDate.String(), HoldingStart: c.HoldingStart.String(),
		Shares: amount(c.Quantity), BasisTotal: amount(c.Basis), Price: amount(c.Price), MarketValue: amount(c.Value),
		UnrealizedLoss: loss(c.Loss), LossPct: brief.Number(-c.LossPct), DaysHeld: c.DaysHeld, HoldingPeriod: term,
		LongTermFrom: c.LongTermFrom.String(), WashSaleRisk: !c.DisallowedShares.IsZero(), DisallowedShares: amount(c.DisallowedShares),
		DisallowedLoss: amount(c.DisallowedLoss), AllowedLoss: loss(allowed), WashSalePurchases: purchases(c.Causes), CleanDate: c.CleanFrom.String(),
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
func embargoes(list []tax.Embargo, wanted func(ticker string) bool) []answer.DoNotBuy {
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
func warnings(candidates []tax.Candidate) []answer.WashSaleWarning {
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
	return list
}

func only(accounts []string) string {
	if len(accounts) == 0 {
		return ""
	}
	return accounts[0]
}
