package answer

import (
	"fmt"
	"strings"

	"signalbox/internal/text"
)

// maxTicker is the length of the longest ticker: that of an option in the notation of the OCC,
// without spaces.
const maxTicker = 21

// CheckTicker returns nil if ticker has 1 to 21 of A-Z, 0-9, '.', '^', '=' and '-'. Tickers become
// parts of file names.
func CheckTicker(ticker string) error {
	allowed := func(r rune) bool {
		return r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".^=-", r)
	}
	wrong := strings.ContainsFunc(ticker, func(r rune) bool { return !allowed(r) })
	if wrong || len(ticker) < 1 || len(ticker) > maxTicker {
		return fmt.Errorf("ticker %q is not valid: use 1 to 21 of A-Z, 0-9, '.', '^', '=' and '-'",
			text.Shorten(ticker, 40))
	}
	return nil
}
