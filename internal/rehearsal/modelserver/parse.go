package modelserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"signalbox/internal/text"
)

// Limits of a script, so that a short one cannot exhaust the memory or the stack.
const (
	maxNesting  = 200
	maxExpanded = 16 << 20 // bytes, with aliases written out
)

// ScriptError is an error in a script.
type ScriptError struct {
	Name string
	// Line and Column begin at 1. Zero means unknown.
	Line, Column int
	// Path is the field that is wrong, such as "conversations[0].turns[2]". Empty means that the
	// text is not a script at all.
	Path string
	Err  error
}

func (e *ScriptError) Error() string {
	var b strings.Builder
	b.WriteString(e.Name + ": ")
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d, column %d: ", e.Line, e.Column)
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	return b.String() + e.Err.Error()
}

func (e *ScriptError) Unwrap() error { return e.Err }

// inField adds a field, such as "match" or "faults[0]", to the front of an error's path.
func inField(field string, err error) error {
	if inner := (*ScriptError)(nil); errors.As(err, &inner) {
		return &ScriptError{Path: field + "." + inner.Path, Err: inner.Err}
	}
	return &ScriptError{Path: field, Err: err}
}

func fieldErrorf(field, format string, args ...any) error {
	return inField(field, fmt.Errorf(format, args...))
}

// ParseScript parses and validates a script in YAML or JSON. Unknown fields,
// duplicate fields, tags and merge keys are errors. All errors are of type *ScriptError.
func ParseScript(name string, data []byte) (*Script, error) {
	fail := func(err error) (*Script, error) {
		located := &ScriptError{Name: name, Err: err}
		if wrong := (yaml.Error)(nil); errors.As(err, &wrong) {
			located.Err = errors.New(text.OneLine(wrong.GetMessage()))
			if tk := wrong.GetToken(); tk != nil {
				located.Line, located.Column = tk.Position.Line, tk.Position.Column
			}
		}
		return nil, located
	}
	root, err := parseYAML(data)
	if err != nil {
		return fail(err)
	}
	s := &Script{}
	if root != nil {
		if err := yaml.NodeToValue(root, s, yaml.Strict()); err != nil {
			return fail(err)
		}
	}
	if s.Name == "" {
		s.Name = name
	}
	if _, err := compile(s); err != nil {
		invalid := (*ScriptError)(nil)
		if errors.As(err, &invalid) {
			invalid.Name = name
			invalid.Line, invalid.Column = findPosition(root, invalid.Path)
		}
		return nil, err
	}
	return s, nil
}

// Position returns the position of a field, such as "conversations[0].turns[2]", or of the
// innermost field around it that the script has. It returns zeros if there is none.
func Position(data []byte, path string) (line, column int) {
	root, err := parseYAML(data)
	if err != nil {
		return 0, 0
	}
	return findPosition(root, path)
}

func findPosition(root ast.Node, path string) (line, column int) {
	for path != "" && root != nil {
		if p, err := yaml.PathString("$." + path); err == nil {
			if node, err := p.FilterNode(root); err == nil && node != nil {
				return nodePosition(node)
			}
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 0, 0
}

func nodePosition(node ast.Node) (line, column int) {
	switch n := node.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return nodePosition(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return nodePosition(n.Key)
	}
	at := node.GetToken().Position
	return at.Line, at.Column
}

// parseYAML parses a text with at most one document and replaces its aliases by the values that
// they repeat. It returns nil if there is no document.
func parseYAML(data []byte) (ast.Node, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the script is not UTF-8 text")
	}
	tokens := lexer.Tokenize(string(bytes.TrimPrefix(data, []byte("\ufeff"))))
	nesting, inline, line := 0, 0, 0
	for _, tk := range tokens {
		keepText(tk)
		if tk.Position.Line != line {
			line, inline = tk.Position.Line, 0
		}
		switch tk.Type {
		case token.SequenceEntryType, token.MappingKeyType:
			inline++ // "- - -" nests too
		case token.MappingStartType, token.SequenceStartType:
			nesting++
		case token.MappingEndType, token.SequenceEndType:
			nesting--
		}
		if nesting+inline > maxNesting {
			return nil, syntaxErrorf(tk, "values are nested more than %d deep", maxNesting)
		}
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, err
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil, doc.Body.Type() == ast.CommentType:
		case root != nil:
			return nil, syntaxErrorf(doc.Body.GetToken(), "a second document begins here")
		default:
			root = doc.Body
		}
	}
	root, _, err = expander{}.expand(root)
	return root, err
}

// keepText turns a plain number or boolean into a string, so that a text field has 3.10 as it was
// written. The decoder converts strings for the other fields, but not negative numbers.
func keepText(tk *token.Token) {
	switch tk.Type {
	case token.IntegerType:
		if n, err := strconv.Atoi(tk.Value); err == nil && n < 0 {
			return
		}
		tk.Type = token.StringType
	case token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType, token.FloatType,
		token.BoolType,
		token.InfinityType, token.NanType:
		tk.Type = token.StringType
	}
}

// expander replaces aliases (*name) by the values with that anchor (&name). It maps each anchor to
// its value, once the value is complete: so a value cannot contain itself.
type expander map[string]expanded

