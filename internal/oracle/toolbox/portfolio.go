package toolbox

import (
	"context"
	"encoding/json"
	"errors"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/portfolio"
)

// Portfolio answers questions about a portfolio. Its methods may be called concurrently. An answer
// is a JSON object, also when it reports a failure. *portfolio.Desk implements it.
type Portfolio interface {
	CheckExitSignals(context.Context, portfolio.ExitQuery) portfolio.Answer
	SuggestTaxLossHarvest(context.Context, portfolio.HarvestQuery) portfolio.Answer
}

type exitsInput struct {
	Ticker  string      `json:"ticker"`
	Shares  json.Number `json:"shares"`
	Account string      `json:"account_id"`
	AsOf    string      `json:"as_of"`
}

// The descriptions are the same as those of the MCP tools with the same names; a test compares
// them. The arguments format and output are left out: a model always gets the brief for agents, and
// no files are written.
const dayProperty = `{"type":"string","maxLength":10,"pattern":"^\\d{4}-\\d{2}-\\d{2}$","description":"Date, for example 2026-01-31. Default: as_of in portfolio.yaml, or today."}`

const agentFormat = "agent"

// CheckExitSignals returns the tool check_exit_signals.
func CheckExitSignals(p Portfolio) Tool {
	return Tool{
		Name:        "check_exit_signals",
		Description: "Checks a position against the exit rules of the portfolio: which rules triggered, how much to sell, and where to set the stop. Not investment advice.",
		Kind:        prompt.PortfolioTool,
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"ticker":{"type":"string","maxLength":32,"description":"Ticker or OCC symbol."},` +
			`"shares":{"type":"number","minimum":0,"maximum":1e15,"description":"Shares. Default: the whole position."},` +
			`"account_id":{"type":"string","maxLength":64,"description":"Account. Required if several accounts hold the ticker."},` +
			`"as_of":` + dayProperty + `},"required":["ticker"],"additionalProperties":false}`),
		ReadOnly: true,
		Use: func(ctx context.Context, call Call) (Result, error) {
			in, err := decode[exitsInput](call.Arguments)
			if err != nil {
				return Result{}, err
			}
			return portfolioResult(ctx, "exit signals of "+in.Ticker,
				p.CheckExitSignals(ctx,
					portfolio.ExitQuery{Ticker: in.Ticker, Shares: in.Shares.String(),
						AccountID: in.Account, AsOf: in.AsOf, Format: agentFormat}))
		},
	}
}

type harvestInput struct {
	MinLoss   json.Number `json:"min_loss"`
	SortBy    string      `json:"sort_by"`
	WashCheck *bool       `json:"include_wash_sale_check"`
	Account   string      `json:"account"`
	Source    string      `json:"source"`
	AsOf      string      `json:"as_of"`
}

// SuggestTaxLossHarvest returns the tool suggest_tax_loss_harvest.
func SuggestTaxLossHarvest(p Portfolio) Tool {
	return Tool{
		Name:        "suggest_tax_loss_harvest",
		Description: "Finds open lots that could be sold at a loss for taxes: how much is clean today or later, what wash sales disallow, which losses are lost for good, and what you must not buy until when (US federal rules). Not tax advice.",
		Kind:        prompt.PortfolioTool,
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"min_loss":{"type":"number","minimum":0,"maximum":1e15,"description":"Minimum loss of a lot."},` +
			`"sort_by":{"type":"string","enum":["loss_amount","loss_pct","days_held"],"default":"loss_amount","description":"Sort order."},` +
			`"include_wash_sale_check":{"type":"boolean","default":true,"description":"Check for wash sales."},` +
			`"account":{"type":"string","maxLength":64,"description":"Only this account. Default: all taxable accounts."},` +
			`"source":{"type":"string","maxLength":255,"description":"Only accounts with transactions from this file in the folder transactions, or from files of this kind."},` +
			`"as_of":` + dayProperty + `},"additionalProperties":false}`),
		ReadOnly: true,
		Use: func(ctx context.Context, call Call) (Result, error) {
			in, err := decode[harvestInput](call.Arguments)
			if err != nil {
				return Result{}, err
			}
			return portfolioResult(ctx, "losses to harvest",
				p.SuggestTaxLossHarvest(ctx, portfolio.HarvestQuery{MinLoss: in.MinLoss.String(),
					SortBy:        in.SortBy,
					SkipWashCheck: in.WashCheck != nil && !*in.WashCheck, Account: in.Account,
					Source: in.Source, AsOf: in.AsOf, Format: agentFormat}))
		},
	}
}

// portfolioResult converts an answer to a result. An answer that reports a failure becomes an error
// with the whole brief.
func portfolioResult(ctx context.Context, title string, a portfolio.Answer) (Result, error) {
	if a.Problem != nil && ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if a.Problem != nil {
		return Result{}, errors.New(string(a.JSON))
	}
	return Result{Text: string(a.JSON),
		Sources: []chunk.Source{{Type: "portfolio", Path: "portfolio.yaml", Title: title}}}, nil
}
