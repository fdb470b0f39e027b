package config

import (
	"bytes"
	"encoding/json"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Limits of a setting that is any JSON: aliases of aliases can grow exponentially.
const (
	maxJSON      = 1 << 20 // bytes
	maxJSONDepth = 100
)

// jsonWriter converts a setting to JSON, in the order of the text.
type jsonWriter struct {
	*reader
	out   bytes.Buffer
	depth int
}

// write writes a node. A plain value that JSON reads as a number, true or false is that; every
// other value is a string.
func (w *jsonWriter) write(node ast.Node, at settingPath) *settingError {
	before := w.out.Len()
	wrong := w.resolved(node, at, func(node ast.Node) *settingError {
		if w.depth++; w.depth > maxJSONDepth {
			return faultAt(at, "nest less", "nested more than %d deep", maxJSONDepth)
		}
		defer func() { w.depth-- }()
		if w.out.Len() > maxJSON {
			return faultAt(at, "repeat less with *name", "written out it has more than %d bytes",
				maxJSON)
		}
		switch n := node.(type) {
		case ast.MapNode:
			return w.object(node, at)
		case *ast.SequenceNode:
			return w.list(n, at)
		case *ast.InfinityNode, *ast.NanNode:
			return faultAt(at, "write a number, or put the text in quotes",
				"%s is not a number in JSON", n.GetToken().Value)
		}
		return scalar(node, at, func(text string) *settingError {
			if plain(node) && json.Valid([]byte(text)) {
				w.out.WriteString(text)
			} else {
				w.quote(text)
			}
			return nil
		})
	})
	if wrong == nil && w.out.Len() == before {
		w.out.WriteString("null")
	}
	return wrong
}

func (w *jsonWriter) object(node ast.Node, at settingPath) *settingError {
	pairs, wrong := w.mapping(node, at)
	if wrong != nil {
		return wrong
	}
	w.out.WriteByte('{')
	for i, pair := range pairs {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.quote(pair.name)
		w.out.WriteByte(':')
		if wrong := w.write(pair.value, at.field(pair.name)); wrong != nil {
			return wrong
		}
	}
	w.out.WriteByte('}')
	return nil
}

func (w *jsonWriter) list(node *ast.SequenceNode, at settingPath) *settingError {
	w.out.WriteByte('[')
	for i, item := range node.Values {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if wrong := w.write(item, at.item(i)); wrong != nil {
			return wrong
		}
	}
	w.out.WriteByte(']')
	return nil
}

func (w *jsonWriter) quote(text string) {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("config: a string does not encode: " + err.Error())
	}
	w.out.Write(quoted)
}

// plain reports whether a value is written without quotes and not as a block.
func plain(node ast.Node) bool {
	_, block := node.(*ast.LiteralNode)
	tk := node.GetToken()
	return !block && tk.Type != token.SingleQuoteType && tk.Type != token.DoubleQuoteType
}
