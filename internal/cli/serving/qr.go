package serving

import (
	"strings"

	"rsc.io/qr"
)

// quietZone is how many light modules surround a QR code. Readers need four.
const quietZone = 4

// qrLines draws a QR code with two modules per character, because characters are twice as high as
// wide. With colors it is dark on light, as readers expect, whatever the terminal's background is;
// without, it is drawn for a dark background.
func qrLines(content string, colors bool) ([]string, error) {
	code, err := qr.Encode(content, qr.L)
	if err != nil {
		return nil, err
	}
	dark := func(x, y int) bool {
		x, y = x-quietZone, y-quietZone
		return x >= 0 && y >= 0 && x < code.Size && y < code.Size && code.Black(x, y)
	}
	// With colors a block is dark, and without it is light.
	block := func(x, y int) bool { return dark(x, y) == colors }
	size := code.Size + 2*quietZone
	var lines []string
	for y := 0; y < size; y += 2 {
		var line strings.Builder
		for x := range size {
			switch upper, lower := block(x, y), block(x, y+1); {
			case upper && lower:
				line.WriteRune('█')
			case upper:
				line.WriteRune('▀')
			case lower:
				line.WriteRune('▄')
			default:
				line.WriteRune(' ')
			}
		}
		text := line.String()
		if colors {
			text = "\x1b[38;5;16m\x1b[48;5;231m" + text + "\x1b[0m"
		}
		lines = append(lines, text)
	}
	return lines, nil
}
