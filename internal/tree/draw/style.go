package draw

import (
	"fmt"
	"strings"

	"signalbox/internal/picture"
)

// fixedRules are the rules of the style sheet that are the same for light and dark.
const fixedRules = `.bt .title{font-size:18px;font-weight:600}
.bt .text{font-size:13px}
.bt .key{font-size:12px}
.bt .name{font-size:13px;font-weight:600}
.bt .sub,.bt .err,.bt .visits{font-size:11px}
.bt .visits{font-weight:600}
.bt .end{text-anchor:end}
.bt .line,.bt .way,.bt .icon,.bt .sign{fill:none;stroke-linecap:round;stroke-linejoin:round}
.bt .line{stroke-width:1.5}
.bt .way{stroke-width:3}
.bt .icon{stroke-width:1.5}
.bt .sign{stroke-width:1.8}
.bt .halo{fill:none;stroke-width:5;opacity:.22}
.bt .live .card{stroke-width:2}
`

// StyleSheet returns the style sheet for a page with embedded pictures, in the colours of the page.
func StyleSheet(c picture.Colors) string {
	return fixedRules + coloredRules(c) + fmt.Sprintf(
		".bt .note{fill:%s;stroke:%s}.bt .noted{fill:%s;font-size:%dpx;font-weight:600}\n",
		c.OrangeTint, c.Orange, c.Orange, noteSize)
}

// coloredRules returns the rules that depend on the colours.
func coloredRules(c picture.Colors) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".bt .paper{fill:%s}\n", c.Paper)
	fmt.Fprintf(&b, ".bt .title,.bt .name{fill:%s}\n", c.Ink)
	fmt.Fprintf(&b, ".bt .text,.bt .key,.bt .sub,.bt .visits,.bt .idle .name{fill:%s}\n", c.Faint)
	fmt.Fprintf(&b, ".bt .line{stroke:%s}\n", c.Line)
	fmt.Fprintf(&b, ".bt .card{fill:%s;stroke:%s}\n", c.Card, c.Edge)
	fmt.Fprintf(&b, ".bt .err{fill:%s}\n", c.Red)
	fmt.Fprintf(&b, ".bt .way,.bt .halo{stroke:%s}\n", c.Blue)
	fmt.Fprintf(&b, ".bt .sign{stroke:%s}\n", c.OnColor)
	fmt.Fprintf(&b, ".bt .idle .mark{fill:none;stroke:%s;stroke-width:1.5;stroke-dasharray:2.2 2.2}\n", c.Line)
	for _, k := range []struct{ class, icon, tile string }{
		{"composite", c.Purple, c.PurpleTint}, {"decorator", c.Orange, c.OrangeTint},
		{"leaf", c.Teal, c.TealTint},
	} {
		fmt.Fprintf(&b, ".bt .%s .tile{fill:%s}.bt .%s .icon,.bt .%s .swatch{stroke:%s}\n", k.class,
			k.tile, k.class, k.class, k.icon)
	}
	for _, s := range []struct{ class, mark, edge, card string }{
		{"success", c.Green, c.GreenEdge, c.GreenTint}, {"failure", c.Red, c.RedEdge, c.RedTint},
		{"running", c.Blue, c.Blue, c.BlueTint},
	} {
		fmt.Fprintf(&b, ".bt .%s .card{fill:%s;stroke:%s}.bt .%s .mark{fill:%s}\n", s.class, s.card,
			s.edge, s.class, s.mark)
	}
	return b.String()
}
