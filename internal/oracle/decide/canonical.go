package decide

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"strings"
)

// Canonical returns JSON in a form that is the same for equal values: no white space, keys sorted,
// numbers by value. The last of duplicate keys wins. Empty arguments become an empty object.
// Invalid JSON is only trimmed.
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

// canonicalNumber returns a number as its significant digits and a power of ten. It works on the
// text because the exponent may be arbitrarily large.
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
	// The decoder does not limit exponents, and huge ones would be slow.
	if len(power) > 1000 {
		return n
	}
	exponent := new(big.Int)
	if power != "" {
		exponent.SetString(power, 10) // the decoder has checked that these are digits
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
