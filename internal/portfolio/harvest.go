package portfolio

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/govalues/decimal"

	"signalbox/brief"
	"signalbox/internal/config"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/text"
)

// Harvest finds losses that could be harvested. A problem gives a result of status error.
func (d *Desk) Harvest(ctx context.Context, q HarvestQuery) answer.HarvestResult {
	opts, problem := q.parse()
	if problem != nil {
		return failedHarvest(problem)
	}
	data, day, problem := d.open(ctx, q.AsOf)
	if problem != nil {
		return failedHarvest(problem)
	}
	return data.harvestResult(q, opts, day)
}

// harvestResult finds losses that could be harvested on a day. A problem gives a result of status
// error.
func (d *Data) harvestResult(q HarvestQuery, opts tax.HarvestOptions,
	day tax.Date) answer.HarvestResult {
	result, problem := d.harvest(q, opts, day)
	if problem == nil {
		return result
	}
	failed := failedHarvest(problem)
	// Realized sales do not depend on what failed later.
	failed.RealizedWashSales, failed.PermanentlyDisallowed, failed.IncompleteHistory =
		result.RealizedWashSales, result.PermanentlyDisallowed, result.IncompleteHistory
	failed.Metadata.AsOf = result.Metadata.AsOf
	return failed
}

func failedHarvest(problem *Problem) answer.HarvestResult {
	return answer.HarvestResult{Status: string(brief.StatusError), Error: problem.Text,
		Problem: answer.Problem{ErrorKind: problem.Kind, ErrorHint: problem.Hint}}
}

// parse returns the options of a question, except for those that depend on the data.
func (q HarvestQuery) parse() (tax.HarvestOptions, *Problem) {
	opts := tax.HarvestOptions{SortBy: cmp.Or(tax.SortBy(q.SortBy), tax.ByLossAmount),
		SkipWashCheck: q.SkipWashCheck}
	if !slices.Contains([]tax.SortBy{tax.ByLossAmount, tax.ByLossPct, tax.ByDaysHeld},
		opts.SortBy) {
		return opts, problemf(BadArgument, "use loss_amount, loss_pct or days_held",
			"sort_by %q is not known", text.Shorten(q.SortBy, 40))
	}
	if q.MinLoss != "" {
		var err error
		if opts.MinLoss, err = decimal.Parse(q.MinLoss); err != nil || opts.MinLoss.IsNeg() {
			return opts, problemf(BadArgument, "give an amount in dollars, such as 100",
				"min_loss %q is not an amount of money", text.Shorten(q.MinLoss, 40))
		}
	}
	return opts, nil
}

