package importer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/govalues/decimal"

	"signalbox/internal/lazy"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/text"
)

var (
	errNumber = errors.New(
		"is not a number, expected something like 1234.56, $1,234.56 or (1,234.56)")
	errDigits = errors.New("has more than 19 digits")
)

// parseNumber reads a number as brokers print it: with dollar signs, thousands separators, and a
// minus or parentheses for negative numbers. It refuses numbers that it would have to round, and
// commas that do not separate groups of three digits: in many countries 1,50 is one and a half.
func parseNumber(s string) (n number, err error) {
	s = strings.TrimSpace(s)
	negative := false
	if len(s) > 2 && s[0] == '(' && s[len(s)-1] == ')' {
		negative, s = true, s[1:len(s)-1]
	}
	s, signed := cutSign(s)
	s = strings.TrimPrefix(s, "$")
	if signed == 0 {
		s, signed = cutSign(s)
	}
	if signed != 0 && negative {
		return n, errNumber
	}
	negative = negative || signed < 0
	whole, fraction, _ := strings.Cut(s, ".")
	if whole, err = joinThousands(whole); err != nil {
		return n, err
	}
	if whole == "" && fraction == "" || !isDigits(whole) || !isDigits(fraction) {
		return n, errNumber
	}
	scale := len(fraction)
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	if len(whole)+len(fraction) > decimal.MaxPrec || len(fraction) > decimal.MaxScale {
		return n, errDigits
	}
	d, err := decimal.Parse("0" + whole + "." + fraction)
	if err != nil {
		return n, errNumber
	}
	if negative {
		d = d.Neg()
	}
	return number{Decimal: d, scale: scale, present: true, ok: true}, nil
}

// number is a number in a record. If ok is false, a fault was added for it.
type number struct {
	decimal.Decimal
	scale       int // the number of decimals as printed
	present, ok bool
}

// readNumber parses a number of a record. If it is not one, it adds a fault that names its column.
func (f *faults) readNumber(at position, column, text string) number {
	n, err := parseNumber(text)
	if err != nil {
		f.addFault(at, "%s: %q %v", column, text, err)
	}
	return n
}

// isDigits reports whether s has only digits. It is true for empty text.
func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func cutSign(s string) (string, int) {
	if s == "" {
		return s, 0
	}
	switch s[0] {
	case '-':
		return s[1:], -1
	case '+':
		return s[1:], 1
	}
	return s, 0
}

func joinThousands(whole string) (string, error) {
	if !strings.Contains(whole, ",") {
		return whole, nil
	}
	groups := strings.Split(whole, ",")
	for i, g := range groups {
		if i == 0 && (len(g) == 0 || len(g) > 3) || i > 0 && len(g) != 3 {
			return "", errNumber
		}
	}
	return strings.Join(groups, ""), nil
}

// parseRatio reads 4, 0.1, 3:2 or 1:3.
func parseRatio(s string) (Ratio, error) {
	first, second, two := strings.Cut(s, ":")
	if !two {
		second = "1"
	}
	n, err := parseNumber(first)
	if err != nil {
		return Ratio{}, err
	}
	o, err := parseNumber(second)
	if err != nil {
		return Ratio{}, err
	}
	if !n.IsPos() || !o.IsPos() {
		return Ratio{}, errors.New("must have positive numbers, such as 4 or 3:2")
	}
	return Ratio{New: n.Decimal, Old: o.Decimal}, nil
}

// parseDate tries layouts in order. Years before 1900 or after 2199 are taken for typing errors.
func parseDate(s string, layouts ...string) (tax.Date, bool) {
	for _, layout := range layouts {
		t, err := time.Parse(layout, s)
		if err == nil && t.Year() >= 1900 && t.Year() < 2200 {
			return tax.DateOf(t.Date()), true
		}
	}
	return 0, false
}

// parseUSDate reads the dates of American brokers. In "01/02/2024 as of 12/29/2023" the second date
// is the trade date; the first is only the day it was booked.
func parseUSDate(s string) (tax.Date, bool) {
	s = strings.ToLower(strings.Join(strings.Fields(s), " "))
	if _, asOf, ok := strings.Cut(s, " as of "); ok {
		s = asOf
	}
	return parseDate(s, "1/2/2006", "1-2-2006", "1/2/06", time.DateOnly, "Jan-2-2006")
}

