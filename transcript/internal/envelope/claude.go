package envelope

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"signalbox"
	"signalbox/transcript/agentformat"
	"signalbox/transcript/internal/lines"
)

func claudeFormat() *format {
	return &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "subtype": fieldSubtype, "parent_tool_use_id": fieldParent,
			"session_id": fieldSession, "uuid": fieldUUID, "isReplay": fieldReplay,
			"message.id": fieldMessageID, "message.content[]": fieldPart,
			"message.content[].type": fieldPartType, "message.content[].text": fieldText,
			"message.usage.input_tokens":                fieldMessageInput,
			"message.usage.cache_read_input_tokens":     fieldMessageCached,
			"message.usage.output_tokens":               fieldMessageOutput,
			"message.usage.cache_creation_input_tokens": fieldMessageCacheWrite,
			"usage.cache_creation_input_tokens":         fieldCacheWrite,
			"model":                                     fieldModel, "message.model": fieldModel,
			"result": fieldResult, "is_error": fieldIsError, "api_error_status": fieldErrorStatus,
			"error_status": fieldErrorStatus, "retry_delay_ms": fieldRetryDelay,
			"attempt":            fieldAttempt,
			"usage.input_tokens": fieldInput, "usage.cache_read_input_tokens": fieldCached,
			"usage.output_tokens": fieldOutput, "total_cost_usd": fieldCost,
			"rate_limit_info.status": fieldLimitStatus, "rate_limit_info.resetsAt": fieldLimitReset,
		}, []string{"message.content[].text", "result"}, `
			event error timestamp isSynthetic tool_use_result request_id
			cwd tools mcp_servers permissionMode slash_commands apiKeySource output_style agents skills plugins
			claude_code_version betas fast_mode_state memory_paths
			hook_id hook_name hook_event stdout stderr output exit_code outcome
			task_id tool_use_id description task_type summary status compact_metadata prompt patch last_tool_name workflow_name
			max_retries duration_ms duration_api_ms num_turns modelUsage permission_denials structured_output errors stop_reason
			terminal_reason ttft_ms tool_name elapsed_time_seconds preceding_tool_use_ids`),
		types: set(agentformat.ClaudeSystem, agentformat.ClaudeAssistant, agentformat.ClaudeUser,
			agentformat.ClaudeResult,
			agentformat.ClaudeStreamEvent, agentformat.ClaudeRateLimit, "tool_progress",
			"tool_use_summary",
			"auth_status", "control_request", "control_response", "control_cancel_request",
			"keep_alive",
			"prompt_suggestion"),
		parts: set(agentformat.ClaudeText, agentformat.ClaudeThinking, "redacted_thinking",
			agentformat.ClaudeToolUse,
			agentformat.ClaudeToolResult, "server_tool_use", "web_search_tool_result",
			"web_fetch_tool_result",
			"code_execution_tool_result", "bash_code_execution_tool_result",
			"text_editor_code_execution_tool_result",
			"mcp_tool_use", "mcp_tool_result", "image", "document", "search_result",
			"container_upload"),
		mayBeOwn: func(d *decoder, id fieldID) bool {
			if id == fieldResult {
				return !d.hasSpoken && !d.isNot(fieldType, agentformat.ClaudeResult) &&
					!d.is(fieldIsError, "true")
			}
			return !d.isNot(fieldType, agentformat.ClaudeAssistant) &&
				!d.isNot(fieldParent, "null") && !d.isNot(fieldPartType, agentformat.ClaudeText)
		},
		isOwn: func(d *decoder) bool {
			if d.is(fieldType, agentformat.ClaudeResult) {
				return !d.hasSpoken && d.hasSucceeded()
			}
			return d.is(fieldType, agentformat.ClaudeAssistant) && !d.isNot(fieldParent, "null")
		},
		session: sessionInEveryLine,
		speaks:  set(agentformat.ClaudeAssistant, agentformat.ClaudeResult),
		refuse:  refuseClaude,
		continuesMessage: func(d *decoder) bool {
			id := d.values[fieldMessageID]
			return !id.set && !d.complete || id.set && len(id.value) > 0 &&
				bytes.Equal(id.value, d.messageID)
		},
		mayBeError: func(_ *decoder, id fieldID) bool { return id == fieldResult },
		handle:     handleClaude,
	}
}