func (d *Data) harvest(q HarvestQuery, opts tax.HarvestOptions,
	day tax.Date) (answer.HarvestResult, *Problem) {
	var none answer.HarvestResult
	accounts, spouse, problem := d.selectAccounts(q.Account, q.Source)
	if problem != nil {
		return none, problem
	}
	opts.Accounts = accounts
	named := d.namedTickers()
	opts.Unknown, opts.NotOffered = named.unknown, d.averageCost()
	book, problem := d.build(day)
	if problem != nil {
		return none, problem
	}
	wanted := func(account string) bool { return len(accounts) == 0 || slices.Contains(accounts, account) }
	result, problem := d.realizedSales(book, wanted)
	if problem != nil {
		return none, problem
	}
	if opts.Held, problem = d.held(book); problem != nil {
		return result, problem
	}
	prices, stale, problem := d.pricesOf(book, opts.Held, accounts)
	if problem != nil {
		return result, problem
	}
	found, err := tax.Harvest(book, prices, opts)
	if err != nil {
		return result, asProblem(err, NotComputable, amountsHint)
	}
	cover, err := tax.Cover(book, prices, opts)
	if err != nil {
		return result, asProblem(err, NotComputable, amountsHint)
	}
	addCandidates(&result, found, !q.SkipWashCheck)
	d.addReplacements(&result)
	d.addCoverage(&result, book, found, cover)
	result.LeftOut, result.NotUnderstood = named.leftOut, named.notUnderstood
	result.OptionPrices, result.Crypto = optionPrices(book, prices, wanted), d.crypto(book, wanted)
	if result.WashSaleWarnings, problem = warnings(found.Candidates); problem != nil {
		return result, problem
	}
	result.StalePrices, result.SpouseAccounts = stale, spouse
	result.Section1256, result.AverageCost = heldTickers(book, wanted, tax.Section1256),
		heldTickers(book, wanted, func(ticker string) bool { return opts.NotOffered[ticker] })
	result.LaterPurchases = d.laterPurchases(book.AsOf, found)
	result.ExpectedReinvestments = d.expectedReinvestments(book, found)
	all, problem := d.buildAll(book)
	if problem != nil {
		return result, problem
	}
	if result.LaterDisallowed, problem = laterDisallowed(book, all, wanted); problem != nil {
		return result, problem
	}
	for _, twin := range d.Twins {
		result.PossibleDuplicates = append(result.PossibleDuplicates,
			answer.TwinRows{First: sourcePosition(twin.First), Second: sourcePosition(twin.Second)})
	}
	result.Metadata.SortBy, result.Metadata.Account, result.Metadata.Source = string(opts.SortBy),
		q.Account, q.Source
	result.Metadata.IncludeWashSaleCheck, result.Metadata.MinLoss = !q.SkipWashCheck,
		amount(opts.MinLoss)
	result.Metadata.DuplicatesLeftOut, result.Metadata.WashSalesNotChecked = d.Duplicates,
		q.SkipWashCheck
	short, long, problem := d.allowedLosses(found, accounts)
	if problem != nil {
		return result, problem
	}
	result.Net, problem = d.net(all, book.AsOf, accounts, short, long)
	return result, problem
}

// allowedLosses returns the losses of the candidates, negative, that count if all are sold.
func (d *Data) allowedLosses(found *tax.HarvestResult, accounts []string) (short, long Decimal,
	problem *Problem) {
	counted := d.filedAccounts(accounts)
	var n sums
	for i := range found.Candidates {
		c := &found.Candidates[i]
		if !counted[c.Account] {
			continue
		}
		into := &short
		if c.LongTerm {
			into = &long
		}
		n.add(into, c.Loss.Neg())
		n.add(into, c.CombinedLoss)
	}
	if n.err != nil {
		problem = asProblem(n.err, NotComputable, amountsHint)
	}
	return short, long, problem
}

// selectAccounts returns the accounts of the question; none means all taxable accounts. The losses
// of two persons who file separately are not added: spouse is the accounts that are left out for
// this reason, unless the question names one.
func (d *Data) selectAccounts(account, source string) (accounts, spouse []string,
	problem *Problem) {
	accounts, problem = d.askedAccounts(account, source)
	if problem != nil || account != "" || d.Config.FilingStatus != answer.FilingSeparate {
		return accounts, nil, problem
	}
	var own []string
	for _, a := range d.Rules.Accounts {
		switch {
		case a.Kind != tax.Taxable || accounts != nil && !slices.Contains(accounts, a.ID):
		case a.Owner == tax.Spouse:
			spouse = append(spouse, a.ID)
		default:
			own = append(own, a.ID)
		}
	}
	if own == nil || spouse == nil {
		return accounts, nil, nil
	}
	return own, spouse, nil
}

func (d *Data) askedAccounts(account, source string) ([]string, *Problem) {
	if problem := d.checkKnown(account); problem != nil {
		return nil, problem
	}
	if a, _ := d.account(account); account != "" && a.Kind != tax.Taxable {
		return nil, problemf(BadArgument, "name a taxable account, or omit it",
			"account %s is not taxable (%s): its losses do not count", account, a.Kind)
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
		if source == s.Format || source == base || source == s.Name || hasFormatName(base, source) {
			maps.Copy(from, s.Accounts)
		}
	}
	if len(from) == 0 {
		return nil, problemf(BadArgument, "use one of "+
			strings.Join(slices.Sorted(maps.Keys(known)), ", "),
			"source %q is not among the transactions", text.Shorten(source, 40))
	}
	var chosen []string
	for _, a := range d.Rules.Accounts {
		if from[a.ID] && a.Kind == tax.Taxable && (account == "" || account == a.ID) {
			chosen = append(chosen, a.ID)
		}
	}
	if len(chosen) == 0 {
		return nil, problemf(BadArgument, "name another source, or omit it",
			"source %s has no transactions of the taxable accounts in question",
			text.Shorten(source, 40))
	}
	return chosen, nil
}

