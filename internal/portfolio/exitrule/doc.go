// Package exitrule judges whether a position should be left, from prices alone, and says how much to sell.
//
// It is a pure function: [Evaluate] reads no file and no clock. Two rules are built in:
//
//   - momentum_exit compares the return of the last complete month with the mean of the months before it;
//   - regime_check compounds the mean return of a basket over the last complete months.
//
// A rule that cannot be judged has status error and a reason; it never counts as "not triggered".
//
// # Monthly returns
//
// A month's close is the close of the last day in that month that has a price. A month without a price, or whose last
// price is more than ten days before its end, has no close: a hole in the data is an error, and never a return
// of zero. Ten days leave room for the longest market holidays.
//
// A month's return is its close over the close of the month before, minus one. Adjusted closes are used where both
// ends have them, plain closes where neither has; one with and one without is an error, because a dividend or a
// split would look like a loss.
//
// # The last complete month
//
// A month is complete when it lies before the month of the as-of date, whatever the prices say: if its prices are
// missing, the rule fails rather than judge an older month as if it were the last one.
// The as-of date's own month is complete only when its last trading day's close is there. That day is the month's
// last calendar day, or its last weekday for a ticker without any price on a Saturday or Sunday. Exchange holidays
// are unknown here, so a month that ends on one becomes complete a few days late, on the first of the next.
//
// A basket's month is complete when it is for every ticker of the basket. So on the last day of a month two rules
// may speak of different months; each [Signal] names its own.
package exitrule
