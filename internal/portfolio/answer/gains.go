package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox/brief"
	"signalbox/internal/text"
)

// GainsFilePrefix is the prefix of the names of files with full results.
const GainsFilePrefix = "realized_gains"

// GainsTool composes the answers of realized_gains.
func GainsTool() brief.Tool[GainsResult, GainsSnapshot] {
	return brief.Tool[GainsResult, GainsSnapshot]{
		Snapshot: SnapshotGains,
		Flags:    FlagsGains,
		Status:   func(s GainsSnapshot) brief.Status { return brief.StatusOf(s.Status) },
		Summary:  func(r GainsResult) any { return SummaryGains(r) },
		Report:   ReportGains,
	}
}

// GainsResult is the full result of realized_gains: the sales of a year, as on Form 8949. Amounts
// of rows are rounded to cents, and all totals are sums of the rounded rows.
type GainsResult struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	Problem
	Year int       `json:"year"`
	Rows []GainRow `json:"rows"`
	// ScheduleD are the lines of Schedule D that have a row.
	ScheduleD []ScheduleDLine `json:"schedule_d"`
	ShortTerm Amount          `json:"short_term_gain"`
	LongTerm  Amount          `json:"long_term_gain"`
	// WashSales is the part of losses that wash sales disallow, and Permanent the part of it that
	// is in no basis.
	WashSales Amount `json:"wash_sale_disallowed"`
	Permanent Amount `json:"permanently_disallowed"`
	// FinalOn is the first day on which no purchase can disallow a loss of the year any more. It is
	// empty if that day is over.
	FinalOn string `json:"final_on,omitempty"`
	// Form1099 is the comparison with a Form 1099-B; nil if none was given.
	Form1099 *FormComparison `json:"form_1099b,omitempty"`
	// OtherGains means that portfolio.yaml adds realized gains or losses, which are in no row.
	OtherGains bool `json:"other_gains,omitempty"`
	// SpouseOmitted means that sales of the spouse are left out, because they file separately.
	SpouseOmitted bool `json:"spouse_omitted,omitempty"`
	// Section1256 are contracts under section 1256 that were sold. They belong on Form 6781, and
	// have no rows.
	Section1256 []string `json:"section_1256,omitempty"`
	// DoubtfulLots are earlier rows that need shares which no row acquired, of positions that were
	// sold in the year.
	DoubtfulLots       []string `json:"doubtful_lots"`
	LeftOut            int      `json:"records_left_out,omitempty"`
	NotUnderstood      int      `json:"records_not_understood,omitempty"`
	PossibleDuplicates int      `json:"possible_duplicates,omitempty"`
	// Disclaimer is ignored: MarshalJSON always writes the constant.
	Disclaimer string `json:"disclaimer"`
}

// GainRow is a row of Form 8949: what one sale realizes on shares of one lot.
type GainRow struct {
	// Box is the box of Form 8949, from A to L, and BoxReason why it is this one.
	Box         string `json:"box"`
	BoxReason   string `json:"box_reason"`
	Description string `json:"description"`   // column a
	Acquired    string `json:"date_acquired"` // column b: a date, or INHERITED
	Sold        string `json:"date_sold"`     // column c
	Proceeds    Amount `json:"proceeds"`      // column d, less fees
	Basis       Amount `json:"basis"`         // column e
	Code        string `json:"code"`          // column f: W or empty
	// Adjustment is column g: the disallowed loss, positive. Gain, which is column h, is proceeds
	// less basis plus adjustment.
	Adjustment Amount `json:"adjustment"`
	Gain       Amount `json:"gain"`
	LongTerm   bool   `json:"long_term"`
	Account    string `json:"account"`
	Ticker     string `json:"ticker"`
	Quantity   Amount `json:"quantity"`
	// HeldSince is the first day of the holding period. A wash sale can move it before the day
	// after the purchase.
	HeldSince string `json:"held_since"`
	// Permanent is the part of the adjustment that is in no basis.
	Permanent Amount `json:"permanently_disallowed"`
	Note      string `json:"note,omitempty"`
	// Record is the row of the sale, as file:line.
	Record string `json:"record"`
	// Digital means that the row belongs to the boxes of digital assets.
	Digital bool `json:"digital_asset,omitempty"`
}

// ScheduleDLine is a line of Schedule D with the totals of the boxes that belong to it.
type ScheduleDLine struct {
	Line       string `json:"line"`
	Boxes      string `json:"boxes"`
	Proceeds   Amount `json:"proceeds"`
	Basis      Amount `json:"basis"`
	Adjustment Amount `json:"adjustment"`
	Gain       Amount `json:"gain"`
	Rows       int    `json:"rows"`
}

