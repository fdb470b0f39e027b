package importer

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
)

// Price is the closing price of a ticker on one day.
type Price struct {
	Date   tax.Date
	Ticker string
	Close  decimal.Decimal
	// Adjusted is the close adjusted for later splits and dividends; zero means that the file does
	// not give it.
	Adjusted decimal.Decimal
	Currency string
	Source   Source
}

// Rate is the value of one unit of a currency in another currency on one day.
type Rate struct {
	Date     tax.Date
	From, To string
	Rate     decimal.Decimal
	Source   Source
}

// ReadPrices reads a price file with the columns date,ticker,close and optionally adjusted and
// currency. A ticker may have one close a day. The error is a *[FaultsError].
func ReadPrices(name string, data []byte) ([]Price, error) {
	var prices []Price
	err := readDaily(name, data, []string{"date", "ticker", "close"},
		[]string{"adjusted", "currency"}, func(in *input, t *table) string {
			p := Price{Date: t.isoDate("date", true), Close: t.aboveZero("close", true),
				Adjusted: t.aboveZero("adjusted", false),
				Currency: t.currency(), Source: Source{File: name, Line: t.line()}}
			var err error
			if p.Ticker, err = parseTicker(t.get("ticker")); err != nil {
				in.addFault(t.at("ticker"), "%v", err)
			}
			prices = append(prices, p)
			return p.Ticker + " on " + p.Date.String()
		})
	if err != nil {
		return nil, err
	}
	return prices, nil
}

// ReadRates reads a file of exchange rates with the columns date,from,to,rate: one unit of from is
// worth rate units of to. It also accepts the columns of a price file, with pairs like EURUSD or
// EURUSD=X as tickers. The error is a *[FaultsError].
func ReadRates(name string, data []byte) ([]Rate, error) {
	var rates []Rate
	pairs := isPriceFile(data)
	required, further := []string{"date", "from", "to", "rate"}, []string(nil)
	if pairs {
		required, further = []string{"date", "ticker", "close"}, []string{"adjusted", "currency"}
	}
	err := readDaily(name, data, required, further, func(in *input, t *table) string {
		r := Rate{Date: t.isoDate("date", true), From: strings.ToUpper(t.get("from")),
			To:     strings.ToUpper(t.get("to")),
			Source: Source{File: name, Line: t.line()}}
		column := "rate"
		if pairs {
			column = "close"
			pair := strings.NewReplacer("/", "", ".", "", "=X",
				"").Replace(strings.ToUpper(t.get("ticker")))
			if len(pair) == 6 {
				r.From, r.To = pair[:3], pair[3:]
			}
		}
		r.Rate = t.aboveZero(column, true)
		if !isCurrency(r.From) || !isCurrency(r.To) || r.From == r.To {
			at := t.at("from")
			if pairs {
				at = t.at("ticker")
			}
			in.addFault(at, "the rate is not between two currencies, expected three letters each, like EUR and USD")
		}
		rates = append(rates, r)
		return r.From + " in " + r.To + " on " + r.Date.String()
	})
	if err != nil {
		return nil, err
	}
	return rates, nil
}

func isPriceFile(data []byte) bool {
	text, _, err := decodeText(data)
	if err != nil {
		return false
	}
	t := newTable(text, &faults{})
	return t.next() && hasColumns(columnIndexes(t.fields), "date", "ticker", "close")
}

func isCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// aboveZero reads a number that must be greater than 0.
func (t *table) aboveZero(name string, required bool) decimal.Decimal {
	n := t.number(name)
	if n.ok && (n.present || required) && !n.IsPos() {
		t.addFault(t.at(name), "%s: %q is not above 0, expected something like 123.45", name,
			t.get(name))
	}
	return n.Decimal
}

// readDaily reads a table whose first record is the header. No two records may have the same key.
func readDaily(name string, data []byte, required, further []string,
	each func(*input, *table) (key string)) error {
	in := &input{faults: faults{file: name}, imp: &Import{}}
	text, _, err := decodeFile(data)
	if len(bytes.TrimSpace(data)) == 0 {
		err = fmt.Errorf("is empty, expected the columns %s", strings.Join(required, ","))
	}
	if err != nil {
		in.addFault(positionOf(err), "the file %v", err)
		return in.err()
	}
	t := newTable(text, &in.faults)
	if !t.next() {
		return in.err()
	}
	t.head = columnIndexes(t.fields)
	if !t.checkColumns(required, further) {
		return in.err()
	}
	seen := make(map[string]int)
	for t.next() {
		before := in.faultCount()
		if len(t.fields) > len(t.head) {
			in.addFault(t.at(), "the record has %d fields, the header %d", len(t.fields),
				len(t.head))
			continue
		}
		key := each(in, t)
		if in.faultCount() > before {
			continue
		}
		if first, ok := seen[key]; ok {
			in.addFault(t.at(), "%s is also in line %d, expected it once", key, first)
			continue
		}
		seen[key] = t.line()
	}
	return in.err()
}
