package render

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/run/changes"
	"signalbox/internal/run/workspace"
)

func TestDiffStat(t *testing.T) {
	c := changes.Change{Insertions: 112, Deletions: 9,
		Files: []workspace.FileStat{{Path: "a.go", Insertions: 100},
			{Path: "b/old\x1b.go", Insertions: 12, Deletions: 8},
			{Path: "image.png", Binary: true}, {Path: "new.go", From: "old.go", Deletions: 1},
			{Path: "moved.go", From: "m.go"}}}
	want := []string{
		"a.go             | 100 ++++++++++++++++++++++++++++++++++++++++++++++++++++++++",
		`b/old\x1b.go     |  20 ++++++----`,
		"image.png        | bin",
		"old.go => new.go |   1 -",
		"m.go => moved.go |   0",
		"5 files changed, 112 insertions(+), 9 deletions(-)",
	}
	if diff := cmp.Diff(want, DiffStat(c, 80)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := DiffStat(changes.Change{}, 80); got != nil {
		t.Errorf("no change: %q", got)
	}
}

// Whatever is changed, no line is wider than the terminal, and there are not too many.
func TestDiffStatFits(t *testing.T) {
	c := changes.Change{}
	for i := range 50 {
		c.Files = append(c.Files,
			workspace.FileStat{Path: strings.Repeat("ä/", i*5) + fmt.Sprint("file", i),
				Insertions: i * i * 37 % 1009, Deletions: i * 91 % 997})
	}
	for width := 40; width < 200; width++ {
		lines := DiffStat(c, width)
		if len(lines) != maxStatFiles+2 || lines[maxStatFiles] != "… and 30 more files" {
			t.Fatalf("%d lines, %q", len(lines), lines[len(lines)-2])
		}
		for i, line := range lines[:maxStatFiles] {
			if utf8.RuneCountInString(line) > width || c.Files[i].Insertions > 0 &&
				!strings.Contains(line, "+") || c.Files[i].Deletions > 0 &&
				!strings.HasSuffix(line, "-") {
				t.Fatalf("%d columns: %q", width, line)
			}
		}
	}
}
