package rehearsal

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"signalbox"
)

// encoder encodes what an agent does in one format. Its methods add to the output that take
// returns. They do no I/O.
type encoder interface {
	// begin adds what the program writes at the start.
	begin()
	// text adds a message of the agent.
	text(s string)
	// message is like text, but always adds a single event.
	message(s string)
	// thinking and subagent add text in which signals are ignored. Formats without such text omit
	// it.
	thinking(s string)
	subagent(s string)
	// toolStart precedes the use of a tool. toolEnd follows it, with its output.
	toolStart(t tool)
	toolEnd(t tool)
	// usage adds to the usage that is reported next.
	usage(u signalbox.Usage)
	// endTurn ends the turn successfully. Whatever follows begins another turn.
	endTurn()
	// rateLimit ends the turn because of a rate limit until a time. Zero means that the time is
	// unknown.
	rateLimit(until time.Time)
	// take returns the output since the last call.
	take() []byte
}

// agentInfo is what encoders write about the agent.
type agentInfo struct {
	session string
	resumed string // the id of the program's session that it continues; "" for a new one
	dir     string
	prompt  string
	now     func() time.Time
}

func newEncoder(s agentInfo, format signalbox.Format) encoder {
	switch format {
	case signalbox.FormatClaude:
		return &claude{jsonLines: jsonLines{agentInfo: s}}
	case signalbox.FormatCodex:
		return &codex{jsonLines: jsonLines{agentInfo: s}}
	case signalbox.FormatGemini:
		return &gemini{jsonLines: jsonLines{agentInfo: s}}
	case signalbox.FormatOpencode:
		return &opencode{jsonLines: jsonLines{agentInfo: s}}
	}
	return &plain{}
}

// tool is one use of a tool.
type tool struct {
	kind          toolKind
	file          string // except for toolRun
	command       string // of toolRun
	before, after string // of an edit; a write has only after
	added         bool   // the file is new
	output        string
	status        int
}

type toolKind int

const (
	toolRun toolKind = iota
	toolRead
	toolWrite
	toolEdit
)

// call returns the name and the arguments of a call of the tool. names are those of the kinds, in
// their order, and keys those of the file, its old text and its new text.
func (t tool) call(names [4]string, file, before, after string) (string, map[string]string) {
	arguments := map[string]string{file: t.file}
	switch t.kind {
	case toolRun:
		arguments = map[string]string{"command": t.command}
	case toolWrite:
		arguments["content"] = t.after
	case toolEdit:
		arguments[before], arguments[after] = t.before, t.after
	}
	return names[t.kind], arguments
}

// shell returns a command that is equivalent to the tool, for display.
func (t tool) shell() string {
	switch t.kind {
	case toolRead:
		return "cat " + t.file
	case toolRun:
		return t.command
	}
	return "edit " + t.file
}

// plain encodes plain text. A reader takes all text for the agent's own, so the output of tools is
// in code fences.
type plain struct{ buf bytes.Buffer }

func (e *plain) begin()                    {}
func (e *plain) text(s string)             { e.buf.WriteString(s) }
func (e *plain) message(s string)          { e.buf.WriteString(s) }
func (e *plain) thinking(string)           {}
func (e *plain) subagent(string)           {}
func (e *plain) toolStart(tool)            {}
func (e *plain) usage(signalbox.Usage)     {}
func (e *plain) endTurn()                  {}
func (e *plain) rateLimit(until time.Time) {}
func (e *plain) take() []byte              { return take(&e.buf) }

func (e *plain) toolEnd(t tool) {
	fmt.Fprintf(&e.buf, "%s\n(exit status %d)\n", fenced("$ "+t.shell()+"\n"+t.output), t.status)
}

func take(buf *bytes.Buffer) []byte {
	out := bytes.Clone(buf.Bytes())
	buf.Reset()
	return out
}

// jsonLines is the common part of the other encoders. Its text that is not the agent's own, and its
// beginning, are empty.
type jsonLines struct {
	agentInfo
	buf        bytes.Buffer
	ids        int
	unreported signalbox.Usage
}

func (e *jsonLines) take() []byte    { return take(&e.buf) }
func (e *jsonLines) begin()          {}
func (e *jsonLines) thinking(string) {}
func (e *jsonLines) subagent(string) {}

func (e *jsonLines) usage(u signalbox.Usage) { addUsage(&e.unreported, u) }

func addUsage(to *signalbox.Usage, u signalbox.Usage) {
	to.InputTokens += u.InputTokens
	to.CachedInputTokens += u.CachedInputTokens
	to.OutputTokens += u.OutputTokens
	to.CostUSD += u.CostUSD
}

// takeUsage returns the unreported usage and resets it.
func (e *jsonLines) takeUsage() signalbox.Usage {
	u := e.unreported
	e.unreported = signalbox.Usage{}
	return u
}

func (e *jsonLines) event(v any) {
	enc := json.NewEncoder(&e.buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // events contain only strings and finite numbers
	}
}

// digest returns 32 hexadecimal digits that are the same each time the session is played.
func (e *jsonLines) digest(what string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(e.session+"\x00"+what)))[:32]
}

// id returns a new id.
func (e *jsonLines) id(prefix string) string {
	e.ids++
	return prefix + e.digest(fmt.Sprint(e.ids))[:24]
}

func (e *jsonLines) uuid(what string) string {
	d := e.digest(what)
	return strings.Join([]string{d[:8], d[8:12], d[12:16], d[16:20], d[20:]}, "-")
}

// thread returns the id of the program's session.
func (e *jsonLines) thread() string {
	if e.resumed != "" {
		return e.resumed
	}
	return e.uuid("session")
}

func (e *jsonLines) nextUUID() string {
	e.ids++
	return e.uuid(fmt.Sprint(e.ids))
}

// limitMessage returns the message of a rate limit.
func limitMessage(until time.Time) string {
	if until.IsZero() {
		return "429 rate limit reached"
	}
	return "429 rate limit reached, resets at " + until.UTC().Format(time.RFC3339)
}
