package draw

import (
	"math/rand/v2"
	"strings"
	"testing"

	"signalbox/internal/tree"
)

// bigTrees returns trees of n nodes in shapes that are slow for a bad layout.
func bigTrees(n int) map[string]*fake {
	random := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func(i int, f *fake) int{
		"chain": func(i int, _ *fake) int { return i - 1 },
		"fan":   func(i int, _ *fake) int { return min(i, 1) - 1 },
		// A chain with a leaf at each node: each contour is as long as the rest of the tree.
		"comb": func(i int, _ *fake) int {
			if i < 2 {
				return i - 1
			}
			return i - 2 + i%2
		},
		"random": func(i int, f *fake) int {
			at := i - 1
			for at > 0 && random.IntN(5) < 2 {
				at = f.nodes[at].Parent
			}
			return at
		},
	}
	trees := map[string]*fake{}
	for name, parent := range shapes {
		f := &fake{name: name}
		for i := range n {
			at := parent(i, f)
			node := tree.NodeInfo{Index: i, Parent: at, Kind: tree.Sequence, Name: "node",
				Detail: "some detail of it", Path: "path"}
			if at >= 0 {
				node.Depth = f.nodes[at].Depth + 1
				f.nodes[at].Children = append(f.nodes[at].Children, i)
			}
			f.nodes, f.views = append(f.nodes, node),
				append(f.views, tree.View{Status: tree.Running, Visits: i})
		}
		trees[name] = f
	}
	return trees
}

// TestSizeIsLinear checks that the size of a picture is linear in the number of nodes, at any
// depth.
func TestSizeIsLinear(t *testing.T) {
	const n, perNode = 2500, 2000
	for name, f := range bigTrees(n) {
		for format, draw := range map[string]func(Tree,
			*Options) string{"text": Text, "dot": Dot, "svg": SVG} {
			if got := len(draw(f, &Options{Views: f.views, Color: true})); got > n*perNode {
				t.Errorf("%s: the %s of %d nodes takes %d bytes, want at most %d a node", name,
					format, n, got, perNode)
			}
		}
	}
}

// TestLayoutIsLinear checks that the layout allocates a few levels for each node, independent of
// the depth.
func TestLayoutIsLinear(t *testing.T) {
	const n = 4000
	for name, f := range bigTrees(n) {
		p := newDrawing(f, nil)
		allocs := testing.AllocsPerRun(1, func() {
			boxes := make([]box, n)
			for i := range boxes {
				boxes[i] = box{width: 100, height: 46}
			}
			p.arrange(boxes)
		})
		if allocs > 8*n {
			t.Errorf("%s: the layout of %d nodes allocates %.0f times, want at most 8 a node", name,
				n, allocs)
		}
	}
}

// TestTextOfDeepNodes checks that deep nodes show their depth as a number instead of branches that
// would fill the line.
func TestTextOfDeepNodes(t *testing.T) {
	lines := strings.Split(Text(bigTrees(100)["chain"], nil), "\n")
	for depth, want := range map[int]string{
		1:  "└─ → node",
		16: strings.Repeat("   ", 15) + "└─ → node",
		17: "⋯17 " + strings.Repeat("   ", 15) + "└─ → node",
		99: "⋯99 " + strings.Repeat("   ", 15) + "└─ → node",
	} {
		if got := lines[1+depth]; !strings.HasPrefix(got, want) {
			t.Errorf("at depth %d: %q, want %q", depth, got, want)
		}
	}
}
