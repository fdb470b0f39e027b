package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"strings"

	"signalbox/brief"
	"signalbox/internal/portfolio"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/serve/mcpserver/schema"
)

// Portfolio answers questions about a portfolio. Its methods may be called concurrently. An answer
// is a JSON object in the requested format, also when it reports a failure.
type Portfolio interface {
	CheckExitSignals(context.Context, portfolio.ExitQuery) portfolio.Answer
	SuggestTaxLossHarvest(context.Context, portfolio.HarvestQuery) portfolio.Answer
	RealizedGains(context.Context, portfolio.GainsQuery) portfolio.Answer
	SimulateSale(context.Context, portfolio.SimulateQuery) portfolio.Answer
	ReconcilePositions(context.Context, portfolio.ReconcileQuery) portfolio.Answer
}

type exitSignalsInput struct {
	Ticker  string      `json:"ticker"`
	Shares  json.Number `json:"shares"`
	Account string      `json:"account_id"`
	AsOf    string      `json:"as_of"`
	Format  string      `json:"format"`
	Output  string      `json:"output"`
}

type harvestInput struct {
	MinLoss   json.Number `json:"min_loss"`
	SortBy    string      `json:"sort_by"`
	WashCheck bool        `json:"include_wash_sale_check"`
	Account   string      `json:"account"`
	Source    string      `json:"source"`
	AsOf      string      `json:"as_of"`
	Format    string      `json:"format"`
	Output    string      `json:"output"`
}

type gainsInput struct {
	Year   json.Number `json:"year"`
	Format string      `json:"format"`
	Output string      `json:"output"`
}

type simulateInput struct {
	Ticker  string      `json:"ticker"`
	Shares  json.Number `json:"shares"`
	Cash    json.Number `json:"cash"`
	Account string      `json:"account_id"`
	Lots    []string    `json:"lots"`
	Method  string      `json:"method"`
	Price   json.Number `json:"price"`
	AsOf    string      `json:"as_of"`
	Format  string      `json:"format"`
	Output  string      `json:"output"`
}

type reconcileInput struct {
	Format string `json:"format"`
	Output string `json:"output"`
}

func (in reconcileInput) format() brief.Format { return brief.Format(in.Format) }

func (in simulateInput) format() brief.Format { return brief.Format(in.Format) }

func (in gainsInput) format() brief.Format { return brief.Format(in.Format) }

func formatArgument(byDefault brief.Format) schema.Property {
	return schema.Choice("format", brief.Formats(),
		"agent: snapshot and flags. summary: the result without long details. full: the whole result. report: Markdown.").Default(byDefault)
}

func outputArgument() schema.Property {
	return schema.Choice("output", brief.Outputs(),
		"file: also write the full result to a file.").Default(brief.OutputInline)
}

func (in exitSignalsInput) format() brief.Format { return brief.Format(in.Format) }
func (in harvestInput) format() brief.Format     { return brief.Format(in.Format) }

const asOfDescription = "Date, for example 2026-01-31. Default: as_of in portfolio.yaml, or today."

func (s *Server) addPortfolio() {
	addPortfolioTool(s, definition{
		name: "check_exit_signals", title: "Check exit signals", readOnly: true,
		aliases:     map[string]string{"account": "account_id"},
		description: "Checks a position against the exit rules of the portfolio: which rules triggered, how much to sell, and where to set the stop. Not investment advice.",
		input: schema.Object(
			schema.Text("ticker", 32, "Ticker or OCC symbol.").Require(),
			schema.Amount("shares", "Shares. Default: the whole position."),
			schema.Text("account_id", 64, "Account. Required if several accounts hold the ticker."),
			schema.Day("as_of", asOfDescription),
			formatArgument(brief.FormatAgent), outputArgument(),
		),
	}, answer.ExitTool(), func(p portfolio.Problem, ticker string) answer.ExitResult {
		return answer.ExitResult{Ticker: oneLine(ticker, 40), Status: string(brief.StatusError),
			Error: p.Text, Problem: answer.Problem{ErrorKind: p.Kind, ErrorHint: p.Hint}}
	}, func(ctx context.Context, desk Portfolio, in exitSignalsInput) portfolio.Answer {
		return desk.CheckExitSignals(ctx,
			portfolio.ExitQuery{Ticker: in.Ticker, Shares: in.Shares.String(),
				AccountID: in.Account, AsOf: in.AsOf,
				Format: in.Format, Output: in.Output})
	})
	addPortfolioTool(s, definition{
		name: "suggest_tax_loss_harvest", title: "Suggest losses to harvest", readOnly: true,
		aliases:     map[string]string{"account_id": "account"},
		description: "Finds open lots that could be sold at a loss for taxes: how much is clean today or later, what wash sales disallow, which losses are lost for good, and what you must not buy until when (US federal rules). Not tax advice.",
		input: schema.Object(
			schema.Amount("min_loss", "Minimum loss of a lot."),
			schema.Choice("sort_by", []string{"loss_amount", "loss_pct", "days_held"},
				"Sort order.").Default("loss_amount"),
			schema.Bool("include_wash_sale_check", "Check for wash sales.").Default(true),
			schema.Text("account", 64, "Only this account. Default: all taxable accounts."),
			schema.Text("source", 255,
				"Only accounts with transactions from this file in the folder transactions, or from files of this kind."),
			schema.Day("as_of", asOfDescription),
			formatArgument(brief.FormatAgent), outputArgument(),
		),
	}, answer.HarvestTool(), func(p portfolio.Problem, _ string) answer.HarvestResult {
		return answer.HarvestResult{Status: string(brief.StatusError), Error: p.Text,
			Problem: answer.Problem{ErrorKind: p.Kind, ErrorHint: p.Hint}}
	}, func(ctx context.Context, desk Portfolio, in harvestInput) portfolio.Answer {
		return desk.SuggestTaxLossHarvest(ctx, portfolio.HarvestQuery{MinLoss: in.MinLoss.String(),
			SortBy: in.SortBy, SkipWashCheck: !in.WashCheck,
			Account: in.Account, Source: in.Source, AsOf: in.AsOf, Format: in.Format,
			Output: in.Output})
	})
}

