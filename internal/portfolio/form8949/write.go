package form8949

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strings"
	"time"

	"signalbox/internal/portfolio/answer"
)

// CSV returns rows as CSV, with two decimals in every amount.
func CSV(rows []answer.GainRow) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	records := [][]string{{"box", "description", "date_acquired", "date_sold", "proceeds", "basis",
		"code", "adjustment", "gain", "account", "ticker", "quantity", "record"}}
	for i := range rows {
		r := &rows[i]
		records = append(records, []string{r.Box, r.Description, r.Acquired, r.Sold,
			plain(r.Proceeds), plain(r.Basis), r.Code, plain(r.Adjustment), plain(r.Gain),
			r.Account, r.Ticker, r.Quantity.String(), r.Record})
	}
	if err := w.WriteAll(records); err != nil {
		return nil, fmt.Errorf("writing Form 8949 as CSV: %w", err)
	}
	return out.Bytes(), nil
}

// plain formats an amount with two decimals.
func plain(a answer.Amount) string { return a.Rescale(2).String() }

// txfCode returns the reference number of a box in TXF, version 042, or 0 if it has none: TXF is
// older than the boxes of digital assets. 682, a wash sale before 2011, is never used.
func txfCode(box string) int {
	return map[string]int{"A": 321, "B": 711, "C": 712, "D": 323, "E": 713, "F": 714}[box]
}

// TXF returns rows in the Tax Exchange Format, version 042, in record format 5: dates, basis,
// proceeds and the disallowed loss. It leaves out the boxes of digital assets, which TXF does not
// have, and returns their rows. What was inherited has no date of acquisition.
func TXF(rows []answer.GainRow, on time.Time) (text []byte, omitted []answer.GainRow) {
	var out strings.Builder
	line := func(s string) { out.WriteString(s + "\n") }
	line("V042")
	line("Asignalbox")
	line("D" + on.Format(txfDate))
	line("^")
	for i := range rows {
		r := &rows[i]
		code := txfCode(r.Box)
		if code == 0 {
			omitted = append(omitted, *r)
			continue
		}
		line("TD")
		line(fmt.Sprintf("N%d", code))
		line("C1")
		line("L1")
		line("P" + r.Description)
		line("D" + usDate(r.Acquired))
		line("D" + usDate(r.Sold))
		line("$" + plain(r.Basis))
		line("$" + plain(r.Proceeds))
		if r.Adjustment.IsZero() {
			line("$")
		} else {
			line("$" + plain(r.Adjustment))
		}
		line("^")
	}
	return []byte(out.String()), omitted
}

const txfDate = "01/02/2006"

// usDate formats a date as in TXF. Other text becomes empty.
func usDate(date string) string {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return ""
	}
	return day.Format(txfDate)
}
