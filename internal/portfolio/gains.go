package portfolio

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/brief"
	"signalbox/internal/config"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/form8949"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/text"
)

// GainsQuery is a question to realized_gains. Empty fields have the default in the comment.
type GainsQuery struct {
	Year   string // a number; default: the year before that of as_of in portfolio.yaml, or of today
	Format string // default: agent
	Output string // default: inline
	// Form is a Form 1099-B in signalbox CSV with which the rows are compared, and FormName its
	// name. Nil means that there is none.
	Form     []byte
	FormName string
}

// RealizedGains reports the sales of a year as on Form 8949.
func (d *Desk) RealizedGains(ctx context.Context, q GainsQuery) Answer {
	return query[answer.GainsResult, answer.GainsSnapshot]{
		tool: answer.GainsTool(), filePrefix: answer.GainsFilePrefix,
		format: cmp.Or(q.Format, string(brief.FormatAgent)), output: q.Output,
		failed: func(p *Problem) answer.GainsResult { return failedGains(0, p) },
		compute: func() (answer.GainsResult, string, *Problem) {
			result := d.Gains(ctx, q)
			return result, "", problemOf(result.Status, result.Error, result.Problem)
		},
	}.answer(ctx, d)
}

// Gains returns the sales of a year as on Form 8949. A problem gives a result of status error.
func (d *Desk) Gains(ctx context.Context, q GainsQuery) answer.GainsResult {
	// All rows count, also those after as_of: a purchase in January disallows a loss of December.
	today := d.today()
	data, _, problem := d.open(ctx, today.String())
	if problem != nil {
		return failedGains(0, problem)
	}
	year, problem := d.gainsYear(q.Year, data.Config.AsOf)
	if problem != nil {
		return failedGains(0, problem)
	}
	result, problem := data.gains(q, year, today)
	if problem != nil {
		return failedGains(year, problem)
	}
	return result
}

func failedGains(year int, problem *Problem) answer.GainsResult {
	return answer.GainsResult{Year: year, Status: string(brief.StatusError), Error: problem.Text,
		Problem: answer.Problem{ErrorKind: problem.Kind, ErrorHint: problem.Hint}}
}

// gainsYear returns the year of a question.
func (d *Desk) gainsYear(asked, asOf string) (int, *Problem) {
	if asked == "" {
		day, problem := d.day("", asOf)
		return day.Year() - 1, problem
	}
	const first = 1901
	year, err := strconv.Atoi(asked)
	if last := d.today().Year(); err != nil || year < first || year > last {
		return 0, problemf(BadArgument, fmt.Sprintf("use a year up to %d", last),
			"year %q is not a year with sales", text.Shorten(asked, 40))
	}
	return year, nil
}

func (d *Data) gains(q GainsQuery, year int, today tax.Date) (answer.GainsResult, *Problem) {
	var none answer.GainsResult
	book, problem := d.build(today)
	if problem != nil {
		return none, problem
	}
	filed := d.filedAccounts(nil)
	if problem := d.checkGaps(book, filed, year); problem != nil {
		return none, problem
	}
	result := answer.GainsResult{Status: string(brief.StatusSuccess), Year: year,
		LeftOut: len(d.LeftOut), NotUnderstood: len(d.namedTickers().notUnderstood),
		PossibleDuplicates: len(d.Twins)}
	var sales []tax.Sale
	for _, s := range book.Sales {
		switch {
		case filed[s.Account] && s.Section1256:
			if s.Date.Year() == year && !slices.Contains(result.Section1256, s.Ticker) {
				result.Section1256 = append(result.Section1256, s.Ticker)
			}
		case filed[s.Account]:
			sales = append(sales, s)
		case s.Taxable && s.Date.Year() == year:
			result.SpouseOmitted = true
		}
	}
	var err error
	result.Rows, err = form8949.Rows(form8949.Input{Year: year, Sales: sales,
		Transactions: d.transactions, Reported: d.reported,
		Crypto: func(ticker string) bool { return slices.Contains(d.Rules.Crypto, ticker) }})
	if err != nil {
		return none, asProblem(err, NotComputable, amountsHint)
	}
	if q.Form != nil {
		if problem := d.compareForm(&result, q, filed); problem != nil {
			return none, problem
		}
	}
	if problem := checkBoxes(result.Rows, q.Form != nil); problem != nil {
		return none, problem
	}
	form8949.Sort(result.Rows)
	result.ScheduleD, result.ShortTerm, result.LongTerm, err = form8949.ScheduleD(result.Rows)
	var n sums
	n.err = err
	for i := range result.Rows {
		n.add(&result.WashSales.Decimal, result.Rows[i].Adjustment.Decimal)
		n.add(&result.Permanent.Decimal, result.Rows[i].Permanent.Decimal)
	}
	if n.err != nil {
		return none, asProblem(n.err, NotComputable, amountsHint)
	}
	d.addDoubts(&result, book, year, today)
	return result, nil
}