// addGains adds realized_gains. A Form 1099-B is compared on the command line only: no tool reads a
// file that an agent names.
func (s *Server) addGains() {
	addPortfolioTool(s, definition{
		name: "realized_gains", title: "Realized gains of a year", readOnly: true,
		description: "Lists what the sales of a year realized, as rows of Form 8949 and lines of Schedule D, with what wash sales disallow (US federal rules). Not tax advice.",
		input: schema.Object(
			schema.Integer("year", 1901, 9999,
				"Tax year. Default: the one before that of as_of in portfolio.yaml, or last year."),
			formatArgument(brief.FormatAgent), outputArgument(),
		),
	}, answer.GainsTool(), func(p portfolio.Problem, _ string) answer.GainsResult {
		return answer.GainsResult{Status: string(brief.StatusError), Error: p.Text,
			Problem: answer.Problem{ErrorKind: p.Kind, ErrorHint: p.Hint}}
	}, func(ctx context.Context, desk Portfolio, in gainsInput) portfolio.Answer {
		return desk.RealizedGains(ctx, portfolio.GainsQuery{Year: in.Year.String(),
			Format: in.Format, Output: in.Output})
	})
}

func (s *Server) addSimulation() {
	addPortfolioTool(s, definition{
		name: "simulate_sale", title: "Simulate a sale", readOnly: true,
		aliases:     map[string]string{"account": "account_id"},
		description: "Says whether you can sell a ticker today, and what the sale would do to taxes: gain by term, wash sales, clean date, do-not-buy date, the year (US federal rules). Places no order. Not tax advice.",
		input: schema.Object(
			schema.Text("ticker", 32, "Ticker or OCC symbol.").Require(),
			schema.Amount("shares", "Shares. Default: the whole position, or the lots."),
			schema.Amount("cash", "Dollars wanted before taxes, instead of shares."),
			schema.Text("account_id", 64, "Account. Required if several accounts hold the ticker."),
			schema.TextList("lots", 100, 100, "Lot ids to sell, in this order."),
			schema.Choice("method", []string{"fifo", "lifo", "hifo", "min_tax"},
				"How lots are chosen. Default: that of the account."),
			schema.Amount("price", "Price per share or contract. Default: the last price."),
			schema.Day("as_of", asOfDescription),
			formatArgument(brief.FormatAgent), outputArgument(),
		),
	}, answer.SimulationTool(), func(p portfolio.Problem, ticker string) answer.SimulationResult {
		return answer.SimulationResult{Ticker: oneLine(ticker, 40),
			Status: string(brief.StatusError), Error: p.Text,
			Problem: answer.Problem{ErrorKind: p.Kind, ErrorHint: p.Hint}}
	}, func(ctx context.Context, desk Portfolio, in simulateInput) portfolio.Answer {
		return desk.SimulateSale(ctx, portfolio.SimulateQuery{Ticker: in.Ticker,
			Shares: in.Shares.String(), Cash: in.Cash.String(), AccountID: in.Account,
			Lots: in.Lots, Method: in.Method, Price: in.Price.String(), AsOf: in.AsOf,
			Format: in.Format, Output: in.Output})
	})
}

