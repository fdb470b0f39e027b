// Package importer reads the files of a portfolio: transactions, prices and exchange rates. It does
// no I/O, knows no tax rules and keeps no state between calls.
//
// [Read] recognises the format of a file by its content, never by its name: signalbox CSV, the CSV
// exports of Schwab, Fidelity and Robinhood, Interactive Brokers Flex queries (XML), and OFX or
// QFX. Every record of a file becomes exactly one of three things: a [Row], a [Skipped] entry with
// the reason, or a [Fault] with file, line and column. A file with a fault gives no rows, and
// [FaultsError] lists the faults of the whole file, at most 50.
//
// # Signalbox CSV
//
//	date,account,action,ticker,quantity,price,fees,currency,lot_id
//
// and, in any order and only if an action needs them: to_account, ratio, donor_basis, donor_date,
// value, id, time (of a trade, as 09:30:01), closed_lots, new_ticker, basis_fraction, new_price. Dates are ISO dates, quantities are positive, and the actions are:
//
//	buy, sell, reinvest   quantity and price
//	sell, expire          optionally closed_lots, the lots that the broker closed: 60@2023-01-05T09:30:01;40@2023-02-01
//	split                 ratio, new to old, such as 3:2 or 4; or quantity, the shares added. Without an account it
//	                      applies to all accounts
//	transfer              quantity, account and to_account. Without to_account the shares leave the portfolio. Without
//	                      account they enter it, with donor_basis (the total) and donor_date if known
//	return_of_capital     value, the total cash received (or quantity and price, the cash per share)
//	expire, assign        quantity of option contracts closed; assign is also the exercise of an option that was held
//	gift_in               quantity, donor_basis (the total), value on the day of the gift (the total, or price), donor_date if known
//	inherit               quantity and value on the day of death (the total, or price)
//	spin_off              new_ticker; ratio, new to old, or quantity, the shares received; basis_fraction, or value if it
//	                      is taxable. With a ratio and without an account it applies to all accounts
//	exchange              new_ticker; ratio or quantity, as above; if cash is paid too, price (for each old share) and
//	                      new_price (the value of a new share)
//	cash_in_lieu          quantity of the fraction, and value (the total, or price)
//
// An option is named by its OCC symbol without spaces (AAPL240119C00150000), and its price is per
// contract, so quantity × price is an amount of money in every row. [Format] writes these columns,
// and Read(Format(rows)) returns the same rows.
//
// # Importing a file twice
//
// [Row.ID] is stable. It is the broker's own reference if the file has one, and otherwise a
// fingerprint of the content of the row and of the number of equal rows before it in the file. So
// two equal fills on one day stay two rows, and importing the same export again, or one that
// overlaps it, gives no new IDs for the same rows. The same trade in a broker's CSV and in its OFX
// has two IDs.
//
// docs/reference/portfolio-files.md describes all formats.
package importer
