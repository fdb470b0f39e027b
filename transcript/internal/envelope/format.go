package envelope

import (
	"bytes"
	"strconv"
	"time"

	"signalbox"
	"signalbox/transcript/agentformat"
	"signalbox/transcript/internal/lines"
)

// format is how one agent program writes JSON lines.
type format struct {
	schema *schema
	// types are the known event types, parts the known content types.
	types, parts map[string]bool
	// mayBeOwn reports whether a text that starts may be the agent's own, as far as the line is known.
	mayBeOwn func(d *decoder, id fieldID) bool
	// isOwn reports whether the text of a complete line is the agent's own.
	isOwn func(d *decoder) bool
	// continuesMessage reports whether the text of the line continues the previous message. As long as the line has not
	// said so, assume that it does, because then an open fence stays open.
	continuesMessage func(d *decoder) bool
	// mayBeError reports whether a text that starts may be an error message. Nil means that none is.
	mayBeError func(d *decoder, id fieldID) bool
	// mayWithdraw is set if the program may withdraw a message.
	mayWithdraw bool
	// handle acts on a complete line.
	handle func(d *decoder)
}

var formats = map[signalbox.Format]*format{
	signalbox.FormatClaude:   claudeFormat(),
	signalbox.FormatCodex:    codexFormat(),
	signalbox.FormatGemini:   geminiFormat(),
	signalbox.FormatOpencode: opencodeFormat(),
	signalbox.FormatOracle:   oracleFormat(),
}

func set(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

func claudeFormat() *format {
	return &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "subtype": fieldSubtype, "parent_tool_use_id": fieldParent,
			"message.id": fieldMessageID, "message.content[]": fieldPart,
			"message.content[].type": fieldPartType, "message.content[].text": fieldText,
			"message.usage.input_tokens":            fieldMessageInput,
			"message.usage.cache_read_input_tokens": fieldMessageCached,
			"message.usage.output_tokens":           fieldMessageOutput,
			"result":                                fieldResult, "is_error": fieldIsError,
			"usage.input_tokens": fieldInput, "usage.cache_read_input_tokens": fieldCached,
			"usage.output_tokens": fieldOutput, "total_cost_usd": fieldCost,
			"rate_limit_info.status": fieldLimitStatus, "rate_limit_info.resetsAt": fieldLimitReset,
		}, []string{"message.content[].text", "result"}, `
			uuid session_id event error timestamp isReplay isSynthetic tool_use_result request_id
			cwd tools mcp_servers model permissionMode slash_commands apiKeySource output_style agents skills plugins
			claude_code_version betas fast_mode_state memory_paths
			hook_id hook_name hook_event stdout stderr output exit_code outcome
			task_id tool_use_id description task_type summary status compact_metadata prompt patch last_tool_name workflow_name
			duration_ms duration_api_ms num_turns modelUsage permission_denials structured_output errors stop_reason
			terminal_reason api_error_status ttft_ms tool_name elapsed_time_seconds preceding_tool_use_ids`),
		types: set(agentformat.ClaudeSystem, agentformat.ClaudeAssistant, agentformat.ClaudeUser, agentformat.ClaudeResult,
			agentformat.ClaudeStreamEvent, agentformat.ClaudeRateLimit, "tool_progress", "tool_use_summary",
			"auth_status", "control_request", "control_response", "control_cancel_request", "keep_alive",
			"prompt_suggestion"),
		parts: set(agentformat.ClaudeText, agentformat.ClaudeThinking, "redacted_thinking", agentformat.ClaudeToolUse,
			agentformat.ClaudeToolResult, "server_tool_use", "web_search_tool_result", "web_fetch_tool_result",
			"code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result",
			"mcp_tool_use", "mcp_tool_result", "image", "document", "search_result", "container_upload"),
		mayBeOwn: func(d *decoder, id fieldID) bool {
			if id == fieldResult {
				return !d.hasSpoken && !d.isNot(fieldType, agentformat.ClaudeResult) && !d.is(fieldIsError, "true")
			}
			return !d.isNot(fieldType, agentformat.ClaudeAssistant) && !d.isNot(fieldParent, "null") && !d.isNot(fieldPartType, agentformat.ClaudeText)
		},
		isOwn: func(d *decoder) bool {
			if d.is(fieldType, agentformat.ClaudeResult) {
				return !d.hasSpoken && !d.is(fieldIsError, "true")
			}
			return d.is(fieldType, agentformat.ClaudeAssistant) && !d.isNot(fieldParent, "null")
		},
		continuesMessage: func(d *decoder) bool {
			id := d.values[fieldMessageID]
			return !id.set && !d.complete || id.set && len(id.value) > 0 && bytes.Equal(id.value, d.messageID)
		},
		mayBeError: func(_ *decoder, id fieldID) bool { return id == fieldResult },
		handle:     handleClaude,
	}
}

