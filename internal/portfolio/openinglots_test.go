package portfolio

import (
	"context"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// opens imports a list with OpenLots into the portfolio plain, and returns the desk and the lots that
// were opened, as ticker, day, shares and basis, and the notes.
func opens(t *testing.T, list, boughtBy string) (*Desk, []string, []string) {
	t.Helper()
	d := desk(t, folder(t, plain))
	report, err := d.ImportPositions(outside(t, "list.csv", list), ImportOptions{Account: "brk",
		OpenLots: true, BoughtBy: boughtBy})
	must.Succeed(t, err)
	var opened []string
	for _, r := range report.Opened {
		opened = append(opened, strings.Join([]string{r.Ticker, r.DonorDate.String(), r.Quantity.String(),
			r.DonorBasis.String()}, " "))
	}
	return d, opened, report.Notes
}

// TestPositionsOpenLots opens lots with the basis of a list: SLV has lots, which stay as they are.
func TestPositionsOpenLots(t *testing.T) {
	const head = "date,account,ticker,quantity,basis,acquired\n2026-06-30,brk,SLV,10,999,2020-01-02\n"
	for _, tt := range []struct{ name, rows, boughtBy, want, note string }{
		{"each lot", "2026-06-30,brk,KO,5,250,2024-01-02\n2026-06-30,brk,KO,3,180,2026-05-30\n", "",
			"KO 2024-01-02 5 250; KO 2026-05-30 3 180", ""},
		{"one sum", "2026-06-30,brk,KO,8,430,\n", "2025-06-29", "KO 2025-06-29 8 430", ""},
		{"a day too late for long-term", "2026-06-30,brk,KO,8,430,\n", "2025-06-30", "",
			"whether it is long-term is not known"},
		{"no day", "2026-06-30,brk,KO,8,430,\n", "", "", "the day of its purchase"},
		{"no basis", "2026-06-30,brk,KO,8,,2024-01-02\n", "", "", "does not have its basis"},
		{"short", "2026-06-30,brk,KO,-8,430,2024-01-02\n", "", "", "it is short"},
		{"after the list", "2026-06-30,brk,KO,8,430,2026-07-01\n", "", "", "after the day of the list"},
		{"30 days before the list", "2026-06-30,brk,KO,8,430,2026-05-31\n", "", "",
			"which wash sales depend on"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, opened, notes := opens(t, head+tt.rows, tt.boughtBy)
			if got := strings.Join(opened, "; "); got != tt.want {
				t.Errorf("opened %q, want %q", got, tt.want)
			}
			if all := strings.Join(notes, "\n"); tt.note == "" && all != "" ||
				!strings.Contains(all, tt.note) {
				t.Errorf("notes %q, want %q", all, tt.note)
			}
		})
	}
}

// TestOpenedLotsCount: 8 KO for $430, bought more than a year ago, are worth 8 × $50: a sale of all
// realizes 400 − 430 = −$30, long-term. Of a part it is not known what it would realize.
func TestOpenedLotsCount(t *testing.T) {
	d, _, _ := opens(t, "date,account,ticker,quantity,basis,price\n2026-06-30,brk,SLV,10,200,\n2026-06-30,brk,KO,8,430,50\n", "2025-01-31")
	list, err := d.Reconcile(context.Background())
	must.Succeed(t, err)
	if !slices.ContainsFunc(list, func(c CheckedPosition) bool { return c.Ticker == "KO" && c.Agrees }) {
		t.Errorf("%+v", list)
	}
	sale := d.Simulate(context.Background(), SimulateQuery{Ticker: "KO", Price: "50", AsOf: "2026-06-30"})
	if sale.LongTerm.String() != "-30" || !sale.ShortTerm.IsZero() {
		t.Errorf("%+v", sale)
	}
	part := d.Simulate(context.Background(), SimulateQuery{Ticker: "KO", Price: "50", Shares: "3",
		AsOf: "2026-06-30"})
	if part.ErrorKind != IncompleteHistory || !strings.Contains(part.Error, "sum of several") {
		t.Errorf("a part: %+v", part)
	}
	// A second import opens nothing.
	report, err := d.ImportPositions(outside(t, "list.csv", "date,account,ticker,quantity,basis\n2026-06-30,brk,KO,8,430\n"),
		ImportOptions{OpenLots: true, BoughtBy: "2025-01-31"})
	must.Succeed(t, err)
	if len(report.Opened) != 0 || report.OpenedIn != "" {
		t.Errorf("a second import: %+v", report)
	}
}
