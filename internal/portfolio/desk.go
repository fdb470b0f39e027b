package portfolio

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"time"

	"signalbox/brief"
	"signalbox/internal/durable"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/text"
)

// Desk answers questions about the portfolio in a folder. It reads the folder for each question, so
// that answers never depend on old files. It is safe for concurrent use.
type Desk struct {
	dir  string
	opts Options
	// slots limits the number of concurrent questions, because each has all transactions in memory.
	slots chan struct{}
}

const maxQuestions = 2

// Options configures a [Desk].
type Options struct {
	// Logs is the folder for full results, in the subfolders exit_signals and tax_harvest. It is
	// created when needed. Empty means logs in the current folder.
	Logs string
	// Now returns the current time; nil means time.Now. Only the date is used in answers.
	Now func() time.Time
}

// NewDesk returns a desk for a folder, which is first read by the first question. A nil opts means
// the zero Options.
func NewDesk(dir string, opts *Options) *Desk {
	d := &Desk{dir: dir, slots: make(chan struct{}, maxQuestions)}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Now == nil {
		d.opts.Now = time.Now
	}
	if d.opts.Logs == "" {
		d.opts.Logs = "logs"
	}
	return d
}

// Lot is an open lot; Amount is the type of its numbers.
type (
	Lot    = answer.Lot
	Amount = answer.Amount
)

// Answer is the answer to a question, in the requested format.
type Answer struct {
	// JSON is one object.
	JSON   json.RawMessage
	Status brief.Status
	// FilePath is the file with the full result, if it was requested and written.
	FilePath string
	// Problem is the reason if the status is error. If only the file could not be written, the
	// status is success and the kind of the problem FileNotSaved. Otherwise it is nil.
	Problem *Problem
}

// ExitQuery is a question to check_exit_signals. Empty fields have the default in the comment.
type ExitQuery struct {
	Ticker    string
	Shares    string // a number; default: the whole position
	AccountID string // required if several accounts hold the ticker
	AsOf      string // a date; default: as_of in portfolio.yaml, or today
	Format    string // default: agent
	Output    string // default: inline
}

// HarvestQuery is a question to suggest_tax_loss_harvest. Empty fields have the default in the
// comment.
type HarvestQuery struct {
	MinLoss       string // a number; default: 0
	SortBy        string // default: loss_amount
	Account       string // default: all taxable accounts
	Source        string // a file in transactions, or the name of a format; default: all
	AsOf          string // a date; default: as_of in portfolio.yaml, or today
	SkipWashCheck bool
	Format        string // default: summary
	Output        string // default: inline
}

// CheckExitSignals evaluates the exit rules of a position.
func (d *Desk) CheckExitSignals(ctx context.Context, q ExitQuery) Answer {
	return query[answer.ExitResult, answer.ExitSnapshot]{
		tool: answer.ExitTool(), filePrefix: answer.ExitFilePrefix,
		format: cmp.Or(q.Format, string(brief.FormatAgent)), output: q.Output,
		failed: func(problem *Problem) answer.ExitResult {
			return failedExit(q, problem)
		},
		compute: func() (answer.ExitResult, string, *Problem) {
			result := d.Exits(ctx, q)
			return result, result.Ticker, problemOf(result.Status, result.Error, result.Problem)
		},
	}.answer(ctx, d)
}

// SuggestTaxLossHarvest finds losses that could be harvested, and how much of them would be
// deductible.
func (d *Desk) SuggestTaxLossHarvest(ctx context.Context, q HarvestQuery) Answer {
	return query[answer.HarvestResult, answer.HarvestSnapshot]{
		tool: answer.HarvestTool(), filePrefix: answer.HarvestFilePrefix,
		format: cmp.Or(q.Format, string(brief.FormatSummary)), output: q.Output,
		failed: failedHarvest,
		compute: func() (answer.HarvestResult, string, *Problem) {
			result := d.Harvest(ctx, q)
			return result, "", problemOf(result.Status, result.Error, result.Problem)
		},
	}.answer(ctx, d)
}

func problemOf(status, text string, problem answer.Problem) *Problem {
	if brief.StatusOf(status) == brief.StatusSuccess {
		return nil
	}
	return &Problem{Kind: problem.ErrorKind, Text: text, Hint: problem.ErrorHint}
}

