package draw

import (
	"fmt"
	"strings"
)

// palette is the colours of the picture in one of its two schemes.
type palette struct {
	paper, card, ink, faint, line, edge    string
	composite, decorator, leaf             string // icons
	compositeTile, decoratorTile, leafTile string
	success, failure, running              string
	successEdge, failureEdge               string // paler, so that what runs stands out
	successCard, failureCard, runningCard  string
	onMark                                 string // the sign inside a status mark
}

func lightPalette() palette {
	return palette{
		paper: "#ffffff", card: "#f6f8fa", ink: "#1f2328", faint: "#59636e", line: "#afb8c1", edge: "#d1d9e0",
		composite: "#8250df", decorator: "#bc4c00", leaf: "#1b7c83",
		compositeTile: "#f0e8ff", decoratorTile: "#ffeadb", leafTile: "#dbf3f4",
		success: "#1a7f37", failure: "#cf222e", running: "#0969da",
		successEdge: "#86cf98", failureEdge: "#f2a19c",
		successCard: "#eefbf1", failureCard: "#fff1f0", runningCard: "#eaf5ff",
		onMark: "#ffffff",
	}
}

func darkPalette() palette {
	return palette{
		paper: "#0d1117", card: "#161b22", ink: "#f0f6fc", faint: "#9198a1", line: "#57606a", edge: "#3d444d",
		composite: "#b392f9", decorator: "#f0883e", leaf: "#4fd0d9",
		compositeTile: "#2b2142", decoratorTile: "#3d2413", leafTile: "#11343a",
		success: "#3fb950", failure: "#f85149", running: "#58a6ff",
		successEdge: "#25693a", failureEdge: "#8f3434",
		successCard: "#10231a", failureCard: "#2b1518", runningCard: "#10233d",
		onMark: "#0d1117",
	}
}

// style is the picture's style sheet. Colours are written out for each scheme, since renderers outside browsers know
// no variables. All rules are below .bt, so that a page may contain the picture.
func style() string {
	return `<style>
.bt{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.bt .title{font-size:18px;font-weight:600}
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
` + lightPalette().rules() + "@media (prefers-color-scheme:dark){\n" + darkPalette().rules() + "}\n</style>\n"
}

func (c palette) rules() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".bt .paper{fill:%s}\n", c.paper)
	fmt.Fprintf(&b, ".bt .title,.bt .name{fill:%s}\n", c.ink)
	fmt.Fprintf(&b, ".bt .text,.bt .key,.bt .sub,.bt .visits,.bt .idle .name{fill:%s}\n", c.faint)
	fmt.Fprintf(&b, ".bt .line{stroke:%s}\n", c.line)
	fmt.Fprintf(&b, ".bt .card{fill:%s;stroke:%s}\n", c.card, c.edge)
	fmt.Fprintf(&b, ".bt .err{fill:%s}\n", c.failure)
	fmt.Fprintf(&b, ".bt .way,.bt .halo{stroke:%s}\n", c.running)
	fmt.Fprintf(&b, ".bt .sign{stroke:%s}\n", c.onMark)
	fmt.Fprintf(&b, ".bt .idle .mark{fill:none;stroke:%s;stroke-width:1.5;stroke-dasharray:2.2 2.2}\n", c.line)
	for _, k := range []struct{ class, icon, tile string }{
		{"composite", c.composite, c.compositeTile}, {"decorator", c.decorator, c.decoratorTile}, {"leaf", c.leaf, c.leafTile},
	} {
		fmt.Fprintf(&b, ".bt .%s .tile{fill:%s}.bt .%s .icon,.bt .%s .swatch{stroke:%s}\n", k.class, k.tile, k.class, k.class, k.icon)
	}
	for _, s := range []struct{ class, mark, edge, card string }{
		{"success", c.success, c.successEdge, c.successCard}, {"failure", c.failure, c.failureEdge, c.failureCard},
		{"running", c.running, c.running, c.runningCard},
	} {
		fmt.Fprintf(&b, ".bt .%s .card{fill:%s;stroke:%s}.bt .%s .mark{fill:%s}\n", s.class, s.card, s.edge, s.class, s.mark)
	}
	return b.String()
}
