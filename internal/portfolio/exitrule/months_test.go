package exitrule

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// closes makes a price of 100 on each of the days.
func closes(days ...string) []Price {
	var prices []Price
	for _, d := range days {
		prices = append(prices, Price{Date: date(d), Close: dec("100")})
	}
	return prices
}

func TestLastCompleteMonth(t *testing.T) {
	tests := []struct {
		name   string
		asOf   string
		prices []Price
		want   string
	}{
		{"middle of a month", "2024-06-14", closes("2024-05-31", "2024-06-14"), "2024-05"},
		{"first day of a month", "2024-06-01", closes("2024-05-31"), "2024-05"},
		{"last day with its close", "2024-05-31", closes("2024-05-30", "2024-05-31"), "2024-05"},
		{"last day before its close", "2024-05-31", closes("2024-05-29", "2024-05-30"), "2024-04"},
		{"day before the last", "2024-05-30", closes("2024-05-29", "2024-05-30"), "2024-04"},
		{"last weekday with its close", "2024-06-28", closes("2024-06-27", "2024-06-28"),
			"2024-06"},
		{"weekend at the end of a month", "2024-06-29", closes("2024-06-27", "2024-06-28"),
			"2024-06"},
		{"weekend without Friday's close", "2024-06-30", closes("2024-06-26", "2024-06-27"),
			"2024-05"},
		{"ticker that trades on weekends", "2024-06-28", closes("2024-06-23", "2024-06-28"),
			"2024-05"},
		{"ticker that trades on weekends, month over", "2024-06-30",
			closes("2024-06-23", "2024-06-30"), "2024-06"},
		{"month that ends on a holiday", "2024-03-28", closes("2024-03-27", "2024-03-28"),
			"2024-02"},
		{"that month a few days later", "2024-04-01", closes("2024-03-27", "2024-03-28"),
			"2024-03"},
		{"leap day", "2024-02-29", closes("2024-02-28", "2024-02-29"), "2024-02"},
		{"28 February of a leap year", "2024-02-28", closes("2024-02-27", "2024-02-28"), "2024-01"},
		{"28 February of another year", "2023-02-28", closes("2023-02-27", "2023-02-28"),
			"2023-02"},
		{"new year", "2024-01-02", closes("2023-12-29", "2024-01-02"), "2023-12"},
		{"later prices are unknown", "2024-05-30", closes("2024-05-30", "2024-05-31", "2024-06-03"),
			"2024-04"},
		{"old prices do not move it back", "2024-06-14", closes("2024-01-31"), "2024-05"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			asOf := date(test.asOf)
			s, err := newSeries("SLV", test.prices, asOf)
			must.Succeed(t, err)
			if got := lastComplete(asOf, s).String(); got != test.want {
				t.Errorf("last complete month %s, want %s", got, test.want)
			}
		})
	}
}

func TestBasketMonthIsCompleteForAll(t *testing.T) {
	in := hundred(bothRules(), nil)
	in.AsOf = date("2024-05-31")
	in.Prices = map[string][]Price{
		"SLV": monthly(t, "0.1", "0.1", "0.1", "0.1"),
		"GLD": monthly(t, "0.1", "0.1", "0.1", "0.1"),
		"TLT": monthly(t, "0.1", "0.1", "0.1", "0.1")[:4],
	}
	signals := Evaluate(in).Signals
	if signals[0].Month != "2024-05" || signals[1].Month != "2024-04" {
		t.Errorf("months %s and %s, want 2024-05 and 2024-04: %+v", signals[0].Month,
			signals[1].Month, signals[1])
	}
}

func TestMonthClose(t *testing.T) {
	tests := []struct {
		name   string
		month  string
		prices []Price
		want   string // a day, or how the error begins
	}{
		{"last day", "2024-05", closes("2024-05-30", "2024-05-31", "2024-06-03"), "2024-05-31"},
		{"not the next month's first", "2024-05", closes("2024-05-29", "2024-06-01"), "2024-05-29"},
		{"month of 28 days", "2023-02", closes("2023-02-27", "2023-02-28", "2023-03-01"),
			"2023-02-28"},
		{"month of 29 days", "2024-02", closes("2024-02-28", "2024-02-29", "2024-03-01"),
			"2024-02-29"},
		{"month of 30 days", "2024-04", closes("2024-04-30", "2024-05-01"), "2024-04-30"},
		{"long holiday", "2020-01", closes("2020-01-23", "2020-02-03"), "2020-01-23"},
		{"as far as a close may lie", "2024-05", closes("2024-05-21"), "2024-05-21"},
		{"one day further", "2024-05", closes("2024-05-20", "2024-06-03"),
			"no price of SLV in the last 10 days of 2024-05, the last one before it is from 2024-05-20"},
		{"month without a price", "2024-05", closes("2024-04-30", "2024-06-28"),
			"no price of SLV in 2024-05, the last one before it is from 2024-04-30"},
		{"data that ends", "2024-05", closes("2024-04-30"), "no price of SLV in 2024-05"},
		{"data that begins later", "2024-05", closes("2024-06-03"),
			"no price of SLV in 2024-05: add its prices"},
		{"December", "2023-12", closes("2023-12-29", "2024-01-02"), "2023-12-29"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := newSeries("SLV", test.prices, date("2030-01-01"))
			must.Succeed(t, err)
			got, err := s.closeOf(monthOf(date(test.month + "-01")))
			text := got.Date.String()
			if err != nil {
				text = err.Error()
			}
			if !strings.HasPrefix(text, test.want) {
				t.Errorf("close of %q, want %q", text, test.want)
			}
		})
	}
}

func TestHoleInTheMiddleIsAnError(t *testing.T) {
	prices := monthly(t, "0.1", "0.1", "0.1", "0.1")
	hole := append(append([]Price{}, prices[:2]...), prices[3:]...)
	signal := Evaluate(hundred(momentumConfig(), hole)).Signals[0]
	if signal.Status != StatusError ||
		!strings.Contains(signal.Error, "no price of SLV in 2024-03") {
		t.Errorf("signal %+v, want an error about March", signal)
	}
}

func TestOrderOfPricesDoesNotMatter(t *testing.T) {
	in := hundred(momentumConfig(), monthly(t, "0.02", "0.04", "0.06", "0.03"))
	want := Evaluate(in)
	p := in.Prices["SLV"]
	in.Prices["SLV"] = []Price{p[3], p[0], p[4], p[4], p[2], p[1]}
	before := append([]Price{}, in.Prices["SLV"]...)
	if diff := cmp.Diff(want, Evaluate(in)); diff != "" {
		t.Errorf("shuffled prices change the result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, in.Prices["SLV"]); diff != "" {
		t.Errorf("the input was changed (-want +got):\n%s", diff)
	}
}
