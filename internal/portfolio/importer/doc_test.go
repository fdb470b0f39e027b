package importer

import (
	"os"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestDocument reads the examples in docs/reference/portfolio-files.md.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile("../../../docs/reference/portfolio-files.md")
	must.Succeed(t, err)
	text := string(data)
	seen, actions := make(map[string]bool), make(map[Action]bool)
	prices, rates := 0, 0
	for _, block := range append(blocks(text, "csv"), blocks(text, "xml")...) {
		switch {
		case strings.HasPrefix(block, "date,ticker,"):
			list, err := ReadPrices("prices.csv", []byte(block))
			if err != nil {
				t.Error(err)
			}
			prices += len(list)
		case strings.HasPrefix(block, "date,from,"):
			list, err := ReadRates("fx.csv", []byte(block))
			if err != nil {
				t.Error(err)
			}
			rates += len(list)
		default:
			imp, err := Read("example", []byte(block), &Options{Account: "brk"})
			if err != nil {
				t.Errorf("%v in\n%s", err, block)
				continue
			}
			if len(imp.Rows) == 0 || len(imp.Skipped) > 0 {
				t.Errorf("%d rows and %d skipped, expected only rows in\n%s", len(imp.Rows),
					len(imp.Skipped), block)
			}
			seen[imp.Format] = true
			for _, r := range imp.Rows {
				actions[r.Action] = true
			}
		}
	}
	for _, f := range []string{"signalbox", "schwab", "fidelity", "robinhood", "flex", "vanguard",
		"etrade", "coinbase", "ibkr"} {
		if !seen[f] {
			t.Errorf("the document has no example of %s", f)
		}
	}
	for _, a := range actionList() {
		if !actions[Action(a)] {
			t.Errorf("the document has no example of the action %s", a)
		}
	}
	if prices == 0 || rates == 0 {
		t.Errorf("the document has %d prices and %d rates, expected some of each", prices, rates)
	}
	for _, c := range allColumns() {
		if !strings.Contains(text, c) {
			t.Errorf("the document does not name the column %s", c)
		}
	}
}

// TestDocumentWords checks the tables of the brokers' words in the document: each word has the
// meaning of its column.
func TestDocumentWords(t *testing.T) {
	data, err := os.ReadFile("../../../docs/reference/portfolio-files.md")
	must.Succeed(t, err)
	for _, c := range []struct {
		section string
		words   vocabulary
		some    []string // for each column, words that must be in it
	}{
		{"### Schwab\n", schwabWords(), []string{"reinvest shares", "", "security transfer"}},
		{"### Robinhood\n", robinhoodWords(), []string{"spr", "cdiv", "sdiv"}},
		{"### Vanguard\n", vanguardWords(), []string{"reinvestment", "sweep in", ""}},
		{"### E*TRADE\n", etradeWords(), []string{"bought to open", "interest", ""}},
		{"### Coinbase\n", coinbaseWords(), []string{"staking income", "", "send"}},
	} {
		_, section, ok := strings.Cut(string(data), c.section)
		section, _, _ = strings.Cut(section, "\n### ")
		_, table, there := strings.Cut(section, "|---|---|---|---|\n")
		if !ok || !there {
			t.Fatalf("%s has no table", c.section)
		}
		row, _, _ := strings.Cut(table, "\n")
		columns := strings.Split(strings.Trim(row, "|"), "|")
		for i, kinds := range [][]kind{{buy, sell, reinvest, split, reverse, capital, expire,
			exercise}, {cash}, {shares, short, write, cover, assigned}} {
			found := 0
			for part := range strings.SplitSeq(columns[i], ",") {
				word, _, _ := strings.Cut(normalize(part), " (")
				m, known := c.words[word]
				if !known {
					continue
				}
				found++
				if !slices.Contains(kinds, m.kind) &&
					!strings.HasPrefix(normalize(part), "journal ") {
					t.Errorf("%s %q is in column %d of the document, but has kind %d",
						strings.TrimSpace(c.section), word, i+1, m.kind)
				}
			}
			if c.some[i] != "" &&
				(found == 0 || !strings.Contains(normalize(columns[i]), c.some[i])) {
				t.Errorf("%s column %d of the document has no %s", strings.TrimSpace(c.section),
					i+1, c.some[i])
			}
		}
	}
}

// blocks returns the fenced code blocks of a language.
func blocks(text, language string) []string {
	var list []string
	for _, part := range strings.Split(text, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		list = append(list, block+"\n")
	}
	return list
}
