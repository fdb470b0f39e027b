package answer

import (
	"cmp"
	"fmt"
	"strings"

	"signalbox/brief"
	"signalbox/internal/text"
)

// SimulationFilePrefix is the prefix of the names of files with full results.
const SimulationFilePrefix = "simulated_sale"

// SimulationTool composes the answers of simulate_sale.
func SimulationTool() brief.Tool[SimulationResult, SimulationSnapshot] {
	return brief.Tool[SimulationResult, SimulationSnapshot]{
		Snapshot: SnapshotSimulation,
		Flags:    FlagsSimulation,
		Status:   func(s SimulationSnapshot) brief.Status { return brief.StatusOf(s.Status) },
		Summary:  func(r SimulationResult) any { return SummarySimulation(r) },
		Report:   ReportSimulation,
	}
}

// SaleOutcome is what a sale that was not made yet would do. Gains are after wash sales.
type SaleOutcome struct {
	ShortTerm Amount `json:"short_term_gain"`
	LongTerm  Amount `json:"long_term_gain"`
	// WashSales is the loss that wash sales would disallow, and Permanent the part of it that is
	// in no basis.
	WashSales Amount `json:"wash_sale_disallowed"`
	Permanent Amount `json:"permanently_disallowed"`
	// CleanDate is the first day on which the sale is not a wash sale, if nothing more is bought.
	CleanDate string `json:"clean_date"`
	// DoNotBuy are the tickers that must not be bought before DoNotBuyBefore.
	DoNotBuy       []string `json:"do_not_buy"`
	DoNotBuyBefore string   `json:"do_not_buy_before"`
	// NotTaxed means that the account is a retirement account, whose gains and losses do not count.
	NotTaxed bool `json:"not_taxed"`
}

// String describes the outcome in one line.
func (o SaleOutcome) String() string {
	if o.NotTaxed {
		return "is not taxed: the account is a retirement account"
	}
	var parts []string
	if o.ShortTerm.Sign() != 0 {
		parts = append(parts, Cash(o.ShortTerm)+" short-term")
	}
	if o.LongTerm.Sign() != 0 || parts == nil {
		parts = append(parts, Cash(o.LongTerm)+" long-term")
	}
	line := "realizes " + strings.Join(parts, " and ")
	if o.WashSales.IsPos() {
		line += fmt.Sprintf(", after %s of losses disallowed as wash sales", Cash(o.WashSales))
	}
	if o.Permanent.IsPos() {
		line += fmt.Sprintf(" (%s for good)", Cash(o.Permanent))
	}
	return line
}

// SimulationResult is the full result of simulate_sale.
type SimulationResult struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	Problem
	Ticker    string `json:"ticker"`
	AccountID string `json:"account_id,omitempty"`
	AsOf      string `json:"as_of,omitempty"`
	Shares    Amount `json:"shares"`
	Held      Amount `json:"held"`
	Price     Amount `json:"price"`
	// PriceDate is empty if the question gave the price.
	PriceDate string `json:"price_date,omitempty"`
	Proceeds  Amount `json:"proceeds"`
	LotMethod string `json:"lot_method,omitempty"`
	// Identify is set if the lots must be named to the broker, because the sale is not by the
	// method of the account.
	Identify bool `json:"identify_lots"`
	SaleOutcome
	Lots              []SoldLot  `json:"lots"`
	WashSalePurchases []Purchase `json:"wash_sale_purchases"`
	// Replacements are what the user's list offers to buy instead until DoNotBuyBefore.
	Replacements []string `json:"replacements"`
	// Year is the net of the year without and with the sale; nil in a retirement account.
	Year *YearEffect `json:"year"`
	// LaterPurchases are purchases after the day that make a wash sale of the sale.
	LaterPurchases []LaterPurchase `json:"later_purchases"`
	// ExpectedReinvestments are those that would make a wash sale of it.
	ExpectedReinvestments []ExpectedReinvestment `json:"expected_reinvestments"`
	StalePriceDays        int                    `json:"stale_price_days,omitempty"`
	// Disclaimer is ignored: MarshalJSON always writes the constant.
	Disclaimer string `json:"disclaimer"`
}

