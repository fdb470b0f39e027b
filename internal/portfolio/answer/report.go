package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"signalbox/brief"
	"signalbox/internal/text"
)

// ReportExit returns the result as Markdown.
func ReportExit(r ExitResult) string {
	s := SnapshotExit(r)
	var m markdown
	m.paragraph("# Exit signals: " + text.OneLine(s.Ticker))
	m.paragraph("**" + text.OneLine(s.Verdict) + "**")
	m.flags(FlagsExit(s))
	if s.Status != string(brief.StatusSuccess) {
		return m.String()
	}
	m.paragraph("## Rules")
	m.table("Rule", "Status", "Triggered", ">Severity", ">Return", ">Gap")
	for _, signal := range r.Signals {
		name := cmp.Or(signal.RuleName, "unknown")
		if signal.IsPrimary {
			name += " (primary)"
		}
		m.row(name, cmp.Or(signal.Status, "ok"), yesNo(signal.Triggered),
			fmt.Sprintf("%.2f", finite(signal.Severity)),
			Signed(signal.Return, "%"), Signed(signal.Gap, " pp"))
	}
	var errors []string
	for _, signal := range r.Signals {
		if signal.Error != "" {
			errors = append(errors, "- "+text.OneLine(cmp.Or(signal.RuleName, "unknown")+": "+
				signal.Error))
		}
	}
	if errors != nil {
		m.paragraph(strings.Join(errors, "\n"))
	}
	if len(r.RecommendedActions) > 0 {
		m.paragraph("## Actions")
		m.table(">Step", "Action", ">Quantity", "Order")
		for i, action := range r.RecommendedActions {
			order := cmp.Or(action.OrderType, "unknown")
			if action.StopPrice != nil {
				order += " at " + Cash(*action.StopPrice)
			}
			if action.TimeInForce != "" {
				order += ", " + action.TimeInForce
			}
			m.row(fmt.Sprint(i+1), cmp.Or(action.Action, "unknown"), action.Quantity.String(),
				order)
		}
	}
	return m.String()
}

// ReportHarvest returns the result as Markdown.
func ReportHarvest(r HarvestResult) string {
	s := SnapshotHarvest(r)
	var m markdown
	m.paragraph("# Tax-loss harvest")
	m.paragraph("**" + text.OneLine(s.Verdict) + "**")
	if s.Headline != "" {
		m.paragraph(strings.ToUpper(s.Headline[:1]) + text.OneLine(s.Headline[1:]) + ".")
	}
	m.flags(FlagsHarvest(s))
	if s.Status != string(brief.StatusSuccess) {
		m.paragraph(Disclaimer + ".")
		return m.String()
	}
	m.table("", ">Amount")
	m.row("Harvestable loss", Cash(s.TotalHarvestableLoss))
	m.row("Harvestable, short-term", Cash(s.ShortTermLoss))
	m.row("Harvestable, long-term", Cash(s.LongTermLoss))
	m.row("Disallowed by wash sales", Cash(s.DisallowedLoss))
	if r.DisallowedForGood.Sign() != 0 {
		m.row("Disallowed for good", Cash(r.DisallowedForGood))
	}
	if n := r.Net; n != nil {
		m.row("Realized this year, short-term", Cash(n.Realized.ShortTerm))
		m.row("Realized this year, long-term", Cash(n.Realized.LongTerm))
		m.row("Losses carried over, short-term", Cash(n.Realized.CarryoverShort))
		m.row("Losses carried over, long-term", Cash(n.Realized.CarryoverLong))
	}
	m.row("Net of the year after harvest", Cash(s.NetAfterHarvest))
	m.row("Annual deduction limit", Cash(s.DeductionLimit))
	if n := r.Net; n != nil {
		m.row("Carried into the next year", Cash(n.Carryforward))
	}
	m.candidates(r.Candidates)
	m.lots(r)
	m.washSales(r)
	m.paragraph(Disclaimer + ".")
	return m.String()
}