// FormComparison is how the rows agree with a Form 1099-B.
type FormComparison struct {
	File string `json:"file"`
	// Rows is the number of sales on the form, and Agree the number of those without a difference.
	Rows        int              `json:"rows"`
	Agree       int              `json:"agree"`
	Differences []FormDifference `json:"differences"`
	// NotCompared are accounts with sales of the year that are not on the form.
	NotCompared []string `json:"accounts_not_compared"`
}

// FormDifference is a difference between rows of Form 8949 and of the broker's form.
type FormDifference struct {
	Account  string `json:"account"`
	Ticker   string `json:"ticker"`
	Acquired string `json:"date_acquired,omitempty"`
	Sold     string `json:"date_sold"`
	// Field is what differs: quantity, proceeds, basis, wash_sale, box, or row if one side has none.
	Field string `json:"field"`
	Ours  string `json:"ours"`
	Form  string `json:"form"`
	// Difference is ours less the form's, for amounts.
	Difference *Amount `json:"difference,omitempty"`
	// Record is the row of the sale, and FormLine that of the form, as file:line.
	Record   string `json:"record,omitempty"`
	FormLine string `json:"form_line,omitempty"`
}

func (d FormDifference) String() string {
	s := fmt.Sprintf("%s sold %s: %s %s, form %s", d.Ticker, d.Sold, d.Field, cmp.Or(d.Ours, "none"),
		cmp.Or(d.Form, "none"))
	if d.Difference != nil {
		s += " (" + d.difference() + ")"
	}
	return s
}

func (d FormDifference) difference() string {
	switch {
	case d.Difference == nil:
		return ""
	case d.Field == "quantity":
		return d.Difference.String()
	}
	return Cash(*d.Difference)
}

// MarshalJSON writes empty lists as [], and the disclaimer.
func (r GainsResult) MarshalJSON() ([]byte, error) {
	type plain GainsResult // without this method
	changeLists(&r, notNil)
	r.Disclaimer = Disclaimer
	return brief.Encode(plain(r))
}

// GainsSnapshot is the part of a result that an agent needs.
type GainsSnapshot struct {
	Status    string          `json:"status"`
	Verdict   string          `json:"verdict"`
	Year      int             `json:"year"`
	RowCount  int             `json:"row_count"`
	ShortTerm Amount          `json:"short_term_gain"`
	LongTerm  Amount          `json:"long_term_gain"`
	WashSales Amount          `json:"wash_sale_disallowed"`
	Permanent Amount          `json:"permanently_disallowed"`
	ScheduleD []ScheduleDLine `json:"schedule_d"`
	// LargestLosses and LargestGains are rows, at most 3 each.
	LargestLosses []GainSummary `json:"largest_losses"`
	LargestGains  []GainSummary `json:"largest_gains"`
	FinalOn       string        `json:"final_on"`
	// FormRows, FormDifferences and FormDifferenceCount are about a Form 1099-B, if one was given.
	FormRows            int      `json:"form_rows"`
	FormDifferenceCount int      `json:"form_difference_count"`
	FormDifferences     []string `json:"form_differences"`
	NotCompared         []string `json:"accounts_not_compared"`
	DoubtfulLots        []string `json:"doubtful_lots"`
	OtherGains          bool     `json:"other_gains"`
	SpouseOmitted       bool     `json:"spouse_omitted"`
	Section1256         []string `json:"section_1256,omitempty"`
	LeftOut             int      `json:"records_left_out"`
	NotUnderstood       int      `json:"records_not_understood"`
	PossibleDuplicates  int      `json:"possible_duplicates"`
	ErrorKind           string   `json:"error_kind"`
	ErrorHint           string   `json:"error_hint"`
}

// GainSummary is a row in short.
type GainSummary struct {
	Ticker     string `json:"ticker"`
	Sold       string `json:"date_sold"`
	Gain       Amount `json:"gain"`
	Adjustment Amount `json:"wash_sale"`
	LongTerm   bool   `json:"long_term"`
}

// Lengths of the lists in a snapshot.
const (
	maxGainRows        = 3
	maxFormDifferences = 5
)