// SoldLot is what the sale takes of a lot, or of a part of one that has its own basis.
type SoldLot struct {
	LotDate      string `json:"lot_date"`
	HoldingStart string `json:"holding_start"`
	Shares       Amount `json:"shares"`
	Proceeds     Amount `json:"proceeds"`
	Basis        Amount `json:"basis"`
	// Gain is before wash sales.
	Gain       Amount `json:"gain"`
	Disallowed Amount `json:"disallowed"`
	Permanent  Amount `json:"permanent"`
	LongTerm   bool   `json:"long_term"`
}

// YearEffect is what a sale does to the year.
type YearEffect struct {
	Before NetPosition `json:"before"`
	After  NetPosition `json:"after"`
	// Tax is the tax on the sale: that of the year with it, less that without it. It is negative
	// if the sale saves tax. Nil means that it is not known, and TaxUnknown says why.
	Tax        *Amount `json:"tax"`
	TaxUnknown string  `json:"tax_unknown,omitempty"`
}

// MarshalJSON writes empty lists as [], and the disclaimer.
func (r SimulationResult) MarshalJSON() ([]byte, error) {
	type plain SimulationResult // without this method
	changeLists(&r, notNil)
	if r.DoNotBuy == nil {
		r.DoNotBuy = []string{}
	}
	r.Disclaimer = Disclaimer
	return brief.Encode(plain(r))
}

// SimulationSnapshot is the part of a result that is needed to decide about the sale.
type SimulationSnapshot struct {
	Status         string   `json:"status"`
	Verdict        string   `json:"verdict"`
	Ticker         string   `json:"ticker"`
	AccountID      string   `json:"account_id"`
	AsOf           string   `json:"as_of"`
	Shares         Amount   `json:"shares"`
	Price          Amount   `json:"price"`
	PriceDate      string   `json:"price_date"`
	Proceeds       Amount   `json:"proceeds"`
	LotMethod      string   `json:"lot_method"`
	Identify       bool     `json:"identify_lots"`
	ShortTerm      Amount   `json:"short_term_gain"`
	LongTerm       Amount   `json:"long_term_gain"`
	WashSales      Amount   `json:"wash_sale_disallowed"`
	Permanent      Amount   `json:"permanently_disallowed"`
	CleanDate      string   `json:"clean_date"`
	DoNotBuy       []string `json:"do_not_buy"`
	DoNotBuyBefore string   `json:"do_not_buy_before"`
	Replacements   []string `json:"replacements"`
	NotTaxed       bool     `json:"not_taxed"`
	// WashSalePurchases are the first purchases that make it a wash sale.
	WashSalePurchases []string `json:"wash_sale_purchases"`
	// Lots are the first lots that the sale takes, in its order.
	LotCount int      `json:"lot_count"`
	Lots     []string `json:"lots"`
	// NetBefore and NetAfter are the net of the year, and Carryforward what the year leaves with
	// the sale. They are null if the account is not taxed.
	NetBefore    *Amount `json:"year_net_before"`
	NetAfter     *Amount `json:"year_net_after"`
	Carryforward *Amount `json:"carryforward"`
	Tax          *Amount `json:"tax"`
	TaxUnknown   string  `json:"tax_unknown"`
	// LaterPurchase and Reinvestment are the first of those that make it a wash sale.
	LaterPurchase  string `json:"later_purchase"`
	Reinvestment   string `json:"reinvestment"`
	StalePriceDays int    `json:"stale_price_days"`
	ErrorKind      string `json:"error_kind"`
	ErrorHint      string `json:"error_hint"`
	Disclaimer     string `json:"disclaimer"`
}

// Lengths of the lists in a snapshot.
const (
	maxSoldLots  = 5
	maxPurchases = 3
)

