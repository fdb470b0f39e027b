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

// list asks for all pages of the server's tools.
func list(ctx context.Context, cs *mcp.ClientSession) (all []*mcp.Tool, notes []string, err error) {
	if init := cs.InitializeResult(); init == nil || init.Capabilities == nil || init.Capabilities.Tools == nil {
		return nil, []string{"it has no tools"}, nil
	}
	params := &mcp.ListToolsParams{}
	for page := 0; ; page++ {
		if page == maxPages || len(all) >= maxTools {
			return all, []string{fmt.Sprintf("it has more than %d tools: the rest was not asked for", len(all))}, nil
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

// offer makes tools of what a server listed. What cannot be one is noted.
func (c *Client) offer(listed []*mcp.Tool, notes []string) ([]toolbox.Tool, []string) {
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
			notes = append(notes, fmt.Sprintf("tool %q is left out: its name is empty, or was listed before", oneLine(tool.Name, maxName)))
			continue
		case err != nil:
			notes = append(notes, fmt.Sprintf("tool %s is left out: %v", oneLine(tool.Name, maxName), err))
			continue
		}
		raw, full, readOnly := tool.Name, names[i], changesNothing(tool)
		offered := toolbox.Tool{
			Name: full, Description: describe(tool), Kind: "other", Schema: schema, ReadOnly: readOnly, Timeout: c.server.Timeout,
			Use: func(ctx context.Context, call toolbox.Call) (toolbox.Result, error) {
				if readOnly {
					call.Key = "" // nobody minds what is left of it
				}
				return c.call(ctx, raw, full, call)
			},
		}
		if c.server.URL == "" {
			offered.End = c.endCall
		}
		if err := toolbox.Check([]toolbox.Tool{offered}); err != nil {
			notes = append(notes, fmt.Sprintf("tool %s is left out: %s", oneLine(tool.Name, maxName), oneLine(err.Error(), maxSaid)))
			continue
		}
		tools = append(tools, offered)
	}
	return tools, notes
}

// allowed keeps the tools that are named, in the server's order, and tells which names there are none for.
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

// fullNames gives each tool a name that models take and that no other has. One that is listed twice, or has no name,
// gets none. A name depends on the set of tools only, not on their order, so that sessions can be continued.
func fullNames(server string, listed []*mcp.Tool) []string {
	names := make([]string, len(listed))
	wanted := make(map[string]int)
	seen := make(map[string]bool)
	for i, tool := range listed {
		if tool.Name == "" || seen[tool.Name] {
			continue
		}
		seen[tool.Name] = true
		names[i] = server + "__" + strings.Map(valid, tool.Name)
		wanted[names[i]]++
	}
	for i, tool := range listed {
		whole := server + "__" + tool.Name
		if len(names[i]) > maxName || wanted[names[i]] > 1 && names[i] != whole {
			// The digest tells apart what looks the same now.
			digest := sha256.Sum256([]byte(whole))
			mark := "_" + hex.EncodeToString(digest[:4])
			names[i] = names[i][:min(len(names[i]), maxName-len(mark))] + mark
		}
	}
	return names
}

func valid(r rune) rune {
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
	return cut(text, maxDescription, " …")
}

// changesNothing tells, by its own word, whether calling the tool changes nothing. One that would change the same again is
// none: others may have changed it meanwhile.
func changesNothing(tool *mcp.Tool) bool {
	return tool.Annotations != nil && tool.Annotations.ReadOnlyHint
}

// schemaOf is the schema as it was given, which must be one of an object. None is one that takes nothing in particular, and
// properties that are an empty list are none: to some languages that is the same.
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
		schema["type"] = "object" // what the protocol asks for, and some models insist on
	case kind != "object":
		return nil, fmt.Errorf("its schema is not one of an object")
	}
	if list, isList := schema["properties"].([]any); isList && len(list) == 0 {
		schema["properties"] = map[string]any{}
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	if len(text) > maxSchema {
		return nil, fmt.Errorf("its schema has %s bytes, more than %s", thousands(len(text)), thousands(maxSchema))
	}
	return text, nil
}
