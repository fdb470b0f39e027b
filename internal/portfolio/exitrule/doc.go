// Package exitrule decides from prices whether to exit a position, and how much of it to sell. It
// is pure: [Evaluate] reads no files and no clock.
//
// There are two rules:
//
//   - momentum_exit compares the return of the last complete month with the mean of the months
//     before it;
//   - regime_check compounds the mean return of a basket over the last complete months.
//
// A rule that cannot be evaluated has status error and a reason; it never counts as "not
// triggered".
//
// # Monthly returns
//
// The close of a month is its last price. A month without a price, or whose last price is more than
// ten days before its end, has no close: missing data is an error, and never a return of zero. Ten
// days allow for the longest market holidays.
//
// The return of a month is its close divided by the close of the month before, minus one. Adjusted
// closes are used if both months have them, and plain closes if neither does. If only one has an
// adjusted close, it is an error, because a dividend or a split would look like a loss.
//
// # The last complete month
//
// All months before the month of the as-of date are complete, even if their prices are missing: the
// rule then fails instead of using an older month. The month of the as-of date is complete only if
// it has the close of its last trading day. That is the last calendar day of the month, or its last
// weekday for a ticker without prices on weekends. Exchange holidays are not known, so a month that
// ends with one becomes complete a few days later, on the first of the next month.
//
// For a basket, a month is complete if it is complete for every ticker. So on the last day of a
// month two rules may use different months; [Signal] has the month of each.
package exitrule