func handleClaude(d *decoder) {
	switch string(d.values[fieldType].value) {
	case agentformat.ClaudeAssistant:
		id := d.values[fieldMessageID]
		if !id.set {
			id.value = nil
		}
		d.usage.countMessage(id.value, signalbox.Usage{InputTokens: d.count(fieldMessageInput),
			CachedInputTokens: d.count(fieldMessageCached), OutputTokens: d.count(fieldMessageOutput)})
		if d.isNot(fieldParent, "null") {
			break
		}
		if d.committed {
			d.messageID = append(d.messageID[:0], id.value...)
		} else if !bytes.Equal(id.value, d.messageID) {
			d.endMessage()
		}
		if d.hasTool { // which may take long
			d.out.Pause()
		}
	case agentformat.ClaudeUser:
		if !d.isNot(fieldParent, "null") {
			d.out.Pause()
		}
	case agentformat.ClaudeResult:
		if d.values[fieldInput].set || d.values[fieldOutput].set {
			d.usage.turn = d.tokens()
		}
		// The cost is that of the whole stream so far.
		d.usage.turn.CostUSD = max(0, d.amount(fieldCost)-d.usage.ended.CostUSD)
		message := d.result
		if len(message) == 0 && d.values[fieldSubtype].set {
			message = d.values[fieldSubtype].value
		}
		d.endTurn(d.is(fieldIsError, "true"), message)
	case agentformat.ClaudeRateLimit:
		d.rateLimited()
	}
}

func (d *decoder) rateLimited() {
	limit := signalbox.RateLimit{Status: "unknown"}
	if v := d.values[fieldLimitStatus]; v.set {
		limit.Status = lines.Valid(v.value)
	}
	if v := d.values[fieldLimitReset]; v.set {
		limit.ResetsAt = resetTime(string(v.value))
	}
	d.limited(limit)
}

func (d *decoder) limited(limit signalbox.RateLimit) {
	d.report.RateLimit = limit
	detail := "status " + limit.Status
	if !limit.ResetsAt.IsZero() {
		detail += ", resets at " + limit.ResetsAt.Format(time.RFC3339)
	}
	d.remark(remark{signalbox.ReasonRateLimited, limit.Status, detail})
}

// resetTime reads a time given in seconds or milliseconds remarksSince 1970, or in RFC 3339.
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

func codexFormat() *format {
	isMessage := func(d *decoder) bool {
		return d.is(fieldType, agentformat.CodexItemCompleted) && d.is(fieldPartType, agentformat.CodexAgentMessage)
	}
	return &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "item.type": fieldPartType, "item.text": fieldText, "error.message": fieldError,
			"usage.input_tokens": fieldInput, "usage.cached_input_tokens": fieldCached, "usage.output_tokens": fieldOutput,
		}, []string{"item.text"}, "thread_id message"),
		types: set(agentformat.CodexThreadStarted, agentformat.CodexTurnStarted, agentformat.CodexTurnCompleted,
			agentformat.CodexTurnFailed, agentformat.CodexItemStarted, agentformat.CodexItemUpdated,
			agentformat.CodexItemCompleted, agentformat.CodexError),
		parts: set(agentformat.CodexAgentMessage, agentformat.CodexReasoning, agentformat.CodexCommand,
			agentformat.CodexFileChange, agentformat.CodexMCPToolCall, agentformat.CodexCollabCall,
			agentformat.CodexWebSearch, "todo_list", agentformat.CodexError),
		mayBeOwn: func(d *decoder, _ fieldID) bool {
			return !d.isNot(fieldType, agentformat.CodexItemCompleted) && !d.isNot(fieldPartType, agentformat.CodexAgentMessage)
		},
		isOwn:            isMessage,
		continuesMessage: func(*decoder) bool { return false },
		handle: func(d *decoder) {
			if d.values[fieldPartType].set && !d.format.parts[string(d.values[fieldPartType].value)] {
				d.drifted("item type", d.values[fieldPartType].value)
			}
			d.endMessage()
			switch string(d.values[fieldType].value) {
			case agentformat.CodexTurnStarted:
				d.report.Ended = false
			case agentformat.CodexTurnCompleted:
				d.usage.turn = d.tokens()
				d.endTurn(false, nil)
			case agentformat.CodexTurnFailed:
				d.endTurn(true, d.values[fieldError].value)
			}
		},
	}
}