// pricesOf returns the price of every ticker in question. A missing price is a problem, because
// totals without it would be wrong.
func (d *Data) pricesOf(book *tax.Book, held map[tax.Position]Decimal,
	accounts []string) (map[string]Decimal, []answer.StalePrice, *Problem) {
	_, notHeld, err := tax.Reconcile(book, held, accounts)
	if err != nil {
		return nil, nil, asProblem(err, NotComputable, amountsHint)
	}
	doubtful := make(map[tax.Position]bool)
	for _, p := range notHeld {
		doubtful[p.Position] = true
	}
	prices := make(map[string]Decimal)
	var stale []answer.StalePrice
	splits := d.splits(book.AsOf)
	var missing []*Problem
	var without []string
	for i := range book.Lots {
		l := &book.Lots[i]
		if _, done := prices[l.Ticker]; done || !l.Taxable || len(accounts) > 0 &&
			!slices.Contains(accounts, l.Account) ||
			doubtful[tax.Position{Account: l.Account, Ticker: l.Ticker}] {
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
			stale = append(stale, answer.StalePrice{Ticker: l.Ticker, Date: q.date.String(),
				Days: days})
		}
	}
	if missing != nil {
		return nil, nil, missingPrices(missing, without, book.AsOf)
	}
	// Shares without lots are not part of any total, so their prices may be missing.
	listed := make(map[string]Decimal)
	for _, h := range d.Positions {
		if h.Price.IsPos() {
			listed[h.Ticker] = h.Price
		}
	}
	for p := range held {
		if _, done := prices[p.Ticker]; done {
			continue
		}
		if q, problem := d.quote(p.Ticker, book.AsOf, splits[p.Ticker]); problem == nil {
			prices[p.Ticker] = q.Decimal
		} else if price, ok := listed[p.Ticker]; ok {
			prices[p.Ticker] = price
		}
	}
	slices.SortFunc(stale,
		func(a, b answer.StalePrice) int { return strings.Compare(a.Ticker, b.Ticker) })
	return prices, stale, nil
}

// missingPrices reports all missing prices at once, with lines to complete.
func missingPrices(missing []*Problem, tickers []string, on tax.Date) *Problem {
	const most = 8
	text := missing[0].Text
	if n := len(missing); n > 1 {
		text = fmt.Sprintf("%s, and of %d more: %s", text, n-1,
			strings.Join(tickers[1:min(n, most)], ", "))
		if n > most {
			text += ", …"
		}
	}
	lines := make([]string, 0, most)
	for _, ticker := range tickers[:min(len(tickers), most)] {
		lines = append(lines, fmt.Sprintf("%s,%s,CLOSE", on, ticker))
	}
	return problemf(MissingPrice,
		fmt.Sprintf("add to a file in %s, below its header date,ticker,close: %s", pricesFolder,
			strings.Join(lines, " / ")), "%s", text)
}

// permanentLosses returns the losses of past sales that are permanently disallowed because of
// purchases in retirement accounts.
func permanentLosses(book *tax.Book, wanted func(account string) bool) (answer.Amount, *Problem) {
	var sum Decimal
	for i := range book.WashSales {
		var err error
		if !wanted(book.WashSales[i].Account) {
			continue
		}
		if sum, err = sum.Add(book.WashSales[i].PermanentLoss); err != nil {
			return answer.Amount{}, asProblem(err, NotComputable, amountsHint)
		}
	}
	return amount(sum.Trim(0)), nil
}

