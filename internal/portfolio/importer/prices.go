package importer

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/govalues/decimal"
)

// Price is one day's close of a ticker.
type Price struct {
	// Date is as 2024-01-31.
	Date   string
	Ticker string
	Close  decimal.Decimal
	// Adjusted is the close after later splits and dividends, zero if the file says nothing.
	Adjusted decimal.Decimal
	Currency string
	Source   Source
}

// Rate is what one unit of a currency is worth in another on a day.
type Rate struct {
	// Date is as 2024-01-31.
	Date     string
	From, To string
	Rate     decimal.Decimal
	Source   Source
}

// ReadPrices reads a file of the folder prices: date,ticker,close and, if it likes, adjusted and currency. A ticker has
// one close a day. The error is a *[FaultsError].
func ReadPrices(name string, data []byte) ([]Price, error) {
	var prices []Price
	err := readDaily(name, data, []string{"date", "ticker", "close"}, []string{"adjusted", "currency"}, func(in *intake, t *table) string {
		p := Price{Date: in.isoDate(t, "date", true), Close: in.above(t, "close", true), Adjusted: in.above(t, "adjusted", false),
			Currency: in.currency(t), Source: Source{File: name, Line: t.line()}}
		var err error
		if p.Ticker, err = parseTicker(t.get("ticker")); err != nil {
			in.add(t.at("ticker"), "%v", err)
		}
		prices = append(prices, p)
		return p.Ticker + " on " + p.Date
	})
	if err != nil {
		return nil, err
	}
	return prices, nil
}

// ReadRates reads fx.csv: date,from,to,rate, where one unit of from is worth rate units of to. It also takes the
// columns of a price file, with pairs like EURUSD or EURUSD=X as tickers. The error is a *[FaultsError].
func ReadRates(name string, data []byte) ([]Rate, error) {
	var rates []Rate
	pairs := isPriceFile(data)
	required, further := []string{"date", "from", "to", "rate"}, []string(nil)
	if pairs {
		required, further = []string{"date", "ticker", "close"}, []string{"adjusted", "currency"}
	}
	err := readDaily(name, data, required, further, func(in *intake, t *table) string {
		r := Rate{Date: in.isoDate(t, "date", true), From: strings.ToUpper(t.get("from")), To: strings.ToUpper(t.get("to")),
			Source: Source{File: name, Line: t.line()}}
		column := "rate"
		if pairs {
			column = "close"
			pair := strings.NewReplacer("/", "", ".", "", "=X", "").Replace(strings.ToUpper(t.get("ticker")))
			if len(pair) == 6 {
				r.From, r.To = pair[:3], pair[3:]
			}
		}
		r.Rate = in.above(t, column, true)
		if !isCurrency(r.From) || !isCurrency(r.To) || r.From == r.To {
			at := t.at("from")
			if pairs {
				at = t.at("ticker")
			}
			in.add(at, "the rate is not between two currencies, expected three letters each, like EUR and USD")
		}
		rates = append(rates, r)
		return r.From + " in " + r.To + " on " + r.Date
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
	t := newTable(text)
	return t.next(&faults{}) && hasAll(header(t.fields), "date", "ticker", "close")
}

func isCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// above reads a number that must be over 0.
func (in *intake) above(t *table, name string, required bool) decimal.Decimal {
	n := t.number(&in.faults, name)
	if n.ok && (n.present || required) && !n.IsPos() {
		in.add(t.at(name), "%s: %q is not above 0, expected something like 123.45", name, t.get(name))
	}
	return n.Decimal
}

// readDaily reads a table with a header in its first record and at most one record for each key.
func readDaily(name string, data []byte, required, further []string, each func(*intake, *table) (key string)) error {
	in := &intake{faults: faults{file: name}, imp: &Import{}}
	text, _, err := prepare(data)
	if len(bytes.TrimSpace(data)) == 0 {
		err = fmt.Errorf("is empty, expected the columns %s", strings.Join(required, ","))
	}
	if err != nil {
		in.add(placeOf(err), "the file %v", err)
		return in.err()
	}
	t := newTable(text)
	if !t.next(&in.faults) {
		return in.err()
	}
	t.head = header(t.fields)
	if !in.checkColumns(t, required, further) {
		return in.err()
	}
	seen := make(map[string]int)
	for t.next(&in.faults) {
		before := in.count()
		if len(t.fields) > len(t.head) {
			in.add(t.at(), "the record has %d fields, the header %d", len(t.fields), len(t.head))
			continue
		}
		key := each(in, t)
		if in.count() > before {
			continue
		}
		if first, ok := seen[key]; ok {
			in.add(t.at(), "%s stands in line %d already, expected it once", key, first)
			continue
		}
		seen[key] = t.line()
	}
	return in.err()
}
