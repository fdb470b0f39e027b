package toolbox

import (
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/text"
)

// ReadOnlyTools is the name by which Pick selects all tools that change nothing.
const ReadOnlyTools = "read_only"

// Pick returns the tools with the given names, in the order of tools, and the names that no tool
// has. A name that ends in * selects all tools with that prefix.
func Pick(tools []Tool, names []string) (kept []Tool, unknown []string) {
	used := make([]bool, len(names))
	for _, tool := range tools {
		keep := false
		for i, name := range names {
			prefix, wildcard := strings.CutSuffix(name, "*")
			if name == tool.Name || wildcard && strings.HasPrefix(tool.Name, prefix) ||
				name == ReadOnlyTools && tool.ReadOnly {
				keep, used[i] = true, true
			}
		}
		if keep {
			kept = append(kept, tool)
		}
	}
	for i, name := range names {
		if !used[i] && name != ReadOnlyTools && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	return kept, unknown
}

// Suggest returns the text "; did you mean X?" with the name of the tool that name is most likely a
// misspelling of, or "" if there is none.
func Suggest(name string, tools []Tool) string {
	names := make([]string, len(tools))
	for i, tool := range tools {
		names[i] = tool.Name
	}
	if closest := text.Closest(name, names); closest != "" {
		return fmt.Sprintf("; did you mean %s?", closest)
	}
	return ""
}
