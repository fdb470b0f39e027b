package mcpclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/text"
)

// Limits bound what the tools of a server add to every request to a model. A field that is zero has
// its default.
type Limits struct {
	// Tools is the number of tools. The default is 100.
	Tools int
	// Description is the length of a tool's description, in bytes. A longer one is cut. The default
	// is 2 KiB.
	Description int
	// Schema is the length of the schema of a tool's arguments, in bytes. A tool with a longer one
	// is left out. The default is 16 KiB.
	Schema int
	// Total is the length of all names, descriptions and schemas, in bytes. Tools for which there
	// is no room are left out. The default is 64 KiB.
	Total int
}

func (l Limits) withDefaults() Limits {
	return Limits{cmp.Or(l.Tools, 100), cmp.Or(l.Description, 2<<10), cmp.Or(l.Schema, 16<<10),
		cmp.Or(l.Total, 64<<10)}
}

// Bounds of what is read of a server's list. They leave room for the tools that the configuration
// names.
const (
	maxPages   = 100
	maxListed  = 2000
	maxRawName = 256 // of a tool, as the server has it
	maxName    = 64  // of a tool, as models have it
)

// listedTool is a tool of a server's list, within the limits.
type listedTool struct {
	name        string
	description string
	cutFrom     int // the length of a description that was cut, or 0
	schema      json.RawMessage
	fault       error // why it cannot be offered
	readOnly    bool
}

// list requests all pages of the server's tool list.
func (c *Client) list(ctx context.Context,
	cs *mcp.ClientSession) (all []listedTool, notes []string, err error) {
	if init := cs.InitializeResult(); init == nil || init.Capabilities == nil ||
		init.Capabilities.Tools == nil {
		return nil, []string{"it has no tools"}, nil
	}
	params := &mcp.ListToolsParams{}
	for page := 0; ; page++ {
		if page == maxPages || len(all) >= maxListed {
			return all, []string{fmt.Sprintf("it has more than %d tools: the rest is left out",
				len(all))}, nil
		}
		answer, err := cs.ListTools(ctx, params)
		if err != nil {
			return nil, nil, err
		}
		for _, tool := range answer.Tools[:min(len(answer.Tools), maxListed-len(all))] {
			all = append(all, c.read(tool))
		}
		if answer.NextCursor == "" && len(all) < maxListed {
			return all, nil, nil
		}
		params = &mcp.ListToolsParams{Cursor: answer.NextCursor}
	}
}

// read returns a tool within the limits. What a server sends beyond them is not kept.
func (c *Client) read(tool *mcp.Tool) listedTool {
	t := listedTool{name: strings.Clone(tool.Name), readOnly: isReadOnly(tool)}
	if len(tool.Name) > maxRawName {
		t.name, t.fault = strings.Clone(text.Truncate(tool.Name, maxName)),
			fmt.Errorf("its name has %s", byteCount(len(tool.Name)))
		return t
	}
	t.description, t.cutFrom = describe(tool, c.server.Limits.Description)
	t.schema, t.fault = schemaOf(tool.InputSchema, c.server.Limits.Schema)
	return t
}

// makeTools converts the tools that a server listed. It adds notes about those that cannot be
// offered, and about what was cut.
func (c *Client) makeTools(listed []listedTool, notes []string) ([]toolbox.Tool, []string) {
	var tools []toolbox.Tool
	listed, missing := allowed(listed, c.server.Tools)
	names := fullNames(c.server.Name, listed)
	limits := c.server.Limits
	var cut, tooMany, tooLong, faults []string
	total := 0
	for i, tool := range listed {
		shown := oneLine(tool.name, maxName)
		size := len(names[i]) + len(tool.description) + len(tool.schema)
		switch {
		case names[i] == "":
			faults = append(faults,
				fmt.Sprintf("tool %q is left out: its name is empty or a duplicate", shown))
			continue
		case tool.fault != nil:
			faults = append(faults, fmt.Sprintf("tool %s is left out: %v", shown, tool.fault))
			continue
		case len(tools) == limits.Tools:
			tooMany = append(tooMany, shown)
			continue
		case total+size > limits.Total:
			tooLong = append(tooLong, shown)
			continue
		}
		offered := c.offer(tool, names[i])
		if err := toolbox.Check([]toolbox.Tool{offered}); err != nil {
			faults = append(faults, fmt.Sprintf("tool %s is left out: %s", shown,
				oneLine(err.Error(), maxQuoted)))
			continue
		}
		if tool.cutFrom > 0 {
			cut = append(cut, fmt.Sprintf("%s (%s)", shown, byteCount(tool.cutFrom)))
		}
		total += size
		tools = append(tools, offered)
	}
	const advice = ": name the tools that you need under tools, or raise "
	for _, group := range []struct {
		names []string
		note  string
	}{
		{tooMany, fmt.Sprintf("left out, because a server may have %d tools%slimits.tools",
			limits.Tools, advice)},
		{tooLong, fmt.Sprintf(
			"left out, because the descriptions and schemas of its tools have more than %s together%slimits.total", byteCount(limits.Total), advice)},
		{cut, fmt.Sprintf("with a description of more than %s, which is cut: limits.description allows more", byteCount(limits.Description))},
	} {
		if n := len(group.names); n > 0 {
			notes = append(notes, fmt.Sprintf("%s (%s) %s", text.Count(n, "tool"),
				text.JoinSome(group.names, maxNames), group.note))
		}
	}
	for _, name := range missing {
		notes = append(notes, fmt.Sprintf("it has no tool %s", oneLine(name, maxName)))
	}
	return tools, append(notes, faults...)
}