// parseTicker returns a ticker in its normal form: BRK/B and BRK B become BRK.B.
func parseTicker(s string) (string, error) {
	t := strings.ToUpper(strings.TrimSpace(s))
	if len(t) > 15 { // an option with the spaces of its OCC symbol
		if m := occForm().FindStringSubmatch(t); m != nil {
			return m[1] + m[2] + m[3] + m[4], nil
		}
	}
	t = strings.ReplaceAll(strings.ReplaceAll(t, "/", "."), " ", ".")
	if t == "" {
		return "", errors.New("the ticker is empty, expected something like VTI")
	}
	if !tickerForm().MatchString(t) {
		return "", fmt.Errorf("%q is not a ticker, expected at most 24 letters, digits and . ^ = -",
			text.Shorten(s, 100))
	}
	return t, nil
}

var (
	tickerForm   = lazy.Regexp(`^[A-Z0-9^][A-Z0-9.^=-]{0,23}$`)
	occForm      = lazy.Regexp(`^([A-Z0-9.]{1,6}) *([0-9]{6})([CP])([0-9]{8})$`)
	schwabOption = lazy.Regexp(`^([A-Z0-9./]+) ([0-9]{1,2}/[0-9]{1,2}/[0-9]{4}) ([0-9.,]+) ([CP])$`)
	ibkrOption   = lazy.Regexp(
		`^([A-Z0-9.]{1,6}) ([0-9]{2}[A-Z]{3}[0-9]{2}) ([0-9]+(?:\.[0-9]+)?) ([CP])$`)
	fidelOption = lazy.Regexp(`^-?([A-Z0-9.]{1,6}?)([0-9]{6})([CP])([0-9]+(?:\.[0-9]+)?)$`)
	robinOption = lazy.Regexp(
		`(?i)\b([A-Z0-9.]+) ([0-9]{1,2}/[0-9]{1,2}/[0-9]{4}) (Call|Put) \$([0-9.,]+)`)
)

// parseOption reads an option symbol in the notation of any broker. Ok is false if s is not an
// option symbol.
func parseOption(s string) (symbol string, ok bool, err error) {
	s = strings.ToUpper(strings.TrimSpace(s))
	var root, expiry, right, strike string
	var layouts []string
	if m := occForm().FindStringSubmatch(s); m != nil {
		return m[1] + m[2] + m[3] + m[4], true, nil
	} else if m := schwabOption().FindStringSubmatch(s); m != nil {
		root, expiry, strike, right, layouts = m[1], m[2], m[3], m[4], []string{"1/2/2006"}
	} else if m := ibkrOption().FindStringSubmatch(s); m != nil {
		root, expiry, strike, right, layouts = m[1], m[2], m[3], m[4], []string{"02Jan06"}
	} else if m := fidelOption().FindStringSubmatch(s); m != nil {
		root, expiry, right, strike, layouts = m[1], m[2], m[3], m[4], []string{"060102"}
	} else if m := robinOption().FindStringSubmatch(s); m != nil {
		root, expiry, right, strike, layouts = m[1], m[2], m[3], m[4], []string{"1/2/2006"}
	} else {
		return "", false, nil
	}
	date, good := parseDate(expiry, layouts...)
	if !good {
		return "", true, fmt.Errorf("option %q has an expiry date that does not exist", s)
	}
	symbol, err = optionSymbol(root, date, right, strike)
	return symbol, true, err
}

// optionSymbol returns the OCC symbol of an option, without spaces.
func optionSymbol(root string, expiry tax.Date, right, strike string) (string, error) {
	root = strings.NewReplacer(".", "", "/", "", " ", "").Replace(strings.ToUpper(root))
	right = strings.ToUpper(right)
	d, err := parseNumber(strike)
	if err != nil {
		return "", fmt.Errorf("option strike %q %w", strike, err)
	}
	mills, err := d.Mul(decimal.Thousand)
	if err != nil || !mills.IsPos() || !mills.IsInt() || mills.Trim(0).Prec() > 8 {
		return "", fmt.Errorf("option strike %q is not between 0.001 and 99999.999", strike)
	}
	if root == "" || len(root) > 6 || right == "" || right[0] != 'C' && right[0] != 'P' ||
		expiry == 0 {
		return "", fmt.Errorf(
			"option %q %q %q is incomplete, expected the underlying, call or put, and the expiry",
			root, right, expiry)
	}
	return fmt.Sprintf("%s%s%s%08s", root, expiry.Time().Format("060102"), right[:1],
		mills.Trim(0).String()), nil
}
