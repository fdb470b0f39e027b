package brief

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// tree is a JSON value that keeps the order of its keys: what stands first in a snapshot matters most, and stays
// longest.
type tree struct {
	kind    byte // '{', '[', '"', or 0 for numbers, true, false and null
	text    string
	keys    []string // of '{', one for each kid
	kids    []*tree
	literal string // of kind 0, as written
}

// maxLiteral is more than any number needs.
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
		return readKids(decoder, byte(token))
	case string:
		return &tree{kind: '"', text: token}, nil
	case nil:
		return &tree{literal: "null"}, nil
	default:
		return &tree{literal: fmt.Sprint(token)}, nil
	}
}

func readKids(decoder *json.Decoder, kind byte) (*tree, error) {
	node := &tree{kind: kind}
	for decoder.More() {
		if kind == '{' {
			key, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			node.keys = append(node.keys, key.(string))
		}
		kid, err := readTree(decoder)
		if err != nil {
			return nil, err
		}
		node.kids = append(node.kids, kid)
	}
	_, err := decoder.Token() // the closing bracket
	return node, err
}

// append writes the value within limits and reports whether entries were left out. A number too long to be one
// becomes null.
func (n *tree) append(out []byte, limit limits) ([]byte, bool) {
	switch n.kind {
	case '"':
		return appendText(out, cut(n.text, limit.text)), false
	case 0:
		if len(n.literal) > maxLiteral {
			return append(out, "null"...), true
		}
		return append(out, n.literal...), false
	}
	most := limit.list
	if n.kind == '{' {
		most = limit.object
	}
	dropped := len(n.kids) > most
	out = append(out, n.kind)
	for i, kid := range n.kids[:min(most, len(n.kids))] {
		if i > 0 {
			out = append(out, ',')
		}
		if n.kind == '{' {
			out = append(appendText(out, n.keys[i]), ':')
		}
		var also bool
		out, also = kid.append(out, limit)
		dropped = dropped || also
	}
	return append(out, n.kind+2), dropped // ']' and '}' stand two after their partners in ASCII
}

func appendText(out []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		return append(out, `""`...) // a string always has JSON
	}
	return append(out, quoted...)
}
