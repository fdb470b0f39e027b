package plan

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/internal/picture"
	"signalbox/internal/testkit/must"
	"signalbox/internal/text"
)

var update = flag.Bool("update", false, "update the golden texts and pictures")

// checkShown checks that Text is safe for a terminal, and that SVG is XML with only the expected
// elements.
func checkShown(t *testing.T, p *Plan) {
	t.Helper()
	for line := range strings.Lines(p.Text()) {
		if line = strings.TrimSuffix(line, "\n"); text.Printable(line) != line {
			t.Fatalf("not printable: %q", line)
		}
	}
	own := map[string]bool{"svg": true, "title": true, "desc": true, "style": true, "defs": true, "marker": true, "path": true, "rect": true, "text": true, "g": true}
	svg := p.SVG()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok && !own[start.Name.Local] {
			t.Fatalf("element %s in\n%s", start.Name.Local, svg)
		}
		if shown, ok := token.(xml.CharData); ok &&
			strings.ContainsAny(string(shown), "\u202e\u2066\u0085\x1b") {
			t.Fatalf("hostile text %q", shown)
		}
	}
}

func TestGolden(t *testing.T) {
	for _, name := range []string{"example", "hostile", "wide"} {
		t.Run(name, func(t *testing.T) {
			file := "testdata/" + name + ".md"
			if name == "example" {
				file = "../../../examples/plan.md"
			}
			text, err := os.ReadFile(file)
			must.Succeed(t, err)
			plan, err := Parse(file, text, &Options{Drafts: true})
			must.Succeed(t, err)
			checkShown(t, plan)
			compare(t, "testdata/"+name+".txt", []byte(plan.Text()))
			compare(t, "testdata/"+name+".svg", plan.SVG())
		})
	}
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		must.Succeed(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	must.Succeed(t, err)
	want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); go test -update updates it\n%s", file, diff)
	}
}

// TestLayout checks that boxes do not overlap, and that lines run from left to right.
func TestLayout(t *testing.T) {
	p := graphPlan("A B C:A D:A,B E:C,D,A F:B G:F,E,A,C H:A I:H,B,C")
	l := newLayout(p.network())
	for _, layer := range l.layers {
		for i, at := range layer[1:] {
			above, c := l.cells[layer[i]], l.cells[at]
			if c.y < above.y+above.height+boxGap {
				t.Errorf("cell %d at %v is too close to cell %d at %v", at, c.y, layer[i], above.y)
			}
		}
	}
	edges := 0
	for _, line := range l.lines {
		edges++
		for i := 1; i < len(line); i++ {
			if l.cells[line[i]].layer != l.cells[line[i-1]].layer+1 {
				t.Errorf("line %v skips a layer", line)
			}
		}
	}
	if edges != 15 {
		t.Errorf("%d lines", edges)
	}
}

// TestTextFitsBox checks that a long id does not run into the mark beside it, nor out of the box.
func TestTextFitsBox(t *testing.T) {
	p := graphPlan("WWWWWWWWWWWWWWWWWWWWWWWW X:WWWWWWWWWWWWWWWWWWWWWWWW")
	texts := regexp.MustCompile(
		`class="id" x="20" y="24">([^<]*)</text><text class="mark" x="196" y="24">([^<]*)<`).FindSubmatch(p.SVG())
	if texts == nil {
		t.Fatalf("no task with a mark in\n%s", p.SVG())
	}
	id, mark := string(texts[1]), string(texts[2])
	if end := 20 + picture.Pixels(id, 13, picture.AdvanceBold); !strings.HasSuffix(id, "…") ||
		end > 196-picture.Pixels(mark, 11, picture.Advance) {
		t.Errorf("the id %q ends at %d, in the mark %q", id, end, mark)
	}
}

// TestManyTasks parses and draws a large plan. An algorithm with quadratic time would make it very
// slow.
func TestManyTasks(t *testing.T) {
	const n = 4000
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "#### Task T%d: title %d\n**Work**: do\n**Acceptance Criteria**:\n- [ ] done\n", i, i)
		if i >= 10 {
			fmt.Fprintf(&b, "**Blocked By**: T%d, T%d\n", i-10, i/2)
		}
		b.WriteString("\n")
	}
	p, err := Parse("plan.md", []byte(b.String()), nil)
	must.Succeed(t, err)
	if len(p.Tasks) != n || len(p.Order()) != n || len(p.Startable()) != 10 ||
		bytes.Count(p.SVG(), []byte(`<g class="task`)) != n {
		t.Errorf("%d tasks", len(p.Tasks))
	}
	again, err := Parse("plan.md", []byte(render(p, true)), nil)
	if diff := cmp.Diff(p, again, cmpopts.IgnoreFields(Task{}, "Line"),
		cmpopts.IgnoreFields(Plan{}, "Name")); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
