package portfolio

import (
	"cmp"
	"context"
	"slices"

	"github.com/govalues/decimal"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/tax"
)

// CheckedPosition is a position of the broker's list, or of the lots, compared with the other one.
type CheckedPosition = answer.CheckedPosition

// ReconcileQuery is a question to reconcile_positions. Empty fields have the default in the comment.
type ReconcileQuery struct {
	Format string // default: agent
	Output string // default: inline
}

// ReconcilePositions compares the list of positions with the lots, as Reconcile does.
func (d *Desk) ReconcilePositions(ctx context.Context, q ReconcileQuery) Answer {
	failed := func(p *Problem) answer.ReconcileResult {
		return answer.ReconcileResult{Status: string(brief.StatusError), Error: p.Text,
			Problem: answer.Problem{ErrorKind: p.Kind, ErrorHint: p.Hint}}
	}
	return query[answer.ReconcileResult, answer.ReconcileSnapshot]{
		tool: answer.ReconcileTool(), filePrefix: answer.ReconcileFilePrefix,
		format: cmp.Or(q.Format, string(brief.FormatAgent)), output: q.Output, failed: failed,
		compute: func() (answer.ReconcileResult, string, *Problem) {
			list, err := d.Reconcile(ctx)
			if err != nil {
				problem := asProblem(err, NotComputable, amountsHint)
				return failed(problem), "", problem
			}
			return answer.ReconcileResult{Status: string(brief.StatusSuccess), Positions: list}, "",
				nil
		},
	}.answer(ctx, d)
}

// Reconcile compares the list of positions with the lots of its day, by shares and by basis. The
// error is a *[Problem].
func (d *Desk) Reconcile(ctx context.Context) ([]CheckedPosition, error) {
	data, day, problem := d.open(ctx, "")
	if problem != nil {
		return nil, problem
	}
	list, problem := data.reconcile(day)
	if problem != nil {
		return nil, problem
	}
	return list, nil
}

// reconcile compares the list of positions with the lots of its day, or of the given day if it has
// none.
func (d *Data) reconcile(day tax.Date) ([]CheckedPosition, *Problem) {
	if len(d.Positions) == 0 {
		return nil, problemf(BadArgument,
			"import the list that your broker exports: signalbox portfolio import --positions FILE",
			"there is no list of positions to compare with")
	}
	accounts := make(map[tax.Date]map[string]bool) // by the day of their list
	days := make(map[string]tax.Date)
	for _, h := range d.Positions {
		days[h.Account] = max(days[h.Account], cmp.Or(h.Date, day))
	}
	for account, on := range days {
		if accounts[on] == nil {
			accounts[on] = make(map[string]bool)
		}
		accounts[on][account] = true
	}
	var list []CheckedPosition
	for on, of := range accounts {
		checked, problem := d.checkPositions(on, of)
		if problem != nil {
			return nil, problem
		}
		list = append(list, checked...)
	}
	slices.SortFunc(list, func(a, b CheckedPosition) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Ticker, b.Ticker))
	})
	return list, nil
}

// checkPositions compares the positions of accounts with the lots at the end of a day.
func (d *Data) checkPositions(on tax.Date, accounts map[string]bool) ([]CheckedPosition, *Problem) {
	book, problem := d.build(on)
	if problem != nil {
		return nil, problem
	}
	var n sums
	checked := make(map[tax.Position]*CheckedPosition)
	position := func(account, ticker string) *CheckedPosition {
		p := tax.Position{Account: account, Ticker: ticker}
		if checked[p] == nil {
			checked[p] = &CheckedPosition{Account: account, Ticker: ticker, Date: on.String(),
				Records: []string{}}
		}
		return checked[p]
	}
	for _, h := range mergeHoldings(d.Positions) {
		if c := position(h.Account, h.Ticker); accounts[h.Account] {
			c.Shares = amount(h.Quantity)
			if h.Basis != nil {
				c.ListedBasis = &answer.Amount{Decimal: *h.Basis}
			}
		}
	}
	lots := make(map[tax.Position]int64)
	for i := range book.Lots {
		l := &book.Lots[i]
		if !accounts[l.Account] {
			continue
		}
		c := position(l.Account, l.Ticker)
		n.add(&c.Lots.Decimal, l.Quantity)
		n.add(&c.Basis.Decimal, l.Basis)
		n.add(&c.WashSales.Decimal, l.BasisAdjustment)
		lots[tax.Position{Account: l.Account, Ticker: l.Ticker}]++
	}
	records := d.incompleteRecords(book)
	var list []CheckedPosition
	for p, c := range checked {
		if !accounts[p.Account] {
			continue
		}
		c.Agrees = !tax.SharesDiffer(c.Shares.Decimal, c.Lots.Decimal)
		if c.Agrees && c.ListedBasis != nil {
			off := c.Basis.Decimal
			n.add(&off, c.ListedBasis.Neg())
			c.BasisDifference = &answer.Amount{Decimal: off.Trim(0)}
			// The broker rounds the basis of each lot to cents.
			c.Agrees = off.Abs().Cmp(decimal.MustNew(max(1, lots[p]), 2)) <= 0
		}
		c.Records = append(c.Records, records[p]...)
		list = append(list, *c)
	}
	if n.err != nil {
		return nil, asProblem(n.err, NotComputable, amountsHint)
	}
	return list, nil
}
