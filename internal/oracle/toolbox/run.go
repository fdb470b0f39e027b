package toolbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/text"
)

const (
	// MaxResult is how many bytes of a result the model sees.
	MaxResult = 64 << 10
	// maxSources is how many sources of a result are kept.
	maxSources = 100
	// abandonAfter is how long Run waits for a tool to return after its context is done. It is long
	// enough for a command to be terminated and then killed.
	abandonAfter = 15 * time.Second
)

var errNoResult = errors.New("the tool ended without a result")

// useResult is what a tool's Use returned.
type useResult struct {
	result   Result
	err      error
	panicked bool
}

// Run calls a tool. All failures become outcomes: arguments that do not match the schema, a tool
// that fails, panics or times out, and cancellation of ctx. A tool that does not return soon after
// a timeout or cancellation is abandoned.
func Run(ctx context.Context, tool Tool, call Call) Outcome {
	arguments, err := checkArguments(tool.Schema, call.Arguments)
	if err != nil {
		return Failed("bad arguments for %s: %v", tool.Name, err)
	}
	call.Arguments = arguments
	if ctx.Err() != nil {
		return Failed("cancelled: %s was not started", tool.Name)
	}
	limit := tool.Timeout
	if limit <= 0 {
		limit = DefaultTimeout
	}
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	returned, ended := await(inner, tool, call)
	switch {
	case ended && returned.err == nil:
		return succeeded(returned.result)
	case returned.panicked:
		return Failed("%s panicked: %v; this is a bug in the tool: continue without it", tool.Name,
			returned.err)
	case ctx.Err() != nil:
		return Failed("cancelled: %s was stopped before it finished", tool.Name)
	case inner.Err() != nil && !ended:
		return Failed("timeout: %s took longer than %v and cannot be stopped; continue without it",
			tool.Name, limit)
	case inner.Err() != nil:
		return Failed("timeout: %s took longer than %v and was stopped; ask for less at once, or continue without it", tool.Name, limit)
	}
	return Failed("%s", withHint(returned.err))
}

// await calls the tool and waits for it, but not longer than abandonAfter once ctx is done.
func await(ctx context.Context, tool Tool, call Call) (returned useResult, ended bool) {
	results := make(chan useResult, 1)
	go func() {
		returned := useResult{err: errNoResult}
		defer func() {
			if p := recover(); p != nil {
				returned = useResult{err: fmt.Errorf("%v", p), panicked: true}
			}
			results <- returned
		}()
		returned.result, returned.err = tool.Use(ctx, call)
	}()
	select {
	case returned = <-results:
		return returned, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(abandonAfter)
	defer timer.Stop()
	select {
	case returned = <-results:
		return returned, true
	case <-timer.C:
		return useResult{err: errNoResult}, false
	}
}

// Failed returns the outcome of a call that failed or was not made.
func Failed(format string, args ...any) Outcome {
	return Outcome{Text: bounded(fmt.Sprintf(format, args...))}
}

func succeeded(r Result) Outcome {
	output := bounded(r.Text)
	if strings.TrimSpace(output) == "" {
		output = "(no output)" // some model servers reject results without text
	}
	sources := r.Sources
	if len(sources) > maxSources {
		sources = sources[:maxSources]
	}
	clean := make([]chunk.Source, 0, len(sources))
	for _, s := range sources {
		clean = append(clean, chunk.Source{Type: valid(s.Type), Path: valid(s.Path), Line: s.Line,
			Title: valid(s.Title)})
	}
	// The text has the best sources first. People who read the list look for a path.
	slices.SortStableFunc(clean,
		func(a, b chunk.Source) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line)) })
	if len(clean) == 0 {
		clean = nil
	}
	return Outcome{OK: true, Text: output, Sources: clean}
}

// withHint returns the text of an error and its hint, if it has one.
func withHint(err error) string {
	message := cmp.Or(strings.TrimSpace(err.Error()), "the tool failed without an error message")
	if e, ok := errors.AsType[*signalbox.Error](err); ok && e.Hint != "" {
		message += "; " + e.Hint
	}
	return message
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// bounded returns s as valid UTF-8 of at most MaxResult bytes.
func bounded(s string) string {
	s = valid(s)
	if len(s) <= MaxResult {
		return s
	}
	note := fmt.Sprintf("\n(cut here: the result has %d bytes; ask for less at once)", len(s))
	return text.Truncate(s, MaxResult-len(note)) + note
}

// Check returns an error about the first tool that cannot be offered to a model.
func Check(tools []Tool) error {
	names := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	seen := make(map[string]bool, len(tools))
	for _, tool := range tools {
		switch {
		case !names.MatchString(tool.Name):
			return fmt.Errorf("tool %.80q: a name must have 1 to 64 letters, digits, _ and -: rename it", tool.Name)
		case seen[tool.Name]:
			return fmt.Errorf("tool %s is defined twice: rename one of them", tool.Name)
		case tool.Use == nil:
			return fmt.Errorf("tool %s has no Use function", tool.Name)
		}
		seen[tool.Name] = true
		var object map[string]json.RawMessage
		if json.Unmarshal(tool.Schema, &object) != nil || object == nil {
			return fmt.Errorf("tool %s: its parameters are not a JSON schema: write an object with type: object and properties", tool.Name)
		}
		if string(object["type"]) != `"object"` {
			return fmt.Errorf("tool %s: the JSON schema of its parameters must have type: object",
				tool.Name)
		}
		var properties map[string]json.RawMessage
		if given, ok := object["properties"]; ok && json.Unmarshal(given, &properties) != nil {
			return fmt.Errorf("tool %s: properties in the JSON schema of its parameters must be an object", tool.Name)
		}
	}
	return nil
}
