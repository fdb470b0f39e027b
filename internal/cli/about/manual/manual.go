// Package manual writes the manual pages of the program from the grammar and the help texts of its
// command line: signalbox(1), and signalbox-COMMAND(1) for each command.
package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Page is a manual page.
type Page struct {
	// Name is the name of its file, such as signalbox-run.1.
	Name string
	Text []byte
}

// Pages returns the manual pages of a program, its own first. version is shown at the bottom of
// each page.
func Pages(app *kong.Application, version string) []Page {
	w := writer{program: app.Name, version: version}
	pages := []Page{w.overview(app.Node)}
	for _, command := range visible(app.Node) {
		pages = append(pages, w.page(command))
	}
	return pages
}

// visible returns the subcommands of a node that its help lists.
func visible(node *kong.Node) []*kong.Node {
	var commands []*kong.Node
	for _, child := range node.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			commands = append(commands, child)
		}
	}
	return commands
}

// writer writes one page after the other.
type writer struct {
	program, version string
	b                strings.Builder
}

func (w *writer) overview(app *kong.Node) Page {
	w.start(w.program, "run AI agents, and keep a record")
	w.section("SYNOPSIS")
	w.text(".B " + escape(w.program) + "\n.I COMMAND\n[\\fIARGUMENTS\\fR]\n")
	w.section("DESCRIPTION")
	about, examples := splitExamples(app.Help)
	w.prose(about)
	w.section("COMMANDS")
	for _, command := range visible(app) {
		w.item(bold(w.program+"-"+command.Name)+"(1)", command.Help)
	}
	w.section("OPTIONS")
	w.flags(app.Flags)
	w.examples(examples, w.section)
	return w.end(w.program)
}

func (w *writer) page(command *kong.Node) Page {
	name := w.program + "-" + command.Name
	w.start(name, strings.TrimSuffix(lowerFirst(command.Help), "."))
	w.section("SYNOPSIS")
	w.synopses(command)
	w.section("DESCRIPTION")
	about, examples := splitExamples(command.Detail)
	w.prose(about)
	w.arguments(command, w.section)
	w.examples(examples, w.section)
	for _, child := range visible(command) {
		w.subcommand(child)
	}
	w.section("SEE ALSO")
	w.text(bold(w.program) + "(1)\n")
	return w.end(name)
}

// synopses writes one line for each command that can be called.
func (w *writer) synopses(command *kong.Node) {
	children := visible(command)
	if len(children) == 0 {
		w.text(bold(w.program+" "+command.Path()) + arguments(command) + "\n.br\n")
	}
	for _, child := range children {
		w.synopses(child)
	}
}

// arguments returns the arguments of a command as a synopsis shows them.
func arguments(command *kong.Node) string {
	var b strings.Builder
	if len(command.Flags) > 0 {
		b.WriteString(" [\\fIOPTIONS\\fR]")
	}
	for _, argument := range command.Positional {
		if !argument.Tag.Hidden {
			b.WriteString(" " + escape(argument.Summary()))
		}
	}
	return b.String()
}

// subcommand writes a subcommand, and those below it.
func (w *writer) subcommand(command *kong.Node) {
	w.section(strings.ToUpper(w.program + " " + command.Path()))
	about, examples := splitExamples(command.Detail)
	if about == "" {
		about = command.Help
	}
	w.prose(about)
	w.arguments(command, w.subsection)
	w.examples(examples, w.subsection)
	for _, child := range visible(command) {
		w.subcommand(child)
	}
}

// arguments writes the arguments and flags of a command under a heading.
func (w *writer) arguments(command *kong.Node, heading func(string)) {
	shown := func(v *kong.Value) bool { return !v.Tag.Hidden }
	if !slices.ContainsFunc(command.Positional, shown) &&
		!slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return !f.Hidden }) {
		return
	}
	heading("OPTIONS")
	for _, argument := range command.Positional {
		if shown(argument) {
			w.item(escape(argument.Summary()), argument.Help)
		}
	}
	w.flags(command.Flags)
}

func (w *writer) flags(flags []*kong.Flag) {
	for _, flag := range flags {
		if flag.Hidden {
			continue
		}
		name := bold("--" + flag.Name)
		if flag.Short != 0 {
			name = bold("-"+string(flag.Short)) + ", " + name
		}
		if !flag.IsBool() {
			name += "=\\fI" + escape(flag.FormatPlaceHolder()) + "\\fR"
		}
		w.item(name, flag.Help)
	}
}

// splitExamples separates the examples, which are the end of every help text, from the rest.
func splitExamples(detail string) (about, examples string) {
	about, examples, _ = strings.Cut(detail, "Examples:\n")
	return strings.TrimSpace(about), strings.Trim(examples, "\n")
}

func (w *writer) examples(text string, heading func(string)) {
	if text == "" {
		return
	}
	heading("EXAMPLES")
	w.prose(text)
}

// prose writes paragraphs. Indented lines keep their breaks.
func (w *writer) prose(text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.TrimSpace(paragraph) == "" {
			continue
		}
		if strings.HasPrefix(strings.TrimLeft(paragraph, "\n"), "    ") {
			w.text(".PP\n.RS 4\n.nf\n")
			for line := range strings.Lines(paragraph) {
				w.text(escape(strings.TrimPrefix(strings.TrimRight(line, "\n"), "    ")) + "\n")
			}
			w.text(".fi\n.RE\n")
			continue
		}
		w.text(".PP\n" + escape(strings.TrimSpace(paragraph)) + "\n")
	}
}

func (w *writer) start(name, purpose string) {
	w.b.Reset()
	w.text(".TH " + strings.ToUpper(escape(name)) + " 1 \"\" \"" + escape(w.program+" "+w.version) +
		"\" \"User Commands\"\n")
	w.section("NAME")
	w.text(escape(name) + " \\- " + escape(purpose) + "\n")
}

func (w *writer) end(
	name string) Page {
	return Page{Name: name + ".1", Text: []byte(w.b.String())}
}

func (w *writer) section(title string) { w.text(".SH \"" + escape(title) + "\"\n") }

func (w *writer) subsection(title string) { w.text(".SS \"" + escape(title) + "\"\n") }

func (w *writer) item(title,
	text string) {
	fmt.Fprintf(&w.b, ".TP\n%s\n%s\n", title, escape(text))
}

func (w *writer) text(roff string) { w.b.WriteString(roff) }

func bold(text string) string { return "\\fB" + escape(text) + "\\fR" }

// escape makes text that has no meaning to roff.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line // otherwise it would be a request
		}
	}
	return strings.Join(lines, "\n")
}

func lowerFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToLower(text[:1]) + text[1:]
}
