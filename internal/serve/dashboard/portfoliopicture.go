package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/brief"
	"signalbox/internal/picture"
	"signalbox/internal/portfolio"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/exitrule"
	"signalbox/internal/portfolio/tax"
)

// calendarPicture shows, for each ticker, the windows of its trades and when it must not be sold at
// a loss or bought. It shows the months around the day of the question.
type calendarPicture struct {
	Width, Height int
	// Left is where the days begin.
	Left, Head int
	Months     []monthMark
	Today      float64 // the left edge of the day of the question
	Rows       []calendarLine
	// More is the number of tickers that do not fit.
	More int
}

// monthMark is the beginning of a month.
type monthMark struct {
	X     float64
	Label string
}

// calendarLine is a ticker: a lane for selling it, and below a lane for buying it.
type calendarLine struct {
	Ticker   string
	Y        int
	Bands    []band
	Marks    []mark
	Captions []caption
}

// band is a number of days.
type band struct {
	X, Width float64
	Y        int
	Class    string
	Title    string
}

// mark is a trade.
type mark struct {
	X     float64
	Y     int
	Class string
	Title string
}

// caption is text in a picture.
type caption struct {
	X    float64
	Y    int
	Text string
}

const (
	calendarWidth = 1100
	calendarLeft  = 160
	calendarHead  = 34
	calendarRow   = 44
	laneHeight    = 12
	maxCalendar   = 60 // rows
)

// drawCalendar draws a calendar.
func drawCalendar(rows []portfolio.CalendarRow, asOf string) calendarPicture {
	today, err := time.Parse(time.DateOnly, asOf)
	if err != nil || len(rows) == 0 {
		return calendarPicture{}
	}
	// The window of the earliest purchase that counts begins 60 days ago. The months after today
	// leave room for the captions.
	const reach = 2*tax.WashDays + 1
	first := beginningOfMonth(today.AddDate(0, 0, -reach))
	end := beginningOfMonth(today.AddDate(0, 0, reach)).AddDate(0, 1, 0)
	scale := float64(calendarWidth-calendarLeft) / days(first, end)
	at := func(day time.Time) float64 {
		return rounded(calendarLeft + min(max(days(first, day), 0), days(first, end))*scale)
	}
	p := calendarPicture{Width: calendarWidth, Left: calendarLeft, Head: calendarHead, Today: at(today), More: max(0, len(rows)-maxCalendar)}
	for m := first; m.Before(end); m = m.AddDate(0, 1, 0) {
		p.Months = append(p.Months, monthMark{at(m), m.Format("Jan 2006")})
	}
	rows = rows[:min(maxCalendar, len(rows))]
	p.Height = calendarHead + calendarRow*len(rows) + 4
	for i := range rows {
		p.Rows = append(p.Rows, drawCalendarRow(&rows[i], calendarHead+calendarRow*i, today, at))
	}
	return p
}

func drawCalendarRow(row *portfolio.CalendarRow, y int, today time.Time,
	at func(time.Time) float64) calendarLine {
	line := calendarLine{Ticker: picture.FitPixels(row.Ticker, calendarLeft-16, 12,
		picture.AdvanceBold), Y: y}
	sell, buy := y+8, y+25
	// between adds a band from a day to the day before another one.
	between := func(from, until time.Time, y int, class, title string) {
		if x := at(from); at(until) > x {
			line.Bands = append(line.Bands, band{X: x, Width: rounded(at(until) - x), Y: y,
				Class: class, Title: title})
		}
	}
	for _, w := range row.Windows {
		from, ok1 := parseDay(w.From)
		to, ok2 := parseDay(w.To)
		date, ok3 := parseDay(w.Date)
		if !ok1 || !ok2 || !ok3 {
			continue
		}
		lane, class := buy, "loss"
		switch w.Kind {
		case portfolio.WindowPurchase:
			lane, class = sell, "purchase"
		case portfolio.WindowPlanned:
			class = "planned"
		}
		title := windowText(w)
		between(from, to.AddDate(0, 0, 1), lane, "window "+class, title+
			": 30 days before and after")
		if x := at(date); x > at(from) && x < at(to) { // it is in the picture
			line.Marks = append(line.Marks, mark{X: rounded((x + at(date.AddDate(0, 0, 1))) / 2),
				Y: lane + laneHeight/2, Class: class, Title: title})
		}
	}
	note := func(until time.Time, y int, text string) {
		line.Captions = append(line.Captions,
			caption{X: rounded(at(until) + 6), Y: y + laneHeight - 2, Text: text})
	}
	if clean, ok := parseDay(row.SellFrom); ok && clean.After(today) {
		between(today, clean, sell, "closed sell", "a sale at a loss would be a wash sale")
		note(clean, sell, "sell from "+row.SellFrom)
	}
	before, restricted := parseDay(row.BuyFrom)
	after, planned := parseDay(row.BuyFromIfSold)
	if planned {
		between(today, after, buy, "closed planned",
			"do not buy if you sell at a loss on the day of the question")
	}
	if restricted {
		between(today, before, buy, "closed buy",
			"do not buy: a loss was realized in the last 30 days")
	}
	switch {
	case restricted && planned:
		note(after, buy, "buy from "+row.BuyFrom+"; if sold, from "+row.BuyFromIfSold)
	case restricted:
		note(before, buy, "buy from "+row.BuyFrom)
	case planned:
		note(after, buy, "if sold, buy from "+row.BuyFromIfSold)
	}
	return line
}

