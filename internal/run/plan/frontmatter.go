package plan

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"signalbox"
)

// cutFrontMatter returns the id in the front matter of a plan, and the plan with empty lines in
// place of the front matter, so that line numbers stay. Front matter is a YAML mapping between two
// lines "---" at the start; keys other than id belong to other tools.
func cutFrontMatter(source []byte) (id string, rest []byte, fault *Fault) {
	const fence = "---\n"
	if !bytes.HasPrefix(source, []byte(fence)) {
		return "", source, nil
	}
	end := bytes.Index(source, []byte("\n"+fence))
	if end < 0 {
		return "", source, nil
	}
	block := source[len(fence) : end+1]
	value, ok := frontMatterID(block)
	if !ok {
		return "", source, nil // a heading between two lines
	}
	end += len("\n" + fence)
	rest = append(bytes.Repeat([]byte("\n"), bytes.Count(source[:end], []byte("\n"))),
		source[end:]...)
	if value == nil {
		return "", rest, nil
	}
	id = *value
	if err := signalbox.CheckID(id); err != nil {
		line := 2 + strings.Count(string(block[:max(0, bytes.Index(block, []byte("id:")))]), "\n")
		return "", nil, &Fault{line, "the id of the plan is not valid: " + err.Error(),
			`write "id: sprint-2"`}
	}
	return id, rest, nil
}

// maxFrontMatter bounds the front matter: the time and the memory of the YAML parser grow with the
// square of its length.
const maxFrontMatter = 4 << 10

// frontMatterID returns the id in front matter, nil if there is none, and whether the text is front
// matter at all. It only looks at the syntax, so that aliases in other keys are not written out.
func frontMatterID(block []byte) (id *string, ok bool) {
	if len(block) > maxFrontMatter {
		return nil, false
	}
	file, err := parser.ParseBytes(block, 0)
	if err != nil || len(file.Docs) != 1 {
		return nil, false
	}
	mapping, ok := file.Docs[0].Body.(ast.MapNode)
	if !ok {
		return nil, false
	}
	for each := mapping.MapRange(); each.Next(); {
		value, scalar := each.Value().(ast.ScalarNode)
		switch {
		case each.Key().GetToken().Value != "id", each.Value().Type() == ast.NullType:
		case scalar && value.Type() != ast.AliasType:
			text := fmt.Sprint(value.GetValue())
			id = &text
		default:
			text := each.Value().String()
			id = &text
		}
	}
	return id, true
}
