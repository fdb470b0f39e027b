package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// layouts are the columns by which formats are known.
func layouts() map[string][]string {
	return map[string][]string{
		"signalbox's own columns": ownColumns(),
		"a Schwab export":         {"date", "action", "symbol", "description", "quantity", "price", "fees & comm", "amount"},
		"a Fidelity export":       {"run date", "action", "symbol", "quantity", "price", "amount"},
		"a Robinhood export":      {"activity date", "instrument", "description", "trans code", "quantity", "price", "amount"},
	}
}

// unrecognised says of a CSV file without a known header what it seems to be.
func (in *intake) unrecognised(text []byte, first place) {
	if at, name := otherSeparator(text); name != "" {
		// Faults of reading it with commas would only hide the reason.
		in.list, in.more = nil, 0
		in.add(at, "the columns are parted by %s: save the file with commas, and the numbers with points (1234.56)", name)
		return
	}
	if len(in.list) > 0 {
		return
	}
	t := newTable(text)
	for n := 0; n < headerWithin && t.next(&faults{}); n++ {
		t.head = header(t.fields)
		if what := stranger(t.head); what != "" {
			in.add(t.at(), "the file %s", what)
			return
		}
		if what := nearMiss(t.head); what != "" {
			in.add(t.at(), "%s", what)
			return
		}
	}
	in.add(first, "no known header in the first %d records, %s", headerWithin, known)
}

// otherSeparator finds a header whose columns are not parted by commas, as spreadsheets write it in half of the world.
// It is not read as it is: there 1,500 is one and a half.
func otherSeparator(text []byte) (place, string) {
	for line, rest := 1, string(text[:min(len(text), 1<<16)]); line <= headerWithin && rest != ""; line++ {
		var record string
		record, rest, _ = strings.Cut(rest, "\n")
		for _, s := range []struct{ mark, name string }{{";", "semicolons"}, {"\t", "tabs"}, {"|", "bars"}} {
			fields := strings.Split(strings.ReplaceAll(record, `"`, ""), s.mark)
			head := header(fields)
			if len(fields) > 3 && (stranger(head) != "" || nearMiss(head) != "") {
				return place{line, 1 + strings.Index(record, s.mark)}, s.name
			}
		}
	}
	return place{}, ""
}

// stranger knows exports that people take for those of transactions.
func stranger(head map[string]int) string {
	has := func(names ...string) bool { return hasAll(head, names...) }
	switch {
	case has("symbol") && (has("cost basis") || has("cost basis total") || has("cost basis/share") || has("mkt val (market value)") || has("last price")):
		return "is a list of positions: export the history of transactions instead"
	case has("date", "action", "symbol") && (has("feesandcommissions") || has("fees and commissions") || has("awarddate")):
		return "is of Schwab's Equity Award Center: export the history of the brokerage account, and write what was vested in the own columns"
	case has("date", "investment", "transaction type"):
		return "is the history of a Fidelity workplace plan: write its rows in the own columns"
	case has("trade date", "transaction type", "investment name"):
		return "is a Vanguard CSV: download OFX (for Quicken) there instead"
	case has("date", "from", "to", "rate"):
		return "has exchange rates, not transactions: it is fx.csv, beside portfolio.yaml"
	}
	return ""
}

// nearMiss names the columns that a header lacks to be one that is known: two at most.
func nearMiss(head map[string]int) string {
	text, most := "", 3
	for _, name := range slices.Sorted(maps.Keys(layouts())) {
		columns := layouts()[name]
		lacks := slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return hasAll(head, c) })
		if there := len(columns) - len(lacks); len(lacks) <= 2 && there > most {
			most = there
			text = fmt.Sprintf("the header is nearly that of %s, but lacks %s, expected %s", name, strings.Join(lacks, " and "), strings.Join(columns, ","))
		}
	}
	return text
}
