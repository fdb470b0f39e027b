// Package tax turns transactions into tax lots, finds wash sales, and reports which open lots could
// be sold at a loss and how much of that loss would be allowed. It implements US federal rules. It
// is pure: it does no I/O and reads no clock, and the same rows always give the same book.
//
// [Build] applies the rows up to a date and returns a [Book]. [Harvest] and [Cover] read the book.
// Computed amounts are rounded to 8 decimals, and the parts of a divided amount add up to it
// exactly.
//
// # Lots
//
// Each purchase is a lot of its account; two rows of one day are two lots. A sell takes lots by the
// method of the account. A lot id in the row, or the lots that the broker closed, take precedence over
// the method, because they are an adequate identification (Reg. 1.1012-1(c)). A closed lot is
// identified by its day and time. If several lots of that day are open and the times do not decide,
// its shares are a gap of the sale. MinTax takes short-term losses, long-term losses,
// long-term gains and short-term gains, in this order, and in each the highest basis per share
// first. A gift that was worth less than the donor's basis counts from its own day for a loss, and
// from the donor's day for a gain. Fees are part of basis and of proceeds. A lot without an id is
// named by its date and its number on that date: 2024-01-05#1.
//
// Within a day the order is: splits, returns of capital, acquisitions, transfers, options that are
// assigned or exercised, sells. Rows of one kind keep the order in which they were given. If all
// trades of an account and ticker on a day have times, these are in the order of the times; trades
// of one time are in the order above. This is not done on days with a transfer, a gift or an
// exercise in the group. [Book.OrderUnknown] lists the sells whose lots depend on an order that is
// not known. Each account may have its own row for a split; without an account, only
// one split row per day and ticker is allowed.
//
// The cost of an exercised call belongs to the shares that were bought at its strike on that day in
// that account or, if there are none, to the first shares bought on that day. The cost of an
// exercised put lowers the proceeds of the day.
//
// # Wash sales
//
// A loss in a taxable account is matched with purchases (buy, reinvest) of the same or a
// substantially identical ticker from 30 days before to 30 days after the sale, in all accounts. A
// call under its OCC symbol counts as the 100 shares it is for; a loss on an option is matched only
// with the same option. Matching is share for share. Losses are in the order of the sales, and
// within a day in the order in which the lots were acquired. Replacements are in the order of
// purchase, and each share replaces only once. Three kinds of shares do not replace any:
//
//   - shares of the lot that is sold (Rev. Rul. 56-602);
//   - shares bought up to the day of the sale that are not held at the end of that day: there is
//     nothing left to carry
//     the loss, and a position that is closed in several fills on one day is closed;
//   - shares that were given, inherited or transferred: they were not purchased.
//
// If a purchase was divided over accounts since, the shares that stayed replace first, then those
// that were transferred, the last transfer first. The law leaves this open.
//
// The disallowed loss is added to the basis of the replacement shares, and the days for which the
// sold shares were held to their holding period, even if the replacement was bought before the
// sale. A replacement in an ira, roth, hsa or 401k gets neither, and the loss is permanently
// disallowed (Rev. Rul. 2008-5). Adjusted shares become a part of their lot with its own basis, and
// are sold before the rest of the lot.
//
// Shares of a loss and of a later purchase are converted by the splits of the purchased ticker
// between the two; for a call, by those of its underlying. A call and the shares that it buys are
// one acquisition: the shares keep what the call took of a loss, and take no other loss. If HIFO or
// MinTax sells some lots of a call before the exercise, or a sell names closed lots, the look-ahead
// assumes FIFO for them.
//
// Section 1091 is about stock and securities. Tickers in [Rules.Crypto] are neither: their losses
// are not matched, and they replace nothing.
//
// # Harvest
//
// Sales that were made on the day of the book come before those of the candidates: their losses are
// matched first, with shares of candidates too. The law leaves this open. [Simulate] applies planned
// sales in the same order, and agrees with the candidates.
//
// A loss is a candidate only if a sale would realize it. The method of the account decides which
// lots a sale takes, if it names none; so a candidate is a lot that the method takes before any lot
// at a gain, or that can be identified to the broker. What a sale would realize instead is stated
// with it. [Reconcile] compares the lots with the shares held: if the lots of a position have more,
// the records do not show which were sold, and none is a candidate.
//
// # Limits
//
// Sells, transfers and splits of shares whose purchase is missing are listed in [Book.Incomplete];
// Build never invents a lot. For this reason short sales (section 1091(e)) are not supported: a
// sell without a buy is such a row, and the buy that closes it is a lot without shares.
// A written option is such a sell too. Closing it makes no lot, its premium does not count, and the
// premium of an assigned put does not lower the basis of the shares. Writing a put does not count
// as a purchase, even if its exercise is certain (Rev. Rul. 85-87).
//
// # Implementation
//
// Rows are divided into groups of tickers that can replace each other, and each group is folded on
// its own. A look-ahead lists its purchases, splits and exercises, because a loss is matched with
// purchases up to 30 days later. Then the rows are applied day by day; the losses of a day are
// matched at its end. A purchase that is still to come records what the loss adds to it as a
// promise. Time is n log n in the rows, except that a split and a return of capital visit all open
// lots of the ticker; memory is proportional to the rows and sales.
package tax