// SnapshotSimulation returns the snapshot of a result.
func SnapshotSimulation(r SimulationResult) (s SimulationSnapshot) {
	defer func() { changeLists(&s, notNil) }()
	s = SimulationSnapshot{Status: cmp.Or(r.Status, string(brief.StatusError)),
		Ticker: cmp.Or(r.Ticker, "unknown"), AccountID: r.AccountID, AsOf: r.AsOf,
		Disclaimer: Disclaimer}
	if s.Status != string(brief.StatusSuccess) {
		s.Verdict = "Simulated sale of " + s.Ticker + " failed: " +
			cmp.Or(r.Error, "unknown error")
		s.ErrorKind, s.ErrorHint = r.ErrorKind, r.ErrorHint
		return s
	}
	s.Shares, s.Price, s.PriceDate, s.Proceeds = r.Shares, r.Price, r.PriceDate, r.Proceeds.cents()
	s.LotMethod, s.Identify, s.NotTaxed = r.LotMethod, r.Identify, r.NotTaxed
	s.ShortTerm, s.LongTerm = r.ShortTerm.cents(), r.LongTerm.cents()
	s.WashSales, s.Permanent, s.CleanDate = r.WashSales.cents(), r.Permanent.cents(), r.CleanDate
	s.DoNotBuy, s.DoNotBuyBefore = first(r.DoNotBuy, maxWashTickers), r.DoNotBuyBefore
	s.Replacements = first(r.Replacements, maxWashTickers)
	s.StalePriceDays, s.LotCount = r.StalePriceDays, len(r.Lots)
	for _, p := range first(r.WashSalePurchases, maxPurchases) {
		s.WashSalePurchases = append(s.WashSalePurchases, text.Shorten(fmt.Sprintf(
			"%s %s of %s in %s", p.Shares, p.Ticker, p.Date, p.Account), maxName))
	}
	for _, l := range first(r.Lots, maxSoldLots) {
		s.Lots = append(s.Lots, fmt.Sprintf("%s of %s: %s %s", l.Shares, l.LotDate, Cash(l.Gain),
			l.term()))
	}
	if len(r.LaterPurchases) > 0 {
		p := r.LaterPurchases[0]
		s.LaterPurchase = text.Shorten(fmt.Sprintf("%s of %s in %s (%s)", p.Ticker, p.Date,
			p.Account, p.Record), maxName)
	}
	if len(r.ExpectedReinvestments) > 0 {
		e := r.ExpectedReinvestments[0]
		s.Reinvestment = text.Shorten(fmt.Sprintf("%s in %s on %s", e.Ticker, e.AccountID, e.Next),
			maxName)
	}
	s.Verdict = fmt.Sprintf("Selling %s %s %s", r.Shares, s.Ticker, r.SaleOutcome)
	if y := r.Year; y != nil {
		before, after, rest := y.Before.Net.cents(), y.After.Net.cents(), y.After.Carryforward.cents()
		s.NetBefore, s.NetAfter, s.Carryforward = &before, &after, &rest
		s.TaxUnknown = text.Shorten(y.TaxUnknown, maxNote)
		if y.Tax != nil {
			tax := y.Tax.cents()
			s.Tax = &tax
			s.Verdict += "; " + taxText(tax)
		}
	}
	return s
}

func taxText(tax Amount) string {
	switch {
	case tax.IsNeg():
		return "saves " + exactDollars(tax) + " of tax this year"
	case tax.IsPos():
		return "costs " + exactDollars(tax) + " of tax this year"
	}
	return "changes no tax this year"
}

func (l SoldLot) term() string {
	if l.LongTerm {
		return "long-term"
	}
	return "short-term"
}

