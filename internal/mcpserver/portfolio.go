package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"

	"signalbox/brief"
	"signalbox/internal/portfolio"
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

// amount is an argument that is money or a quantity.
func amount(name, description string) property {
	least, most := 0.0, 1e15
	return property{name, false, &jsonschema.Schema{Type: "number", Minimum: &least, Maximum: &most, Description: description}}
}

func day(name, description string) property {
	p := text(name, 10, description)
	p.schema.Pattern = `^\d{4}-\d{2}-\d{2}$`
	return p
}

func formats(otherwise brief.Format) property {
	return choice("format", brief.Formats(), "agent: a snapshot and flags. summary: the result without long details. full: all of it. report: Markdown for people.").or(otherwise)
}

func outputs() property {
	return choice("output", brief.Outputs(), "inline: the answer alone. file: the full result also goes to a file.").or(brief.OutputInline)
}

func (s *Server) addPortfolio() {
	addDesk(s, definition{
		name: "check_exit_signals", title: "Check exit signals", reads: true,
		description: "Whether to leave a position, by the exit rules of the portfolio: what triggered, how much to sell, and where to put the stop. Not investment advice.",
		input: object(
			text("ticker", 16, "The ticker.").must(),
			amount("shares", "How many shares; none is the whole position."),
			text("account_id", 64, "The account; needed if several hold the ticker."),
			day("as_of", "The day, as 2026-01-31; else today."),
			formats(brief.FormatAgent), outputs(),
		),
	}, func(ctx context.Context, desk Portfolio, in exitsInput) portfolio.Answer {
		return desk.CheckExitSignals(ctx, portfolio.ExitQuery{Ticker: in.Ticker, Shares: in.Shares.String(), AccountID: in.Account, AsOf: in.AsOf,
			Format: in.Format, Output: in.Output})
	})
	addDesk(s, definition{
		name: "suggest_tax_loss_harvest", title: "Suggest losses to harvest", reads: true,
		description: "Which open lots could be sold at a loss for taxes, how much of it would count, and which sales would be wash sales (US federal rules). Not tax advice.",
		input: object(
			amount("min_loss", "Only losses of at least this much."),
			choice("sort_by", []string{"loss_amount", "loss_pct", "days_held"}, "What comes first.").or("loss_amount"),
			truth("include_wash_sale_check", "Look for wash sales.").or(true),
			text("account", 64, "Only this account; else all taxable ones."),
			text("source", 255, "Only transactions from this file, or of this broker's format."),
			day("as_of", "The day of the sales, as 2026-01-31; else today."),
			formats(brief.FormatSummary), outputs(),
		),
	}, func(ctx context.Context, desk Portfolio, in harvestInput) portfolio.Answer {
		return desk.SuggestTaxLossHarvest(ctx, portfolio.HarvestQuery{MinLoss: in.MinLoss.String(), SortBy: in.SortBy, SkipWashCheck: !in.WashCheck,
			Account: in.Account, Source: in.Source, AsOf: in.AsOf, Format: in.Format, Output: in.Output})
	})
}

// addDesk adds a tool that the portfolio answers, in its own formats.
func addDesk[In any](s *Server, d definition, ask func(context.Context, Portfolio, In) portfolio.Answer) {
	d.output = deskOutput()
	addRaw(s, d, func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, bool, []string) {
		in, err := decode[In](arguments)
		if err == nil && s.opts.Portfolio == nil {
			err = problemf("no_portfolio", "the operator gives one with signalbox mcp --portfolio DIR; signalbox portfolio init makes an example",
				"this server has no portfolio")
		}
		if err != nil {
			failed, _ := brief.Encode(brief.Failed(explain(err)))
			return failed, true, nil
		}
		answer := ask(ctx, s.opts.Portfolio, in)
		if answer.FilePath == "" {
			return answer.JSON, answer.Status == brief.StatusError, nil
		}
		if err := s.files.adopt(answer.FilePath); err != nil {
			s.log.Warn("cannot give out the file of an answer", "file", answer.FilePath, "error", err)
		}
		return answer.JSON, answer.Status == brief.StatusError, []string{answer.FilePath}
	})
}

// deskOutput allows every format. Only the agent's form is fixed; what a result has beside its status is documented with the tool.
func deskOutput() *jsonschema.Schema {
	status := func() *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Enum: anyOf([]brief.Status{brief.StatusSuccess, brief.StatusError}), Description: "whether the tool did its job"}
	}
	form := func(of ...brief.Format) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Enum: anyOf(of)}
	}
	path := &jsonschema.Schema{Types: []string{"null", "string"}, Description: "the file with the full result, if one was asked for and written"}
	flag := object(property{"flag", true, &jsonschema.Schema{Type: "string"}}, property{"severity", true, &jsonschema.Schema{Type: "string", Enum: severities()}},
		property{"message", true, &jsonschema.Schema{Type: "string"}})
	flags := &jsonschema.Schema{Type: "array", Items: flag, Description: "what to look at, the gravest first"}
	agent := object(property{"status", true, status()}, property{"format", true, form(brief.FormatAgent)},
		property{"snapshot", true, &jsonschema.Schema{Type: "object", Description: "what a decision needs; the same keys on success and error"}},
		property{"flags", true, flags}, property{"file_path", true, path})
	agent.Description = "format agent"
	report := object(property{"status", true, status()}, property{"format", true, form(brief.FormatReport)},
		property{"report", true, &jsonschema.Schema{Type: "string", Description: "Markdown"}}, property{"file_path", true, path.CloneSchemas()}, property{"flags", false, flags.CloneSchemas()})
	report.Description = "format report"
	result := &jsonschema.Schema{Type: "object", Description: "formats summary and full: the result",
		Properties: map[string]*jsonschema.Schema{"status": status(), "file_path": path.CloneSchemas(), "format": {Not: form(brief.FormatAgent, brief.FormatReport)}},
		Required:   []string{"status"}}
	return &jsonschema.Schema{Type: "object", AnyOf: []*jsonschema.Schema{agent, report, result}}
}
