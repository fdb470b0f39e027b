// Package agentformat describes the JSON lines that agent programs write: the names of their events
// and content types, and what a single line shows about the agent's activity.
//
// Package transcript reads whole streams in these formats and finds the signals in them.
package agentformat

// Types of the events of claude -p --output-format stream-json, and of the content in its messages.
const (
	ClaudeSystem      = "system"
	ClaudeAssistant   = "assistant"
	ClaudeUser        = "user"
	ClaudeResult      = "result"
	ClaudeStreamEvent = "stream_event"
	ClaudeRateLimit   = "rate_limit_event"
	ClaudeRetry       = "api_retry" // a subtype of ClaudeSystem

	ClaudeSuccess = "success" // the subtype of a result

	ClaudeText       = "text"
	ClaudeThinking   = "thinking"
	ClaudeToolUse    = "tool_use"
	ClaudeToolResult = "tool_result"
)

// Types of the events of codex exec --json, and of the items in them.
const (
	CodexThreadStarted = "thread.started"
	CodexTurnStarted   = "turn.started"
	CodexTurnCompleted = "turn.completed"
	CodexTurnFailed    = "turn.failed"
	CodexItemStarted   = "item.started"
	CodexItemUpdated   = "item.updated"
	CodexItemCompleted = "item.completed"
	CodexError         = "error"

	CodexAgentMessage = "agent_message"
	CodexReasoning    = "reasoning"
	CodexCommand      = "command_execution"
	CodexFileChange   = "file_change"
	CodexMCPToolCall  = "mcp_tool_call"
	CodexCollabCall   = "collab_tool_call"
	CodexWebSearch    = "web_search"
)

// Types of the events of gemini --output-format stream-json, and roles and statuses in them.
const (
	GeminiInit       = "init"
	GeminiMessage    = "message"
	GeminiToolUse    = "tool_use"
	GeminiToolResult = "tool_result"
	GeminiError      = "error"
	GeminiResult     = "result"

	GeminiUser      = "user"
	GeminiAssistant = "assistant"

	GeminiStatusSuccess = "success"
	GeminiStatusError   = "error"
)

// Types of the events of opencode run --format json, and the reason of the last step of a turn.
const (
	OpencodeStepStart  = "step_start"
	OpencodeStepFinish = "step_finish"
	OpencodeText       = "text"
	OpencodeReasoning  = "reasoning"
	OpencodeToolUse    = "tool_use"
	OpencodeError      = "error"

	OpencodeReasonStop = "stop"
)

// Types of the events of signalbox oracle --json, and names of the system events that withdraw a
// reply.
const (
	OracleContent    = "content"
	OracleReasoning  = "reasoning"
	OracleToolCall   = "tool_call"
	OracleToolResult = "tool_result"
	OracleSources    = "sources"
	OracleSignal     = "signal"
	OracleSystem     = "system"
	OracleError      = "error"
	OracleDone       = "done"

	OracleReplyRestarted = "reply_restarted"
	OracleReplyCut       = "reply_cut"
)
