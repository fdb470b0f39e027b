// Package importer turns files into rows: the transactions, prices and exchange rates of a portfolio. It does no
// I/O, knows no tax rule and keeps nothing between calls.
//
// [Read] recognises a file by what stands in it, never by its name: signalbox's own CSV, the CSV exports of Schwab,
// Fidelity and Robinhood, Interactive Brokers Flex queries (XML), and OFX or QFX. Every record of a file ends in
// exactly one of three places: a [Row], a [Skipped] entry with the reason, or a [Fault] with file, line and column.
// A file with a fault gives no rows at all, and [FaultsError] carries the faults of the whole file, 50 at most.
//
// # The own columns
//
//	date,account,action,ticker,quantity,price,fees,currency,lot_id
//
// then, in any order and only where an action needs them: to_account, ratio, donor_basis, donor_date, value, id.
// Dates are ISO, quantities positive, and the actions are:
//
//	buy, sell, reinvest   quantity and price
//	split                 ratio, new to old, as 3:2 or 4, of all accounts if none is named; or quantity, the shares added
//	transfer              quantity, account and to_account; without the second the shares leave the portfolio, without
//	                      the first they come from outside, with donor_basis (in all) and donor_date if known
//	return_of_capital     value, the cash received in all (or quantity and price, the cash per share)
//	expire, assign        quantity of option contracts closed; assign is also the exercise of an option that was held
//	gift_in               quantity, donor_basis (in all), value on the day of the gift (in all, or price), donor_date if known
//	inherit               quantity and value on the day of death (in all, or price)
//
// An option is one contract under its OCC symbol without spaces (AAPL240119C00150000), and its price is per contract:
// quantity × price is money for every row. [Format] writes these columns, and Read(Format(rows)) gives the rows back.
//
// # Importing twice
//
// [Row.ID] is stable: the broker's own reference where the file has one, otherwise a fingerprint of the row's content
// and of how many equal rows stand before it in its file. Two equal fills of one day stay two, and the same export, or
// one that overlaps it, has no IDs that were not there. The same trade in a broker's CSV and in its OFX has two IDs.
//
// docs/portfolio-files.md has all formats with their words, and what becomes of each.
package importer
