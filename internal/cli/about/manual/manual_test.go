package manual

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"signalbox/internal/testkit/must"
)

type grammar struct {
	Paint  paint  `cmd:"" help:"Paint a wall."`
	Shed   shed   `cmd:"" help:"Look after the shed."`
	Secret secret `cmd:"" hidden:"" help:"Nobody should read this."`
}

type paint struct {
	Wall   string `arg:"" help:"The wall."`
	Colour string `short:"c" placeholder:"NAME" help:"The colour."`
	Quick  bool   `help:"Hurry."`
	Trace  bool   `hidden:"" help:"Not for people."`
}

func (paint) Help() string {
	return "Paints a wall.\n\n.TH is not a request here, nor is \\fB.\n\nExamples:\n\n    tool paint north\n    .dot"
}

type shed struct {
	Open  open     `cmd:"" help:"Open the shed."`
	Close struct{} `cmd:"" help:"Close the shed."`
}

type open struct {
	Wide bool `help:"As far as it goes."`
}

func (open) Help() string { return "Opens the shed.\n\nExamples:\n\n    tool shed open --wide" }

type secret struct{}

func pages(t *testing.T) map[string]string {
	t.Helper()
	parser, err := kong.New(&grammar{}, kong.Name("tool"),
		kong.Description("A tool.\n\nExamples:\n\n    tool paint north"))
	must.Succeed(t, err)
	texts := map[string]string{}
	for _, page := range Pages(parser.Model, "v1.2.3") {
		texts[page.Name] = string(page.Text)
	}
	return texts
}

func TestPages(t *testing.T) {
	texts := pages(t)
	if len(texts) != 3 {
		t.Fatalf("there are %d pages", len(texts))
	}
	for name, parts := range map[string][]string{
		"tool.1": {"tool v1.2.3", "A tool.", `\fBtool\-paint\fR(1)`, `\fBtool\-shed\fR(1)`,
			"    tool paint north"},
		"tool-paint.1": {`tool\-paint \- paint a wall` + "\n", "<wall>",
			`\fB\-c\fR, \fB\-\-colour\fR=\fINAME\fR` + "\nThe colour.", `\fB\-\-quick\fR` +
				"\nHurry."},
		"tool-shed.1": {"tool shed open", "tool shed close", "Opens the shed.", "Close the shed."},
	} {
		for _, part := range parts {
			if !strings.Contains(texts[name], strings.TrimPrefix(part, "    ")) {
				t.Errorf("%s does not contain %q:\n%s", name, part, texts[name])
			}
		}
	}
}

// TestHeadings checks where readers of manual pages look for things.
func TestHeadings(t *testing.T) {
	for name, want := range map[string][]string{
		"tool.1": {`.SH "NAME"`, `.SH "SYNOPSIS"`, `.SH "DESCRIPTION"`, `.SH "COMMANDS"`,
			`.SH "OPTIONS"`, `.SH "EXAMPLES"`},
		"tool-paint.1": {`.SH "NAME"`, `.SH "SYNOPSIS"`, `.SH "DESCRIPTION"`, `.SH "OPTIONS"`,
			`.SH "EXAMPLES"`, `.SH "SEE ALSO"`},
		"tool-shed.1": {`.SH "NAME"`, `.SH "SYNOPSIS"`, `.SH "DESCRIPTION"`,
			`.SH "TOOL SHED OPEN"`, `.SS "OPTIONS"`, `.SS "EXAMPLES"`, `.SH "TOOL SHED CLOSE"`,
			`.SH "SEE ALSO"`},
	} {
		var got []string
		for line := range strings.Lines(pages(t)[name]) {
			if strings.HasPrefix(line, ".SH") || strings.HasPrefix(line, ".SS") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

func TestHiddenIsNotWritten(t *testing.T) {
	for name, text := range pages(t) {
		if strings.Contains(text, "secret") || strings.Contains(text, "trace") {
			t.Errorf("%s names what is hidden:\n%s", name, text)
		}
	}
}

// TestHelpIsNotRoff checks that a line of a help text cannot become a request.
func TestHelpIsNotRoff(t *testing.T) {
	text := pages(t)["tool-paint.1"]
	for _, part := range []string{"\n\\&.TH is not", "nor is \\efB.", "\n\\&.dot"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page does not contain %q:\n%s", part, text)
		}
	}
}