// SnapshotGains returns the snapshot of a result.
func SnapshotGains(r GainsResult) (s GainsSnapshot) {
	defer func() { changeLists(&s, notNil) }()
	s = GainsSnapshot{Status: cmp.Or(r.Status, string(brief.StatusError)), Year: r.Year}
	if s.Status != string(brief.StatusSuccess) {
		s.Verdict = fmt.Sprintf("Realized gains of %d failed: %s", r.Year,
			cmp.Or(r.Error, "unknown error"))
		if r.Year == 0 {
			s.Verdict = "Realized gains failed: " + cmp.Or(r.Error, "unknown error")
		}
		s.ErrorKind, s.ErrorHint = r.ErrorKind, r.ErrorHint
		return s
	}
	s.RowCount, s.ShortTerm, s.LongTerm = len(r.Rows), r.ShortTerm, r.LongTerm
	s.WashSales, s.Permanent, s.ScheduleD = r.WashSales, r.Permanent, r.ScheduleD
	s.FinalOn, s.OtherGains, s.SpouseOmitted = r.FinalOn, r.OtherGains, r.SpouseOmitted
	s.Section1256 = r.Section1256
	s.DoubtfulLots = first(r.DoubtfulLots, maxGainRows)
	s.LeftOut, s.NotUnderstood = r.LeftOut, r.NotUnderstood
	s.PossibleDuplicates = r.PossibleDuplicates
	s.LargestLosses = largestRows(r.Rows, func(a Amount) bool { return a.IsNeg() })
	s.LargestGains = largestRows(r.Rows, func(a Amount) bool { return a.IsPos() })
	if f := r.Form1099; f != nil {
		s.FormRows, s.FormDifferenceCount = f.Rows, len(f.Differences)
		s.NotCompared = f.NotCompared
		for _, d := range first(f.Differences, maxFormDifferences) {
			s.FormDifferences = append(s.FormDifferences, d.String())
		}
	}
	s.Verdict = fmt.Sprintf("%d: no sales in taxable accounts", r.Year)
	if len(r.Rows) > 0 {
		s.Verdict = fmt.Sprintf("%d: %s short-term, %s long-term in %s of Form 8949", r.Year,
			Cash(r.ShortTerm), Cash(r.LongTerm), text.Count(len(r.Rows), "row"))
	}
	if r.WashSales.IsPos() {
		s.Verdict += fmt.Sprintf(", after %s of losses disallowed as wash sales", Cash(r.WashSales))
	}
	return s
}

// largestRows returns the wanted rows with the largest gains or losses.
func largestRows(rows []GainRow, wanted func(Amount) bool) (list []GainSummary) {
	for _, r := range rows {
		if wanted(r.Gain) {
			list = append(list, GainSummary{r.Ticker, r.Sold, r.Gain, r.Adjustment, r.LongTerm})
		}
	}
	slices.SortStableFunc(list, func(a, b GainSummary) int { return b.Gain.CmpAbs(a.Gain.Decimal) })
	return first(list, maxGainRows)
}

// FlagsGains returns the flags of a snapshot, sorted.
func FlagsGains(s GainsSnapshot) []brief.Flag {
	var flags flagList
	if s.Status != string(brief.StatusSuccess) {
		flags.add("gains_error", brief.Error, "%s", cmp.Or(s.Verdict, "Realized gains failed"))
		return flags.addProblem(s.ErrorKind, s.ErrorHint)
	}
	switch {
	case s.FormDifferenceCount > 0:
		flags.add("form_1099b_differs", brief.Warning,
			"%s from the Form 1099-B — find the cause of each before you file: %s%s",
			text.Count(s.FormDifferenceCount, "difference"),
			strings.Join(first(s.FormDifferences, maxGainRows), "; "),
			moreThan(s.FormDifferenceCount, maxGainRows))
	case s.FormRows > 0:
		flags.add("form_1099b_agrees", brief.Success,
			"All %s of the Form 1099-B agree to the cent", text.Count(s.FormRows, "row"))
	}
	if len(s.NotCompared) > 0 {
		flags.add("not_compared", brief.Info, "The Form 1099-B has no sales of %s",
			strings.Join(s.NotCompared, ", "))
	}
	if s.FinalOn != "" {
		flags.add("year_not_final", brief.Warning,
			"Not final before %s: until then a purchase can still disallow a loss of %d",
			s.FinalOn, s.Year)
	}
	if s.Permanent.IsPos() {
		flags.add("permanently_disallowed", brief.Warning,
			"%s of the losses is lost for good: the shares were replaced in a retirement account",
			Cash(s.Permanent))
	}
	if n := len(s.DoubtfulLots); n > 0 {
		flags.add("incomplete_history", brief.Warning,
			"Earlier rows of positions sold in %d have no purchase, so their basis may be wrong: %s",
			s.Year, strings.Join(s.DoubtfulLots, "; "))
	}
	if len(s.Section1256) > 0 {
		flags.add("form_6781", brief.Warning,
			"Contracts under section 1256 belong on Form 6781, and are in no row: %s",
			strings.Join(s.Section1256, ", "))
	}
	if s.OtherGains {
		flags.add("other_gains", brief.Info,
			"realized in portfolio.yaml adds gains or losses, which are in no row: enter them yourself")
	}
	if s.SpouseOmitted {
		flags.add("spouse_omitted", brief.Info,
			"You file separately: sales in accounts of your spouse are left out")
	}
	if n := s.LeftOut; n > 0 {
		flags.add("records_left_out", brief.Warning,
			"%s that moved shares left out on import — add transactions for them, then remove their lines from left-out.csv",
			text.Count(n, "record"))
	}
	if n := s.NotUnderstood; n > 0 {
		flags.add("records_not_understood", brief.Warning,
			"%s of brokers' files moved shares but could not be imported — gains may be wrong until you add transactions for them",
			text.Count(n, "record"))
	}
	if n := s.PossibleDuplicates; n > 0 {
		flags.add("possible_duplicates", brief.Warning,
			"%s may be in two files of different formats — if so they are counted twice; remove one of the files",
			text.Count(n, "row"))
	}
	if s.RowCount == 0 {
		flags.add("no_sales", brief.Success, "No sales in taxable accounts in %d", s.Year)
	}
	return brief.Sort(flags)
}

