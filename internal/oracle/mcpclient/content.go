package mcpclient

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/toolbox"
)

const (
	// maxText is below what is cut from any tool's result, so that the note at its end is not.
	maxText    = 60 << 10
	maxSources = 100
	maxURI     = 1000
	maxTitle   = 200
)

// render is what a result says, for the model: text as it is, all else in words. Text of resources is part of it. Links
// and resources are sources too, of the type that is given.
func render(result *mcp.CallToolResult, sourceType string) (text string, sources []chunk.Source) {
	var parts []string
	said := false
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	source := func(uri, title string) {
		if len(sources) < maxSources && uri != "" {
			sources = append(sources, chunk.Source{Type: sourceType, Path: oneLine(uri, maxURI), Title: oneLine(title, maxTitle)})
		}
	}
	for _, content := range result.Content {
		switch content := content.(type) {
		case *mcp.TextContent:
			said = said || content.Text != ""
			parts = append(parts, content.Text)
		case *mcp.ImageContent:
			add("[%s, %s bytes]", mediaType(content.MIMEType, "image"), thousands(len(content.Data)))
		case *mcp.AudioContent:
			add("[%s, %s bytes]", mediaType(content.MIMEType, "audio"), thousands(len(content.Data)))
		case *mcp.ResourceLink:
			title := firstOf(content.Title, content.Name)
			source(content.URI, title)
			parts = append(parts, "["+strings.Join(present("link to "+oneLine(content.URI, maxURI), oneLine(title, maxTitle), oneLine(content.Description, maxTitle)), ": ")+"]")
		case *mcp.EmbeddedResource:
			r := content.Resource
			if r == nil {
				continue
			}
			source(r.URI, "")
			add("[resource %s, %s, %s bytes]", oneLine(r.URI, maxURI), mediaType(r.MIMEType, "type unknown"), thousands(len(r.Text)+len(r.Blob)))
			if r.Text != "" {
				said = true
				parts = append(parts, r.Text)
			}
		default:
			add("[content of another kind: %T]", content)
		}
	}
	if !said && result.StructuredContent != nil {
		if structured, err := json.Marshal(result.StructuredContent); err == nil {
			parts = append(parts, string(structured))
		}
	}
	text = strings.ToValidUTF8(strings.Join(parts, "\n"), "\uFFFD")
	return cut(text, maxText, fmt.Sprintf("\n[cut here: the answer has %s bytes]", thousands(len(text)))), sources
}

func mediaType(given, otherwise string) string {
	return firstOf(oneLine(given, maxTitle), otherwise)
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func present(texts ...string) (some []string) {
	for _, text := range texts {
		if text != "" {
			some = append(some, text)
		}
	}
	return some
}

// cut shortens a text at a rune, so that it has at most limit bytes with the note.
func cut(text string, limit int, note string) string {
	if len(text) <= limit {
		return text
	}
	return toolbox.Cut(text, limit-len(note)) + note
}

// oneLine makes of what others wrote something that can stand in a sentence.
func oneLine(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return cut(strings.Join(strings.Fields(text), " "), limit, "…")
}

// thousands writes a number as people do: 1,234.
func thousands(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
