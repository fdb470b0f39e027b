package answer

import (
	"strconv"

	"signalbox/brief"
)

// Round rounds f to the given number of decimal places, from the exact binary value and half to
// even, as Python's round does. A value that is not finite becomes 0.
func Round(f float64, places int) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(brief.Finite(f, 0), 'f', places, 64), 64)
	if err != nil {
		return 0 // rounding up a number near the largest one can overflow
	}
	return rounded
}

// formatWhole formats f without decimal places, as Python's ".0f" does. A value that is not finite
// is "0".
func formatWhole(f float64) string { return strconv.FormatFloat(brief.Finite(f, 0), 'f', 0, 64) }

// percent returns part as a percentage of total. It is 0 if total is 0 or either is not finite.
func percent(part, total float64) float64 {
	if total == 0 {
		return 0
	}
	return brief.Finite(part/total*100, 0)
}
