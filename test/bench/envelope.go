package main

import (
	"strconv"
	"unicode/utf8"

	"signalbox"
)

const (
	sessionID = "5a1f0c9e-7d43-4b8a-9f27-0c6d1e2b3a48"
	stamp     = "2026-03-14T09:26:53."
)

// envelope writes blocks as the lines that an agent program prints. All its methods append to dst.
// As the programs do, it uses only the escapes that JSON requires.
type envelope struct {
	format signalbox.Format
	// message numbers the agent's messages, and with them the ids of tools.
	message int
}

func (e *envelope) begin(dst []byte) []byte {
	switch e.format {
	case signalbox.FormatClaude:
		return append(dst, `{"type":"system","subtype":"init","cwd":"/home/build/project","session_id":"`+sessionID+
			`","tools":["Bash","Read","Edit","Grep"],"mcp_servers":[],"model":"claude-opus-4-1","permissionMode":"default",`+
			`"apiKeySource":"none","uuid":"`+sessionID+`"}`+"\n"...)
	case signalbox.FormatCodex:
		return append(dst, `{"type":"thread.started","thread_id":"`+sessionID+`"}`+"\n"+
			`{"type":"turn.started"}`+"\n"...)
	case signalbox.FormatGemini:
		return append(dst, `{"type":"init","timestamp":"`+stamp+`001Z","session_id":"`+sessionID+
			`","model":"gemini-2.5-pro"}`+"\n"...)
	}
	return dst
}

func (e *envelope) wrap(dst []byte, b block) []byte {
	if b.source == fromAgent {
		e.message++
	}
	switch e.format {
	case signalbox.FormatClaude:
		return e.claude(dst, b)
	case signalbox.FormatCodex:
		return e.codex(dst, b)
	case signalbox.FormatGemini:
		return e.gemini(dst, b)
	case signalbox.FormatOpencode:
		return e.opencode(dst, b)
	}
	return append(dst, b.text...)
}

func (e *envelope) end(dst []byte) []byte {
	switch e.format {
	case signalbox.FormatClaude:
		return append(dst, `{"type":"result","subtype":"success","is_error":false,"duration_ms":183022,"duration_api_ms":150113,`+
			`"num_turns":12,"result":"All done.","session_id":"`+sessionID+
			`","total_cost_usd":1.25,"usage":{"input_tokens":20,`+
			`"output_tokens":10},"permission_denials":[],"uuid":"`+sessionID+`"}`+"\n"...)
	case signalbox.FormatCodex:
		return append(dst, `{"type":"turn.completed","usage":{"input_tokens":20,"cached_input_tokens":0,`+
			`"cache_write_input_tokens":0,"output_tokens":10,"reasoning_output_tokens":0}}`+"\n"...)
	case signalbox.FormatGemini:
		return append(dst, `{"type":"result","timestamp":"`+stamp+
			`999Z","status":"success","stats":{"total_tokens":30,`+
			`"input_tokens":20,"output_tokens":10,"cached":0,"input":20,"duration_ms":241,"tool_calls":1}}`+"\n"...)
	case signalbox.FormatOpencode:
		return append(e.opencodePart(dst, "step_finish"),
			`"reason":"stop","type":"step-finish","tokens":{"total":15,"input":10,`+
				`"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}}`+"\n"...)
	}
	return dst
}

const claudeTail = `,"parent_tool_use_id":null,"session_id":"` + sessionID + `","uuid":"` +
	sessionID + `"}` + "\n"

// claudeText appends an assistant line up to its text, which claudeTextEnd closes.
func (e *envelope) claudeText(dst []byte) []byte {
	dst = e.claudeMessage(dst)
	return append(dst, `{"type":"text","text":"`...)
}

const claudeTextEnd = `"}` + claudeMessageEnd

func (e *envelope) claudeMessage(dst []byte) []byte {
	dst = append(dst, `{"type":"assistant","message":{"id":"msg_`...)
	dst = strconv.AppendInt(dst, int64(e.message), 10)
	return append(dst, `","type":"message","role":"assistant","model":"claude-opus-4-1","content":[`...)
}

const claudeMessageEnd = `],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":180,` +
	`"cache_read_input_tokens":24031,"output_tokens":211,"service_tier":"standard"}}` + claudeTail

// claudeResult appends the line of a tool result up to its text, which claudeResultEnd closes.
func (e *envelope) claudeResult(dst []byte) []byte {
	dst = append(dst, `{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_`...)
	dst = strconv.AppendInt(dst, int64(e.message), 10)
	return append(dst, `","type":"tool_result","content":"`...)
}

const claudeResultEnd = `","is_error":false}]}` + claudeTail

func (e *envelope) claude(dst []byte, b block) []byte {
	switch b.source {
	case fromAgent:
		dst = appendEscaped(e.claudeText(dst), b.text)
		return append(dst, claudeTextEnd...)
	case fromTool:
		dst = append(e.claudeMessage(dst), `{"type":"tool_use","id":"toolu_`...)
		dst = strconv.AppendInt(dst, int64(e.message), 10)
		dst = append(dst, `","name":"Bash","input":{"command":"make test","description":"run the tests"}}`+claudeMessageEnd...)
		dst = appendEscaped(e.claudeResult(dst), b.text)
		return append(dst, claudeResultEnd...)
	}
	dst = append(dst, `{"type":"user","message":{"role":"user","content":[{"type":"text","text":"`...)
	dst = appendEscaped(dst, b.text)
	return append(dst, `"}]}`+claudeTail...)
}

