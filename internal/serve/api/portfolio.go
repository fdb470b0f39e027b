package api

import (
	"net/http"

	"signalbox"
	"signalbox/internal/portfolio"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/serve/access"
)

type harvestInput struct {
	MinLoss string `query:"min_loss" json:"-" jsonschema:"leave out lots with a smaller loss, in dollars"`
	SortBy  string `query:"sort_by" json:"-" jsonschema:"loss_amount (default), loss_pct or days_held, largest first"`
	Account string `query:"account" json:"-" jsonschema:"only lots of this account"`
	Source  string `query:"source" json:"-" jsonschema:"only accounts with transactions from this file or file format"`
	AsOf    string `query:"as_of" json:"-" jsonschema:"the day, such as 2026-06-30; by default as_of in portfolio.yaml, or today"`
	NoWash  bool   `query:"no_wash_sale_check" json:"-" jsonschema:"count every loss, even if a wash sale would disallow it"`
}

type exitsInput struct {
	Ticker  string `path:"ticker" json:"-" jsonschema:"the ticker, or the OCC symbol of an option"`
	Shares  string `query:"shares" json:"-" jsonschema:"a number of shares; by default the whole position"`
	Account string `query:"account" json:"-" jsonschema:"the account; required if several hold the ticker"`
	AsOf    string `query:"as_of" json:"-" jsonschema:"the day, such as 2026-06-30; by default as_of in portfolio.yaml, or today"`
}

type lotsInput struct {
	Account string `query:"account" json:"-" jsonschema:"only lots of this account"`
	Ticker  string `query:"ticker" json:"-" jsonschema:"only lots of this ticker"`
	AsOf    string `query:"as_of" json:"-" jsonschema:"the day, such as 2026-06-30; by default as_of in portfolio.yaml, or today"`
}

// addPortfolio adds the operations on the portfolio. They are private: an agent can connect to
// loopback.
func (a *API) addPortfolio() {
	const group = "portfolio"
	add(a, operation{method: http.MethodGet, path: "/portfolio/harvest", name: "suggestHarvest",
		group: group, scope: access.Private, heavy: true,
		summary: "Returns the losses that could be harvested, as signalbox portfolio harvest --json does. " + answer.Disclaimer + "."},
		func(c call, in harvestInput) (answer.HarvestResult, error) {
			desk, err := a.desk()
			if err != nil {
				return answer.HarvestResult{}, err
			}
			result := desk.Harvest(c.ctx, portfolio.HarvestQuery{MinLoss: in.MinLoss,
				SortBy: in.SortBy, Account: in.Account, Source: in.Source, AsOf: in.AsOf,
				SkipWashCheck: in.NoWash})
			return result, portfolio.ErrorOf(result.Status, result.Error, result.Problem)
		})
	add(a, operation{method: http.MethodGet, path: "/portfolio/exits/{ticker}", name: "checkExits",
		group: group, scope: access.Private, heavy: true,
		summary: "Evaluates the exit rules of a ticker, as signalbox portfolio exits --json does."},
		func(c call, in exitsInput) (answer.ExitResult, error) {
			desk, err := a.desk()
			if err != nil {
				return answer.ExitResult{}, err
			}
			result := desk.Exits(c.ctx, portfolio.ExitQuery{Ticker: in.Ticker, Shares: in.Shares,
				AccountID: in.Account, AsOf: in.AsOf})
			return result, portfolio.ErrorOf(result.Status, result.Error, result.Problem)
		})
	add(a, operation{method: http.MethodGet, path: "/portfolio/lots", name: "listLots",
		group: group, scope: access.Private, heavy: true,
		summary: "Returns the open tax lots, as signalbox portfolio lots --json does."},
		func(c call, in lotsInput) (list[portfolio.Lot], error) {
			desk, err := a.desk()
			if err != nil {
				return list[portfolio.Lot]{}, err
			}
			lots, err := desk.Lots(c.ctx, portfolio.LotsQuery{AsOf: in.AsOf, Account: in.Account,
				Ticker: in.Ticker})
			return listOf(lots), portfolio.WithCode(err)
		})
}

// desk returns the desk of the portfolio.
func (a *API) desk() (*portfolio.Desk, error) {
	if a.opts.Portfolio != nil {
		if desk := a.opts.Portfolio(); desk != nil && desk.Exists() {
			return desk, nil
		}
	}
	return nil, signalbox.CodeNotFound.Errorf(
		"create one where the server was started: signalbox portfolio init",
		"there is no portfolio")
}
