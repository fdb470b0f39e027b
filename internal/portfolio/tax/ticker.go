package tax

import (
	"strings"

	"github.com/govalues/decimal"
)

// ticker is a stock, fund or option.
type ticker struct {
	name       string
	option     bool
	call       bool
	exempt     bool    // has no wash sales: crypto is not a security, for a contract see section 1256(f)(5)
	contract   bool    // a contract under section 1256
	underlying *ticker // of a stock, the ticker itself
	group      *group
}

// group is the tickers whose purchases can replace each other: substantially identical ones, and
// the options on them. Groups do not affect each other, unless shares of one became shares of
// another: then they are joined.
type group struct {
	tickers []*ticker
	joined  *group // the group that has the rows of this one; nil if it has them itself
	rows    []row  // up to the day of the book, in the order in which they are applied
}

// root returns the group that has the rows of a group.
func (g *group) root() *group {
	for g.joined != nil {
		g = g.joined
	}
	return g
}

// broadIndexes are the option roots of broad-based indexes. Options on them are contracts under
// section 1256 (nonequity options); those on shares and on funds are not.
const broadIndexes = " SPX SPXW SPXPM XSP NANOS NDX NDXP XND NQX RUT RUTW MRUT RUI RLG RLV DJX VIX VIXW OEX XEO " +
	"MXEA MXEF MXACW MXUSA MXWLD SIXM SPEQX SPESG UKXM "

// Section1256 reports whether a ticker is a contract under section 1256: an option on a broad-based
// index.
func Section1256(name string) bool {
	underlying, _, option := parseOption(name)
	return option && strings.Contains(broadIndexes, " "+underlying+" ")
}

// market is the set of securities that a loss is matched in: a group, or, if the loss is on an
// option, that option alone. Of the two fields, one is nil.
type market struct {
	group  *group
	option *ticker
}

func (t *ticker) market() market {
	if t.option {
		return market{option: t}
	}
	return market{group: t.group}
}

// optionTail is the length of an OCC symbol after the underlying ticker: date, C or P, and strike
// price.
const optionTail = len("240119C00150000")

// parseOption splits an OCC symbol such as AAPL240119C00150000, in which spaces may follow the
// underlying ticker. It reports false for everything else.
func parseOption(symbol string) (underlying string, call, ok bool) {
	if len(symbol) <= optionTail {
		return "", false, false
	}
	root, rest := symbol[:len(symbol)-optionTail], symbol[len(symbol)-optionTail:]
	for i := range len(rest) {
		if i != 6 && (rest[i] < '0' || rest[i] > '9') {
			return "", false, false
		}
	}
	if rest[6] != 'C' && rest[6] != 'P' {
		return "", false, false
	}
	root = strings.TrimRight(root, " ")
	return root, rest[6] == 'C', root != ""
}

// OptionSymbol returns the OCC symbol of an option without spaces. It reports false for everything
// else.
func OptionSymbol(symbol string) (string, bool) {
	root, _, ok := parseOption(symbol)
	return root + symbol[max(0, len(symbol)-optionTail):], ok
}

// Underlying returns the underlying of a call, which replaces its shares, and any other ticker itself.
func Underlying(name string) string {
	if underlying, call, ok := parseOption(name); ok && call {
		return underlying
	}
	return name
}

// strikePrice returns the last eight digits of an option's symbol, which are thousandths of a
// dollar.
func (c *calc) strikePrice(option *ticker) decimal.Decimal {
	thousandths := int64(0)
	for _, digit := range option.name[len(option.name)-8:] {
		thousandths = thousandths*10 + int64(digit-'0')
	}
	return c.keep(decimal.New(thousandths, 3)).Trim(0)
}

// contractSize is the number of shares per option contract. Contracts adjusted for corporate
// actions can differ, but their symbols do not show it.
const contractSize = 100

func sharesPerContract() decimal.Decimal { return decimal.MustNew(contractSize, 0) }

// sharesPerUnit returns how many of the sold shares a unit of the purchased ticker replaces, for
// two tickers; the second can replace the first.
func sharesPerUnit(sold, purchased *ticker) decimal.Decimal {
	if purchased.option && !sold.option {
		return sharesPerContract()
	}
	return decimal.One
}

// toUnits converts shares sold to units of a purchase. split is the number of shares on the day of
// the purchase that one share on the day of the sale became.
func (c *calc) toUnits(shares, perUnit, split decimal.Decimal) decimal.Decimal {
	if !split.IsOne() {
		shares = c.mul(shares, split)
	}
	if !perUnit.IsOne() {
		shares = c.quo(shares, perUnit)
	}
	return shares
}

// toShares is the inverse of toUnits.
func (c *calc) toShares(units, perUnit, split decimal.Decimal) decimal.Decimal {
	if !perUnit.IsOne() {
		units = c.mul(units, perUnit)
	}
	if !split.IsOne() {
		units = c.quo(units, split).Round(places)
	}
	return units
}
