package decide

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"strings"
)

// Canonical returns JSON in the one form that equal values share: no white space, keys in order, numbers by value. Of a
// key that is given twice the last counts. No arguments at all are an empty object; what is no JSON is returned as it
// is, but for white space around it.
func Canonical(arguments []byte) []byte {
	text := bytes.TrimSpace(arguments)
	if len(text) == 0 {
		return []byte("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return text
	}
	if _, err := dec.Token(); err != io.EOF {
		return text
	}
	out, err := json.Marshal(canonicalValue(v))
	if err != nil {
		return text
	}
	return out
}

func canonicalValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		return canonicalNumber(v)
	case []any:
		for i := range v {
			v[i] = canonicalValue(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = canonicalValue(v[key])
		}
	}
	return v
}

// canonicalNumber writes a number as its significant digits, as a whole number, and a power of ten. It works on the
// text: an exponent may be larger than any type holds.
func canonicalNumber(n json.Number) json.Number {
	text := strings.ToLower(string(n))
	mantissa, power, _ := strings.Cut(text, "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	significant := strings.TrimRight(digits, "0")
	// The decoder bounds nothing, but an exponent of a thousand digits is nobody's.
	if len(power) > 1000 {
		return n
	}
	exponent := new(big.Int)
	if power != "" {
		exponent.SetString(power, 10) // the decoder saw to it that these are digits
	}
	exponent.Add(exponent, big.NewInt(int64(len(digits)-len(significant)-len(fraction))))
	sign := ""
	if negative {
		sign = "-"
	}
	if exponent.Sign() == 0 {
		return json.Number(sign + significant)
	}
	return json.Number(sign + significant + "e" + exponent.String())
}