// net returns the net gain or loss of the year with further gains or losses. Amounts under realized
// in portfolio.yaml are added to those of the transactions. Married taxpayers who file separately
// do not include the accounts of the spouse.
func (d *Data) net(all *tax.Book, asOf tax.Date, accounts []string, moreShort,
	moreLong Decimal) (*answer.NetPosition, *Problem) {
	counted := d.filedAccounts(accounts)
	var n sums
	years, err := all.Realized(asOf, counted)
	n.err = err
	short, long := years[asOf.Year()].Short, years[asOf.Year()].Long
	r := d.Config.Realized
	n.add(&short, n.decimal(r.ShortTerm))
	n.add(&long, n.decimal(r.LongTerm))
	realized := answer.Realized{ShortTerm: amount(short.Trim(0)), LongTerm: amount(long.Trim(0)),
		CarryoverShort: amount(n.decimal(r.CarryoverShort)),
		CarryoverLong:  amount(n.decimal(r.CarryoverLong))}
	source := answer.CarryoverConfigured
	var computed *answer.Amount
	if d.completeBefore(all, asOf.Year(), counted) {
		carried, err := tax.Carryover(years, asOf.Year(),
			answer.DeductionLimit(d.Config.FilingStatus).Decimal)
		if err != nil && n.err == nil {
			n.err = err
		}
		sum := carried.Short
		n.add(&sum, carried.Long)
		computed = &answer.Amount{Decimal: sum.Trim(0)}
		if r.CarryoverShort == "" && r.CarryoverLong == "" {
			source = answer.CarryoverComputed
			realized.CarryoverShort, realized.CarryoverLong = amount(carried.Short),
				amount(carried.Long)
		}
	} else if r.CarryoverShort == "" && r.CarryoverLong == "" {
		source = answer.CarryoverUnknown
	}
	if n.err != nil {
		return nil, asProblem(n.err, NotComputable,
			"check the amounts under realized in portfolio.yaml, and of the year's sales")
	}
	position, err := answer.NetOf(d.Config.FilingStatus, realized, amount(moreShort),
		amount(moreLong))
	if err != nil {
		return nil, asProblem(err, NotComputable,
			"check the amounts under realized in portfolio.yaml, and of the year's sales")
	}
	position.Carryover, position.FromTransactions = source, computed
	return position, nil
}

// completeBefore reports whether the sales before a year show all gains: each has its purchase, and
// none sells a contract under section 1256, a fund at average cost, or a ticker that a missing
// record names.
func (d *Data) completeBefore(all *tax.Book, year int, counted map[string]bool) bool {
	for _, gap := range all.Incomplete {
		if a, known := d.account(gap.Account); gap.Date.Year() < year && counted[gap.Account] &&
			known && a.Kind == tax.Taxable && d.transactions[gap.Row].Action != tax.Transfer {
			return false
		}
	}
	average, unknown := d.averageCost(), d.namedTickers().unknown
	return !slices.ContainsFunc(all.Sales, func(s tax.Sale) bool {
		return s.Taxable && counted[s.Account] && s.Date.Year() < year &&
			(s.Section1256 || average[s.Ticker] || unknown[s.Ticker])
	})
}

