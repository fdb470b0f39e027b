package serving

import (
	"strings"
	"testing"

	"rsc.io/qr"

	"signalbox/internal/testkit/must"
)

// TestQRLines reads the modules back from the drawing.
func TestQRLines(t *testing.T) {
	const link = "https://box.example.com:7700/login?link=sbx_0123456789012345678901234567890123456789012"
	code, err := qr.Encode(link, qr.L)
	must.Succeed(t, err)
	for _, colors := range []bool{true, false} {
		lines, err := qrLines(link, colors)
		must.Succeed(t, err)
		size := code.Size + 2*quietZone
		if len(lines) != (size+1)/2 {
			t.Fatalf("%d lines for %d modules", len(lines), size)
		}
		for row, line := range lines {
			if colors != strings.Contains(line, "\x1b") {
				t.Fatalf("colors %t: %q", colors, line)
			}
			line = strings.TrimSuffix(strings.TrimPrefix(line, "\x1b[38;5;16m\x1b[48;5;231m"),
				"\x1b[0m")
			cells := []rune(line)
			if len(cells) != size {
				t.Fatalf("line %d has %d characters, want %d", row, len(cells), size)
			}
			for x, cell := range cells {
				for half, blocks := range []string{"█▀", "█▄"} {
					y := 2*row + half
					block := strings.ContainsRune(blocks, cell)
					in := x >= quietZone && y >= quietZone && x < size-quietZone &&
						y < size-quietZone
					dark := in && code.Black(x-quietZone, y-quietZone)
					if dark != (block == colors) {
						t.Fatalf("colors %t: module %d, %d is wrong", colors, x, y)
					}
				}
			}
		}
	}
	if _, err := qrLines(strings.Repeat("x", 5000), true); err == nil {
		t.Error("a code for 5,000 characters")
	}
}
