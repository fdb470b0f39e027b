package plan

import (
	"math"
	"strconv"
	"strings"
	"time"
)

const maxPriority = 1000

func parsePriority(text string) (int, bool) {
	switch strings.ToLower(text) {
	case "high":
		return 1, true
	case "medium":
		return 0, true
	case "low":
		return -1, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && -maxPriority <= n && n <= maxPriority
}

// parseBudget parses amounts of tokens, dollars and time, in any order, each at most once. "none"
// gives nil.
func parseBudget(text string) (*Budget, bool) {
	if isNone(text) {
		return nil, true
	}
	words := strings.Fields(strings.ReplaceAll(strings.ToLower(text)+" ", ", ", " "))
	b := &Budget{}
	for len(words) > 0 {
		if words[0] == "and" || words[0] == "+" {
			words = words[1:]
			continue
		}
		unit := ""
		if len(words) > 1 {
			unit = words[1]
		}
		used := b.take(words[0], unit)
		if used == 0 {
			return nil, false
		}
		words = words[used:]
	}
	if *b == (Budget{}) {
		return nil, false
	}
	return b, true
}

// take sets one amount and returns how many words it has, or 0 if it is not an amount or that kind
// is already set.
func (b *Budget) take(amount, unit string) int {
	dollars, signed := strings.CutPrefix(amount, "$")
	switch {
	case signed:
		return setOnce(&b.CostMicros, decimal(dollars, 6), 1)
	case unit == "tokens", unit == "token":
		return setOnce(&b.Tokens, count(amount), 2)
	case unit == "usd", unit == "dollars", unit == "dollar":
		return setOnce(&b.CostMicros, decimal(amount, 6), 2)
	}
	used, length := 2, int64(0)
	if n, err := strconv.ParseInt(amount, 10, 21); err == nil { // a million hours fit into an int64
		switch unit {
		case "h", "hour", "hours":
			length = n * int64(time.Hour)
		case "m", "min", "minute", "minutes":
			length = n * int64(time.Minute)
		case "s", "second", "seconds":
			length = n * int64(time.Second)
		}
	} else if d, err := time.ParseDuration(amount); err == nil {
		used, length = 1, int64(d)
	}
	return setOnce((*int64)(&b.Time), length, used)
}

func setOnce(field *int64, amount int64, used int) int {
	if *field != 0 || amount <= 0 {
		return 0
	}
	*field = amount
	return used
}

// count parses a whole number with separators and an optional k (thousands) or m (millions). It
// returns 0 if it is not one.
func count(s string) int64 {
	digits := 0
	if rest, ok := strings.CutSuffix(s, "k"); ok {
		s, digits = rest, 3
	} else if rest, ok := strings.CutSuffix(s, "m"); ok {
		s, digits = rest, 6
	}
	return decimal(s, digits)
}

// decimal parses a positive number and multiplies it by a power of ten. It returns 0 if the result
// is not a whole number or too large.
func decimal(s string, shift int) int64 {
	s = strings.NewReplacer(",", "", "_", "").Replace(s)
	whole, fraction, _ := strings.Cut(s, ".")
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > shift || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", shift-len(fraction)), 10, 64)
	if err != nil || n > math.MaxInt64/2 {
		return 0
	}
	return n
}
