// Package toolbox holds the tools that the oracle's model may call: what a tool is, how one is called so that whatever
// goes wrong is a result, and those that are built in.
package toolbox

import (
	"context"
	"encoding/json"
	"time"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/prompt"
)

// DefaultTimeout is how long a tool may take that says nothing else.
const DefaultTimeout = time.Minute

// Tool is something the model may call. Its Use may run in several goroutines at once.
type Tool struct {
	Name        string
	Description string
	Kind        prompt.ToolKind
	// Schema is the JSON schema of an object.
	Schema json.RawMessage
	// ReadOnly: calling it again changes nothing, so that a call that was cut off may be repeated.
	ReadOnly bool
	// Timeout is how long a call may take. Zero: DefaultTimeout.
	Timeout time.Duration
	// End ends what a call may have left running that a process before this one made and was killed in. Nil: it works in the
	// process that calls it, or elsewhere, where nothing can be ended.
	End func(key string) error
	// Use does the work. An error is a failed result: its text is for the model.
	Use func(context.Context, Call) (Result, error)
}

// Call is one call of a tool.
type Call struct {
	// Key is the same for each try of the same call, also in another process, and differs for any other.
	Key string
	// Arguments are a JSON object.
	Arguments json.RawMessage
}

// Result is what a tool found.
type Result struct {
	Text    string
	Sources []chunk.Source
}

// Outcome is how a call ended, for the model to see.
type Outcome struct {
	OK      bool           `json:"ok"`
	Text    string         `json:"text"`
	Sources []chunk.Source `json:"sources,omitempty"`
}