// ErrorOf returns the error of a result that failed, with a code, and nil if it succeeded.
func ErrorOf(status, text string, problem answer.Problem) error {
	if p := problemOf(status, text, problem); p != nil {
		return WithCode(p)
	}
	return nil
}

// query is a question to one of the tools, with result R and snapshot S.
type query[R, S any] struct {
	tool           brief.Tool[R, S]
	filePrefix     string // of the names of saved results
	format, output string
	// failed returns the result for a problem with the query itself.
	failed func(*Problem) R
	// compute returns the result, and the ticker for the name of the file.
	compute func() (R, string, *Problem)
}

// answer parses format and output, saves the full result and encodes the answer. If the format is
// not known, the answer has the format agent.
func (q query[R, S]) answer(ctx context.Context, d *Desk) Answer {
	form, err := brief.ParseFormat(q.format)
	where := brief.OutputInline
	if err == nil {
		where, err = brief.ParseOutput(cmp.Or(q.output, string(brief.OutputInline)))
	}
	if err != nil {
		problem := problemf(BadArgument, "use one of these, or omit it for the default", "%v", err)
		text, err := q.tool.Answer(q.failed(problem), brief.FormatAgent, brief.Saved{})
		if err != nil {
			return failed(NotComputable, err)
		}
		return Answer{JSON: text, Status: brief.StatusError, Problem: problem}
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done(): // compute reports it
	}
	found, ticker, problem := q.compute()
	var saved brief.Saved
	if where == brief.OutputFile {
		saved = d.save(found, q.filePrefix, ticker)
	}
	if saved.Err != nil && problem == nil {
		problem = problemf(FileNotSaved, "check that the folder can be written to",
			"the full result could not be saved: %v", saved.Err)
	}
	text, err := q.tool.Answer(found, form, saved)
	if err != nil {
		return failed(NotComputable, err)
	}
	response := Answer{JSON: text, Status: brief.StatusSuccess, FilePath: saved.Path, Problem: problem}
	if problem != nil && problem.Kind != FileNotSaved {
		response.Status = brief.StatusError
	}
	return response
}

func failed(kind string, err error) Answer {
	text, encodeErr := brief.Encode(brief.Failed(kind, err.Error()))
	if encodeErr != nil {
		text = json.RawMessage(
			`{"status":"error","format":"agent","snapshot":{},"flags":[],"file_path":null}`)
	}
	return Answer{JSON: text, Status: brief.StatusError,
		Problem: &Problem{Kind: kind, Text: err.Error()}}
}

// save writes a full result to a new file.
func (d *Desk) save(result any, prefix, ticker string) brief.Saved {
	if answer.CheckTicker(ticker) != nil {
		ticker = "" // not usable in a file name; the answer reports what is wrong with it
	}
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		return brief.Saved{Err: err}
	}
	name, err := brief.FileName(prefix, ticker, d.opts.Now(), hex.EncodeToString(random))
	if err != nil {
		return brief.Saved{Err: err}
	}
	return brief.Save(result, name, func(name string, data []byte) (string, error) {
		logs, err := filepath.Abs(d.opts.Logs)
		if err != nil {
			return "", err
		}
		folder := filepath.Join(logs, prefix)
		for _, dir := range []string{logs, folder} {
			if err := durable.MakeFolder(dir); err != nil {
				return "", err
			}
		}
		path := filepath.Join(folder, name)
		return path, durable.Create(path, data, 0o600)
	})
}

func (d *Desk) today() tax.Date { return tax.DateOf(d.opts.Now().Date()) }

// day returns the date of a question: the one asked for, or the configured one, or today.
func (d *Desk) day(asked, configured string) (tax.Date, *Problem) {
	today := d.today()
	date, where := asked, "as_of"
	if date == "" {
		date, where = configured, "as_of in portfolio.yaml"
	}
	if date == "" {
		return today, nil
	}
	day, err := tax.ParseDate(date)
	if err != nil {
		return 0, problemf(BadArgument, "write a date such as 2026-06-30", "%s: %q is not a date",
			where, text.Shorten(date, 40))
	}
	if day > today {
		return 0, problemf(FutureDate, "use today or an earlier date",
			"%s: %s is in the future, today is %s", where, day, today)
	}
	return day, nil
}

