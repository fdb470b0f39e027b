package mcpclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/internal/oracle/toolbox"
)

// Bounds of what a server may list.
const (
	maxPages       = 100
	maxTools       = 500
	maxDescription = 4 << 10
	maxSchema      = 64 << 10
	maxName        = 64 // of a tool, as models have it
)

// list requests all pages of the server's tool list.
func list(ctx context.Context, cs *mcp.ClientSession) (all []*mcp.Tool, notes []string, err error) {
	if init := cs.InitializeResult(); init == nil || init.Capabilities == nil || init.Capabilities.Tools == nil {
		return nil, []string{"it has no tools"}, nil
	}
	params := &mcp.ListToolsParams{}
	for page := 0; ; page++ {
		if page == maxPages || len(all) >= maxTools {
			return all, []string{fmt.Sprintf("it has more than %d tools: the rest is left out", len(all))}, nil
		}
		answer, err := cs.ListTools(ctx, params)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, answer.Tools...)
		if answer.NextCursor == "" {
			return all, nil, nil
		}
		params = &mcp.ListToolsParams{Cursor: answer.NextCursor}
	}
}

// makeTools converts the tools that a server listed. It adds a note for each one that cannot be offered.
func (c *Client) makeTools(listed []*mcp.Tool, notes []string) ([]toolbox.Tool, []string) {
	var tools []toolbox.Tool
	listed, missing := allowed(listed, c.server.Tools)
	for _, name := range missing {
		notes = append(notes, fmt.Sprintf("it has no tool %s", oneLine(name, maxName)))
	}
	names := fullNames(c.server.Name, listed)
	for i, tool := range listed {
		schema, err := schemaOf(tool.InputSchema)
		switch {
		case names[i] == "":
			notes = append(notes, fmt.Sprintf("tool %q is left out: its name is empty or a duplicate", oneLine(tool.Name, maxName)))
			continue
		case err != nil:
			notes = append(notes, fmt.Sprintf("tool %s is left out: %v", oneLine(tool.Name, maxName), err))
			continue
		}
		raw, full, readOnly := tool.Name, names[i], isReadOnly(tool)
		offered := toolbox.Tool{
			Name: full, Description: describe(tool), Kind: "other", Schema: schema, ReadOnly: readOnly, Timeout: c.server.Timeout,
			Use: func(ctx context.Context, call toolbox.Call) (toolbox.Result, error) {
				if readOnly {
					call.Key = "" // a call that changes nothing need not be stopped later
				}
				return c.call(ctx, raw, full, call)
			},
		}
		if c.server.URL == "" {
			offered.End = c.endCall
		}
		if err := toolbox.Check([]toolbox.Tool{offered}); err != nil {
			notes = append(notes, fmt.Sprintf("tool %s is left out: %s", oneLine(tool.Name, maxName), oneLine(err.Error(), maxQuoted)))
			continue
		}
		tools = append(tools, offered)
	}
	return tools, notes
}

// allowed returns the tools with the given names, in the server's order, and the names that no tool has. Nil names means all.
func allowed(listed []*mcp.Tool, names []string) (kept []*mcp.Tool, missing []string) {
	if names == nil {
		return listed, nil
	}
	for _, tool := range listed {
		if slices.Contains(names, tool.Name) {
			kept = append(kept, tool)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(kept, func(t *mcp.Tool) bool { return t.Name == name }) {
			missing = append(missing, name)
		}
	}
	return kept, missing
}

// fullNames returns a unique name for each tool that models accept, or "" for duplicates and tools without a name. A name
// depends on the set of tools but not on their order, so that a conversation can be resumed.
func fullNames(server string, listed []*mcp.Tool) []string {
	names := make([]string, len(listed))
	wanted := make(map[string]int)
	seen := make(map[string]bool)
	for i, tool := range listed {
		if tool.Name == "" || seen[tool.Name] {
			continue
		}
		seen[tool.Name] = true
		names[i] = server + "__" + strings.Map(validRune, tool.Name)
		wanted[names[i]]++
	}
	for i, tool := range listed {
		full := server + "__" + tool.Name
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

func describe(tool *mcp.Tool) string {
	text := strings.ToValidUTF8(tool.Description, "\uFFFD")
	if strings.TrimSpace(text) == "" {
		text = strings.ToValidUTF8(tool.Title, "\uFFFD")
	}
	return truncate(text, maxDescription, " …")
}

// isReadOnly reports whether the server declares that calling the tool changes nothing. The idempotent hint is not enough:
// something else may have changed the same thing in the meantime.
func isReadOnly(tool *mcp.Tool) bool {
	return tool.Annotations != nil && tool.Annotations.ReadOnlyHint
}

// schemaOf encodes a tool's input schema, which must describe an object. A missing schema allows any object. Properties that
// are an empty list become an empty object: servers in some languages cannot tell the two apart.
func schemaOf(given any) (json.RawMessage, error) {
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
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	if len(text) > maxSchema {
		return nil, fmt.Errorf("its schema has %s, more than %s", byteCount(len(text)), byteCount(maxSchema))
	}
	return text, nil
}