type expanded struct {
	node ast.Node
	size int // bytes of the text that it stands for
}

// expand returns a node without aliases, and its size. A node of more than maxExpanded bytes is an
// error: aliases of aliases can grow exponentially.
func (x expander) expand(node ast.Node) (ast.Node, int, error) {
	if node == nil {
		return nil, 0, nil
	}
	size := 1
	inner := func(child *ast.Node) error {
		value, n, err := x.expand(*child)
		*child = value
		if size += n; err == nil && size > maxExpanded {
			err = syntaxErrorf(node.GetToken(),
				"with its aliases written out, it has more than %d bytes", maxExpanded)
		}
		return err
	}
	switch n := node.(type) {
	case *ast.AnchorNode:
		value, size, err := x.expand(n.Value)
		x[n.Name.GetToken().Value] = expanded{value, size}
		return value, size, err
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		target, ok := x[name]
		if !ok {
			return nil, 0, syntaxErrorf(n.GetToken(),
				"*%s refers to &%s, which is not defined above", name, name)
		}
		return target.node, target.size, nil
	case *ast.MappingNode:
		for _, pair := range n.Values {
			if _, plain := pair.Key.(ast.ScalarNode); !plain || pair.Key.IsMergeKey() {
				return nil, 0, syntaxErrorf(pair.Key.GetToken(), "%q is not a plain name",
					pair.Key.GetToken().Value)
			}
			size += len(pair.Key.GetToken().Value)
			if err := inner(&pair.Value); err != nil {
				return nil, 0, err
			}
		}
	case *ast.SequenceNode:
		for i := range n.Values {
			if err := inner(&n.Values[i]); err != nil {
				return nil, 0, err
			}
		}
	case *ast.TagNode:
		return nil, 0, syntaxErrorf(n.GetToken(), "the tag %s is not supported", n.GetToken().Value)
	case ast.ScalarNode:
		size += len(n.GetToken().Value)
	default:
		return nil, 0, syntaxErrorf(node.GetToken(), "%s is not supported", node.GetToken().Value)
	}
	return node, size, nil
}

func syntaxErrorf(tk *token.Token, format string, args ...any) error {
	return &yaml.SyntaxError{Token: tk, Message: fmt.Sprintf(format, args...)}
}

// UnmarshalYAML decodes a call, whose arguments may be any value.
func (c *Call) UnmarshalYAML(node ast.Node) error {
	var call struct {
		ID        string   `json:"id"`
		Name      string   `json:"name"`
		Arguments ast.Node `json:"arguments"`
	}
	if err := yaml.NodeToValue(node, &call, yaml.Strict()); err != nil {
		return err
	}
	*c = Call{ID: call.ID, Name: call.Name}
	if call.Arguments != nil {
		c.Arguments = appendJSON(nil, call.Arguments)
	}
	return nil
}

// appendJSON appends a node as JSON. A plain value that JSON reads as a number, true, false or null
// is that; every other value is a string, without escapes for HTML: scripts cut it at byte offsets.
func appendJSON(b []byte, node ast.Node) json.RawMessage {
	switch n := node.(type) {
	case *ast.MappingNode:
		b = append(b, '{')
		for i, pair := range n.Values {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, marshal(pair.Key.GetToken().Value)...), ':')
			b = appendJSON(b, pair.Value)
		}
		return append(b, '}')
	case *ast.SequenceNode:
		b = append(b, '[')
		for i, item := range n.Values {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item)
		}
		return append(b, ']')
	case *ast.NullNode:
		return append(b, "null"...)
	case *ast.LiteralNode:
		return append(b, marshal(n.Value.Value)...)
	}
	tk := node.GetToken()
	if tk.Type != token.SingleQuoteType && tk.Type != token.DoubleQuoteType &&
		json.Valid([]byte(tk.Value)) {
		return append(b, tk.Value...)
	}
	return append(b, marshal(tk.Value)...)
}

// UnmarshalYAML decodes "every byte" or {at: [3, 8]}.
func (c *Cut) UnmarshalYAML(node ast.Node) error {
	*c = Cut{}
	if node.Type() == ast.NullType {
		return nil
	}
	var word string
	if yaml.NodeToValue(node, &word) == nil && word == "every byte" {
		c.EveryByte = true
		return nil
	}
	var at struct {
		At []int `json:"at"`
	}
	if err := yaml.NodeToValue(node, &at, yaml.Strict()); err != nil {
		return syntaxErrorf(node.GetToken(), `cut: write "every byte" or {at: [3, 8]}`)
	}
	c.At = at.At
	return nil
}

// UnmarshalYAML decodes a duration such as 50ms that is not negative.
func (d *Duration) UnmarshalYAML(node ast.Node) error {
	if node.Type() == ast.NullType {
		return nil
	}
	var written string
	err := yaml.NodeToValue(node, &written)
	v, parseErr := time.ParseDuration(written)
	if err != nil || parseErr != nil || v < 0 {
		return syntaxErrorf(node.GetToken(), "%q is not a duration such as 50ms or 3s",
			node.GetToken().Value)
	}
	*d = Duration(v)
	return nil
}
