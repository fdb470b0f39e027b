package mcpserver

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + name)
	must.Succeed(t, err)
	return string(text)
}

// TestDocumentedTools compares the table in docs/reference/mcp.md with the schemas and annotations
// of the tools.
func TestDocumentedTools(t *testing.T) {
	type described struct {
		Arguments, Required          []string
		Reads, EndsLease, Idempotent bool
	}
	const anyField = "and the fields of the signal"
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]+) \\| [^|]+ \\|([^|]*)\\|$")
	documented := map[string]described{}
	for _, cells := range row.FindAllStringSubmatch(readDocument(t, "reference/mcp.md"), -1) {
		d := described{Reads: strings.Contains(cells[3], "read-only"),
			EndsLease:  strings.Contains(cells[3], "end"),
			Idempotent: strings.Contains(cells[3], "idempotent")}
		for argument := range strings.SplitSeq(cells[2], ", ") {
			name, required := strings.CutPrefix(strings.TrimSpace(argument), "**")
			name = strings.TrimSuffix(name, "**")
			d.Arguments = append(d.Arguments, name)
			if required {
				d.Required = append(d.Required, name)
			}
		}
		documented[cells[1]] = d
	}
	real := map[string]described{}
	for name, tool := range newCaller(t, newServer(t, newBox(t), nil)).tools {
		text, err := json.Marshal(tool.InputSchema)
		must.Succeed(t, err)
		var schema struct {
			Properties map[string]any
			Required   []string
		}
		must.Succeed(t, json.Unmarshal(text, &schema))
		hints := tool.Annotations
		d := described{Arguments: slices.Collect(maps.Keys(schema.Properties)), Required: schema.Required, Reads: hints.ReadOnlyHint,
			EndsLease:  !hints.ReadOnlyHint && *hints.DestructiveHint,
			Idempotent: !hints.ReadOnlyHint && hints.IdempotentHint}
		if slices.Contains(documented[name].Arguments, anyField) {
			d.Arguments = slices.DeleteFunc(d.Arguments,
				func(a string) bool { return !slices.Contains(documented[name].Arguments, a) })
			d.Arguments = append(d.Arguments, anyField)
		}
		real[name] = d
	}
	for _, all := range []map[string]described{documented, real} {
		for name := range all {
			slices.Sort(all[name].Arguments)
			slices.Sort(all[name].Required)
		}
	}
	if diff := cmp.Diff(documented, real); diff != "" {
		t.Errorf("tools (-docs/reference/mcp.md +real):\n%s", diff)
	}
}

// TestDocumentedVerdicts checks that the answers in the documents are real ones.
func TestDocumentedVerdicts(t *testing.T) {
	varies := regexp.MustCompile(`s-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:]+Z`)
	mask := func(text string) string { return varies.ReplaceAllString(text, "X") }
	c := newCaller(t, newServer(t, newBox(t),
		&Options{Client: Client{Roles: config.DefaultClientRoles()}}))
	c.ok("open_work", args{"work": "task-1"})
	for _, shown := range []struct{ tool, document string }{{"get_status", "how-to/mcp.md"}, {"claim_work", "reference/mcp.md"}} {
		given := args{}
		if shown.tool == "claim_work" {
			given["role"] = "developer"
		}
		verdict, _ := c.ok(shown.tool, given).Snapshot["verdict"].(string)
		if verdict == "" || !strings.Contains(mask(readDocument(t, shown.document)),
			mask(verdict)) {
			t.Errorf("docs/%s does not show the verdict of %s: %s", shown.document, shown.tool,
				verdict)
		}
	}
}
