package plan

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"signalbox"
)

// cutFrontMatter returns the id in the front matter of a plan, and the plan with empty lines in place of the front matter, so that
// line numbers stay. Front matter is a YAML mapping between two lines "---" at the start; keys other than id belong to other tools.
func cutFrontMatter(source []byte) (id string, rest []byte, fault *Fault) {
	const fence = "---\n"
	if !bytes.HasPrefix(source, []byte(fence)) {
		return "", source, nil
	}
	end := bytes.Index(source, []byte("\n"+fence))
	if end < 0 {
		return "", source, nil
	}
	var front struct {
		ID any `yaml:"id"`
	}
	block := source[len(fence) : end+1]
	if err := yaml.Unmarshal(block, &front); err != nil {
		return "", source, nil // a heading between two lines
	}
	end += len("\n" + fence)
	rest = append(bytes.Repeat([]byte("\n"), bytes.Count(source[:end], []byte("\n"))), source[end:]...)
	if front.ID == nil {
		return "", rest, nil
	}
	id = fmt.Sprint(front.ID)
	if err := signalbox.CheckID(id); err != nil {
		line := 2 + strings.Count(string(block[:max(0, bytes.Index(block, []byte("id:")))]), "\n")
		return "", nil, &Fault{line, "the id of the plan is not valid: " + err.Error(), `write "id: sprint-2"`}
	}
	return id, rest, nil
}