func (m *markdown) candidates(candidates []HarvestCandidate) {
	if len(candidates) == 0 {
		return
	}
	m.paragraph("## Lots at a loss")
	m.paragraph("Each line is for selling that lot alone; the totals above are for selling all of them together.")
	m.table("Ticker", "Account", "Bought", ">Shares", ">Loss", ">%", "Long-term", ">Disallowed",
		"Clean from")
	for _, c := range candidates {
		long := c.LongTermFrom
		if c.HoldingPeriod == "long_term" {
			long = "yes" // LongTermFrom of inherited shares may be in the future
		}
		m.row(cmp.Or(strings.TrimSpace(c.Ticker), "unknown"), c.AccountID, c.LotDate,
			c.Shares.String(), Cash(c.UnrealizedLoss),
			fmt.Sprintf("%.1f", brief.Finite(float64(c.LossPct), 0)), long, Cash(c.DisallowedLoss),
			c.CleanDate)
	}
	if slices.ContainsFunc(candidates,
		func(c HarvestCandidate) bool { return c.PricePer == "contract" }) {
		m.paragraph("Shares of an option are contracts, and its price is per contract.")
	}
	m.sales(candidates)
}

// sales lists the candidates that need more than a sale of their shares.
func (m *markdown) sales(candidates []HarvestCandidate) {
	title := "## How to sell them"
	for _, c := range candidates {
		how := c.HowToSell()
		if how == "" {
			continue
		}
		if title != "" {
			m.paragraph(title)
			m.table("Ticker", "Account", "Bought", ">Shares", "Sale")
			title = ""
		}
		m.row(cmp.Or(strings.TrimSpace(c.Ticker), "unknown"), c.AccountID, c.LotDate,
			c.Shares.String(), how)
	}
}

// HowToSell returns what a candidate needs besides a sale of its shares, or nothing.
func (c HarvestCandidate) HowToSell() string {
	if !c.IdentifyLot && c.PlainSale != nil && c.PlainSale.Gain != nil &&
		!c.PlainSale.Shares.Equal(c.Shares) {
		return fmt.Sprintf("%s sells other lots first: selling %s realizes %s", c.LotMethod,
			c.PlainSale.Shares, Cash(*c.PlainSale.Gain))
	}
	return c.Advice
}

func (m *markdown) lots(r HarvestResult) {
	if len(r.NotReached) > 0 {
		m.paragraph("## Lots at a loss that a sale would not sell first")
		m.table("Ticker", "Account", "Bought", ">Shares", ">Loss", "To realize it")
		for _, l := range r.NotReached {
			m.row(l.Ticker, l.AccountID, l.LotDate, l.Shares.String(), Cash(l.UnrealizedLoss),
				l.Advice)
		}
	}
	if len(r.LotsMissing) > 0 || len(r.LotsNotHeld) > 0 {
		m.paragraph("## Lots that do not match what is held")
		m.table("Ticker", "Account", ">Held", ">In lots", "Records")
		for _, p := range append(slices.Clone(r.LotsMissing), r.LotsNotHeld...) {
			m.row(p.Ticker, p.AccountID, p.Held.String(), p.Lots.String(),
				strings.Join(p.Records, "; "))
		}
	}
	m.records("## Records left out on import", r.LeftOut)
}

func (m *markdown) records(title string, records []SkippedRecord) {
	if len(records) == 0 {
		return
	}
	m.paragraph(title)
	m.table("File", ">Line", "Why")
	for _, s := range records {
		m.row(s.File, fmt.Sprint(s.Line), s.Why)
	}
}

func (m *markdown) doNotBuy(title string, tickers []DoNotBuy) {
	if len(tickers) == 0 {
		return
	}
	m.paragraph(title)
	columns, replaced := []string{"Ticker", "And identical", "Date"}, false
	for _, d := range tickers {
		replaced = replaced || len(d.Replacements) > 0
	}
	if replaced {
		columns = append(columns, "Buy instead")
	}
	m.table(columns...)
	for _, d := range tickers {
		row := []string{d.Ticker, strings.Join(d.Identical, ", "), d.Date}
		if replaced {
			row = append(row, strings.Join(d.Replacements, ", "))
		}
		m.row(row...)
	}
}

