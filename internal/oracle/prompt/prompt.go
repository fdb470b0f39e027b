// Package prompt decides by a question's words what kind of question it is, and writes the system prompt for it.
//
// A question's class comes from a table of words (words.txt): whole words, case folded, never parts of words. The class
// chooses which kinds of tools are offered and which segments the prompt is made of. Segments are files of their own
// (segments/*.md), templates that see Data; they always come in the order of Segments. What the model is told between
// turns (advice/*.md) are templates too. The segment on signals is in every
// prompt. The same Set, class and data give the same prompt, byte for byte.
//
// A Set does not change after New and may be used by many goroutines. Nothing here does I/O: the files are embedded.
package prompt

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"
)

//go:embed segments/*.md
var segmentFiles embed.FS

//go:embed words.txt
var wordTable string

// The names of the segments, which are also the names of their files.
const (
	Identity = "identity"
	Tools    = "tools"
	Answer   = "answer"
	Limits   = "limits"
	Stuck    = "stuck"
	Signals  = "signals"
)

// Segments returns the names of all segments, in the order of the prompt.
func Segments() []string { return []string{Identity, Tools, Answer, Limits, Stuck, Signals} }

// ToolKind is what a tool is about.
type ToolKind string

const (
	CodeTool      ToolKind = "code"
	NotesTool     ToolKind = "notes"
	PortfolioTool ToolKind = "portfolio"
	OtherTool     ToolKind = "other" // such as those of MCP servers
)

// Tool is a tool that the model may be offered.
type Tool struct {
	Name string
	// Description is shown on one line; beyond 1,000 bytes it is cut.
	Description string
	// Kind decides for which classes it is offered. Zero, or anything else: OtherTool.
	Kind ToolKind
}

const maxDescription = 1000

// Data is what a prompt tells beside its fixed words.
type Data struct {
	// Tools are all tools there are; the class chooses among them.
	Tools []Tool
	// What is left of each limit. Zero or less: not told.
	TurnsLeft  int
	TokensLeft int64
	CostLeft   float64 // USD
	TimeLeft   time.Duration
	// Stuck adds the segment of that name. Blocker is what the model said of why, in its own words.
	Stuck   bool
	Blocker string
	// Key, if the session has one, is shown in every example of a signal.
	Key string
}

// Options replaces what is embedded.
type Options struct {
	// Segments are templates by the names of Segments and Advices, each in place of the embedded one. An empty one leaves
	// the segment out, but for signals and advice, which must say something. Nil: all are the embedded ones.
	Segments map[string]string
	// Words is the table of words. Empty: the embedded one.
	Words string
}

// Set is the segments and the table of words, ready for use.
type Set struct {
	words    words
	segments map[string]*template.Template
	advice   map[string]*template.Template
}

// New returns a Set. An error names the segment, or the line of the table, that cannot be used. A nil opts means the zero
// Options.
func New(opts *Options) (*Set, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Words == "" {
		o.Words = wordTable
	}
	for _, name := range slices.Sorted(maps.Keys(o.Segments)) {
		if !slices.Contains(Segments(), name) && !isAdvice(name) {
			return nil, fmt.Errorf("prompt: no such segment as %q: the segments are %s, and between turns %s", name,
				strings.Join(Segments(), ", "), strings.Join(Advices(), ", "))
		}
	}
	table, err := parseWords(o.Words)
	if err != nil {
		return nil, fmt.Errorf("prompt: %w", err)
	}
	s := &Set{words: table, segments: map[string]*template.Template{}}
	for _, name := range Segments() {
		text, replaced := o.Segments[name]
		if !replaced {
			file, err := segmentFiles.ReadFile("segments/" + name + ".md")
			if err != nil {
				return nil, fmt.Errorf("prompt: %w", err)
			}
			text = string(file)
		}
		if err := s.add(name, text); err != nil {
			return nil, err
		}
	}
	return s, s.addAdvice(o.Segments)
}

