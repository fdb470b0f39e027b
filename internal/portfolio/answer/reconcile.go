package answer

import (
	"cmp"
	"fmt"
	"strings"

	"signalbox/brief"
	"signalbox/internal/text"
)

// ReconcileFilePrefix is the prefix of the names of files with full results.
const ReconcileFilePrefix = "reconciled_positions"

// ReconcileTool composes the answers of reconcile_positions.
func ReconcileTool() brief.Tool[ReconcileResult, ReconcileSnapshot] {
	return brief.Tool[ReconcileResult, ReconcileSnapshot]{
		Snapshot: SnapshotReconcile,
		Flags:    FlagsReconcile,
		Status:   func(s ReconcileSnapshot) brief.Status { return brief.StatusOf(s.Status) },
		Summary:  func(r ReconcileResult) any { return SummaryReconcile(r) },
		Report:   ReportReconcile,
	}
}

// CheckedPosition is a position of the broker's list, or of the lots, compared with the other one.
type CheckedPosition struct {
	Account string `json:"account"`
	Ticker  string `json:"ticker"`
	// Date is the day of the list.
	Date   string `json:"date"`
	Shares Amount `json:"shares"` // by the list
	Lots   Amount `json:"lots"`   // shares by the lots
	// ListedBasis is the basis by the list, null if it has none, and Basis that of the lots.
	// WashSales is the part of the latter that wash sales added, which brokers do not know if other
	// accounts made them.
	ListedBasis *Amount `json:"listed_basis"`
	Basis       Amount  `json:"basis"`
	WashSales   Amount  `json:"wash_sales"`
	// BasisDifference is ours less the list's, null if the list has no basis or the shares differ.
	BasisDifference *Amount `json:"basis_difference"`
	Agrees          bool    `json:"agrees"`
	// Records are rows that need shares which no row acquired.
	Records []string `json:"records"`
}

// text describes a difference in one line.
func (p CheckedPosition) text() string {
	line := fmt.Sprintf("%s in %s: %s by the list, %s in lots", p.Ticker, p.Account, p.Shares, p.Lots)
	if p.BasisDifference != nil {
		line = fmt.Sprintf("%s in %s: basis %s by the list, %s of lots", p.Ticker, p.Account,
			Cash(*p.ListedBasis), Cash(p.Basis))
		if p.WashSales.IsPos() {
			line += fmt.Sprintf(", %s of it from wash sales", Cash(p.WashSales))
		}
	}
	if len(p.Records) > 0 {
		line += " (" + p.Records[0] + ")"
	}
	return text.Shorten(line, maxNote)
}

// ReconcileResult is the full result of reconcile_positions.
type ReconcileResult struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	Problem
	Positions []CheckedPosition `json:"positions"`
	// Disclaimer is ignored: MarshalJSON always writes the constant.
	Disclaimer string `json:"disclaimer"`
}

// MarshalJSON writes empty lists as [], and the disclaimer.
func (r ReconcileResult) MarshalJSON() ([]byte, error) {
	type plain ReconcileResult // without this method
	changeLists(&r, notNil)
	r.Disclaimer = Disclaimer
	return brief.Encode(plain(r))
}

// ReconcileSnapshot is the part of a result that is needed to find what is wrong.
type ReconcileSnapshot struct {
	Status    string `json:"status"`
	Verdict   string `json:"verdict"`
	ListDate  string `json:"list_date"` // the oldest, if accounts have several
	Positions int    `json:"position_count"`
	Agreeing  int    `json:"agreeing_count"`
	// The first positions whose shares differ, and those with equal shares whose basis differs.
	SharesDifferCount int      `json:"shares_differ_count"`
	SharesDiffer      []string `json:"shares_differ"`
	BasisDiffersCount int      `json:"basis_differs_count"`
	BasisDiffers      []string `json:"basis_differs"`
	// WithoutBasis is the number of positions whose basis the list does not have.
	WithoutBasis int    `json:"without_basis_count"`
	ErrorKind    string `json:"error_kind"`
	ErrorHint    string `json:"error_hint"`
	Disclaimer   string `json:"disclaimer"`
}

// maxCheckedPositions is the length of the lists in a snapshot.
const maxCheckedPositions = 5