func geminiFormat() *format {
	isOwn := func(d *decoder) bool {
		return d.is(fieldType, agentformat.GeminiMessage) && d.is(fieldRole, agentformat.GeminiAssistant)
	}
	return &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "role": fieldRole, "content": fieldText, "delta": fieldDelta, "status": fieldStatus,
			"error.message": fieldError, "stats.input_tokens": fieldInput, "stats.cached": fieldCached,
			"stats.output_tokens": fieldOutput,
		}, []string{"content"}, "timestamp session_id model tool_name tool_id parameters output severity message"),
		types: set(agentformat.GeminiInit, agentformat.GeminiMessage, agentformat.GeminiToolUse,
			agentformat.GeminiToolResult, agentformat.GeminiError, agentformat.GeminiResult),
		mayBeOwn: func(d *decoder, _ fieldID) bool {
			return !d.isNot(fieldType, agentformat.GeminiMessage) && !d.isNot(fieldRole, agentformat.GeminiAssistant)
		},
		isOwn:            isOwn,
		continuesMessage: func(d *decoder) bool { return d.is(fieldDelta, "true") || !d.values[fieldDelta].set && !d.complete },
		handle: func(d *decoder) {
			if isOwn(d) {
				return
			}
			d.endMessage()
			if d.is(fieldType, agentformat.GeminiResult) {
				d.usage.turn = d.tokens()
				d.endTurn(d.is(fieldStatus, agentformat.GeminiStatusError), d.values[fieldError].value)
			}
		},
	}
}

func opencodeFormat() *format {
	isOwn := func(d *decoder) bool {
		return d.is(fieldType, agentformat.OpencodeText) && (len(d.session) == 0 || !d.isNot(fieldSession, string(d.session)))
	}
	return &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "sessionID": fieldSession, "part.text": fieldText, "part.reason": fieldReason,
			"part.tokens.input": fieldInput, "part.tokens.cache.read": fieldCached, "part.tokens.output": fieldOutput,
			"part.cost": fieldCost, "error.name": fieldError, "error.data.message": fieldError,
		}, []string{"part.text"}, "timestamp"),
		types: set(agentformat.OpencodeStepStart, agentformat.OpencodeStepFinish, agentformat.OpencodeText,
			agentformat.OpencodeToolUse, agentformat.OpencodeReasoning, agentformat.OpencodeError),
		mayBeOwn:         func(d *decoder, _ fieldID) bool { return !d.isNot(fieldType, agentformat.OpencodeText) },
		isOwn:            isOwn,
		continuesMessage: func(*decoder) bool { return false },
		handle: func(d *decoder) {
			if v := d.values[fieldSession]; len(d.session) == 0 && v.set {
				d.session = append(d.session, v.value...)
			}
			d.endMessage()
			if len(d.session) > 0 && d.isNot(fieldSession, string(d.session)) {
				return
			}
			switch string(d.values[fieldType].value) {
			case agentformat.OpencodeStepStart:
				d.report.Ended = false
			case agentformat.OpencodeStepFinish:
				usage := d.tokens()
				usage.CostUSD = d.amount(fieldCost)
				add(&d.usage.turn, usage)
				// More may follow within moments, so the turn itself ends with the stream.
				if d.is(fieldReason, agentformat.OpencodeReasonStop) {
					d.reportEnd(false, nil)
				}
			case agentformat.OpencodeError:
				d.reportEnd(true, d.values[fieldError].value)
			}
		},
	}
}