// codex appends nothing for the user, as codex does.
func (e *envelope) codex(dst []byte, b block) []byte {
	item := func(event, kind string) {
		dst = append(dst, `{"type":"`+event+`","item":{"id":"item_`...)
		dst = strconv.AppendInt(dst, int64(e.message), 10)
		dst = append(dst, `","type":"`+kind+`",`...)
	}
	switch b.source {
	case fromAgent:
		item("item.completed", "agent_message")
		dst = append(dst, `"text":"`...)
		dst = appendEscaped(dst, b.text)
		return append(dst, `"}}`+"\n"...)
	case fromTool:
		item("item.started", "command_execution")
		dst = append(dst, `"command":"/bin/bash -lc 'make test'","aggregated_output":"","exit_code":null,"status":"in_progress"}}`+"\n"...)
		item("item.completed", "command_execution")
		dst = append(dst, `"command":"/bin/bash -lc 'make test'","aggregated_output":"`...)
		dst = appendEscaped(dst, b.text)
		return append(dst, `","exit_code":0,"status":"completed"}}`+"\n"...)
	}
	return dst
}

// geminiDelta is the approximate length of the pieces in which a model's text arrives.
const geminiDelta = 160

func (e *envelope) gemini(dst []byte, b block) []byte {
	line := func(rest string) {
		dst = append(dst, `{"type":"`+rest...)
	}
	switch b.source {
	case fromAgent:
		for text := b.text; len(text) > 0; {
			n := cutAt(text, geminiDelta)
			line(`message","timestamp":"` + stamp + `100Z","role":"assistant","content":"`)
			dst = appendEscaped(dst, text[:n])
			dst = append(dst, `","delta":true}`+"\n"...)
			text = text[n:]
		}
		return dst
	case fromTool:
		line(`tool_use","timestamp":"` + stamp +
			`200Z","tool_name":"run_shell_command","tool_id":"run_shell_command_`)
		dst = strconv.AppendInt(dst, int64(e.message), 10)
		dst = append(dst, `","parameters":{"command":"make test"}}`+"\n"...)
		line(`tool_result","timestamp":"` + stamp + `300Z","tool_id":"run_shell_command_`)
		dst = strconv.AppendInt(dst, int64(e.message), 10)
		dst = append(dst, `","status":"success","output":"`...)
		dst = appendEscaped(dst, b.text)
		return append(dst, `"}`+"\n"...)
	}
	line(`message","timestamp":"` + stamp + `400Z","role":"user","content":"`)
	dst = appendEscaped(dst, b.text)
	return append(dst, `"}`+"\n"...)
}

// cutAt returns the largest length up to limit that does not split a rune.
func cutAt(text []byte, limit int) int {
	if len(text) <= limit {
		return len(text)
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return limit
}

func (e *envelope) opencodePart(dst []byte, event string) []byte {
	dst = append(dst, `{"type":"`+event+
		`","timestamp":1794703017094,"sessionID":"ses_e235d4","part":{"id":"prt_1d","messageID":"msg_`...)
	dst = strconv.AppendInt(dst, int64(e.message), 10)
	return append(dst, `","sessionID":"ses_e235d4",`...)
}

// opencode appends a tool's output twice and nothing for the user, as opencode does.
func (e *envelope) opencode(dst []byte, b block) []byte {
	switch b.source {
	case fromAgent:
		dst = append(e.opencodePart(dst, "step_start"), `"type":"step-start"}}`+"\n"...)
		dst = append(e.opencodePart(dst, "text"), `"type":"text","text":"`...)
		dst = appendEscaped(dst, b.text)
		return append(dst, `","time":{"start":1794703017050,"end":1794703017087}}}`+"\n"...)
	case fromTool:
		dst = append(e.opencodePart(dst, "tool_use"),
			`"type":"tool","tool":"bash","callID":"call_1","state":{"status":"completed",`+
				`"input":{"command":"make test","description":"run the tests"},"output":"`...)
		dst = appendEscaped(dst, b.text)
		dst = append(dst, `","metadata":{"output":"`...)
		dst = appendEscaped(dst, b.text)
		dst = append(dst, `","exit":0,"truncated":false},"title":"make test","time":{"start":1794703017075,"end":1794703017257}}}}`+"\n"...)
		return append(e.opencodePart(dst, "step_finish"),
			`"reason":"tool-calls","type":"step-finish","tokens":{"total":15,"input":10,`+
				`"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}}`+"\n"...)
	}
	return dst
}

// appendEscaped appends text as the inside of a JSON string.
func appendEscaped(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	start := 0
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[start:i]...)
		start = i + 1
		switch c {
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '"', '\\':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(dst, text[start:]...)
}
