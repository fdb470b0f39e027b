package hostile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// standIn is a small agent program that obeys the files that Claude Code 2.1 obeys, in the same
// order, and its switches against them. It asks a model, runs the commands that the model wants,
// and prints what Claude Code prints.
type standIn struct {
	sources        []string // user, project, local
	strictMCP      bool
	hooks, servers [][]string
	keyHelper      string
	memory         strings.Builder
}

// settingsFile is what the stand-in understands of a settings.json.
type settingsFile struct {
	Env          map[string]string
	APIKeyHelper string `json:"apiKeyHelper"`
	Hooks        map[string][]struct {
		Hooks []struct{ Command string }
	}
}

// serversFile is what the stand-in understands of a .mcp.json and of a .claude.json.
type serversFile struct {
	Servers map[string]struct {
		Command string
		Args    []string
	} `json:"mcpServers"`
}

// playStandIn is the program. Its arguments are those of Claude Code, and the prompt is on standard
// input.
func playStandIn(args []string) error {
	if slices.Contains(args, "--version") {
		fmt.Println("2.1.197 (Claude Code)")
		return nil
	}
	prompt, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	c := standIn{sources: []string{"user", "project", "local"}}
	c.strictMCP = slices.Contains(args, "--strict-mcp-config")
	if i := slices.Index(args, "--setting-sources"); i >= 0 && i+1 < len(args) {
		c.sources = strings.Split(args[i+1], ",")
	}
	if err := c.readSettings(); err != nil {
		return err
	}
	for _, argv := range slices.Concat(c.hooks, c.servers) {
		exec.Command(argv[0], argv[1:]...).Run() // what it does is all that counts
	}
	text, err := c.converse(string(prompt))
	if err != nil {
		return err
	}
	return say(text)
}

// readSettings reads everything that steers the program before its first request.
func (c *standIn) readSettings() error {
	folder := cmp.Or(os.Getenv("CLAUDE_CONFIG_DIR"), filepath.Join(os.Getenv("HOME"), ".claude"))
	var login struct {
		OAuth struct {
			Plan string `json:"subscriptionType"`
		} `json:"claudeAiOauth"`
	}
	if err := readJSON(filepath.Join(folder, ".credentials.json"), &login); err != nil {
		return err
	}
	// The settings of the organisation, as it last knew them. No switch ignores them.
	if login.OAuth.Plan == "enterprise" {
		c.sources = append(c.sources, "organisation")
	}
	for _, source := range []struct {
		name, settings, servers string
		memories                []string
	}{
		{"user", folder + "/settings.json", folder + "/.claude.json",
			[]string{folder + "/CLAUDE.md"}},
		{"project", ".claude/settings.json", ".mcp.json",
			[]string{"CLAUDE.md", ".claude/CLAUDE.md"}},
		{"local", ".claude/settings.local.json", "", []string{"CLAUDE.local.md"}},
		{"organisation", folder + "/remote-settings.json", "", nil},
	} {
		if !slices.Contains(c.sources, source.name) {
			continue
		}
		var settings settingsFile
		if err := readJSON(source.settings, &settings); err != nil {
			return err
		}
		for name, value := range settings.Env { // they count before its environment
			os.Setenv(name, value)
		}
		c.keyHelper = cmp.Or(settings.APIKeyHelper, c.keyHelper)
		for _, group := range settings.Hooks["SessionStart"] {
			for _, hook := range group.Hooks {
				c.hooks = append(c.hooks, []string{"sh", "-c", hook.Command})
			}
		}
		for _, name := range source.memories {
			c.memory.WriteString(fileText(name))
		}
		if c.strictMCP || source.servers == "" {
			continue
		}
		var servers serversFile
		if err := readJSON(source.servers, &servers); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(servers.Servers)) {
			server := servers.Servers[name]
			c.servers = append(c.servers, append([]string{server.Command}, server.Args...))
		}
	}
	return nil
}

// readJSON decodes a file. A missing file is like an empty one.
func readJSON(name string, into any) error {
	text, err := os.ReadFile(name)
	if err != nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// block is a part of a message of the Anthropic API.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
}

// bashTool is the only tool of the stand-in.
var bashTool = json.RawMessage(`{"name": "Bash", "description": "Run a command.",
	"input_schema": {"type": "object"}}`)

// converse asks the model until it wants no more commands, and returns its last words.
func (c *standIn) converse(prompt string) (string, error) {
	type message struct {
		Role    string  `json:"role"`
		Content []block `json:"content"`
	}
	messages := []message{{"user", []block{{Type: "text", Text: prompt}}}}
	for range 20 {
		body, err := json.Marshal(map[string]any{"model": "rehearsal", "max_tokens": 1000,
			"system": c.memory.String(), "messages": messages,
			"tools": []json.RawMessage{bashTool}})
		if err != nil {
			return "", err
		}
		var answer struct {
			Content []block `json:"content"`
		}
		if err := c.ask(body, &answer); err != nil {
			return "", err
		}
		messages = append(messages, message{"assistant", answer.Content})
		var text string
		var results []block
		for _, part := range answer.Content {
			text += part.Text
			if part.Type != "tool_use" {
				continue
			}
			var input struct{ Command string }
			if err := json.Unmarshal(part.Input, &input); err != nil {
				return "", err
			}
			out, _ := exec.Command("sh", "-c", input.Command).CombinedOutput()
			result := block{Type: "tool_result", ToolUseID: part.ID, Content: string(out) + "\n"}
			results = append(results, result)
		}
		if len(results) == 0 {
			return text, nil
		}
		messages = append(messages, message{"user", results})
	}
	return "", fmt.Errorf("the model does not come to an end")
}

// ask sends a request to the model.
func (c *standIn) ask(body []byte, answer any) error {
	url := os.Getenv("ANTHROPIC_BASE_URL") + "/v1/messages"
	request, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	key := os.Getenv("ANTHROPIC_API_KEY")
	if c.keyHelper != "" {
		out, _ := exec.Command("sh", "-c", c.keyHelper).Output()
		key = string(bytes.TrimSpace(out))
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Anthropic-Version", "2023-06-01")
	request.Header.Set("X-Api-Key", cmp.Or(key, "none"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("the model answered %s: %s %w", response.Status, text, err)
	}
	return json.Unmarshal(text, answer)
}

// say prints the final message of a session as Claude Code does.
func say(text string) error {
	message := `{"id":"m","type":"message","role":"assistant","model":"m",` +
		`"content":[{"type":"text","text":%[1]q}]}`
	_, err := fmt.Printf(`{"type":"system","subtype":"init","session_id":"s","model":"m"}
{"type":"assistant","message":`+message+`,"parent_tool_use_id":null,"session_id":"s"}
{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":%[1]q,"session_id":"s"}
`, text)
	return err
}