// FlagsSimulation returns the flags of a snapshot, sorted.
func FlagsSimulation(s SimulationSnapshot) []brief.Flag {
	var flags flagList
	if s.Status != string(brief.StatusSuccess) {
		flags.add("simulation_error", brief.Error, "%s", cmp.Or(s.Verdict, "Simulated sale failed"))
		return flags.addProblem(s.ErrorKind, s.ErrorHint)
	}
	if s.Permanent.IsPos() {
		flags.add("would_be_lost", brief.Warning,
			"%s of the loss would be lost for good — replaced in an IRA, Roth, HSA or 401k",
			exactDollars(s.Permanent))
	}
	if s.WashSales.IsPos() {
		flags.add("wash_sale", brief.Warning, "Wash sales disallow %s, because of %s; clean from %s",
			exactDollars(s.WashSales), strings.Join(s.WashSalePurchases, ", "), s.CleanDate)
	}
	if s.LaterPurchase != "" {
		flags.add("later_purchases", brief.Warning,
			"A purchase after %s makes this a wash sale, which is not counted: %s", s.AsOf,
			s.LaterPurchase)
	}
	if s.Reinvestment != "" {
		flags.add("reinvestments_expected", brief.Warning,
			"Turn off reinvestments, or they make wash sales: %s", s.Reinvestment)
	}
	if s.DoNotBuyBefore != "" {
		flags.add("do_not_buy", brief.Info, "Do not buy %s before %s",
			strings.Join(s.DoNotBuy, ", "), s.DoNotBuyBefore)
		if len(s.Replacements) > 0 {
			flags.add("replacements", brief.Info, "Until then, your list has %s instead of %s",
				strings.Join(s.Replacements, ", "), s.Ticker)
		}
	}
	if s.Identify {
		flags.add("identify_lots", brief.Warning,
			"Name the lots to the broker when you sell, or others are sold: %s%s",
			strings.Join(s.Lots, ", "), moreThan(s.LotCount, maxSoldLots))
	}
	if s.StalePriceDays > 0 {
		flags.add("stale_prices", brief.Warning,
			"The last price is from %s, %d days old — check the market before trading",
			s.PriceDate, s.StalePriceDays)
	}
	if s.NotTaxed {
		flags.add("not_taxed", brief.Info, "Gains and losses in a retirement account do not count")
	}
	if s.TaxUnknown != "" {
		flags.add("tax_unknown", brief.Info, "The tax is not known: %s", s.TaxUnknown)
	}
	return brief.Sort(flags)
}

// SummarySimulation returns the result with the first entries of its lists.
func SummarySimulation(r SimulationResult) SimulationResult {
	r.Lots, r.WashSalePurchases = first(r.Lots, summaryLots), first(r.WashSalePurchases, summaryLots)
	return r
}

// ReportSimulation returns the result as Markdown.
func ReportSimulation(r SimulationResult) string {
	s := SnapshotSimulation(r)
	var m markdown
	m.paragraph("# Simulated sale: " + text.OneLine(s.Ticker))
	m.paragraph("**" + text.OneLine(s.Verdict) + "**")
	if flags := FlagsSimulation(s); len(flags) > 0 {
		m.flags(flags)
	}
	if s.Status != string(brief.StatusSuccess) {
		return m.String()
	}
	m.paragraph("## Lots")
	m.table("Bought", ">Shares", ">Proceeds", ">Basis", ">Gain", "Term", ">Disallowed")
	for _, l := range r.Lots {
		m.row(l.LotDate, l.Shares.String(), Cash(l.Proceeds), Cash(l.Basis), Cash(l.Gain), l.term(),
			Cash(l.Disallowed))
	}
	if y := r.Year; y != nil {
		m.paragraph("## The year")
		m.table("", ">Without the sale", ">With it")
		m.row("Net short-term", Cash(y.Before.NetShortTerm), Cash(y.After.NetShortTerm))
		m.row("Net long-term", Cash(y.Before.NetLongTerm), Cash(y.After.NetLongTerm))
		m.row("Net", Cash(y.Before.Net), Cash(y.After.Net))
		m.row("Carried into the next year", Cash(y.Before.Carryforward), Cash(y.After.Carryforward))
	}
	m.paragraph(Disclaimer + ".")
	return m.String()
}
