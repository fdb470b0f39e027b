package draw

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/picture"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

var update = flag.Bool("update", false, "update the golden pictures")

func TestGolden(t *testing.T) {
	f := sampleTree()
	for _, test := range []struct {
		file string
		draw func(Tree, *Options) string
		o    *Options
	}{
		{"shape.txt", Text, nil},
		{"run.txt", Text, &Options{Views: f.views}},
		{"run-ascii.txt", Text, &Options{Views: f.views, ASCII: true}},
		{"run-color.txt", Text, &Options{Views: f.views, Color: true}},
		{"shape.dot", Dot, nil},
		{"run.dot", Dot, &Options{Views: f.views}},
		{"shape.svg", SVG, nil},
		{"run.svg", SVG, &Options{Views: f.views}},
	} {
		t.Run(test.file, func(t *testing.T) {
			got := test.draw(f, test.o)
			name := filepath.Join("testdata", test.file)
			if *update {
				must.Succeed(t, os.WriteFile(name, []byte(got), 0o644))
			}
			want, err := os.ReadFile(name)
			must.Succeed(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s differs; -update updates it (-want +got):\n%s", name, diff)
			}
			if again := test.draw(sampleTree(), test.o); again != got {
				t.Error("drawing twice gives different pictures")
			}
		})
	}
}

// TestSampleHasAll checks that the golden pictures have all kinds and statuses.
func TestSampleHasAll(t *testing.T) {
	f := sampleTree()
	kinds, statuses := map[tree.Kind]bool{}, map[tree.Status]bool{}
	for i := range f.nodes {
		kinds[f.nodes[i].Kind], statuses[f.views[i].Status] = true, true
	}
	for _, k := range tree.Kinds() {
		if !kinds[k] {
			t.Errorf("the sample has no %s", k)
		}
	}
	if len(statuses) != 4 {
		t.Errorf("the sample has the statuses %v, want all four", statuses)
	}
}

// TestEmbedded: a picture for a page has no style of its own, and all its classes are in the style
// sheet.
func TestEmbedded(t *testing.T) {
	f := sampleTree()
	svg := SVG(f, &Options{Views: f.views, Embedded: true,
		Notes: map[int]string{2: `need_turn 0.90 <b>"&`}})
	if strings.Contains(svg, "<style") || strings.Contains(svg, "style=") ||
		strings.Contains(svg, `class="title"`) {
		t.Errorf("it has a style or a heading:\n%.2000s", svg)
	}
	if !strings.Contains(svg, "need_turn 0.90 &lt;b&gt;&#34;&amp;</text>") {
		t.Error("the note is not shown")
	}
	if _, err := readSVG(svg); err != nil {
		t.Error(err)
	}
	sheet := StyleSheet(picture.Colors{Paper: "var(--paper)", Orange: "var(--ask)"})
	for _, want := range []string{".bt .paper{fill:var(--paper)}", ".bt .noted{fill:var(--ask);",
		".bt .title{"} {
		if !strings.Contains(sheet, want) {
			t.Errorf("the style sheet does not contain %q", want)
		}
	}
}
