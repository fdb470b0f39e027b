// Package tax turns transactions into tax lots, finds wash sales, and says which open lots could be sold at a loss and
// how much of that loss would count. US federal rules. It is pure: no I/O, no clock; the same rows give the same book.
//
// [Build] folds the rows up to a date into a [Book]; [Harvest] and [Cover] read the book. Amounts that are computed are
// rounded to 8 decimals, and what is divided adds up again exactly.
//
// # Lots
//
// Each purchase is a lot of its account; two rows of one day are two lots. A sell takes lots by the account's method; a
// lot id in the row goes first, whatever the method is, because that is an adequate identification (Reg. 1.1012-1(c)).
// min_tax takes short-term losses, long-term losses, long-term gains, short-term gains, in each the highest basis per
// share first; a gift that was worth less than the donor's basis counts from its own day for a loss, and from the
// donor's for a gain. Fees are part of basis and of proceeds. A lot without an id is called by its date and its number
// on that date: 2024-01-05#1.
//
// Rows have dates, not times. Within a day splits come first, then returns of capital, acquisitions, transfers, options
// that are assigned or exercised, and then sells; rows of one kind keep the order in which they were given. Each
// account may have a row of its own for a split; without an account there must be one row a day.
//
// What was paid for an exercised call belongs to the shares bought at its strike on that day in that account, or, if
// there are none at the strike, to the first that were bought. What was paid for an exercised put lowers the day's
// proceeds.
//
// # Wash sales
//
// A loss in a taxable account is matched with purchases (buy, reinvest) of the same or a substantially identical ticker
// from 30 days before to 30 days after the sale, in all accounts. Calls under their OCC symbol count as the 100 shares
// they are for; a loss on an option is matched with the same option only. Matching is share for share: losses in the
// order of the sales, on one day in the order in which the lots were acquired; replacements in the order of purchase;
// each replacement share once. Three kinds of shares are no replacement:
//
//   - shares of the lot that is sold (Rev. Rul. 56-602);
//   - shares bought up to the day of the sale that are no longer held at the end of that day: nothing is left that
//     could carry the loss, and a position that is closed in several fills on one day is closed;
//   - shares that were given, inherited or transferred: they were not purchased.
//
// The disallowed loss is added to the basis of the replacement shares, and the time for which the sold shares were held
// to theirs, day for day, also where the replacement was bought before the sale. A replacement in an ira, roth, hsa or
// 401k gets neither: the loss is gone (Rev. Rul. 2008-5). Adjusted shares become a part of their lot with a basis of
// their own, and are sold before the rest of that lot.
//
// Between a loss and a later purchase, shares are converted by the splits of what was purchased; for a call, by those
// of its underlying. A call and the shares that it buys are one acquisition: the shares keep what the call took of a
// loss, and take no other. Which of several lots of a call will be exercised is foreseen as FIFO, where hifo or min_tax
// sells some of them before.
//
// # What is not known
//
// Sells, transfers and splits that need shares which no row brought are listed in [Book.Incomplete]; no lot is
// invented. So short sales are left out (section 1091(e)): a sell without a buy is such a row, and the buy that closes
// it a lot. Written options are such sells, too: closing one makes no lot, and its premium is not counted; that of an
// assigned put does not lower the basis of the shares. Writing a put is no purchase, however sure its exercise is (Rev.
// Rul. 85-87).
//
// [Candidate.Causes] lists 32 purchases at most; the amounts are those of all.
package tax
