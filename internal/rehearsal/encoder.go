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

// encoder writes in one format what an agent does. Its methods add to what take returns, and do no I/O.
type encoder interface {
	// begin is what the program writes before the agent does anything.
	begin()
	// text is a message of the agent's own, as the program passes it on.
	text(s string)
	// message is one too, in a single event whatever its length.
	message(s string)
	// thinking and subagent are words that do not count; a format that has no place for them leaves them out.
	thinking(s string)
	subagent(s string)
	// toolStart comes before the tool does something, toolEnd with its output after it.
	toolStart(t tool)
	toolEnd(t tool)
	// usage adds to what the stream tells next of usage.
	usage(u signalbox.Usage)
	// endTurn ends the turn well. What comes after it is another turn.
	endTurn()
	// rateLimit ends it because the service refuses to serve, until then or, if zero, for nobody knows how long.
	rateLimit(until time.Time)
	// take returns what was written since it was last called.
	take() []byte
}

// stage is what encoders know of where they are.
type stage struct {
	session string
	dir     string
	prompt  string
	now     func() time.Time
}

func newEncoder(s stage, format signalbox.Format) encoder {
	switch format {
	case signalbox.FormatClaude:
		return &claude{jsonLines: jsonLines{stage: s}}
	case signalbox.FormatCodex:
		return &codex{jsonLines: jsonLines{stage: s}}
	case signalbox.FormatGemini:
		return &gemini{jsonLines: jsonLines{stage: s}}
	case signalbox.FormatOpencode:
		return &opencode{jsonLines: jsonLines{stage: s}}
	}
	return &plain{}
}

// tool is one use of a tool.
type tool struct {
	kind          toolKind
	file          string // but for toolRun
	command       string // of toolRun
	before, after string // of an edit; a write has after only
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

// shell is the command that does about the same as the tool.
func (t tool) shell() string {
	switch t.kind {
	case toolRead:
		return "cat " + t.file
	case toolRun:
		return t.command
	}
	return "edit " + t.file
}

// plain writes text, in which all words are the agent's own. So what a tool printed stands in a code fence.
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

// jsonLines is what the encoders of the other formats have in common.
type jsonLines struct {
	stage
	buf   bytes.Buffer
	ids   int
	spent signalbox.Usage // not told yet
}

func (e *jsonLines) take() []byte { return take(&e.buf) }

func (e *jsonLines) usage(u signalbox.Usage) { addUsage(&e.spent, u) }

func addUsage(to *signalbox.Usage, u signalbox.Usage) {
	to.InputTokens += u.InputTokens
	to.CachedInputTokens += u.CachedInputTokens
	to.OutputTokens += u.OutputTokens
	to.CostUSD += u.CostUSD
}

// settle returns the usage that was not told yet, which from now on it is.
func (e *jsonLines) settle() signalbox.Usage {
	u := e.spent
	e.spent = signalbox.Usage{}
	return u
}

func (e *jsonLines) event(v any) {
	enc := json.NewEncoder(&e.buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // events hold strings and finite numbers only
	}
}

// digest is 32 hexadecimal digits that are the same each time this session is rehearsed.
func (e *jsonLines) digest(what string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(e.session+"\x00"+what)))[:32]
}

// id returns an id that the stream has not had.
func (e *jsonLines) id(prefix string) string {
	e.ids++
	return prefix + e.digest(fmt.Sprint(e.ids))[:24]
}

func (e *jsonLines) uuid(what string) string {
	d := e.digest(what)
	return strings.Join([]string{d[:8], d[8:12], d[12:16], d[16:20], d[20:]}, "-")
}

func (e *jsonLines) nextUUID() string {
	e.ids++
	return e.uuid(fmt.Sprint(e.ids))
}

// limitMessage is how a program tells people of a rate limit.
func limitMessage(until time.Time) string {
	if until.IsZero() {
		return "429 rate limit reached"
	}
	return "429 rate limit reached, resets at " + until.UTC().Format(time.RFC3339)
}
