package draw

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

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
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
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
