package toolbox

import (
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/text"
)

// ReadOnlyTools is the name by which Pick takes all tools that change nothing.
const ReadOnlyTools = "read_only"

// Pick keeps the tools of some names, in their order, and tells for which names there are none. A name that ends in * means
// all that begin so.
func Pick(tools []Tool, names []string) (kept []Tool, unknown []string) {
	meant := make([]bool, len(names))
	for _, tool := range tools {
		keep := false
		for i, name := range names {
			start, some := strings.CutSuffix(name, "*")
			if name == tool.Name || some && strings.HasPrefix(tool.Name, start) || name == ReadOnlyTools && tool.ReadOnly {
				keep, meant[i] = true, true
			}
		}
		if keep {
			kept = append(kept, tool)
		}
	}
	for i, name := range names {
		if !meant[i] && name != ReadOnlyTools && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	return kept, unknown
}

// Near is a question after the tool that may have been meant, "" if none has such a name.
func Near(name string, tools []Tool) string {
	best, least := "", 2+len(name)/4
	for _, tool := range tools {
		d := text.EditDistance(strings.ToLower(name), strings.ToLower(tool.Name))
		if d < least || d == least && best != "" && tool.Name < best {
			best, least = tool.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}
