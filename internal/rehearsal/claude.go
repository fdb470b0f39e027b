package rehearsal

import (
	"time"

	"signalbox"
	"signalbox/transcript/agentformat"
)

// claude encodes like claude -p --output-format stream-json --verbose.
type claude struct {
	jsonLines
	last  string          // the last text, which the result repeats
	turn  signalbox.Usage // of this turn
	cost  float64         // of the whole stream
	turns int
	tool  string // the call in progress
}

const claudeModel = "claude-rehearsal"

type claudeEvent struct {
	Type      string         `json:"type"`
	Subtype   string         `json:"subtype,omitempty"`
	Message   *claudeMessage `json:"message,omitempty"`
	Parent    *string        `json:"parent_tool_use_id"`
	SessionID string         `json:"session_id"`
	UUID      string         `json:"uuid"`
	Error     string         `json:"error,omitempty"`
}

type claudeMessage struct {
	ID      string       `json:"id,omitempty"`
	Type    string       `json:"type,omitempty"`
	Role    string       `json:"role"`
	Model   string       `json:"model,omitempty"`
	Content []claudePart `json:"content"`
	Usage   *claudeUsage `json:"usage,omitempty"`
}

type claudePart struct {
	Type      string  `json:"type"`
	Text      *string `json:"text,omitempty"`
	Thinking  string  `json:"thinking,omitempty"`
	Signature string  `json:"signature,omitempty"`
	ID        string  `json:"id,omitempty"`
	Name      string  `json:"name,omitempty"`
	Input     any     `json:"input,omitempty"`
	ToolUseID string  `json:"tool_use_id,omitempty"`
	Content   *string `json:"content,omitempty"`
	IsError   bool    `json:"is_error,omitempty"`
}

type claudeUsage struct {
	InputTokens   int64 `json:"input_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
	OutputTokens  int64 `json:"output_tokens"`
}

func claudeTokens(u signalbox.Usage) *claudeUsage {
	return &claudeUsage{InputTokens: u.InputTokens, CacheRead: u.CachedInputTokens,
		OutputTokens: u.OutputTokens}
}

func (e *claude) begin() {
	e.event(struct {
		Type           string   `json:"type"`
		Subtype        string   `json:"subtype"`
		CWD            string   `json:"cwd"`
		SessionID      string   `json:"session_id"`
		Tools          []string `json:"tools"`
		MCPServers     []string `json:"mcp_servers"`
		Model          string   `json:"model"`
		PermissionMode string   `json:"permissionMode"`
		UUID           string   `json:"uuid"`
	}{agentformat.ClaudeSystem, "init", e.dir, e.thread(), []string{"Bash", "Edit", "Read", "Task", "Write"}, []string{},
		claudeModel, "bypassPermissions", e.nextUUID()})
}

// assistant writes a message of one content block.
func (e *claude) assistant(part claudePart, parent *string) {
	u := e.takeUsage()
	addUsage(&e.turn, u)
	e.event(claudeEvent{Type: agentformat.ClaudeAssistant, Message: &claudeMessage{ID: e.id("msg_"),
		Type: "message", Role: "assistant",
		Model: claudeModel, Content: []claudePart{part}, Usage: claudeTokens(u)},
		Parent: parent, SessionID: e.thread(), UUID: e.nextUUID()})
}

func (e *claude) text(s string) { e.message(s) }

func (e *claude) message(s string) {
	e.last = s
	e.assistant(claudePart{Type: agentformat.ClaudeText, Text: &s}, nil)
}

func (e *claude) thinking(s string) {
	e.assistant(claudePart{Type: agentformat.ClaudeThinking, Thinking: s, Signature: e.id("")}, nil)
}

// subagent adds a complete use of the tool that starts a sub-agent, because its messages refer to
// it.
func (e *claude) subagent(s string) {
	id := e.id("toolu_")
	e.assistant(claudePart{Type: agentformat.ClaudeToolUse, ID: id, Name: "Task",
		Input: map[string]string{"description": "help", "prompt": "Help."}}, nil)
	e.assistant(claudePart{Type: agentformat.ClaudeText, Text: &s}, &id)
	e.result(claudePart{ToolUseID: id, Content: &s})
}

func (e *claude) result(part claudePart) {
	part.Type = agentformat.ClaudeToolResult
	e.event(claudeEvent{Type: agentformat.ClaudeUser,
		Message:   &claudeMessage{Role: "user", Content: []claudePart{part}},
		SessionID: e.thread(), UUID: e.nextUUID()})
}

func (e *claude) toolStart(t tool) {
	e.turns++
	e.tool = e.id("toolu_")
	part := claudePart{Type: agentformat.ClaudeToolUse, ID: e.tool}
	part.Name, part.Input = t.call([4]string{"Bash", "Read", "Write", "Edit"}, "file_path",
		"old_string", "new_string")
	e.assistant(part, nil)
}

func (e *claude) toolEnd(t tool) {
	e.result(claudePart{ToolUseID: e.tool, Content: &t.output, IsError: t.status != 0})
}

func (e *claude) endTurn() { e.finish(false, e.last) }

func (e *claude) finish(failed bool, result string) {
	addUsage(&e.turn, e.takeUsage())
	e.cost += e.turn.CostUSD
	e.event(struct {
		Type          string       `json:"type"`
		Subtype       string       `json:"subtype"`
		IsError       bool         `json:"is_error"`
		DurationMS    int          `json:"duration_ms"`
		DurationAPIMS int          `json:"duration_api_ms"`
		NumTurns      int          `json:"num_turns"`
		Result        string       `json:"result"`
		SessionID     string       `json:"session_id"`
		TotalCostUSD  float64      `json:"total_cost_usd"`
		Usage         *claudeUsage `json:"usage"`
		Denials       []string     `json:"permission_denials"`
		UUID          string       `json:"uuid"`
	}{agentformat.ClaudeResult, "success", failed, 1, 1, e.turns + 1, result, e.thread(), e.cost, claudeTokens(e.turn), []string{}, e.nextUUID()})
	e.turn, e.last, e.turns = signalbox.Usage{}, "", 0
}

func (e *claude) rateLimit(until time.Time) {
	type limit struct {
		Status   string `json:"status"`
		ResetsAt int64  `json:"resetsAt,omitempty"`
		Type     string `json:"rateLimitType"`
	}
	info := limit{Status: "rejected", Type: "five_hour"}
	if !until.IsZero() {
		info.ResetsAt = until.Unix()
	}
	e.event(struct {
		Type      string `json:"type"`
		Info      limit  `json:"rate_limit_info"`
		UUID      string `json:"uuid"`
		SessionID string `json:"session_id"`
	}{agentformat.ClaudeRateLimit, info, e.nextUUID(), e.thread()})
	message := limitMessage(until)
	e.event(claudeEvent{Type: agentformat.ClaudeAssistant, Message: &claudeMessage{ID: e.id("msg_"),
		Type: "message", Role: "assistant",
		Model: "<synthetic>", Content: []claudePart{{Type: agentformat.ClaudeText, Text: &message}},
		Usage: claudeTokens(signalbox.Usage{})},
		SessionID: e.thread(), UUID: e.nextUUID(), Error: "rate_limit"})
	e.finish(true, message)
}
