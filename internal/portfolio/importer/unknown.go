package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// layouts returns the columns that identify each CSV format.
func layouts() map[string][]string {
	return map[string][]string{
		"signalbox CSV": basicColumns(),
		"a Schwab export": {"date", "action", "symbol", "description", "quantity", "price",
			"fees & comm", "amount"},
		"a Fidelity export": {"run date", "action", "symbol", "quantity", "price", "amount"},
		"a Robinhood export": {"activity date", "instrument", "description", "trans code",
			"quantity", "price", "amount"},
		"a Vanguard export": vanguardHead(),
		"an E*TRADE export": {"activity/trade date", "activity type", "symbol", "quantity #",
			"price $", "amount $"},
		"a Coinbase export": coinbaseHead(),
	}
}

// reportUnrecognised adds a fault that says what a CSV file without a known header seems to be.
func (in *input) reportUnrecognised(text []byte, first position) {
	if at, name := otherSeparator(text); name != "" {
		// The faults found when reading it with commas would only hide the reason.
		in.list, in.more = nil, 0
		in.addFault(at, "the columns are separated by %s: save the file with commas, and numbers with decimal points (1234.56)", name)
		return
	}
	if len(in.list) > 0 {
		return
	}
	t := newTable(text, &faults{})
	for n := 0; n < maxPreamble && t.next(); n++ {
		t.head = columnIndexes(t.fields)
		if what := otherExport(t.head); what != "" {
			in.addFault(t.at(), "the file %s", what)
			return
		}
		if what := missingColumns(t.head); what != "" {
			in.addFault(t.at(), "%s", what)
			return
		}
	}
	in.addFault(first, "no known header in the first %d records, %s", maxPreamble, expectedFormats)
}

// otherSeparator finds a header whose columns are separated by something other than commas, as
// spreadsheets write it in many countries. Such a file is refused, because there 1,500 means one
// and a half.
func otherSeparator(text []byte) (position, string) {
	for line, rest := 1, string(text[:min(len(text), 1<<16)]); line <= maxPreamble &&
		rest != ""; line++ {
		var record string
		record, rest, _ = strings.Cut(rest, "\n")
		for _, s := range []struct{ mark, name string }{{";", "semicolons"}, {"\t", "tabs"}, {"|", "bars"}} {
			fields := strings.Split(strings.ReplaceAll(record, `"`, ""), s.mark)
			head := columnIndexes(fields)
			if len(fields) > 3 && (otherExport(head) != "" || missingColumns(head) != "") {
				return position{line, 1 + strings.Index(record, s.mark)}, s.name
			}
		}
	}
	return position{}, ""
}

// otherExport recognises exports that are often mistaken for a history of transactions.
func otherExport(head map[string]int) string {
	has := func(names ...string) bool { return hasColumns(head, names...) }
	switch {
	case has("symbol") && (has("cost basis") || has("cost basis total") ||
		has("cost basis/share") || has("mkt val (market value)") || has("last price")):
		return "is a list of positions: export the history of transactions instead"
	case has("date", "action", "symbol") &&
		(has("feesandcommissions") || has("fees and commissions") || has("awarddate")):
		return "is from Schwab's Equity Award Center: export the history of the brokerage account, and add rows for vested shares in signalbox CSV"
	case has("date", "investment", "transaction type"):
		return "is the history of a Fidelity workplace plan: write its rows in signalbox CSV"
	case has("date", "from", "to", "rate"):
		return "has exchange rates, not transactions: save it as fx.csv, next to portfolio.yaml"
	}
	return ""
}

// missingColumns describes a header that lacks at most two columns of a known format. It returns ""
// for other headers.
func missingColumns(head map[string]int) string {
	text, most := "", 3 // with fewer common columns it is another kind of file
	for _, name := range slices.Sorted(maps.Keys(layouts())) {
		columns := layouts()[name]
		lacks := slices.DeleteFunc(slices.Clone(columns),
			func(c string) bool { return hasColumns(head, c) })
		if common := len(columns) - len(lacks); len(lacks) <= 2 && common > most {
			most = common
			text = fmt.Sprintf("the header looks like %s, but lacks %s, expected %s", name,
				strings.Join(lacks, " and "), strings.Join(columns, ","))
		}
	}
	return text
}
