// Package prompt classifies questions by their words and renders the system prompt.
//
// A table of words (words.txt) determines the class of a question. It matches whole words,
// case-folded. The class determines which kinds of tools are offered and which segments the prompt
// has. Segments (segments/*.md) are templates that use Data; they always appear in the order of
// Segments, and the segment on signals is in every prompt. The advice that the model gets between
// turns (advice/*.md) consists of templates too. The same Set, class and data give the same prompt,
// byte for byte.
//
// A Set is immutable and safe for concurrent use. The package does no I/O: the files are embedded.
package prompt

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"

	"signalbox/internal/text"
)

//go:embed segments/*.md
var segmentFiles embed.FS

//go:embed words.txt
var wordTable string

// The names of the segments. They are also the names of their files.
const (
	Identity = "identity"
	Tools    = "tools"
	Answer   = "answer"
	Limits   = "limits"
	Stuck    = "stuck"
	Signals  = "signals"
)

// Segments returns the names of all segments in the order of the prompt.
func Segments() []string { return []string{Identity, Tools, Answer, Limits, Stuck, Signals} }

// ToolKind is the kind of a tool.
type ToolKind string

const (
	CodeTool      ToolKind = "code"
	NotesTool     ToolKind = "notes"
	PortfolioTool ToolKind = "portfolio"
	OtherTool     ToolKind = "other" // such as tools of MCP servers
)

// Tool is a tool that the model may be offered.
type Tool struct {
	Name string
	// Description is shown on one line, cut after 1,000 bytes.
	Description string
	// Kind determines for which classes the tool is offered. An unknown kind means OtherTool.
	Kind ToolKind
}

const maxDescription = 1000

// Data is the variable part of a prompt.
type Data struct {
	// Tools are all tools; the class determines which are offered.
	Tools []Tool
	// What is left of each limit. Zero or less means that the prompt does not mention it.
	TurnsLeft  int
	TokensLeft int64
	CostLeft   float64 // USD
	TimeLeft   time.Duration
	// Stuck adds the segment of that name. Blocker is the model's explanation.
	Stuck   bool
	Blocker string
	// Key is the key of the session's signals, for the examples; empty if it has none.
	Key string
}

// Options replace embedded files.
type Options struct {
	// Segments are templates that replace embedded ones, by the names of Segments and Advices. An
	// empty template removes the segment; signals and advice must not be empty.
	Segments map[string]string
	// Words is the table of words. Empty means the embedded one.
	Words string
}

// Set is the parsed templates and the table of words.
type Set struct {
	words    words
	segments map[string]*template.Template
	advice   map[string]*template.Template
}

// New returns a Set. An error names the invalid segment or line of the table. A nil opts means the
// zero Options.
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
			return nil, fmt.Errorf(
				"prompt: unknown segment %q: the segments are %s, and the advice is %s", name,
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

// add parses a segment and renders it for every class, so that errors appear before a conversation
// begins.
func (s *Set) add(name, text string) error {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return fmt.Errorf("prompt: segment %s: %w", name, err)
	}
	s.segments[name] = t
	for _, class := range Classes() {
		out, err := s.render(name,
			newView(class, &Data{Tools: []Tool{{Name: "tool"}}, Stuck: true}))
		if err != nil {
			return err
		}
		if name == Signals && out == "" {
			return fmt.Errorf("prompt: segment %s is empty: explain the signals to the model", name)
		}
	}
	return nil
}

// Classify returns the class of a question.
func (s *Set) Classify(question string) Class { return s.words.classify(question) }

// ToolsFor returns the tools that are offered for a class, the most suitable kinds first, then by
// name.
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

// toolKinds returns the kinds of tools for a class, the most suitable first. Small talk needs no
// tools.
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

// Prompt returns the system prompt for a question of a class. An error is about a replaced segment.
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

// view is the data of a template: Data, with all text reduced to single lines so that it cannot
// imitate parts of the prompt.
type view struct {
	Class                 string
	Tools                 []Tool
	TurnsLeft, TokensLeft int64
	CostLeft              float64
	TimeLeft              time.Duration
	Blocker               string
	// KeyAttribute is the key as an attribute of a signal, or empty.
	KeyAttribute string
}

func newView(class Class, data *Data) view {
	v := view{Class: string(class), Blocker: oneLine(data.Blocker),
		TurnsLeft: max(0, int64(data.TurnsLeft)), TokensLeft: max(0, data.TokensLeft),
		CostLeft: max(0, data.CostLeft), TimeLeft: max(0, data.TimeLeft)}
	for _, t := range ToolsFor(class, data.Tools) {
		v.Tools = append(v.Tools, Tool{Name: oneLine(t.Name), Description: oneLine(t.Description),
			Kind: t.kind()})
	}
	if data.Key != "" {
		escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`,
			"&quot;").Replace(data.Key)
		v.KeyAttribute = ` key="` + escaped + `"`
	}
	return v
}

// oneLine puts text of models and tools on one line of limited length.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) <= maxDescription {
		return s
	}
	return text.Truncate(s, maxDescription) + "…"
}
