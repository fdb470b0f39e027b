package rehearsal

import (
	"fmt"
	"time"

	"signalbox/transcript/agentformat"
)

// gemini encodes like gemini --output-format stream-json, which cuts text into arbitrary pieces.
type gemini struct {
	jsonLines
	tools int
	tool  string
}

const (
	geminiModel = "gemini-rehearsal"
	geminiPiece = 7 // runes
)

type geminiEvent struct {
	Type       string            `json:"type"`
	Timestamp  string            `json:"timestamp"`
	SessionID  string            `json:"session_id,omitempty"`
	Model      string            `json:"model,omitempty"`
	Role       string            `json:"role,omitempty"`
	Content    *string           `json:"content,omitempty"`
	Delta      bool              `json:"delta,omitempty"`
	ToolName   string            `json:"tool_name,omitempty"`
	ToolID     string            `json:"tool_id,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Status     string            `json:"status,omitempty"`
	Output     *string           `json:"output,omitempty"`
	Error      *geminiError      `json:"error,omitempty"`
	Stats      *geminiStats      `json:"stats,omitempty"`
}

type geminiError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

type geminiTokens struct {
	Total  int64 `json:"total_tokens"`
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Cached int64 `json:"cached"`
	Fresh  int64 `json:"input"`
}

type geminiStats struct {
	geminiTokens
	DurationMS int                     `json:"duration_ms"`
	ToolCalls  int                     `json:"tool_calls"`
	Models     map[string]geminiTokens `json:"models"`
}

func (e *gemini) emit(v geminiEvent) {
	v.Timestamp = e.now().UTC().Format("2006-01-02T15:04:05.000Z")
	e.event(v)
}

func (e *gemini) begin() {
	e.emit(geminiEvent{Type: agentformat.GeminiInit, SessionID: e.thread(), Model: geminiModel})
	e.emit(geminiEvent{Type: agentformat.GeminiMessage, Role: agentformat.GeminiUser,
		Content: &e.prompt})
}

func (e *gemini) text(s string) {
	for runes := []rune(s); len(runes) > 0; {
		n := min(geminiPiece, len(runes))
		e.message(string(runes[:n]))
		runes = runes[n:]
	}
}

func (e *gemini) message(s string) {
	e.emit(geminiEvent{Type: agentformat.GeminiMessage, Role: agentformat.GeminiAssistant,
		Content: &s, Delta: true})
}

func (e *gemini) toolStart(t tool) {
	name, parameters := t.call([4]string{"run_shell_command", "read_file", "write_file", "replace"},
		"file_path", "old_string", "new_string")
	e.tool = fmt.Sprintf("%s__%s_%d_%d", name, name, e.now().UnixMilli(), e.tools)
	e.tools++
	e.emit(geminiEvent{Type: agentformat.GeminiToolUse, ToolName: name, ToolID: e.tool,
		Parameters: parameters})
}

func (e *gemini) toolEnd(t tool) {
	v := geminiEvent{Type: agentformat.GeminiToolResult, ToolID: e.tool,
		Status: agentformat.GeminiStatusSuccess, Output: &t.output}
	if t.status != 0 {
		v.Status = agentformat.GeminiStatusError
		v.Error = &geminiError{"TOOL_EXECUTION_ERROR", fmt.Sprintf("exit status %d", t.status)}
	}
	e.emit(v)
}

func (e *gemini) stats() *geminiStats {
	u := e.takeUsage()
	tokens := geminiTokens{u.InputTokens + u.OutputTokens, u.InputTokens, u.OutputTokens,
		u.CachedInputTokens,
		max(0, u.InputTokens-u.CachedInputTokens)}
	stats := &geminiStats{geminiTokens: tokens, ToolCalls: e.tools,
		Models: map[string]geminiTokens{geminiModel: tokens}}
	e.tools = 0
	return stats
}

func (e *gemini) endTurn() {
	e.emit(geminiEvent{Type: agentformat.GeminiResult, Status: agentformat.GeminiStatusSuccess,
		Stats: e.stats()})
}

func (e *gemini) rateLimit(until time.Time) {
	details := "[]"
	if !until.IsZero() {
		details = fmt.Sprintf(
			`[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"%ds"}]`,
			int(until.Sub(e.now()).Round(time.Second).Seconds()))
	}
	message := fmt.Sprintf(
		`[API Error: {"error":{"code":429,"message":%q,"status":"RESOURCE_EXHAUSTED","details":%s}}]`,
		limitMessage(until), details)
	e.emit(geminiEvent{Type: agentformat.GeminiResult, Status: agentformat.GeminiStatusError,
		Error: &geminiError{"unknown", message}, Stats: e.stats()})
}
