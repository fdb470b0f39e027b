package portfolio

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestDocumentedFilesAreAPortfolio builds a portfolio from the examples in
// docs/reference/portfolio-files.md.
func TestDocumentedFilesAreAPortfolio(t *testing.T) {
	text := string(read(t, filepath.Join("..", "..", "docs", "reference", "portfolio-files.md")))
	dir := t.TempDir()
	for _, example := range []struct{ begin, file string }{
		{"# as_of: ", "portfolio.yaml"},
		{"date,account,action", "transactions/own.csv"},
		{"date,ticker,close", "prices/all.csv"},
		{"date,from,to,rate", "fx.csv"},
		{"date,account,ticker,quantity", "positions.csv"},
	} {
		block := regexp.MustCompile("(?s)```\\w+\n(" + regexp.QuoteMeta(example.begin) + ".*?)```")
		found := block.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("there is no example that begins with %q", example.begin)
		}
		name := filepath.Join(dir, example.file)
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
		put(t, name, found[1])
	}
	list, err := desk(t, dir).Lots(t.Context(), LotsQuery{})
	if err != nil || len(list) < 5 {
		t.Errorf("%d lots, %v", len(list), err)
	}
	if data, problem := load(dir, ifNeeded); problem != nil || len(data.Positions) < 2 {
		t.Errorf("positions %+v, %v", data, problem)
	}
}
