package exitrule

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/govalues/decimal"
)

// fractionDigits is the number of decimals of a sale from a fractional position, unless the
// position itself has more.
const fractionDigits = 6

// ChoosePosition returns the position of the question. With an error, it returns what is known of
// the position; [FailureOf] returns the kind of the error.
func ChoosePosition(in Input) (Position, error) {
	if in.Shares.IsNeg() {
		return Position{}, failf(BadShares,
			"shares %s is below 0: give the number of shares in question", in.Shares)
	}
	held, err := byAccount(in.Holdings)
	if err != nil {
		return Position{}, err
	}
	accounts := slices.Sorted(maps.Keys(held))
	position := Position{AccountID: in.AccountID}
	switch {
	case len(accounts) == 0 && in.Shares.IsZero():
		return position, failf(NotHeld,
			"no account holds %s: there is nothing to sell; to ask about a position that is not in the portfolio, give shares", in.Ticker)
	case len(accounts) == 0:
		position.Shares = in.Shares
		return position, nil
	case in.AccountID == "" && len(accounts) > 1:
		return position, failf(AccountNeeded, "%d accounts hold %s: name one of %s", len(accounts),
			in.Ticker, listAccounts(accounts, held))
	case in.AccountID == "":
		position.AccountID = accounts[0]
	}
	shares, ok := held[position.AccountID]
	if !ok {
		return position, failf(NotHeld, "account %s does not hold %s: name one of %s",
			position.AccountID, in.Ticker, listAccounts(accounts, held))
	}
	position.Held, position.Shares = shares, shares
	switch {
	case shares.IsNeg():
		return position, failf(Short,
			"account %s is short %s shares of %s: exit signals sell long positions only; close the short with a buy",
			position.AccountID, shares.Abs(), in.Ticker)
	case in.Shares.IsZero():
		return position, nil
	case in.Shares.Cmp(shares) > 0:
		return position, failf(BadShares,
			"shares %s is more than the %s shares of %s in account %s: give at most that many",
			in.Shares, shares, in.Ticker, position.AccountID)
	case shares.IsInt() && !in.Shares.IsInt():
		return position, failf(BadShares,
			"shares %s is not a whole number, and account %s holds whole shares of %s: round it",
			in.Shares, position.AccountID, in.Ticker)
	}
	position.Shares = in.Shares
	return position, nil
}

// byAccount returns the sum of the holdings in each account, without accounts whose sum is zero.
func byAccount(holdings []Holding) (map[string]decimal.Decimal, error) {
	held := make(map[string]decimal.Decimal)
	for _, h := range holdings {
		sum, err := held[h.AccountID].Add(h.Shares)
		if err != nil {
			return nil, fmt.Errorf("add up the shares in account %s: %w", h.AccountID, err)
		}
		held[h.AccountID] = sum
	}
	maps.DeleteFunc(held, func(_ string, shares decimal.Decimal) bool { return shares.IsZero() })
	return held, nil
}

func listAccounts(accounts []string, held map[string]decimal.Decimal) string {
	parts := make([]string, len(accounts))
	for i, account := range accounts {
		parts[i] = fmt.Sprintf("%s (%s shares)", account, held[account])
	}
	return strings.Join(parts, ", ")
}

// size returns the quantity to sell for the gap of the primary rule.
func size(gap float64, position Position, sizing Sizing, whole bool) (*SizingResult, error) {
	result := &SizingResult{GapPP: gap * 100, ThresholdPP: sizing.GapPP, Fraction: sizing.Min}
	if math.Abs(gap) > sizing.GapPP/100+tolerance {
		result.Fraction = sizing.Max
	}
	quantity, err := part(position.Shares, result.Fraction, whole)
	if err != nil {
		return nil, err
	}
	switch {
	case quantity.IsZero():
		result.Note = fmt.Sprintf(
			"%s of %s is less than one, and it cannot be divided: sell all or none",
			result.Fraction.Trim(0), position.Shares)
	case position.Shares.IsInt() && !quantity.IsInt():
		result.Note = fmt.Sprintf(
			"%s of %s is less than one share: if your broker does not sell fractions, sell all or none", result.Fraction.Trim(0), position.Shares)
	}
	rest, err := position.Shares.Sub(quantity)
	if err != nil {
		return nil, fmt.Errorf("subtract %s from %s shares: %w", quantity, position.Shares, err)
	}
	result.SellQuantity, result.Remaining = quantity, rest
	return result, nil
}

// part returns a fraction of the shares, rounded down to whole shares if the position has only
// whole shares. If that is less than one share, it returns the fraction of a share, or zero if
// there are only whole ones: rounding up would sell more than the rules say, and all of a position
// of one share.
func part(shares, fraction decimal.Decimal, whole bool) (decimal.Decimal, error) {
	exact, err := shares.Mul(fraction)
	if err != nil {
		return decimal.Decimal{}, fmt.Errorf("take %s of %s shares: %w", fraction, shares, err)
	}
	digits := 0
	if !whole && (!shares.IsInt() || exact.Cmp(decimal.One) < 0) {
		// The remaining shares must fit into a decimal, so a huge position has fewer digits.
		digits = min(max(shares.MinScale(), fractionDigits),
			decimal.MaxPrec-(shares.Prec()-shares.Scale()))
	}
	return exact.Floor(digits).Trim(0), nil
}

// plan sets the orders of a result that has a sizing.
func (r *Result) plan(stop Stop) {
	if r.Sizing.SellQuantity.IsPos() {
		r.Actions = []Action{{
			Step: 1, Action: ActionSell, Ticker: r.Ticker, AccountID: r.Position.AccountID,
			Quantity: r.Sizing.SellQuantity, OrderType: OrderMarket,
		}}
	}
	switch {
	case !stop.Price.IsPos() || !r.Sizing.Remaining.IsPos():
	case r.Price.IsZero():
		r.StopNote = fmt.Sprintf(
			"there is no price of %s to compare the stop at %s with: place the stop yourself",
			r.Ticker, stop.Price)
	case stop.Price.Cmp(r.Price) >= 0:
		r.StopAboveMarket = true
		r.StopNote = fmt.Sprintf(
			"the stop at %s is not below the price of %s on %s and would sell at once: lower it",
			stop.Price, r.Price, r.PriceDate)
	default:
		r.Actions = append(r.Actions, Action{
			Step: len(r.Actions) + 1, Action: ActionPlaceStop, Ticker: r.Ticker,
			AccountID: r.Position.AccountID,
			Quantity:  r.Sizing.Remaining, OrderType: OrderStop, StopPrice: stop.Price,
			TimeInForce: cmp.Or(stop.TimeInForce, defaultForce),
		})
	}
}
