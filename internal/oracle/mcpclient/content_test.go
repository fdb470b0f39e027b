package mcpclient

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

func linked() *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.ResourceLink{URI: "file:///a", Name: "a", Title: "A", Description: "the\nfirst"},
		&mcp.ResourceLink{URI: "file:///b", Name: "b"},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "note://1",
			MIMEType: "text/plain", Text: "inside"}},
		&mcp.EmbeddedResource{},
	}}
}

func TestRender(t *testing.T) {
	for name, tt := range map[string]struct {
		result *mcp.CallToolResult
		want   string
	}{
		"nothing": {&mcp.CallToolResult{}, ""},
		"texts": {&mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a"},
			&mcp.TextContent{Text: "b\xff"}}, StructuredContent: 1}, "a\nb\uFFFD"},
		"structured": {&mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{}},
			StructuredContent: map[string]any{"b": 1.0, "a": "x"}},
			"[image, 0 bytes]\n" + `{"a":"x","b":1}`},
		"media": {&mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, 1234)},
			&mcp.AudioContent{MIMEType: "audio/\x1bwav", Data: make([]byte, 12)}}},
			"[image/png, 1,234 bytes]\n[audio/ wav, 12 bytes]"},
		"links": {linked(), "[link to file:///a: A: the first]\n[link to file:///b: b]\n[resource note://1, text/plain, 6 bytes]\ninside"},
		"blob": {&mcp.CallToolResult{Content: []mcp.Content{&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "x:y", Blob: make([]byte, 1234567)}}}},
			"[resource x:y, type unknown, 1,234,567 bytes]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := render(tt.result, "tool"); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestSourcesAreBounded(t *testing.T) {
	var result mcp.CallToolResult
	for range 2 * maxSources {
		result.Content = append(result.Content,
			&mcp.ResourceLink{URI: "x:" + strings.Repeat("é", 2*maxURI)})
	}
	text, sources := render(&result, "tool")
	if len(sources) != maxSources || len(sources[0].Path) > maxURI || len(text) > maxText ||
		!utf8.ValidString(text) {
		t.Errorf("%d sources, the first of %d bytes; %d bytes of text", len(sources),
			len(sources[0].Path), len(text))
	}
}

func TestTruncate(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		limit := rapid.IntRange(3, 40).Draw(t, "limit")
		got := truncate(text, limit, "…")
		if len(got) > limit || !utf8.ValidString(got) || len(text) <= limit && got != text {
			t.Fatalf("%q at %d is %q", text, limit, got)
		}
	})
}

func TestFullNames(t *testing.T) {
	long := strings.Repeat("x", 100)
	tools := func(names ...string) (all []listedTool) {
		for _, name := range names {
			all = append(all, listedTool{name: name})
		}
		return all
	}
	got := fullNames("s", tools("a.b", "a_b", "a/b", "plain", "plain", "", long, "zażółć"))
	for i, want := range []string{"s__a_b_f0ac5357", "s__a_b", "s__a_b_", "s__plain", "", "",
		"s__xxx", "s__za____"} {
		if i == 0 || i == 2 || i == 6 {
			if !strings.HasPrefix(got[i], want[:5]) || len(got[i]) <= len("s__a_b") {
				t.Errorf("name %d is %q", i, got[i])
			}
		} else if got[i] != want {
			t.Errorf("name %d is %q, want %q", i, got[i], want)
		}
	}
	pattern := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	property.Check(t, func(t *rapid.T) {
		server := rapid.StringMatching(`[a-zA-Z0-9_-]{1,32}`).Draw(t, "server")
		names := rapid.SliceOfDistinct(rapid.OneOf(rapid.StringMatching(`[a.:/_]{1,4}`),
			rapid.StringMatching(`.{1,80}`)), rapid.ID).Draw(t, "names")
		full := fullNames(server, tools(names...))
		seen := map[string]string{}
		for i, name := range full {
			if !pattern.MatchString(name) || seen[name] != "" {
				t.Fatalf("%q becomes %q, as %q does", names[i], name, seen[name])
			}
			seen[name] = names[i]
		}
		// The order does not matter.
		turned := append(names[min(1, len(names)):len(names):len(names)],
			names[:min(1, len(names))]...)
		for i, name := range fullNames(server, tools(turned...)) {
			if seen[name] != turned[i] {
				t.Fatalf("in another order %q becomes %q", turned[i], name)
			}
		}
	})
}

func TestSchemaBounds(t *testing.T) {
	for _, bad := range []any{"x", []any{}, map[string]any{"type": "string"},
		map[string]any{"description": strings.Repeat("x", 1000)}} {
		if _, err := schemaOf(bad, 1000); err == nil {
			t.Errorf("%.40v passes", bad)
		}
	}
}
