package portfolio

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"signalbox/brief"
	"signalbox/internal/durable"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/tax"
)

// Desk answers questions about the portfolio in a folder. Each question reads the folder anew, so that an answer is
// never about files that have changed. It may be used concurrently.
type Desk struct {
	dir  string
	opts Options
	// slots bounds how many questions are worked on at once: each holds all transactions in memory.
	slots chan struct{}
}

const maxQuestions = 2

// Options are what a desk needs beside its folder.
type Options struct {
	// Logs is the folder below which full results are saved: exit_signals and tax_harvest are made in it. It is made
	// if need be. Empty means logs in the current folder.
	Logs string
	// Now says what time it is; nil means time.Now. Only its date is part of an answer.
	Now func() time.Time
}

// NewDesk makes a desk for a folder, which is not looked at before the first question. A nil opts means the zero
// Options.
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

// Lot is an open lot, and Amount what its numbers are.
type (
	Lot    = answer.Lot
	Amount = answer.Amount
)

// Answer is what a tool says, in the format that was asked for.
type Answer struct {
	// JSON is one object.
	JSON   json.RawMessage
	Status brief.Status
	// FilePath is the full result's file, if one was asked for and written.
	FilePath string
	// Problem is why the status is error; nil if it is not.
	Problem *Problem
}

// ExitQuery asks check_exit_signals. What is empty has its default.
type ExitQuery struct {
	Ticker    string
	Shares    string // a number; the whole position
	AccountID string // needed if several accounts hold the ticker
	AsOf      string // a date; as in portfolio.yaml, or today
	Format    string // agent
	Output    string // inline
}

// HarvestQuery asks suggest_tax_loss_harvest. What is empty has its default.
type HarvestQuery struct {
	MinLoss       string // a number; all losses
	SortBy        string // loss_amount
	Account       string // all taxable accounts
	Source        string // all: else a file in transactions, or the name of a format
	AsOf          string // a date; as in portfolio.yaml, or today
	SkipWashCheck bool
	Format        string // summary
	Output        string // inline
}

// CheckExitSignals says whether to leave a position.
func (d *Desk) CheckExitSignals(ctx context.Context, q ExitQuery) Answer {
	return ask(ctx, d, q.Format, brief.FormatAgent, q.Output, answer.ExitTool(), answer.ExitFilePrefix,
		func(problem *Problem) answer.ExitResult {
			return failedExit(answer.ExitResult{Ticker: "unknown"}, problem)
		},
		func() (answer.ExitResult, string, *Problem) {
			result := d.Exits(ctx, q)
			return result, result.Ticker, problemOf(result.Status, result.Error, result.Problem)
		})
}

// SuggestTaxLossHarvest says which losses could be taken, and how much of them would count.
func (d *Desk) SuggestTaxLossHarvest(ctx context.Context, q HarvestQuery) Answer {
	return ask(ctx, d, q.Format, brief.FormatSummary, q.Output, answer.HarvestTool(), answer.HarvestFilePrefix, failedHarvest,
		func() (answer.HarvestResult, string, *Problem) {
			result := d.Harvest(ctx, q)
			return result, "", problemOf(result.Status, result.Error, result.Problem)
		})
}

func problemOf(status, text string, problem answer.Problem) *Problem {
	if brief.StatusOf(status) == brief.StatusSuccess {
		return nil
	}
	return &Problem{Kind: problem.ErrorKind, Text: text, Hint: problem.ErrorHint}
}

// ask does what both tools have in common: the form of the question, saving, the form of the answer. The result comes
// with the ticker that its file is named after. A question in a form that is not known is answered as to an agent.
func ask[R, S any](ctx context.Context, d *Desk, format string, otherwise brief.Format, output string, tool brief.Tool[R, S], prefix string,
	failure func(*Problem) R, result func() (R, string, *Problem)) Answer {
	form, err := brief.ParseFormat(or(format, string(otherwise)))
	where := brief.OutputInline
	if err == nil {
		where, err = brief.ParseOutput(or(output, string(brief.OutputInline)))
	}
	if err != nil {
		problem := problemf(BadArgument, "ask again with one of these, or with none for the default", "%v", err)
		text, err := tool.Answer(failure(problem), brief.FormatAgent, brief.Saved{})
		if err != nil {
			return failed(NotComputable, err)
		}
		return Answer{JSON: text, Status: brief.StatusError, Problem: problem}
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done(): // the question is asked all the same, and says that it was withdrawn
	}
	found, ticker, problem := result()
	var saved brief.Saved
	if where == brief.OutputFile {
		saved = d.save(found, prefix, ticker)
	}
	if saved.Err != nil && problem == nil {
		problem = problemf(FileNotSaved, "check that the folder can be written to", "the full result could not be saved: %v", saved.Err)
	}
	text, err := tool.Answer(found, form, saved)
	if err != nil {
		return failed(NotComputable, err)
	}
	told := Answer{JSON: text, Status: brief.StatusSuccess, FilePath: saved.Path, Problem: problem}
	if problem != nil {
		told.Status = brief.StatusError
	}
	return told
}