// GainsSummary is a snapshot with the first rows.
type GainsSummary struct {
	GainsSnapshot
	Rows    []GainRow `json:"rows"`
	Omitted int       `json:"rows_omitted"`
}

// SummaryGains returns the summary of a result.
func SummaryGains(r GainsResult) GainsSummary {
	s := GainsSummary{GainsSnapshot: SnapshotGains(r), Rows: first(r.Rows, summaryLots),
		Omitted: max(0, len(r.Rows)-summaryLots)}
	if s.Rows == nil {
		s.Rows = []GainRow{}
	}
	return s
}

// ReportGains returns the result as Markdown.
func ReportGains(r GainsResult) string {
	s := SnapshotGains(r)
	var m markdown
	m.paragraph(fmt.Sprintf("# Realized gains of %d", r.Year))
	m.paragraph("**" + text.OneLine(s.Verdict) + "**")
	if flags := FlagsGains(s); len(flags) > 0 {
		m.flags(flags)
	}
	if s.Status != string(brief.StatusSuccess) {
		return m.String()
	}
	for i, row := range r.Rows {
		if i == 0 || row.Box != r.Rows[i-1].Box {
			part := "I, short-term"
			if row.LongTerm {
				part = "II, long-term"
			}
			m.paragraph(fmt.Sprintf("## Form 8949 Part %s, box %s", part, row.Box))
			m.table("(a) Description", "(b) Acquired", "(c) Sold", ">(d) Proceeds", ">(e) Basis",
				"(f)", ">(g) Adjustment", ">(h) Gain", "Account")
		}
		adjustment := ""
		if row.Code != "" {
			adjustment = Cash(row.Adjustment)
		}
		m.row(row.Description, row.Acquired, row.Sold, Cash(row.Proceeds), Cash(row.Basis),
			row.Code, adjustment, Cash(row.Gain), row.Account)
	}
	if len(r.ScheduleD) > 0 {
		m.paragraph("## Schedule D")
		m.table("Line", "Boxes", ">(d) Proceeds", ">(e) Basis", ">(g) Adjustment", ">(h) Gain")
		for _, l := range r.ScheduleD {
			m.row(l.Line, l.Boxes, Cash(l.Proceeds), Cash(l.Basis), Cash(l.Adjustment),
				Cash(l.Gain))
		}
		m.paragraph("Losses carried over (lines 6 and 14) and capital gain distributions (line 13) are not included.")
	}
	m.formDifferences(r.Form1099)
	m.notes(r.Rows)
	m.paragraph(Disclaimer + ".")
	return m.String()
}

func (m *markdown) formDifferences(f *FormComparison) {
	if f == nil || len(f.Differences) == 0 {
		return
	}
	m.paragraph("## Differences from the Form 1099-B")
	m.table("Ticker", "Acquired", "Sold", "Account", "What", ">Ours", ">Form", ">Difference",
		"Ours in", "Form in")
	for _, d := range f.Differences {
		m.row(d.Ticker, d.Acquired, d.Sold, d.Account, d.Field, d.Ours, d.Form, d.difference(),
			d.Record, d.FormLine)
	}
}

// notes lists why rows have their box, and what else is to be said about them.
func (m *markdown) notes(rows []GainRow) {
	count := make(map[string]int)
	var reasons []string
	for _, r := range rows {
		for _, reason := range []string{"box " + r.Box + ": " + r.BoxReason, r.Note} {
			if reason == "" {
				continue
			}
			if count[reason] == 0 {
				reasons = append(reasons, reason)
			}
			count[reason]++
		}
	}
	if len(reasons) == 0 {
		return
	}
	m.paragraph("## Notes")
	lines := make([]string, len(reasons))
	for i, reason := range reasons {
		lines[i] = fmt.Sprintf("- %s (%s)", reason, text.Count(count[reason], "row"))
	}
	m.paragraph(strings.Join(lines, "\n"))
}