func (m *markdown) washSales(r HarvestResult) {
	m.doNotBuy("## After selling, do not buy before", r.DoNotBuyBefore)
	m.doNotBuy("## After past losses, do not buy before", r.DoNotBuyNow)
	if len(r.RealizedWashSales) > 0 {
		m.paragraph("## Past wash sales")
		m.table("Sold", "Account", "Ticker", ">Shares", ">Loss", ">Disallowed", ">Lost for good")
		for _, w := range r.RealizedWashSales {
			m.row(w.SaleDate, w.Account, w.Ticker, w.Shares.String(), Cash(w.Loss),
				Cash(w.DisallowedLoss), Cash(w.PermanentLoss))
		}
	}
	m.records("## Records that moved shares but were not imported", r.NotUnderstood)
	if len(r.IncompleteHistory) > 0 {
		m.paragraph("## Shares without a known purchase")
		m.table("Date", "Account", "Ticker", ">Shares", "Why", "Record")
		for _, i := range r.IncompleteHistory {
			m.row(i.Date, i.Account, i.Ticker, i.Shares.String(), i.Why, i.Record)
		}
	}
}

// Cash returns an amount with its sign, a dollar sign and cents.
func Cash(a Amount) string {
	text := "$" + text.Group(a.Abs().Rescale(2).String())
	if a.IsNeg() {
		return "-" + text
	}
	return text
}

// Signed returns a fraction in percent or percentage points with its sign, or "–" if it is not
// known.
func Signed(n *brief.Number, unit string) string {
	if n == nil {
		return "–"
	}
	return fmt.Sprintf("%+.2f%s", finite(n)*100, unit)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// markdown writes a document. Blocks are separated by an empty line. Tables are padded, so that
// they are readable in a terminal too.
type markdown struct {
	text strings.Builder
	rows [][]string // the rows of the current table, titles first
}

func (m *markdown) String() string {
	m.endTable()
	return m.text.String()
}

func (m *markdown) paragraph(text string) {
	m.endTable()
	if m.text.Len() > 0 {
		m.text.WriteByte('\n')
	}
	m.text.WriteString(text + "\n")
}

func (m *markdown) flags(flags []brief.Flag) {
	lines := make([]string, len(flags))
	for i, flag := range flags {
		lines[i] = "- " + string(flag.Severity) + ": " + text.OneLine(flag.Message)
	}
	m.paragraph(strings.Join(lines, "\n"))
}

// rightAligned marks the title of a right-aligned column.
const rightAligned = ">"

// table starts a table.
func (m *markdown) table(titles ...string) {
	m.endTable()
	m.rows = [][]string{titles}
}

func (m *markdown) row(cells ...string) {
	escape := strings.NewReplacer(`\`, `\\`, "|", `\|`)
	for i, cell := range cells {
		cells[i] = escape.Replace(text.OneLine(cell))
	}
	m.rows = append(m.rows, cells)
}

func (m *markdown) endTable() {
	if m.rows == nil {
		return
	}
	rows, right, widths := m.rows, make([]bool, len(m.rows[0])), make([]int, len(m.rows[0]))
	m.rows = nil
	for i, title := range rows[0] {
		rows[0][i], right[i] = strings.CutPrefix(title, rightAligned)
		widths[i] = 3 // the minimum for the ruler
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	m.paragraph(tableRow(rows[0], widths, right))
	ruler := make([]string, len(widths))
	for i, width := range widths {
		ruler[i] = strings.Repeat("-", width)
		if right[i] {
			ruler[i] = ruler[i][1:] + ":"
		}
	}
	m.text.WriteString(tableRow(ruler, widths, right) + "\n")
	for _, row := range rows[1:] {
		m.text.WriteString(tableRow(row, widths, right) + "\n")
	}
}

func tableRow(cells []string, widths []int, right []bool) string {
	padded := make([]string, len(cells))
	for i, cell := range cells {
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if padded[i] = cell + space; right[i] {
			padded[i] = space + cell
		}
	}
	return "| " + strings.Join(padded, " | ") + " |"
}
