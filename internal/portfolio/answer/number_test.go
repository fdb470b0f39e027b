package answer

import (
	"math"
	"testing"
)

// The wanted texts are what CPython 3 prints for the same format.
func TestWholeAsPythonFormatsIt(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0", 0.5: "0", 1.5: "2", 2.5: "2", -0.4: "-0", 53.5: "54", 54.5: "54", 49.96: "50",
		12345: "12345", 999.5: "1000",
		1e21: "1000000000000000000000", math.Inf(1): "0", math.Inf(-1): "0",
	} {
		if got := formatWhole(in); got != want {
			t.Errorf("formatWhole(%v) = %q, want %q", in, got, want)
		}
	}
	if got := formatWhole(math.NaN()); got != "0" {
		t.Errorf("formatWhole(NaN) = %q", got)
	}
}

// The wanted values are those of CPython's round.
func TestRoundAsPythonDoes(t *testing.T) {
	for _, tt := range []struct {
		in     float64
		digits int
		want   float64
	}{
		{2.675, 2, 2.67}, {1.005, 2, 1}, {0.125, 2, 0.12}, {0.375, 2, 0.38}, {-2.675, 2, -2.67},
		{49.95, 1, 50}, {49.96, 1, 50},
		{53.25, 1, 53.2}, {1e300, 2, 1e300}, {math.MaxFloat64, 2, math.MaxFloat64},
		{math.NaN(), 2, 0}, {math.Inf(-1), 1, 0},
	} {
		if got := Round(tt.in, tt.digits); got != tt.want {
			t.Errorf("Round(%v, %d) = %v, want %v", tt.in, tt.digits, got, tt.want)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, tt := range []struct{ part, whole, want float64 }{{1, 4, 25}, {1, 0, 0}, {0, 0, 0}, {math.Inf(1), 2, 0}, {1, math.NaN(), 0}} {
		if got := percent(tt.part, tt.whole); got != tt.want {
			t.Errorf("percent(%v, %v) = %v, want %v", tt.part, tt.whole, got, tt.want)
		}
	}
}
