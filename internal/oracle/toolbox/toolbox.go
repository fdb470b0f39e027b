// Package toolbox defines the tools that the oracle's model may call, runs them so that every
// failure becomes a result that the model can read, and contains the built-in tools.
package toolbox

import (
	"context"
	"encoding/json"
	"time"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/prompt"
)

// DefaultTimeout is the timeout of a tool that does not set its own.
const DefaultTimeout = time.Minute

// Tool is a function that the model may call.
type Tool struct {
	Name        string
	Description string
	Kind        prompt.ToolKind
	// Schema is the JSON schema of the arguments, which are an object.
	Schema json.RawMessage
	// ReadOnly means that a call changes nothing, so that an interrupted call may be repeated.
	ReadOnly bool
	// Timeout is how long a call may take. Zero means DefaultTimeout.
	Timeout time.Duration
	// End stops whatever is still running of a call that an earlier, killed process of signalbox
	// made. Nil means that there is nothing to stop: the tool runs in the calling process, or on
	// another machine.
	End func(key string) error
	// Use executes a call. The model sees the text of an error. Use may run in several goroutines
	// at once.
	Use func(context.Context, Call) (Result, error)
}

// Call is one call of a tool.
type Call struct {
	// Key identifies the call. All attempts of a call have the same key, even in different
	// processes.
	Key string
	// Arguments is a JSON object.
	Arguments json.RawMessage
}

// Result is what a tool returns.
type Result struct {
	Text    string
	Sources []chunk.Source
}

// Outcome is the result or failure of a call, as the model sees it.
type Outcome struct {
	OK      bool           `json:"ok"`
	Text    string         `json:"text"`
	Sources []chunk.Source `json:"sources,omitempty"`
}
