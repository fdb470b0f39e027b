package tax

import (
	"fmt"
	"slices"
	"time"
)

// Clock is a time of the day in seconds, counted from 1. Zero means that it is not known.
type Clock int32

// ParseClock parses a time such as 09:30:01.
func ParseClock(s string) (Clock, error) {
	t, err := time.Parse(time.TimeOnly, s)
	if err != nil {
		return 0, fmt.Errorf("time %q is not written as 09:30:01", s)
	}
	return Clock(t.Hour()*3600 + t.Minute()*60 + t.Second() + 1), nil
}

// String formats the time as 09:30:01, and zero as nothing.
func (c Clock) String() string {
	if c == 0 {
		return ""
	}
	return time.Unix(int64(c)-1, 0).UTC().Format(time.TimeOnly)
}

// orderByTime puts the purchases and sales of a day in the order of their times, for each account
// and ticker whose rows all have one. Rows are those of a group, by date and sequence. A day with a
// transfer, an exercise or a gift keeps its order, because the shares of these have no times.
func orderByTime(rows []row) {
	for from, to := 0, 0; from < len(rows); from = to {
		known, trades := false, true
		for to = from; to < len(rows) && rows[to].Date == rows[from].Date &&
			rows[to].planned == rows[from].planned; to++ {
			known = known || rows[to].Time != 0
			switch rows[to].Action {
			case Buy, Reinvest, Sell, Expire, Split, ReturnOfCapital:
			default:
				trades = false
			}
		}
		if known && trades && to-from > 1 {
			orderDay(rows[from:to])
		}
	}
}

// orderDay does this for one day. The rows of an account and ticker exchange their places with each
// other only.
func orderDay(day []row) {
	places := make(map[holdingKey][]int)
	unknown := make(map[holdingKey]bool)
	var keys []holdingKey // in the order of rows
	for i := range day {
		r := &day[i]
		if r.Action == Split || r.Action == ReturnOfCapital {
			continue
		}
		key := holdingKey{r.account, r.ticker}
		if places[key] == nil {
			keys = append(keys, key)
		}
		places[key] = append(places[key], i)
		unknown[key] = unknown[key] || r.Time == 0
	}
	for _, key := range keys {
		if unknown[key] {
			continue
		}
		sorted := make([]row, 0, len(places[key]))
		for _, i := range places[key] {
			day[i].timed = true
			sorted = append(sorted, day[i])
		}
		slices.SortStableFunc(sorted, func(a, b row) int { return int(a.Time - b.Time) })
		var orders []int // of the purchases
		for n, i := range places[key] {
			if day[i] = sorted[n]; day[i].Action == Buy || day[i].Action == Reinvest {
				orders = append(orders, day[i].index)
			}
		}
		slices.Sort(orders)
		for _, i := range places[key] {
			if day[i].Action == Buy || day[i].Action == Reinvest {
				day[i].order, orders = orders[0], orders[1:]
			}
		}
	}
}