// checkNoFuture refuses rows with a date in the future.
func (d *Desk) checkNoFuture(data *Data) *Problem {
	today := d.today()
	for i := range data.transactions {
		if t := &data.transactions[i]; t.Date > today {
			return problemf(FutureDate, "correct the date of the row",
				"%s: %s is in the future, today is %s", sourcePosition(t.Source), t.Date, today)
		}
	}
	return nil
}

// open reads the folder and returns the date of the question.
func (d *Desk) open(ctx context.Context, asOf string) (*Data, tax.Date, *Problem) {
	if err := ctx.Err(); err != nil {
		return nil, 0, problemf(NotComputable, "ask again", "the question was cancelled: %v", err)
	}
	data, problem := load(d.dir, ifNeeded)
	if problem != nil {
		return nil, 0, problem
	}
	if problem := d.checkNoFuture(data); problem != nil {
		return nil, 0, problem
	}
	day, problem := d.day(asOf, data.Config.AsOf)
	if problem != nil {
		return nil, 0, problem
	}
	return data, day, data.checkSplits(day)
}

// build computes the lots from the transactions up to a day.
func (d *Data) build(on tax.Date) (*tax.Book, *Problem) {
	book, err := tax.Build(d.Rules, d.transactions, on)
	if err != nil {
		return nil, fileProblem(err)
	}
	return book, nil
}

// LotsQuery is a question for lots. Empty fields select everything.
type LotsQuery struct {
	AsOf    string // a date; the default is as_of in portfolio.yaml, or today
	Account string
	Ticker  string
}

// Lots returns the open lots on a day, sorted by account, ticker and date. The error is a
// *[Problem].
func (d *Desk) Lots(ctx context.Context, q LotsQuery) ([]Lot, error) {
	data, day, problem := d.open(ctx, q.AsOf)
	if problem != nil {
		return nil, problem
	}
	lots, problem := data.lots(q, day)
	if problem != nil {
		return nil, problem
	}
	return lots, nil
}

func (d *Data) lots(q LotsQuery, day tax.Date) ([]Lot, *Problem) {
	ticker := normalTicker(q.Ticker)
	if problem := d.checkKnown(q.Account); problem != nil {
		return nil, problem
	}
	if ticker != "" && !d.traded(ticker) {
		return nil, problemf(UnknownTicker, d.knownTickers(), "%s is not in any transaction",
			text.Shorten(ticker, 40))
	}
	book, problem := d.build(day)
	if problem != nil {
		return nil, problem
	}
	held, problem := d.held(book)
	if problem != nil {
		return nil, problem
	}
	_, surplus, err := tax.Reconcile(book, held, nil)
	if err != nil {
		return nil, asProblem(err, NotComputable, amountsHint)
	}
	notHeld := make(map[tax.Position]bool)
	for _, p := range surplus {
		notHeld[p.Position] = true
	}
	lots, splits := make([]Lot, 0, len(book.Lots)), d.splits(day)
	prices := make(map[string]*Decimal) // nil: not known
	for i := range book.Lots {
		l := &book.Lots[i]
		if q.Account != "" && l.Account != q.Account || ticker != "" && l.Ticker != ticker {
			continue
		}
		price, asked := prices[l.Ticker]
		if !asked {
			if q, problem := d.quote(l.Ticker, day, splits[l.Ticker]); problem == nil {
				price = &q.Decimal
			}
			prices[l.Ticker] = price
		}
		shown := Lot{Account: l.Account, Ticker: l.Ticker, LotDate: l.LotDate.String(),
			HoldingStart: l.HoldingStart.String(), LongTermFrom: longTermFrom(l).String(),
			Quantity: amount(l.Quantity), BasisTotal: amount(l.Basis),
			BasisAdjustment: amount(l.BasisAdjustment), LotID: l.LotID,
			NotHeld: notHeld[tax.Position{Account: l.Account, Ticker: l.Ticker}]}
		if price != nil {
			gain, err := l.GainAt(*price)
			if err != nil {
				return nil, asProblem(err, NotComputable, amountsHint)
			}
			shown.Price, shown.Gain = &answer.Amount{Decimal: *price},
				&answer.Amount{Decimal: gain.Trim(0)}
		}
		lots = append(lots, shown)
	}
	return lots, nil
}

// longTermFrom returns the first day on which a sale of a lot is long-term.
func longTermFrom(l *tax.Lot) tax.Date {
	if l.AlwaysLong {
		return l.LotDate
	}
	return tax.LongTermFrom(l.HoldingStart)
}