// add parses a segment and tries it on every class, so that a bad one is found before a conversation begins.
func (s *Set) add(name, text string) error {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return fmt.Errorf("prompt: segment %s: %w", name, err)
	}
	s.segments[name] = t
	for _, class := range Classes() {
		out, err := s.render(name, newView(class, &Data{Tools: []Tool{{Name: "tool"}}, Stuck: true}))
		if err != nil {
			return err
		}
		if name == Signals && out == "" {
			return fmt.Errorf("prompt: segment %s is empty: a model that is not told of signals sends none", name)
		}
	}
	return nil
}

// Classify returns the class of a question.
func (s *Set) Classify(question string) Class { return s.words.classify(question) }

// ToolsFor returns the tools that a class is offered, those that suit it best first, then by name.
func ToolsFor(class Class, tools []Tool) []Tool {
	var offered []Tool
	for _, kind := range toolKinds(class) {
		var some []Tool
		for _, t := range tools {
			if t.kind() == kind {
				some = append(some, t)
			}
		}
		slices.SortStableFunc(some, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
		offered = append(offered, some...)
	}
	return offered
}

func (t Tool) kind() ToolKind {
	switch t.Kind {
	case CodeTool, NotesTool, PortfolioTool:
		return t.Kind
	}
	return OtherTool
}

// toolKinds returns what a class may use, the most fitting first. Small talk calls no tool.
func toolKinds(class Class) []ToolKind {
	switch class {
	case Code:
		return []ToolKind{CodeTool, NotesTool, OtherTool}
	case Documentation:
		return []ToolKind{NotesTool, CodeTool, OtherTool}
	case Conversational:
		return nil
	case Action:
		return []ToolKind{OtherTool, CodeTool, NotesTool, PortfolioTool}
	}
	return []ToolKind{NotesTool, CodeTool, PortfolioTool, OtherTool}
}

// SegmentsFor returns the names of the segments in the prompt of a class, in order.
func SegmentsFor(class Class, data *Data) []string {
	names := []string{Identity}
	if len(ToolsFor(class, data.Tools)) > 0 {
		names = append(names, Tools)
	}
	names = append(names, Answer)
	if class != Conversational {
		if data.TurnsLeft > 0 || data.TokensLeft > 0 || data.CostLeft > 0 || data.TimeLeft > 0 {
			names = append(names, Limits)
		}
		if data.Stuck {
			names = append(names, Stuck)
		}
	}
	return append(names, Signals)
}

// Prompt returns the system prompt for a question of that class. An error is about a replaced segment.
func (s *Set) Prompt(class Class, data *Data) (string, error) {
	v := newView(class, data)
	var parts []string
	for _, name := range SegmentsFor(class, data) {
		text, err := s.render(name, v)
		if err != nil {
			return "", err
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n\n") + "\n", nil
}

func (s *Set) render(name string, v view) (string, error) {
	var out strings.Builder
	if err := s.segments[name].Execute(&out, v); err != nil {
		return "", fmt.Errorf("prompt: segment %s: %w", name, err)
	}
	return strings.TrimSpace(out.String()), nil
}

// view is what a template sees: Data, with nothing in it that could pass for a part of the prompt itself.
type view struct {
	Class                 string
	Tools                 []Tool
	TurnsLeft, TokensLeft int64
	CostLeft              float64
	TimeLeft              time.Duration
	Blocker               string
	// KeyAttribute stands after a signal's type: the key as an attribute, or nothing.
	KeyAttribute string
}

func newView(class Class, data *Data) view {
	v := view{Class: string(class), Blocker: oneLine(data.Blocker), TurnsLeft: max(0, int64(data.TurnsLeft)), TokensLeft: max(0, data.TokensLeft),
		CostLeft: max(0, data.CostLeft), TimeLeft: max(0, data.TimeLeft)}
	for _, t := range ToolsFor(class, data.Tools) {
		v.Tools = append(v.Tools, Tool{Name: oneLine(t.Name), Description: oneLine(t.Description), Kind: t.kind()})
	}
	if data.Key != "" {
		escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(data.Key)
		v.KeyAttribute = ` key="` + escaped + `"`
	}
	return v
}

// oneLine keeps text of others from beginning a line of the prompt, and from filling it.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) <= maxDescription {
		return text
	}
	cut := maxDescription
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