// filedAccounts returns the accounts of the tax return: all accounts, or for separate returns those
// of the owner of the accounts in question.
func (d *Data) filedAccounts(accounts []string) map[string]bool {
	owner := tax.Self
	if len(accounts) > 0 {
		if a, ok := d.account(accounts[0]); ok {
			owner = a.Owner
		}
	}
	filed := make(map[string]bool)
	for _, a := range d.Rules.Accounts {
		filed[a.ID] = d.Config.FilingStatus != answer.FilingSeparate || a.Owner == owner
	}
	return filed
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

// realizedSales returns a result with the wash sales and gaps of past sales. It needs no prices.
func (d *Data) realizedSales(book *tax.Book,
	wanted func(account string) bool) (answer.HarvestResult, *Problem) {
	result := answer.HarvestResult{Metadata: answer.HarvestMetadata{AsOf: book.AsOf.String()}}
	result.RealizedWashSales = make([]answer.RealizedWashSale, 0, len(book.WashSales))
	for _, w := range book.WashSales {
		if !wanted(w.Account) {
			continue
		}
		result.RealizedWashSales = append(result.RealizedWashSales, answer.RealizedWashSale{
			SaleDate: w.SaleDate.String(), Account: w.Account, Ticker: w.Ticker,
			Shares: amount(w.Shares), Loss: amount(w.Loss),
			DisallowedShares: amount(w.DisallowedShares), DisallowedLoss: amount(w.DisallowedLoss),
			PermanentLoss: amount(w.PermanentLoss),
			Replacements:  purchases(w.Replacements)})
	}
	result.IncompleteHistory, result.OrderUnknown = d.gaps(book.Incomplete, wanted),
		d.gaps(book.OrderUnknown, wanted)
	var problem *Problem
	result.PermanentlyDisallowed, problem = permanentLosses(book, wanted)
	return result, problem
}

func (d *Data) gaps(list []tax.Gap, wanted func(account string) bool) []answer.IncompleteSale {
	var gaps []answer.IncompleteSale
	for _, gap := range list {
		if !wanted(gap.Account) {
			continue
		}
		t := &d.transactions[gap.Row]
		gaps = append(gaps, answer.IncompleteSale{Date: gap.Date.String(), Account: gap.Account,
			Ticker: gap.Ticker, Shares: amount(gap.Quantity), Why: gap.Why, LotID: t.LotID,
			Record: sourcePosition(t.Source)})
	}
	return gaps
}

// addCandidates adds the lots that could be sold to the result. Losses are negative there.
func addCandidates(result *answer.HarvestResult, found *tax.HarvestResult, checked bool) {
	result.Status = string(brief.StatusSuccess)
	result.TotalHarvestableLoss, result.ShortTermLoss,
		result.LongTermLoss = loss(found.AllowedLoss), loss(found.ShortTermLoss),
		loss(found.LongTermLoss)
	result.DisallowedLoss, result.DisallowedForGood = amount(found.DisallowedLoss),
		amount(found.PermanentLoss)
	result.CandidateCount, result.Metadata.BelowMinLossCount = len(found.Candidates),
		found.BelowMinLoss
	sold := make(map[string]bool)
	result.Candidates = make([]answer.HarvestCandidate, 0, len(found.Candidates))
	for i := range found.Candidates {
		result.Candidates = append(result.Candidates, candidate(&found.Candidates[i], found.AsOf,
			checked))
		sold[found.Candidates[i].Ticker] = true
	}
	for i := range found.NotReached {
		c := &found.NotReached[i]
		result.NotReached = append(result.NotReached,
			answer.UnreachedLot{Ticker: c.Ticker, AccountID: c.Account, LotID: c.LotID,
				LotDate: c.LotDate.String(),
				Shares:  amount(c.Quantity), UnrealizedLoss: loss(c.Loss), LotMethod: string(c.Method),
				PlainSale: plainSale(c), Advice: advice(c)})
	}
	result.DoNotBuyBefore = restrictions(found.DoNotBuy,
		func(ticker string) bool { return sold[ticker] })
	result.DoNotBuyNow = restrictions(found.DoNotBuyNow, func(string) bool { return true })
	for i := range result.DoNotBuyNow {
		d := &result.DoNotBuyNow[i]
		if before, err := tax.ParseDate(d.Date); err == nil {
			d.LastLoss = before.AddDays(-tax.WashDays - 1).String()
		}
	}
}

// candidate converts a candidate for an answer. If wash sales were not checked, it has no clean
// date.
func candidate(c *tax.Candidate, asOf tax.Date, checked bool) answer.HarvestCandidate {
	term, long, clean := "short_term", c.LongTermFrom, c.CleanFrom.String()
	if c.LongTerm {
		term = "long_term"
		if long > asOf {
			long = c.HoldingStart // inherited shares are long-term from the first day
		}
	}
	if !checked {
		clean = ""
	}
	allowed, err := c.Loss.Sub(c.DisallowedLoss)
	if err != nil {
		allowed = decimal.Zero // cannot happen: at most the whole loss is disallowed
	}
	return answer.HarvestCandidate{
		Ticker: c.Ticker, AccountID: c.Account, LotID: c.LotID, LotDate: c.LotDate.String(),
		HoldingStart: c.HoldingStart.String(),
		Shares:       amount(c.Quantity), BasisTotal: amount(c.Basis), Price: amount(c.Price),
		MarketValue:    amount(c.Value),
		UnrealizedLoss: loss(c.Loss), LossPct: brief.Number(answer.Round(-c.LossPct, 4)),
		DaysHeld: c.DaysHeld, HoldingPeriod: term,
		LongTermFrom: long.String(), WashSaleRisk: !c.DisallowedShares.IsZero(),
		DisallowedShares: amount(c.DisallowedShares),
		DisallowedLoss:   amount(c.DisallowedLoss), PermanentLoss: amount(c.PermanentLoss),
		AllowedLoss:       loss(allowed),
		WashSalePurchases: purchases(c.Causes), CleanDate: clean,
		LotMethod: string(c.Method), IdentifyLot: c.Identify, PlainSale: plainSale(c),
		Advice:   advice(c),
		PricePer: pricePer(c.Ticker), WashSaleRules: washSaleRules(c),
	}
}

// pricePer returns the unit of a price.
func pricePer(ticker string) string {
	if isOption(ticker) {
		return "contract"
	}
	return "share"
}

// washSaleRules returns why wash-sale rules do not apply to a candidate, or nothing if they do.
func washSaleRules(c *tax.Candidate) string {
	if c.Crypto {
		return "do not apply: crypto is property, not a security"
	}
	return ""
}

func plainSale(c *tax.Candidate) *answer.PlainSale {
	sale := &answer.PlainSale{Shares: amount(c.Plain.Quantity)}
	if !c.Plain.Unknown {
		gain := amount(c.Plain.Gain)
		sale.Gain = &gain
	}
	return sale
}

// advice explains how to sell a lot so that its loss is realized.
func advice(c *tax.Candidate) string {
	if !c.Identify {
		return ""
	}
	method := c.Method
	if method == tax.Specific {
		method = tax.FIFO // as in the regulations, if no lot is identified
	}
	return fmt.Sprintf("identify lot %s to the broker; without that %s applies, and selling %s %s",
		c.LotID, method, c.Plain.Quantity.String()+" "+c.Ticker, outcome(c.Plain))
}

// outcome describes what a sale realizes.
func outcome(o tax.Outcome) string {
	switch {
	case o.Unknown:
		return "may sell shares whose purchase is not known"
	case o.Gain.IsNeg():
		return "realizes a loss of " + answer.Dollars(amount(o.Gain))
	}
	return "realizes a gain of " + answer.Dollars(amount(o.Gain))
}

// addCoverage adds how much of what is held has lots, and where the lots and what is held differ.
func (d *Data) addCoverage(result *answer.HarvestResult, book *tax.Book, found *tax.HarvestResult,
	cover tax.Coverage) {
	result.Metadata.PositionsAnalyzed, result.Metadata.PositionsWithLots = cover.Positions,
		cover.WithLots
	result.Metadata.PositionsFrom = "transactions"
	if len(d.Positions) > 0 {
		result.Metadata.PositionsFrom = cmp.Or(d.Config.Positions, config.PositionsFile)
	}
	pct := cover.ValuePct
	if len(cover.NoPrice) > 0 {
		pct = min(pct, cover.CountPct) // shares without a price must not look covered
	} else if cover.Positions > 0 {
		value := brief.Number(cover.ValuePct)
		result.ValueCoveragePct = &value
	}
	result.DataCoveragePct = brief.Number(pct)
	records := d.incompleteRecords(book)
	difference := func(p tax.Discrepancy) answer.PositionDifference {
		return answer.PositionDifference{AccountID: p.Account, Ticker: p.Ticker,
			Held: amount(p.Held), Lots: amount(p.Lots),
			Records: records[p.Position]}
	}
	for _, p := range cover.Missing {
		result.LotsMissing = append(result.LotsMissing, difference(p))
	}
	for _, p := range found.NotHeld {
		result.LotsNotHeld = append(result.LotsNotHeld, difference(p))
	}
}

// crypto returns the tickers among the lots and sales to which wash-sale rules do not apply.
func (d *Data) crypto(book *tax.Book, wanted func(account string) bool) []string {
	found := make(map[string]bool)
	for i := range book.Lots {
		if l := &book.Lots[i]; l.Taxable && wanted(l.Account) {
			found[l.Ticker] = true
		}
	}
	for i := range book.Sales {
		if s := &book.Sales[i]; s.Taxable && wanted(s.Account) {
			found[s.Ticker] = true
		}
	}
	return slices.Sorted(func(yield func(string) bool) {
		for _, ticker := range d.Rules.Crypto {
			if found[ticker] && !yield(ticker) {
				return
			}
		}
	})
}

// optionPrices returns the options whose price and purchase differ so much that one of them seems
// to be per share and the other per contract. A price near zero is left out: options do become
// worthless.
func optionPrices(book *tax.Book, prices map[string]Decimal,
	wanted func(account string) bool) []answer.OptionPrice {
	const least, most = 20, 1000
	var list []answer.OptionPrice
	seen := make(map[string]bool)
	for i := range book.Lots {
		l := &book.Lots[i]
		price, ok := prices[l.Ticker]
		if seen[l.Ticker] || !ok || !wanted(l.Account) || !isOption(l.Ticker) || !price.IsPos() {
			continue
		}
		cost, err := l.Basis.Sub(l.BasisAdjustment)
		if err == nil {
			cost, err = cost.Quo(l.Quantity)
		}
		now, _ := price.Float64()
		then, _ := cost.Float64()
		if ratio := max(now, then) / min(now, then); err != nil || then <= 0 || ratio < least ||
			ratio > most {
			continue
		}
		seen[l.Ticker] = true
		list = append(list, answer.OptionPrice{Ticker: l.Ticker, Price: amount(price),
			PurchasePrice: amount(cost.Round(2).Trim(0)), LotID: l.LotID})
	}
	return list
}

func sourcePosition(s tax.Source) string { return fmt.Sprintf("%s:%d", s.File, s.Line) }

func loss(d Decimal) answer.Amount { return amount(d.Neg()) }

func purchases(list []tax.Replacement) []answer.Purchase {
	var purchases []answer.Purchase
	for _, r := range list {
		purchases = append(purchases, answer.Purchase{Date: r.Date.String(), Account: r.Account,
			Ticker: r.Ticker, Shares: amount(r.Shares)})
	}
	return purchases
}

// restrictions lists, for each wanted ticker, the date before which neither it nor an identical
// security may be bought.
func restrictions(list []tax.Restriction, wanted func(ticker string) bool) []answer.DoNotBuy {
	var closed []answer.DoNotBuy
	for _, e := range list {
		for i, ticker := range e.Tickers {
			if wanted(ticker) {
				identical := slices.Delete(slices.Clone(e.Tickers), i, i+1)
				closed = append(closed, answer.DoNotBuy{Ticker: ticker, Identical: identical,
					Date: e.Before.String()})
			}
		}
	}
	return closed
}

// warnings returns the tickers with a lot whose sale would be a wash sale. The amounts are for
// selling all candidates together. A purchase is listed once, with the largest number of shares
// that one lot would use of it.
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
			return nil, asProblem(err, NotComputable, amountsHint)
		}
		loss, err := w.DisallowedLoss.Add(c.CombinedLoss)
		if err != nil {
			return nil, asProblem(err, NotComputable, amountsHint)
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