// SnapshotReconcile returns the snapshot of a result.
func SnapshotReconcile(r ReconcileResult) (s ReconcileSnapshot) {
	defer func() { changeLists(&s, notNil) }()
	s = ReconcileSnapshot{Status: cmp.Or(r.Status, string(brief.StatusError)),
		Positions: len(r.Positions), Disclaimer: Disclaimer}
	if s.Status != string(brief.StatusSuccess) {
		s.Verdict = "Positions could not be compared: " + cmp.Or(r.Error, "unknown error")
		s.ErrorKind, s.ErrorHint = r.ErrorKind, r.ErrorHint
		return s
	}
	for _, p := range r.Positions {
		if s.ListDate == "" || p.Date < s.ListDate {
			s.ListDate = p.Date
		}
		if p.ListedBasis == nil && p.Shares.IsPos() {
			s.WithoutBasis++
		}
		switch {
		case p.Agrees:
			s.Agreeing++
		case p.BasisDifference != nil:
			s.BasisDiffersCount++
			s.BasisDiffers = append(s.BasisDiffers, p.text())
		default:
			s.SharesDifferCount++
			s.SharesDiffer = append(s.SharesDiffer, p.text())
		}
	}
	s.SharesDiffer, s.BasisDiffers = first(s.SharesDiffer, maxCheckedPositions),
		first(s.BasisDiffers, maxCheckedPositions)
	s.Verdict = fmt.Sprintf("%d of %s agree%s with the broker's list of %s", s.Agreeing,
		text.Count(s.Positions, "position"), verbEnding(s.Positions), s.ListDate)
	var differ []string
	if s.SharesDifferCount > 0 {
		differ = append(differ, fmt.Sprintf("%d by shares", s.SharesDifferCount))
	}
	if s.BasisDiffersCount > 0 {
		differ = append(differ, fmt.Sprintf("%d by basis", s.BasisDiffersCount))
	}
	if differ != nil {
		s.Verdict += "; " + strings.Join(differ, " and ") + " differ"
		if s.SharesDifferCount+s.BasisDiffersCount == 1 {
			s.Verdict += "s"
		}
	}
	return s
}

// FlagsReconcile returns the flags of a snapshot, sorted.
func FlagsReconcile(s ReconcileSnapshot) []brief.Flag {
	var flags flagList
	if s.Status != string(brief.StatusSuccess) {
		flags.add("reconcile_error", brief.Error, "%s",
			cmp.Or(s.Verdict, "Positions could not be compared"))
		return flags.addProblem(s.ErrorKind, s.ErrorHint)
	}
	if n := s.SharesDifferCount; n > 0 {
		flags.add("shares_differ", brief.Warning,
			"The lots of %s have other shares than the broker — add the missing transactions before you trust their numbers: %s%s",
			text.Count(n, "position"), s.SharesDiffer[0], moreThan(n, 1))
	}
	if n := s.BasisDiffersCount; n > 0 {
		flags.add("basis_differs", brief.Warning,
			"The lots of %s have another basis than the broker, which does not know wash sales with other accounts: %s%s",
			text.Count(n, "position"), s.BasisDiffers[0], moreThan(n, 1))
	}
	if s.WithoutBasis > 0 {
		flags.add("basis_not_listed", brief.Info,
			"The broker's list has no basis for %s, so only shares were compared",
			text.Count(s.WithoutBasis, "position"))
	}
	if s.Agreeing == s.Positions {
		flags.add("positions_agree", brief.Success, "All positions agree with the broker's list")
	}
	return brief.Sort(flags)
}

// SummaryReconcile returns the result with the first positions that differ.
func SummaryReconcile(r ReconcileResult) ReconcileResult {
	var differ []CheckedPosition
	for _, p := range r.Positions {
		if !p.Agrees {
			differ = append(differ, p)
		}
	}
	r.Positions = first(differ, summaryLots)
	return r
}

// ReportReconcile returns the positions that differ as Markdown.
func ReportReconcile(r ReconcileResult) string {
	s := SnapshotReconcile(r)
	var m markdown
	m.paragraph("# Positions and lots")
	m.paragraph("**" + text.OneLine(s.Verdict) + "**")
	if flags := FlagsReconcile(s); len(flags) > 0 {
		m.flags(flags)
	}
	if s.Status != string(brief.StatusSuccess) || s.Agreeing == s.Positions {
		return m.String()
	}
	listed := func(a *Amount) string {
		if a == nil {
			return "–"
		}
		return Cash(*a)
	}
	m.table("Account", "Ticker", "Date", ">Shares", ">In lots", ">Basis by list", ">By lots",
		">Difference", ">Wash sales")
	for _, p := range r.Positions {
		if !p.Agrees {
			m.row(p.Account, p.Ticker, p.Date, p.Shares.String(), p.Lots.String(),
				listed(p.ListedBasis), Cash(p.Basis), listed(p.BasisDifference), Cash(p.WashSales))
		}
	}
	return m.String()
}
