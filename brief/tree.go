package brief

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// tree is a JSON value that preserves the order of keys: the first keys of a snapshot matter most
// and are removed last.
type tree struct {
	kind     byte // '{', '[', '"', or 0 for numbers, true, false and null
	text     string
	keys     []string // of '{', one for each child
	children []*tree
	literal  string // of kind 0, as written
}

// maxLiteral is longer than any reasonable number.
const maxLiteral = 40

func parseTree(data []byte) (*tree, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return readTree(decoder)
}

func readTree(decoder *json.Decoder) (*tree, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		return readChildren(decoder, byte(token))
	case string:
		return &tree{kind: '"', text: token}, nil
	case nil:
		return &tree{literal: "null"}, nil
	default:
		return &tree{literal: fmt.Sprint(token)}, nil
	}
}

func readChildren(decoder *json.Decoder, kind byte) (*tree, error) {
	node := &tree{kind: kind}
	for decoder.More() {
		if kind == '{' {
			key, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			node.keys = append(node.keys, key.(string))
		}
		child, err := readTree(decoder)
		if err != nil {
			return nil, err
		}
		node.children = append(node.children, child)
	}
	_, err := decoder.Token() // the closing bracket
	return node, err
}

// append appends the value within limits and reports whether entries were omitted. A number that is
// too long becomes null.
func (t *tree) append(out []byte, limit limits) ([]byte, bool) {
	switch t.kind {
	case '"':
		return appendText(out, cut(t.text, limit.text)), false
	case 0:
		if len(t.literal) > maxLiteral {
			return append(out, "null"...), true
		}
		return append(out, t.literal...), false
	}
	entries := limit.list
	if t.kind == '{' {
		entries = limit.object
	}
	dropped := len(t.children) > entries
	out = append(out, t.kind)
	for i, child := range t.children[:min(entries, len(t.children))] {
		if i > 0 {
			out = append(out, ',')
		}
		if t.kind == '{' {
			out = append(appendText(out, t.keys[i]), ':')
		}
		var inChild bool
		out, inChild = child.append(out, limit)
		dropped = dropped || inChild
	}
	return append(out, t.kind+2), dropped // in ASCII, ']' and '}' are two after '[' and '{'
}

func appendText(out []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		return append(out, `""`...) // cannot happen: every string can be encoded
	}
	return append(out, quoted...)
}
