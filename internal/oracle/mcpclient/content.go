package mcpclient

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/text"
)

const (
	// maxText is less than toolbox.MaxResult, so that the note at the end is not cut off.
	maxText    = 60 << 10
	maxSources = 100
	maxURI     = 1000
	maxTitle   = 200
)

// render returns a result as text for the model, and its links and resources as sources of the
// given type. Text, also that of resources, is included as it is; other content is described.
func render(result *mcp.CallToolResult, sourceType string) (output string, sources []chunk.Source) {
	var parts []string
	hasText := false
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	source := func(uri, title string) {
		if len(sources) < maxSources && uri != "" {
			sources = append(sources, chunk.Source{Type: sourceType, Path: oneLine(uri, maxURI),
				Title: oneLine(title, maxTitle)})
		}
	}
	for _, content := range result.Content {
		switch content := content.(type) {
		case *mcp.TextContent:
			hasText = hasText || content.Text != ""
			parts = append(parts, content.Text)
		case *mcp.ImageContent:
			add("[%s, %s]", mediaType(content.MIMEType, "image"), byteCount(len(content.Data)))
		case *mcp.AudioContent:
			add("[%s, %s]", mediaType(content.MIMEType, "audio"), byteCount(len(content.Data)))
		case *mcp.ResourceLink:
			title := cmp.Or(content.Title, content.Name)
			source(content.URI, title)
			words := []string{"link to " + oneLine(content.URI, maxURI), oneLine(title, maxTitle),
				oneLine(content.Description, maxTitle)}
			words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
			parts = append(parts, "["+strings.Join(words, ": ")+"]")
		case *mcp.EmbeddedResource:
			r := content.Resource
			if r == nil {
				continue
			}
			source(r.URI, "")
			add("[resource %s, %s, %s]", oneLine(r.URI, maxURI),
				mediaType(r.MIMEType, "type unknown"), byteCount(len(r.Text)+len(r.Blob)))
			if r.Text != "" {
				hasText = true
				parts = append(parts, r.Text)
			}
		default:
			add("[unsupported content: %T]", content)
		}
	}
	if !hasText && result.StructuredContent != nil {
		if structured, err := json.Marshal(result.StructuredContent); err == nil {
			parts = append(parts, string(structured))
		}
	}
	output = strings.ToValidUTF8(strings.Join(parts, "\n"), "\uFFFD")
	return truncate(output, maxText, fmt.Sprintf("\n[cut here: the answer has %s]",
		byteCount(len(output)))), sources
}

func mediaType(given, otherwise string) string {
	return cmp.Or(oneLine(given, maxTitle), otherwise)
}

// truncate returns s if it has at most limit bytes, and otherwise its beginning and the note,
// together at most limit bytes.
func truncate(s string, limit int, note string) string {
	if len(s) <= limit {
		return s
	}
	return text.Truncate(s, limit-len(note)) + note
}

// oneLine makes a text from a server safe to use in a message.
func oneLine(s string, limit int) string { return truncate(text.OneLine(s), limit, "…") }

func byteCount(n int) string { return text.Group(strconv.Itoa(n)) + " bytes" }