// addDoubts adds what can still change the result, and what makes it doubtful.
func (d *Data) addDoubts(result *answer.GainsResult, book *tax.Book, year int, today tax.Date) {
	if final := tax.DateOf(year+1, time.January, 1).AddDays(tax.WashDays); today < final {
		result.FinalOn = final.String()
	}
	asOf, err := tax.ParseDate(d.Config.AsOf)
	if err != nil {
		asOf = today
	}
	if r, n := d.Config.Realized, (&numbers{}); asOf.Year() == year {
		result.OtherGains = !n.decimal(r.ShortTerm).IsZero() || !n.decimal(r.LongTerm).IsZero()
	}
	sold := make(map[tax.Position]bool)
	for i := range result.Rows {
		sold[tax.Position{Account: result.Rows[i].Account, Ticker: result.Rows[i].Ticker}] = true
	}
	for i := range book.Incomplete {
		g := &book.Incomplete[i]
		if g.Date.Year() <= year && sold[tax.Position{Account: g.Account, Ticker: g.Ticker}] {
			result.DoubtfulLots = append(result.DoubtfulLots, d.gapText(g))
		}
	}
}

// reported returns what the broker of an account reports to the IRS.
func (d *Data) reported(account string) (form8949.Reported, string) {
	for _, a := range d.Config.Accounts {
		if a.ID != account {
			continue
		}
		why := "form_1099 of account " + account
		switch a.Form1099 {
		case config.Form1099Basis:
			return form8949.WithBasis, why
		case config.Form1099NoBasis:
			return form8949.WithoutBasis, why
		case config.Form1099None:
			return form8949.NotReported, why
		}
	}
	return form8949.Unknown, ""
}

// checkGaps refuses a year with a sale of shares that no row acquired: its gain is not known.
func (d *Data) checkGaps(book *tax.Book, filed map[string]bool, year int) *Problem {
	var gaps []*tax.Gap
	for i := range book.Incomplete {
		g := &book.Incomplete[i]
		a, _ := d.account(g.Account)
		action := d.transactions[g.Row].Action
		if g.Date.Year() == year && filed[g.Account] && a.Kind == tax.Taxable &&
			action != tax.Transfer {
			gaps = append(gaps, g)
		}
	}
	if gaps == nil {
		return nil
	}
	return problemf(IncompleteHistory,
		"add the purchase of these shares, or a transfer with donor_basis and donor_date; short sales and written options are not supported",
		"%s%s: its gain is not known", d.gapText(gaps[0]), andMore(len(gaps)-1))
}

// compareForm compares the rows with a Form 1099-B.
func (d *Data) compareForm(result *answer.GainsResult, q GainsQuery,
	filed map[string]bool) *Problem {
	opts := d.importOptions("")
	form, err := importer.ReadForm1099B(q.FormName, q.Form, opts)
	if err != nil {
		problem := fileProblem(err)
		problem.Hint = "correct the file; its columns are " + importer.FormColumns
		return problem
	}
	for i := range form {
		f := &form[i]
		if problem := d.checkConfigured(f.Account, f.Source); problem != nil {
			return problem
		}
		at := sourcePosition(f.Source)
		switch a, _ := d.account(f.Account); {
		case a.Kind != tax.Taxable:
			return problemf(MalformedFile, "name a taxable account",
				"%s: account %s is not taxable (%s)", at, a.ID, a.Kind)
		case !filed[f.Account]:
			return problemf(MalformedFile, "remove the line",
				"%s: account %s belongs to your spouse, and you file separately", at, a.ID)
		case !strings.HasPrefix(f.Sold, fmt.Sprintf("%04d-", result.Year)):
			return problemf(MalformedFile, "give the form of the same year",
				"%s: the sale of %s is not in %d", at, f.Sold, result.Year)
		}
	}
	compared, err := form8949.Compare(result.Rows, form, q.FormName)
	if err != nil {
		return asProblem(err, NotComputable, amountsHint)
	}
	result.Form1099 = compared
	return nil
}

// checkBoxes asks for the boxes that are not known.
func checkBoxes(rows []answer.GainRow, compared bool) *Problem {
	var accounts []string
	var first *answer.GainRow
	unknown := 0
	for i := range rows {
		r := &rows[i]
		if r.Box != "" {
			continue
		}
		unknown++
		if first == nil {
			first = r
		}
		if !slices.Contains(accounts, r.Account) {
			accounts = append(accounts, r.Account)
		}
	}
	if first == nil {
		return nil
	}
	why := ""
	switch {
	case first.BoxReason != "":
		why = ": " + first.BoxReason
	case compared:
		why = ": it is not on the Form 1099-B"
	}
	hint := "add to the account in portfolio.yaml what its broker reports to the IRS: form_1099: basis (boxes A, D), no_basis (B, E) or none (C, F); or give its Form 1099-B: --1099b FILE"
	if compared {
		hint = "add the sale to the file, or to the account in portfolio.yaml: form_1099: basis, no_basis or none"
	}
	return problemf(UnknownBox, hint, "the box of Form 8949 is not known for %s in %s, the first %s sold on %s (%s)%s",
		text.Count(unknown, "sale"), text.JoinSome(accounts, 5), first.Description, first.Sold,
		first.Record, why)
}