func (s *Server) addReconcile() {
	addPortfolioTool(s, definition{
		name: "reconcile_positions", title: "Compare positions and lots", readOnly: true,
		description: "Compares the broker's list of positions with the tax lots, by shares and by cost basis, and says which positions differ and why. Ask it before you trust numbers about lots.",
		input:       schema.Object(formatArgument(brief.FormatAgent), outputArgument()),
	}, answer.ReconcileTool(), func(p portfolio.Problem, _ string) answer.ReconcileResult {
		return answer.ReconcileResult{Status: string(brief.StatusError), Error: p.Text,
			Problem: answer.Problem{ErrorKind: p.Kind, ErrorHint: p.Hint}}
	}, func(ctx context.Context, desk Portfolio, in reconcileInput) portfolio.Answer {
		return desk.ReconcilePositions(ctx, portfolio.ReconcileQuery{Format: in.Format,
			Output: in.Output})
	})
}

// addPortfolioTool adds a tool that Options.Portfolio answers. Errors that occur before the
// portfolio is asked have the same format: failed converts a problem to a result that names the
// ticker.
func addPortfolioTool[In interface{ format() brief.Format }, R, S any](s *Server, d definition,
	tool brief.Tool[R, S], failed func(p portfolio.Problem, ticker string) R,
	ask func(context.Context, Portfolio, In) portfolio.Answer) {
	d.output = schema.AnyFormat()
	fail := func(p portfolio.Problem, arguments json.RawMessage, format brief.Format,
		file string) reply {
		text, err := tool.Answer(failed(p, givenTicker(arguments)), format, brief.Saved{Path: file})
		if err != nil { // cannot happen
			text, _ = brief.Encode(brief.Failed(p.Kind, p.Text))
		}
		return reply{text: text, failed: true, file: file, verdict: func() string { return p.Text }}
	}
	addRaw(s, d, func(ctx context.Context, arguments json.RawMessage, err error) reply {
		var in In
		if err == nil {
			in, err = schema.Decode[In](arguments)
		}
		if err != nil { // the format itself may be invalid
			flag, advice := classify(err)
			return fail(portfolio.Problem{Kind: flag, Text: oneLine(err.Error(), 300),
				Hint: advice}, arguments, brief.FormatAgent, "")
		}
		if s.opts.Portfolio == nil {
			return fail(portfolio.Problem{Kind: portfolio.NoPortfolio,
				Text: "this server has no portfolio", Hint: portfolioHint}, arguments, in.format(),
				"")
		}
		answered := ask(ctx, s.opts.Portfolio, in)
		if answered.FilePath != "" {
			if err := s.files.Adopt(answered.FilePath); err != nil {
				s.log.Warn("cannot offer the file of an answer", "file", answered.FilePath, "error",
					err)
			}
		}
		if answered.Problem != nil && answered.Problem.Kind == portfolio.NoPortfolio {
			return fail(withFolder(*answered.Problem), arguments, in.format(), answered.FilePath)
		}
		return reply{answered.JSON, answered.Status == brief.StatusError, answered.FilePath,
			func() string { return extractVerdict(tool, answered.JSON) }}
	})
}

// givenTicker returns the ticker in arguments, which need not be valid otherwise.
func givenTicker(arguments json.RawMessage) string {
	var given struct {
		Ticker string `json:"ticker"`
	}
	if json.Unmarshal(arguments, &given) != nil {
		return ""
	}
	return given.Ticker
}

// portfolioHint is the advice for a server without a portfolio.
const portfolioHint = "the operator sets its folder with signalbox mcp --portfolio DIR or " +
	"SIGNALBOX_PORTFOLIO; signalbox portfolio init DIR creates an example"

// withFolder adds the working directory of the server, where it looks for the portfolio, to a
// problem.
func withFolder(p portfolio.Problem) portfolio.Problem {
	if here, err := os.Getwd(); err == nil {
		p.Text += " (the server runs in " + here + ")"
	}
	p.Hint = portfolioHint
	return p
}

// extractVerdict returns the verdict of an answer in any format.
func extractVerdict[R, S any](tool brief.Tool[R, S], text json.RawMessage) string {
	type withVerdict struct {
		Verdict string `json:"verdict"`
	}
	var parsed struct {
		withVerdict
		Snapshot withVerdict `json:"snapshot"`
		Report   string      `json:"report"`
	}
	if json.Unmarshal(text, &parsed) != nil {
		return "See the answer"
	}
	if parsed.Report != "" { // the verdict is in bold after the title
		_, parsed.Verdict, _ = strings.Cut(parsed.Report, "**")
		parsed.Verdict, _, _ = strings.Cut(parsed.Verdict, "**")
	}
	var result R
	if parsed.Verdict == "" && parsed.Snapshot.Verdict == "" &&
		json.Unmarshal(text, &result) == nil {
		if snapshot, err := brief.Encode(tool.Snapshot(result)); err == nil {
			json.Unmarshal(snapshot, &parsed.Snapshot) // cannot fail
		}
	}
	return cmp.Or(parsed.Verdict, parsed.Snapshot.Verdict, "See the answer")
}