// refuseClaude returns why a line of the agent's session is not its own. Sub-agents write into the
// same session; their lines have the tool call that started them as parent.
func refuseClaude(d *decoder) signalbox.Reason {
	typ := string(d.values[fieldType].value)
	names := d.values[fieldParent].set
	fromParent := names && !d.isLiteral(fieldParent, "null")
	switch typ {
	case agentformat.ClaudeAssistant, agentformat.ClaudeUser:
		fromParent = fromParent || !names && d.seenParent
		d.seenParent = d.seenParent || names
	}
	switch {
	case fromParent:
		return signalbox.ReasonSubAgent
	case d.values[fieldReplay].set && !d.isLiteral(fieldReplay, "false") &&
		!d.isLiteral(fieldReplay, "null"):
		return signalbox.ReasonReplayed
	}
	if id := d.values[fieldUUID]; typ == agentformat.ClaudeAssistant && d.notBlank && id.set &&
		d.texts.isRepeated(d.text, id.value) {
		return signalbox.ReasonReplayed
	}
	return ""
}

// hasSucceeded reports whether a result is one of success. A failed turn may have the subtype
// success too.
func (d *decoder) hasSucceeded() bool {
	failed := d.values[fieldIsError].set && !d.isLiteral(fieldIsError, "false")
	return d.is(fieldSubtype, agentformat.ClaudeSuccess) && d.values[fieldSubtype].quoted && !failed
}

func handleClaude(d *decoder) {
	switch string(d.values[fieldType].value) {
	case agentformat.ClaudeAssistant:
		id := d.values[fieldMessageID]
		if !id.set {
			id.value = nil
		}
		d.usage.countMessage(id.value, signalbox.Usage{InputTokens: d.count(fieldMessageInput),
			CachedInputTokens: d.count(fieldMessageCached),
			CacheWriteTokens:  d.count(fieldMessageCacheWrite),
			OutputTokens:      d.count(fieldMessageOutput)})
		if d.refused != "" {
			break
		}
		d.report.Ended, d.report.Retrying = false, ""
		if d.committed {
			d.messageID = append(d.messageID[:0], id.value...)
		} else if !bytes.Equal(id.value, d.messageID) {
			d.endMessage()
		}
		if d.hasTool { // the tool may take long
			d.out.Pause()
		}
	case agentformat.ClaudeUser:
		if d.refused == "" {
			d.report.Ended, d.report.Retrying = false, ""
			d.out.Pause()
		}
	case agentformat.ClaudeResult:
		if d.refused != "" {
			break
		}
		if d.values[fieldInput].set || d.values[fieldOutput].set {
			d.usage.turn = d.tokens()
		}
		// The reported cost is that of the whole stream so far.
		d.usage.turn.CostUSD = max(0, d.amount(fieldCost)-d.usage.ended.CostUSD)
		message := d.result
		if len(message) == 0 && d.values[fieldSubtype].set {
			message = d.values[fieldSubtype].value
		}
		d.endTurn(!d.hasSucceeded(), message)
	case agentformat.ClaudeRateLimit:
		d.rateLimited()
	case agentformat.ClaudeSystem:
		if d.is(fieldSubtype, agentformat.ClaudeRetry) && d.refused == "" {
			d.report.Retrying = d.retry()
		}
	}
}

// retry describes, in the words of claude's last error, a request that it is about to repeat.
func (d *decoder) retry() string {
	pause := float64(min(d.count(fieldRetryDelay), maxRetryDelay)) / 1000
	what := "Connection error"
	if status := d.count(fieldErrorStatus); status > 0 {
		what = strconv.FormatInt(min(status, maxStatus), 10)
	}
	return fmt.Sprintf("API Error: %s (attempt %d); retry in %ss", what, d.count(fieldAttempt),
		strconv.FormatFloat(pause, 'f', -1, 64))
}

// maxRetryDelay is a year, in milliseconds.
const maxRetryDelay = 365 * 24 * 60 * 60 * 1000

// rateLimited reports the rate limit in a line of claude.
func (d *decoder) rateLimited() {
	limit := signalbox.RateLimit{Status: "unknown"}
	if v := d.values[fieldLimitStatus]; v.set {
		limit.Status = lines.Valid(v.value)
	}
	if v := d.values[fieldLimitReset]; v.set {
		limit.ResetsAt = resetTime(string(v.value))
	}
	d.reportLimit(limit)
}

func (d *decoder) reportLimit(limit signalbox.RateLimit) {
	d.report.RateLimit = limit
	detail := "status " + limit.Status
	if !limit.ResetsAt.IsZero() {
		detail += ", resets at " + limit.ResetsAt.Format(time.RFC3339)
	}
	d.remark(remark{signalbox.ReasonRateLimited, limit.Status, detail})
}

// resetTime parses a time in seconds or milliseconds after 1970, or in RFC 3339. It returns the
// zero time for anything else.
func resetTime(s string) time.Time {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC()
	}
	n, err := strconv.ParseInt(s, 10, 64)
	const year9999, milliseconds = 253402300799, 100_000_000_000
	switch {
	case err != nil || n <= 0 || n/1000 > year9999:
		return time.Time{}
	case n > milliseconds:
		return time.UnixMilli(n).UTC()
	}
	return time.Unix(n, 0).UTC()
}