// windowText describes the trade of a window.
func windowText(w portfolio.Window) string {
	if w.Account == "" {
		return w.Kind + " on " + w.Date
	}
	return fmt.Sprintf("%s %s on %s in %s: %s", w.Ticker, w.Kind, w.Date, w.Account, w.Shares)
}

func parseDay(date string) (time.Time, bool) {
	day, err := time.Parse(time.DateOnly, date)
	return day, err == nil
}

func beginningOfMonth(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

func days(from, to time.Time) float64 { return to.Sub(from).Hours() / 24 }

// rounded keeps pictures small.
func rounded(f float64) float64 { return math.Round(f*10) / 10 }

// priceChart shows the prices of a ticker with the levels of its exit rules.
type priceChart struct {
	Width, Height            int
	Left, Right, Top, Bottom int // the edges of the plot
	Line                     string
	From, To                 string // the first and the last day
	Months                   []monthMark
	Scale                    []scaleMark
	Levels                   []level
	Compared                 []mark // the closes that momentum_exit compares
	Returns                  []caption
	Lots                     []mark
	LastX, LastY             float64
}

// scaleMark is a price on the axis.
type scaleMark struct {
	Y     float64
	Label string
}

// level is a price that matters. Its label is to the right, where it does not cover another one.
type level struct {
	X, Y, LabelY float64
	Class, Label string
	price        float64
}

const (
	chartWidth, chartHeight = 1100, 400
	chartLeft, chartRight   = 64, 840
	chartTop, chartBottom   = 24, 362
	// maxPoints is the most prices in a chart.
	maxPoints = 1000
)

// drawPrices draws the prices of a position.
func drawPrices(v *portfolio.PositionView) priceChart {
	if len(v.Prices) < 2 {
		return priceChart{}
	}
	last := v.Prices[len(v.Prices)-1]
	// It shows a year, or as much as the rules look at.
	from, prices := last.Day.AddDate(-1, 0, 0), v.Prices
	for _, s := range v.Exits.Signals {
		if len(s.Months) > 0 {
			if month, err := time.Parse("2006-01", s.Months[0].Month); err == nil {
				from = minTime(from, month)
			}
		}
	}
	for prices[0].Day.Before(from) {
		prices = prices[1:]
	}
	prices = prices[max(0, len(prices)-maxPoints):]
	first := prices[0]
	if len(prices) < 2 {
		return priceChart{}
	}
	c := priceChart{Width: chartWidth, Height: chartHeight, Left: chartLeft, Right: chartRight, Top: chartTop, Bottom: chartBottom,
		From: first.Day.Format(time.DateOnly), To: last.Day.Format(time.DateOnly)}
	x := func(day time.Time) float64 {
		return rounded(chartLeft + days(first.Day, day)/days(first.Day,
			last.Day)*(chartRight-chartLeft))
	}
	levels := levelsOf(v, last, x)
	low, high := math.Inf(1), 0.0
	for i := range prices {
		f, _ := prices[i].Close.Float64()
		low, high = min(low, f), max(high, f)
	}
	for _, l := range levels {
		low, high = min(low, l.price), max(high, l.price)
	}
	margin := max((high-low)*0.06, high*0.005)
	low, high = max(low-margin, 0), high+margin
	y := func(price float64) float64 {
		return rounded(chartBottom - (price-low)/(high-low)*(chartBottom-chartTop))
	}
	var line strings.Builder
	for i := range prices {
		f, _ := prices[i].Close.Float64()
		fmt.Fprintf(&line, "%g,%g ", x(prices[i].Day), y(f))
	}
	c.Line = strings.TrimSpace(line.String())
	c.scale(low, high, y)
	c.months(first.Day, last.Day, x)
	c.compared(v, prices, x, y)
	for _, lot := range v.Lots {
		if day, ok := parseDay(lot.LotDate); ok && !day.Before(first.Day) && !day.After(last.Day) &&
			len(c.Lots) < maxPortfolioRows {
			c.Lots = append(c.Lots,
				mark{X: x(day), Y: chartBottom, Title: fmt.Sprintf("%s bought on %s in %s",
					lot.Quantity, lot.LotDate, lot.Account)})
		}
	}
	for i := range levels {
		levels[i].Y = y(levels[i].price)
	}
	c.Levels = separate(levels)
	f, _ := last.Close.Float64()
	c.LastX, c.LastY = x(last.Day), y(f)
	return c
}

// levelsOf returns the last close, the stop, and the close below which momentum_exit triggers.
func levelsOf(v *portfolio.PositionView, last portfolio.ClosingPrice,
	x func(time.Time) float64) []level {
	f, _ := last.Close.Float64()
	levels := []level{{X: chartLeft, Class: "last", Label: "close " + last.Close.String(),
		price: f}}
	if v.Stop != nil {
		f, _ := v.Stop.Float64()
		levels = append(levels,
			level{X: chartLeft, Class: "stop", Label: strings.TrimSpace("stop " + v.Stop.String() +
				" " + v.TimeInForce), price: f})
	}
	for _, s := range v.Exits.Signals {
		// Without a price of the month after the last split, the level would be for a different
		// number of shares.
		month, err := time.Parse("2006-01", s.Month)
		if s.TriggerClose == nil || err != nil ||
			!slices.ContainsFunc(v.Prices,
				func(p portfolio.ClosingPrice) bool { return sameMonth(p.Day, month) }) {
			continue
		}
		price := brief.Finite(float64(*s.TriggerClose), 0)
		levels = append(levels, level{X: max(x(month), chartLeft), Class: "trigger",
			Label: s.RuleName + " below " + priceText(price), price: price})
	}
	return levels
}

// compared marks the closes of the months that momentum_exit compares, with their returns.
func (c *priceChart) compared(v *portfolio.PositionView, prices []portfolio.ClosingPrice,
	x func(time.Time) float64, y func(float64) float64) {
	for _, s := range v.Exits.Signals {
		if s.RuleName != exitrule.MomentumExit {
			continue
		}
		for _, m := range s.Months {
			month, err := time.Parse("2006-01", m.Month)
			if err != nil {
				continue
			}
			var end *portfolio.ClosingPrice
			for i := range prices {
				if sameMonth(prices[i].Day, month) {
					end = &prices[i]
				}
			}
			if end == nil {
				continue
			}
			f, _ := end.Close.Float64()
			label := answer.Signed(&m.Return, "%")
			c.Compared = append(c.Compared, mark{X: x(end.Day), Y: int(y(f)), Title: m.Month +
				": " + label})
			c.Returns = append(c.Returns, caption{X: x(end.Day), Y: int(y(f)) - 9, Text: label})
		}
	}
}

func sameMonth(a, b time.Time) bool { return a.Year() == b.Year() && a.Month() == b.Month() }

// scale adds about five round prices to the axis.
func (c *priceChart) scale(low, high float64, y func(float64) float64) {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	for _, factor := range []float64{2, 2.5, 2} { // 2, 5 and 10 times
		if (high-low)/step <= 6 {
			break
		}
		step *= factor
	}
	places := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	for n := math.Ceil(low / step); n*step <= high && len(c.Scale) < 20; n++ {
		c.Scale = append(c.Scale,
			scaleMark{y(n * step), strconv.FormatFloat(n*step, 'f', places, 64)})
	}
}

// months adds the beginnings of at most about twelve months to the axis.
func (c *priceChart) months(first, last time.Time, x func(time.Time) float64) {
	const most = 12
	every := int(days(first, last)/30.4)/most + 1
	for m := beginningOfMonth(first).AddDate(0, 1, 0); !m.After(last); m = m.AddDate(0, 1, 0) {
		if (int(m.Month())-1)%every == 0 {
			c.Months = append(c.Months, monthMark{x(m), m.Format("Jan 06")})
		}
	}
}

// separate moves and cuts the labels of levels so that they fit and none covers another one.
func separate(levels []level) []level {
	const least = 17
	slices.SortStableFunc(levels, func(a, b level) int { return cmp.Compare(a.Y, b.Y) })
	for i := range levels {
		levels[i].Label = picture.FitPixels(levels[i].Label, chartWidth-chartRight-16, 13,
			picture.Advance)
		levels[i].LabelY = levels[i].Y + 4
		if i > 0 {
			levels[i].LabelY = max(levels[i].LabelY, levels[i-1].LabelY+least)
		}
	}
	return levels
}

// priceText returns a price with two decimals, or with more if it is small.
func priceText(f float64) string {
	if f < 1 {
		return strconv.FormatFloat(f, 'g', 4, 64)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}
