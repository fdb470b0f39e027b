package brief

import (
	"encoding/json"
	"math"
)

// Finite returns f, or fallback if f is NaN or infinite.
func Finite(f, fallback float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fallback
	}
	return f
}

// Number is a float64 that JSON can always represent: NaN and the infinities are encoded as 0.
type Number float64

// MarshalJSON encodes the number, or 0 if it is not finite.
func (n Number) MarshalJSON() ([]byte, error) { return json.Marshal(Finite(float64(n), 0)) }