// maxNames is how many names a note lists.
const maxNames = 3

// offer returns a tool in the form that the oracle uses.
func (c *Client) offer(tool listedTool, full string) toolbox.Tool {
	offered := toolbox.Tool{
		Name: full, Description: tool.description, Kind: "other", Schema: tool.schema,
		ReadOnly: tool.readOnly, Timeout: c.server.Timeout,
		Use: func(ctx context.Context, call toolbox.Call) (toolbox.Result, error) {
			if tool.readOnly {
				call.Key = "" // a call that changes nothing need not be stopped later
			}
			return c.call(ctx, tool.name, full, call)
		},
	}
	if c.server.URL == "" {
		offered.End = c.endCall
	}
	return offered
}

// allowed returns the tools with the given names, in the server's order, and the names that no tool
// has. Nil names means all.
func allowed(listed []listedTool, names []string) (kept []listedTool, missing []string) {
	if names == nil {
		return listed, nil
	}
	for _, tool := range listed {
		if slices.Contains(names, tool.name) {
			kept = append(kept, tool)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(kept, func(t listedTool) bool { return t.name == name }) {
			missing = append(missing, name)
		}
	}
	return kept, missing
}

// fullNames returns a unique name for each tool that models accept, or "" for duplicates and tools
// without a name. A name depends on the set of tools but not on their order, so that a conversation
// can be resumed.
func fullNames(server string, listed []listedTool) []string {
	names := make([]string, len(listed))
	wanted := make(map[string]int)
	seen := make(map[string]bool)
	for i, tool := range listed {
		if tool.name == "" || seen[tool.name] {
			continue
		}
		seen[tool.name] = true
		names[i] = server + "__" + strings.Map(validRune, tool.name)
		wanted[names[i]]++
	}
	for i, tool := range listed {
		full := server + "__" + tool.name
		if len(names[i]) > maxName || wanted[names[i]] > 1 && names[i] != full {
			// The digest makes names different that differ only in replaced or cut-off characters.
			digest := sha256.Sum256([]byte(full))
			suffix := "_" + hex.EncodeToString(digest[:4])
			names[i] = names[i][:min(len(names[i]), maxName-len(suffix))] + suffix
		}
	}
	return names
}

// validRune replaces characters that models do not accept in names.
func validRune(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
		return r
	}
	return '_'
}

// describe returns the description of a tool, cut to a limit, and its length if it was cut.
// Characters that people would not see, but a model would read, are replaced.
func describe(tool *mcp.Tool, limit int) (description string, cutFrom int) {
	given := tool.Description
	if strings.TrimSpace(given) == "" {
		given = tool.Title
	}
	if len(given) > limit {
		cutFrom = len(given)
		given = text.Truncate(given, limit)
	}
	description = strings.Clone(text.Visible(given))
	if cutFrom > 0 || len(description) > limit {
		description = truncate(description+" …", limit, " …")
	}
	return description, cutFrom
}

// isReadOnly reports whether the server declares that calling the tool changes nothing. The
// idempotent hint is not enough: something else may have changed the same thing in the meantime.
func isReadOnly(tool *mcp.Tool) bool {
	return tool.Annotations != nil && tool.Annotations.ReadOnlyHint
}

// schemaOf encodes a tool's input schema, which must describe an object. A missing schema allows
// any object. Properties that are an empty list become an empty object: servers in some languages
// cannot tell the two apart.
func schemaOf(given any, limit int) (json.RawMessage, error) {
	if given == nil {
		return json.RawMessage(`{"type":"object"}`), nil
	}
	schema, isObject := given.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("its schema is not a JSON object")
	}
	switch kind, typed := schema["type"]; {
	case !typed:
		schema["type"] = "object" // required by the protocol and by some models
	case kind != "object":
		return nil, fmt.Errorf("its schema does not describe an object")
	}
	if list, isList := schema["properties"].([]any); isList && len(list) == 0 {
		schema["properties"] = map[string]any{}
	}
	encoded, err := json.Marshal(visible(schema))
	if err != nil {
		return nil, err
	}
	if len(encoded) > limit {
		return nil, fmt.Errorf("its schema has %s, more than %s", byteCount(len(encoded)),
			byteCount(limit))
	}
	return encoded, nil
}

// visible replaces the characters in all texts of a schema that people would not see.
func visible(value any) any {
	switch value := value.(type) {
	case string:
		return text.Visible(value)
	case []any:
		for i := range value {
			value[i] = visible(value[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(value))
		for key, v := range value {
			clean[text.Visible(key)] = visible(v)
		}
		return clean
	}
	return value
}
