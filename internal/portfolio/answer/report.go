package answer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"signalbox/brief"
	"signalbox/internal/text"
)

// ReportExit is the result as Markdown.
func ReportExit(r ExitResult) string {
	s := SnapshotExit(r)
	var m markdown
	m.paragraph("# Exit signals: " + line(s.Ticker))
	m.paragraph("**" + line(s.Verdict) + "**")
	m.flags(FlagsExit(s))
	if s.Status != string(brief.StatusSuccess) {
		return m.String()
	}
	m.paragraph("## Rules")
	m.table("Rule", "Status", "Triggered", ">Severity", ">Return", ">Gap")
	for _, signal := range r.Signals {
		name := or(signal.RuleName, "unknown")
		if signal.IsPrimary {
			name += " (primary)"
		}
		m.row(name, or(signal.Status, "ok"), yesNo(signal.Triggered), fmt.Sprintf("%.2f", finite(signal.Severity)),
			signed(signal.Return, "%"), signed(signal.Gap, " pp"))
	}
	var errors []string
	for _, signal := range r.Signals {
		if signal.Error != "" {
			errors = append(errors, "- "+line(or(signal.RuleName, "unknown")+": "+signal.Error))
		}
	}
	if errors != nil {
		m.paragraph(strings.Join(errors, "\n"))
	}
	if len(r.RecommendedActions) > 0 {
		m.paragraph("## Actions")
		m.table(">Step", "Action", ">Quantity", "Order")
		for i, action := range r.RecommendedActions {
			order := or(action.OrderType, "unknown")
			if action.StopPrice != nil {
				order += " at " + cash(*action.StopPrice)
			}
			if action.TimeInForce != "" {
				order += ", " + action.TimeInForce
			}
			m.row(fmt.Sprint(i+1), or(action.Action, "unknown"), action.Quantity.String(), order)
		}
	}
	return m.String()
}

// ReportHarvest is the result as Markdown.
func ReportHarvest(r HarvestResult) string {
	s := SnapshotHarvest(r)
	var m markdown
	m.paragraph("# Tax-loss harvest")
	m.paragraph("**" + line(s.Verdict) + "**")
	m.flags(FlagsHarvest(s))
	if s.Status != string(brief.StatusSuccess) {
		m.paragraph(Disclaimer + ".")
		return m.String()
	}
	m.table("", ">Amount")
	m.row("Harvestable loss", cash(s.TotalHarvestableLoss))
	m.row("of it short-term", cash(s.ShortTermLoss))
	m.row("of it long-term", cash(s.LongTermLoss))
	m.row("Disallowed by wash sales", cash(s.DisallowedLoss))
	if r.DisallowedForGood.Sign() != 0 {
		m.row("of it lost for good", cash(r.DisallowedForGood))
	}
	if n := r.Net; n != nil {
		m.row("Realized this year, short-term", cash(n.Realized.ShortTerm))
		m.row("Realized this year, long-term", cash(n.Realized.LongTerm))
		m.row("Losses carried over, short-term", cash(n.Realized.CarryoverShort))
		m.row("Losses carried over, long-term", cash(n.Realized.CarryoverLong))
	}
	m.row("Net of the year after harvest", cash(s.NetAfterHarvest))
	m.row("Annual deduction limit", cash(s.DeductionLimit))
	if n := r.Net; n != nil {
		m.row("Carried into the next year", cash(n.Carryforward))
	}
	m.candidates(r.Candidates)
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
	m.table("Ticker", "Account", "Bought", ">Shares", ">Loss", ">%", "Long-term", ">Disallowed", "Clean from")
	for _, c := range candidates {
		long := c.LongTermFrom
		if c.HoldingPeriod == "long_term" {
			long = "is long" // inherited shares are, whatever the date
		}
		m.row(or(strings.TrimSpace(c.Ticker), "unknown"), c.AccountID, c.LotDate, c.Shares.String(), cash(c.UnrealizedLoss),
			fmt.Sprintf("%.1f", brief.Finite(float64(c.LossPct), 0)), long, cash(c.DisallowedLoss), c.CleanDate)
	}
}

func (m *markdown) washSales(r HarvestResult) {
	if len(r.DoNotBuyBefore) > 0 {
		m.paragraph("## After selling, do not buy before")
		m.table("Ticker", "And identical", "Date")
		for _, d := range r.DoNotBuyBefore {
			m.row(d.Ticker, strings.Join(d.Identical, ", "), d.Date)
		}
	}
	if len(r.AlreadyClosed) > 0 {
		m.paragraph("## After losses already taken, do not buy before")
		m.table("Ticker", "And identical", "Date")
		for _, d := range r.AlreadyClosed {
			m.row(d.Ticker, strings.Join(d.Identical, ", "), d.Date)
		}
	}
	if len(r.RealizedWashSales) > 0 {
		m.paragraph("## Wash sales already made")
		m.table("Sold", "Account", "Ticker", ">Shares", ">Loss", ">Disallowed", ">Lost for good")
		for _, w := range r.RealizedWashSales {
			m.row(w.SaleDate, w.Account, w.Ticker, w.Shares.String(), cash(w.Loss), cash(w.DisallowedLoss), cash(w.PermanentLoss))
		}
	}
	if len(r.NotUnderstood) > 0 {
		m.paragraph("## Records that move shares and were not understood")
		m.table("File", ">Line", "Why")
		for _, s := range r.NotUnderstood {
			m.row(s.File, fmt.Sprint(s.Line), s.Why)
		}
	}
	if len(r.IncompleteHistory) > 0 {
		m.paragraph("## Shares without a known purchase")
		m.table("Date", "Account", "Ticker", ">Shares", "Why")
		for _, i := range r.IncompleteHistory {
			m.row(i.Date, i.Account, i.Ticker, i.Shares.String(), i.Why)
		}
	}
}

// cash is an amount with its sign and cents.
func cash(a Amount) string {
	text := "$" + text.Group(a.Abs().Rescale(2).String())
	if a.IsNeg() {
		return "-" + text
	}
	return text
}

// signed is a fraction in percent or percentage points, with its sign; "–" if it is not known.
func signed(n *brief.Number, unit string) string {
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

// markdown is a document in the making. Blocks are apart by one empty line. Tables are padded, so that they can also be
// read as they are, in a terminal.
type markdown struct {
	text strings.Builder
	rows [][]string // of the table that is not written yet, its titles first
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
		lines[i] = "- " + string(flag.Severity) + ": " + line(flag.Message)
	}
	m.paragraph(strings.Join(lines, "\n"))
}

// rightward marks the title of a column of numbers.
const rightward = ">"

// table begins a table.
func (m *markdown) table(titles ...string) {
	m.endTable()
	m.rows = [][]string{titles}
}

func (m *markdown) row(cells ...string) {
	escape := strings.NewReplacer(`\`, `\\`, "|", `\|`)
	for i, cell := range cells {
		cells[i] = escape.Replace(line(cell))
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
		rows[0][i], right[i] = strings.CutPrefix(title, rightward)
		widths[i] = 3 // what a ruler needs at least
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

// line is a text on one line: a broken one would break out of its table.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }
