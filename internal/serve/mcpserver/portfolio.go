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

// Portfolio answers questions about a portfolio. Its methods may be called concurrently. An answer is one JSON object in the format that
// was asked for, and tells of failures too.
type Portfolio interface {
	CheckExitSignals(context.Context, portfolio.ExitQuery) portfolio.Answer
	SuggestTaxLossHarvest(context.Context, portfolio.HarvestQuery) portfolio.Answer
}

type exitsInput struct {
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

func formats(otherwise brief.Format) schema.Property {
	return schema.Choice("format", brief.Formats(), "agent: snapshot and flags. summary: the result without long details. full: all of it. report: Markdown.").Or(otherwise)
}

func outputs() schema.Property {
	return schema.Choice("output", brief.Outputs(), "file: the full result also goes to a file.").Or(brief.OutputInline)
}

func (in exitsInput) format() brief.Format   { return brief.Format(in.Format) }
func (in harvestInput) format() brief.Format { return brief.Format(in.Format) }

const dayOfQuestion = "As 2026-01-31; else as_of of portfolio.yaml, else today."

func (s *Server) addPortfolio() {
	addDesk(s, definition{
		name: "check_exit_signals", title: "Check exit signals", reads: true, aliases: map[string]string{"account": "account_id"},
		description: "Whether to leave a position, by the exit rules of the portfolio: what triggered, how much to sell, and where to put the stop. Not investment advice.",
		input: schema.Object(
			schema.Text("ticker", 16, "The ticker.").Must(),
			schema.Amount("shares", "How many shares; none is the whole position."),
			schema.Text("account_id", 64, "The account; needed if several hold the ticker."),
			schema.Day("as_of", dayOfQuestion),
			formats(brief.FormatAgent), outputs(),
		),
	}, answer.ExitTool(), func(p portfolio.Problem) answer.ExitResult {
		return answer.ExitResult{Status: string(brief.StatusError), Error: p.Text, Problem: answer.Problem{ErrorKind: p.Kind, ErrorHint: p.Hint}}
	}, func(ctx context.Context, desk Portfolio, in exitsInput) portfolio.Answer {
		return desk.CheckExitSignals(ctx, portfolio.ExitQuery{Ticker: in.Ticker, Shares: in.Shares.String(), AccountID: in.Account, AsOf: in.AsOf,
			Format: in.Format, Output: in.Output})
	})
	addDesk(s, definition{
		name: "suggest_tax_loss_harvest", title: "Suggest losses to harvest", reads: true, aliases: map[string]string{"account_id": "account"},
		description: "Which open lots could be sold at a loss for taxes, how much of it would count, and which sales would be wash sales (US federal rules). Not tax advice.",
		input: schema.Object(
			schema.Amount("min_loss", "Only losses of at least this much."),
			schema.Choice("sort_by", []string{"loss_amount", "loss_pct", "days_held"}, "What comes first.").Or("loss_amount"),
			schema.Truth("include_wash_sale_check", "Look for wash sales.").Or(true),
			schema.Text("account", 64, "Only this account; else all taxable ones."),
			schema.Text("source", 255, "Only accounts with transactions from this file in the folder transactions, or from this kind of file."),
			schema.Day("as_of", dayOfQuestion),
			formats(brief.FormatSummary), outputs(),
		),
	}, answer.HarvestTool(), func(p portfolio.Problem) answer.HarvestResult {
		return answer.HarvestResult{Status: string(brief.StatusError), Error: p.Text, Problem: answer.Problem{ErrorKind: p.Kind, ErrorHint: p.Hint}}
	}, func(ctx context.Context, desk Portfolio, in harvestInput) portfolio.Answer {
		return desk.SuggestTaxLossHarvest(ctx, portfolio.HarvestQuery{MinLoss: in.MinLoss.String(), SortBy: in.SortBy, SkipWashCheck: !in.WashCheck,
			Account: in.Account, Source: in.Source, AsOf: in.AsOf, Format: in.Format, Output: in.Output})
	})
}

// addDesk adds a tool that the portfolio answers, in its own formats. What the portfolio is not even asked is answered as it would: failed
// is its result for a problem.
func addDesk[In interface{ format() brief.Format }, R, S any](s *Server, d definition, tool brief.Tool[R, S], failed func(portfolio.Problem) R,
	ask func(context.Context, Portfolio, In) portfolio.Answer) {
	d.output = schema.AnyFormat()
	refuse := func(p portfolio.Problem, format brief.Format, file string) reply {
		text, err := tool.Answer(failed(p), format, brief.Saved{Path: file})
		if err != nil { // a failed result has nothing in it that could not be written
			text, _ = brief.Encode(brief.Failed(p.Kind, p.Text))
		}
		return reply{text: text, failed: true, file: file, verdict: func() string { return p.Text }}
	}
	addRaw(s, d, func(ctx context.Context, arguments json.RawMessage, err error) reply {
		var in In
		if err == nil {
			in, err = schema.Decode[In](arguments)
		}
		if err != nil { // the format too may be what is wrong
			flag, todo := classify(err)
			return refuse(portfolio.Problem{Kind: flag, Text: line(err.Error(), 300), Hint: todo}, brief.FormatAgent, "")
		}
		if s.opts.Portfolio == nil {
			return refuse(portfolio.Problem{Kind: portfolio.NoPortfolio, Text: "this server has no portfolio", Hint: nameFolder}, in.format(), "")
		}
		told := ask(ctx, s.opts.Portfolio, in)
		if told.FilePath != "" {
			if err := s.files.Adopt(told.FilePath); err != nil {
				s.log.Warn("cannot give out the file of an answer", "file", told.FilePath, "error", err)
			}
		}
		if told.Problem != nil && told.Problem.Kind == portfolio.NoPortfolio {
			return refuse(noFolder(*told.Problem), in.format(), told.FilePath)
		}
		return reply{told.JSON, told.Status == brief.StatusError, told.FilePath, func() string { return verdictIn(tool, told.JSON) }}
	})
}

// nameFolder says how a server comes by a portfolio.
const nameFolder = "the operator names its folder with signalbox mcp --portfolio DIR or " +
	"SIGNALBOX_PORTFOLIO; signalbox portfolio init DIR makes an example"

// noFolder says it to who does not know where the server was started, which is where it looks.
func noFolder(p portfolio.Problem) portfolio.Problem {
	if here, err := os.Getwd(); err == nil {
		p.Text += " (the server runs in " + here + ")"
	}
	p.Hint = nameFolder
	return p
}

// verdictIn finds the verdict of an answer in any format.
func verdictIn[R, S any](tool brief.Tool[R, S], text json.RawMessage) string {
	type spoken struct {
		Verdict string `json:"verdict"`
	}
	var told struct {
		spoken
		Snapshot spoken `json:"snapshot"`
		Report   string `json:"report"`
	}
	if json.Unmarshal(text, &told) != nil {
		return "See the answer"
	}
	if told.Report != "" { // in which it stands in bold, after the title
		_, told.Verdict, _ = strings.Cut(told.Report, "**")
		told.Verdict, _, _ = strings.Cut(told.Verdict, "**")
	}
	var result R
	if told.Verdict == "" && told.Snapshot.Verdict == "" && json.Unmarshal(text, &result) == nil {
		if snapshot, err := brief.Encode(tool.Snapshot(result)); err == nil {
			json.Unmarshal(snapshot, &told.Snapshot) // of what was just encoded
		}
	}
	return cmp.Or(told.Verdict, told.Snapshot.Verdict, "See the answer")
}
