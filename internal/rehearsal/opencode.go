package rehearsal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"signalbox/transcript/agentformat"
)

// opencode encodes like opencode run --format json: in steps that end after a tool or with the
// turn.
type opencode struct {
	jsonLines
	step    string // the message id of the open step, or ""
	calls   int
	started int64
}

const (
	tooManyRequests = 429
	httpDate        = "Mon, 02 Jan 2006 15:04:05 GMT"
)

type opencodeEvent struct {
	Type      string         `json:"type"`
	Timestamp int64          `json:"timestamp"`
	SessionID string         `json:"sessionID"`
	Part      any            `json:"part,omitempty"`
	Error     *opencodeError `json:"error,omitempty"`
}

type opencodePart struct {
	ID        string `json:"id"`
	MessageID string `json:"messageID"`
	SessionID string `json:"sessionID"`
	Type      string `json:"type"`
}

type opencodeText struct {
	opencodePart
	Text string       `json:"text"`
	Time opencodeTime `json:"time"`
}

type opencodeTime struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

type opencodeTool struct {
	opencodePart
	Tool   string        `json:"tool"`
	CallID string        `json:"callID"`
	State  opencodeState `json:"state"`
}

type opencodeState struct {
	Status   string            `json:"status"`
	Input    map[string]string `json:"input"`
	Output   string            `json:"output"`
	Metadata opencodeMetadata  `json:"metadata"`
	Title    string            `json:"title"`
	Time     opencodeTime      `json:"time"`
}

type opencodeMetadata struct {
	Output    string `json:"output"`
	Exit      int    `json:"exit"`
	Truncated bool   `json:"truncated"`
}

type opencodeFinish struct {
	opencodePart
	Reason string         `json:"reason"`
	Tokens opencodeTokens `json:"tokens"`
	Cost   float64        `json:"cost"`
}

type opencodeTokens struct {
	Total     int64         `json:"total"`
	Input     int64         `json:"input"`
	Output    int64         `json:"output"`
	Reasoning int64         `json:"reasoning"`
	Cache     opencodeCache `json:"cache"`
}

type opencodeCache struct {
	Write int64 `json:"write"`
	Read  int64 `json:"read"`
}

type opencodeError struct {
	Name string            `json:"name"`
	Data opencodeErrorData `json:"data"`
}

type opencodeErrorData struct {
	Message    string            `json:"message"`
	StatusCode int               `json:"statusCode"`
	Retryable  bool              `json:"isRetryable"`
	Headers    map[string]string `json:"responseHeaders"`
	Body       string            `json:"responseBody"`
	Metadata   map[string]string `json:"metadata"`
}

func (e *opencode) millis() int64 { return e.now().UnixMilli() }

func (e *opencode) session() string {
	if e.resumed != "" {
		return e.resumed
	}
	return "ses_" + e.digest("session")[:26]
}

func (e *opencode) part(kind string) opencodePart {
	return opencodePart{e.id("prt_"), e.step, e.session(), kind}
}

func (e *opencode) emit(kind string, part any) {
	e.event(opencodeEvent{Type: kind, Timestamp: e.millis(), SessionID: e.session(), Part: part})
}

// inStep begins a step if none is open.
func (e *opencode) inStep() {
	if e.step == "" {
		e.step = e.id("msg_")
		e.emit(agentformat.OpencodeStepStart, e.part("step-start"))
	}
}

func (e *opencode) finish(reason string) {
	u := e.takeUsage()
	tokens := opencodeTokens{Total: u.InputTokens + u.OutputTokens, Input: u.InputTokens,
		Output: u.OutputTokens,
		Cache:  opencodeCache{Read: u.CachedInputTokens}}
	e.emit(agentformat.OpencodeStepFinish, opencodeFinish{e.part("step-finish"), reason, tokens,
		u.CostUSD})
	e.step = ""
}

func (e *opencode) text(s string) { e.message(s) }

func (e *opencode) message(s string) {
	e.inStep()
	e.emit(agentformat.OpencodeText,
		opencodeText{e.part("text"), s, opencodeTime{e.millis(), e.millis()}})
}

func (e *opencode) thinking(s string) {
	e.inStep()
	e.emit(agentformat.OpencodeReasoning,
		opencodeText{e.part("reasoning"), s, opencodeTime{e.millis(), e.millis()}})
}

// subagent uses a separate session.
func (e *opencode) subagent(s string) {
	e.inStep()
	text := opencodeText{e.part("text"), s, opencodeTime{e.millis(), e.millis()}}
	text.SessionID = "ses_" + e.digest("sub-agent")[:26]
	e.event(opencodeEvent{Type: agentformat.OpencodeText, Timestamp: e.millis(),
		SessionID: text.SessionID, Part: text})
}

func (e *opencode) toolStart(tool) {
	e.inStep()
	e.started = e.millis()
}

func (e *opencode) toolEnd(t tool) {
	name, input := t.call([4]string{"bash", "read", "write", "edit"}, "filePath", "oldString",
		"newString")
	if t.kind == toolRun {
		input["description"] = "run a command"
	}
	e.calls++
	e.emit(agentformat.OpencodeToolUse, opencodeTool{e.part("tool"), name, "call_" +
		strconv.Itoa(e.calls), opencodeState{"completed", input,
		t.output, opencodeMetadata{t.output, t.status, false}, t.shell(),
		opencodeTime{e.started, e.millis()}}})
	e.finish("tool-calls")
}

func (e *opencode) endTurn() {
	e.inStep()
	e.finish(agentformat.OpencodeReasonStop)
}

func (e *opencode) rateLimit(until time.Time) {
	headers := map[string]string{"content-type": "application/json",
		"date": e.now().UTC().Format(httpDate)}
	if !until.IsZero() {
		headers["retry-after"] = fmt.Sprint(int(until.Sub(e.now()).Round(time.Second).Seconds()))
	}
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": tooManyRequests,
		"message": limitMessage(until)}})
	e.event(opencodeEvent{Type: agentformat.OpencodeError, Timestamp: e.millis(),
		SessionID: e.session(), Error: &opencodeError{"APIError",
			opencodeErrorData{limitMessage(until), tooManyRequests, true, headers, string(body),
				map[string]string{"url": "http://127.0.0.1/v1/chat/completions"}}}})
	e.step = ""
}
