package rehearsal

import (
	"fmt"
	"strings"
	"time"

	"signalbox"
	"signalbox/transcript/agentformat"
)

// codex encodes like codex exec --json.
type codex struct {
	jsonLines
	items int
	total signalbox.Usage // of all turns, which is what the program reports
	open  bool            // a turn is open
	tool  codexItem
}

type codexEvent struct {
	Type     string      `json:"type"`
	ThreadID string      `json:"thread_id,omitempty"`
	Item     any         `json:"item,omitempty"`
	Message  string      `json:"message,omitempty"`
	Error    *codexError `json:"error,omitempty"`
	Usage    *codexUsage `json:"usage,omitempty"`
}

type codexError struct {
	Message string `json:"message"`
}

type codexUsage struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
	Reasoning  int64 `json:"reasoning_output_tokens"`
}

type codexItem struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

type codexText struct {
	codexItem
	Text string `json:"text"`
}

type codexCommand struct {
	codexItem
	Command  string `json:"command"`
	Output   string `json:"aggregated_output"`
	ExitCode *int   `json:"exit_code"`
	Status   string `json:"status"`
}

type codexFileChange struct {
	codexItem
	Changes []codexChange `json:"changes"`
	Status  string        `json:"status"`
}

type codexChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

func (e *codex) begin() {
	e.event(codexEvent{Type: agentformat.CodexThreadStarted, ThreadID: e.thread()})
}

// inTurn begins a turn if none is open.
func (e *codex) inTurn() {
	if !e.open {
		e.open = true
		e.event(codexEvent{Type: agentformat.CodexTurnStarted})
	}
}

func (e *codex) item(kind string) codexItem {
	e.inTurn()
	e.items++
	return codexItem{fmt.Sprintf("item_%d", e.items-1), kind}
}

func (e *codex) text(s string) { e.message(s) }

func (e *codex) message(s string) {
	e.event(codexEvent{Type: agentformat.CodexItemCompleted,
		Item: codexText{e.item(agentformat.CodexAgentMessage), s}})
}

func (e *codex) thinking(s string) {
	e.event(codexEvent{Type: agentformat.CodexItemCompleted,
		Item: codexText{e.item(agentformat.CodexReasoning), s}})
}

func (e *codex) toolStart(t tool) {
	if t.kind == toolWrite || t.kind == toolEdit {
		e.tool = e.item(agentformat.CodexFileChange)
		e.event(codexEvent{Type: agentformat.CodexItemStarted, Item: e.change(t, "in_progress")})
		return
	}
	e.tool = e.item(agentformat.CodexCommand)
	e.event(codexEvent{Type: agentformat.CodexItemStarted,
		Item: codexCommand{e.tool, bash(t.shell()), "", nil, "in_progress"}})
}

func (e *codex) toolEnd(t tool) {
	if t.kind == toolWrite || t.kind == toolEdit {
		e.event(codexEvent{Type: agentformat.CodexItemCompleted, Item: e.change(t, "completed")})
		return
	}
	status := "completed"
	if t.status != 0 {
		status = "failed"
	}
	e.event(codexEvent{Type: agentformat.CodexItemCompleted,
		Item: codexCommand{e.tool, bash(t.shell()), t.output, &t.status, status}})
}

func (e *codex) change(t tool, status string) codexFileChange {
	kind := "update"
	if t.added {
		kind = "add"
	}
	return codexFileChange{e.tool, []codexChange{{t.file, kind}}, status}
}

// bash returns the command as the program passes it to the shell.
func bash(command string) string {
	return "/bin/bash -lc '" + strings.ReplaceAll(command, "'", `'\''`) + "'"
}

func (e *codex) endTurn() {
	e.inTurn()
	addUsage(&e.total, e.takeUsage())
	u := e.total
	e.event(codexEvent{Type: agentformat.CodexTurnCompleted,
		Usage: &codexUsage{Input: u.InputTokens, Cached: u.CachedInputTokens,
			Output: u.OutputTokens}})
	e.open = false
}

func (e *codex) rateLimit(until time.Time) {
	e.inTurn()
	e.event(codexEvent{Type: agentformat.CodexError, Message: limitMessage(until)})
	e.event(codexEvent{Type: agentformat.CodexTurnFailed, Error: &codexError{limitMessage(until)}})
	e.open = false
}