func failed(kind string, err error) Answer {
	text, encodeErr := brief.Encode(brief.Failed(kind, err.Error()))
	if encodeErr != nil {
		text = json.RawMessage(`{"status":"error","format":"agent","snapshot":{},"flags":[],"file_path":null}`)
	}
	return Answer{JSON: text, Status: brief.StatusError, Problem: &Problem{Kind: kind, Text: err.Error()}}
}

// save writes a full result into a file of its own.
func (d *Desk) save(result any, prefix, ticker string) brief.Saved {
	if answer.CheckTicker(ticker) != nil {
		ticker = "" // none, or one that names no file; the answer says what is wrong with it
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

// day is the day of a question.
func (d *Desk) day(asked, configured string) (tax.Date, *Problem) {
	now := d.opts.Now()
	today := tax.DateOf(now.Year(), now.Month(), now.Day())
	text, where := asked, "as_of"
	if text == "" {
		text, where = configured, "as_of in portfolio.yaml"
	}
	if text == "" {
		return today, nil
	}
	day, err := tax.ParseDate(text)
	if err != nil {
		return 0, problemf(BadArgument, "write a date such as 2026-06-30", "%s: date %q is not a day written as 2024-01-31", where, cut(text))
	}
	if day > today {
		return 0, problemf(FutureDate, "ask about today or a day before", "%s: %s is in the future, today is %s", where, day, today)
	}
	return day, nil
}

// noFuture refuses rows that have not happened yet: what they would do to lots is not known.
func (d *Desk) noFuture(data *Data) *Problem {
	now := d.opts.Now()
	today := tax.DateOf(now.Year(), now.Month(), now.Day())
	for i := range data.transactions {
		if t := &data.transactions[i]; t.Date > today {
			return problemf(FutureDate, "correct the date of the row", "%s:%d: %s is in the future, today is %s", t.Source.File, t.Source.Line, t.Date, today)
		}
	}
	return nil
}

// open reads the folder and finds the day of a question.
func (d *Desk) open(ctx context.Context, asOf string) (*Data, tax.Date, *Problem) {
	if err := ctx.Err(); err != nil {
		return nil, 0, problemf(NotComputable, "ask again", "the question was withdrawn: %v", err)
	}
	data, problem := load(d.dir, ifNeeded)
	if problem != nil {
		return nil, 0, problem
	}
	if problem := d.noFuture(data); problem != nil {
		return nil, 0, problem
	}
	day, problem := d.day(asOf, data.Config.AsOf)
	if problem != nil {
		return nil, 0, problem
	}
	return data, day, data.checkSplits(day)
}

// build folds the transactions up to a day.
func (d *Data) build(on tax.Date) (*tax.Book, *Problem) {
	book, err := tax.Build(d.Rules, d.transactions, on)
	if err != nil {
		return nil, fileProblem(err)
	}
	return book, nil
}

// LotsQuery asks for lots. What is empty does not narrow the list.
type LotsQuery struct {
	AsOf    string // a date; as in portfolio.yaml, or today
	Account string
	Ticker  string
}

// Lots returns the open lots on a day, in the order of accounts, tickers and dates. The error is a *[Problem].
func (d *Desk) Lots(ctx context.Context, q LotsQuery) ([]Lot, error) {
	data, day, problem := d.open(ctx, q.AsOf)
	if problem != nil {
		return nil, problem
	}
	ticker := strings.ToUpper(q.Ticker)
	if _, known := data.account(q.Account); q.Account != "" && !known {
		return nil, problemf(UnknownAccount, "name one of "+strings.Join(data.accountIDs(), ", "), "account %q is not in the portfolio", cut(q.Account))
	}
	if ticker != "" && !data.traded(ticker) {
		return nil, problemf(UnknownTicker, data.knownTickers(), "%s is nowhere among the transactions", cut(ticker))
	}
	book, problem := data.build(day)
	if problem != nil {
		return nil, problem
	}
	lots := make([]Lot, 0, len(book.Lots))
	for i := range book.Lots {
		l := &book.Lots[i]
		if q.Account != "" && l.Account != q.Account || ticker != "" && l.Ticker != ticker {
			continue
		}
		lots = append(lots, Lot{Account: l.Account, Ticker: l.Ticker, LotDate: l.LotDate.String(), HoldingStart: l.HoldingStart.String(),
			Quantity: amount(l.Quantity), BasisTotal: amount(l.Basis), BasisAdjustment: amount(l.BasisAdjustment), LotID: l.LotID})
	}
	return lots, nil
}
