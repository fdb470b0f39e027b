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
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/oracle/chunk"
)

const (
	// MaxResult is how many bytes of a result the model sees.
	MaxResult = 64 << 10
	// maxSources is how many sources of a result are kept.
	maxSources = 100
	// leaveAfter is how long a tool has to end when it should. One that does not is left behind. It is long enough for a
	// command to be asked and then killed.
	leaveAfter = 15 * time.Second
)

var errGone = errors.New("it ended without an answer")

// answer is what came of calling a tool's Use.
type answer struct {
	result   Result
	err      error
	panicked bool
}

// Run calls a tool. Whatever goes wrong is an outcome: arguments that do not fit, a tool that fails, panics, takes longer
// than it may, or is cancelled with ctx. Of a tool that does not end even then Run does not wait for the end.
func Run(ctx context.Context, tool Tool, call Call) Outcome {
	arguments, err := checkArguments(tool.Schema, call.Arguments)
	if err != nil {
		return Failed("bad arguments for %s: %v", tool.Name, err)
	}
	call.Arguments = arguments
	if ctx.Err() != nil {
		return Failed("cancelled: %s was not begun", tool.Name)
	}
	limit := tool.Timeout
	if limit <= 0 {
		limit = DefaultTimeout
	}
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	told, ended := await(inner, tool, call)
	switch {
	case ended && told.err == nil:
		return succeeded(told.result)
	case told.panicked:
		return Failed("%s broke down (panic: %v); this is a fault of the tool: go on without it", tool.Name, told.err)
	case ctx.Err() != nil:
		return Failed("cancelled: %s was stopped before it was done", tool.Name)
	case inner.Err() != nil && !ended:
		return Failed("timeout: %s took longer than %v and cannot be stopped; go on without it", tool.Name, limit)
	case inner.Err() != nil:
		return Failed("timeout: %s took longer than %v and was stopped; ask for less at once, or go on without it", tool.Name, limit)
	}
	return Failed("%s", plainly(told.err))
}

// await calls the tool, and gives up on one that does not end.
func await(ctx context.Context, tool Tool, call Call) (told answer, ended bool) {
	answers := make(chan answer, 1)
	go func() {
		told := answer{err: errGone}
		defer func() {
			if p := recover(); p != nil {
				told = answer{err: fmt.Errorf("%v", p), panicked: true}
			}
			answers <- told
		}()
		told.result, told.err = tool.Use(ctx, call)
	}()
	select {
	case told = <-answers:
		return told, true
	case <-ctx.Done():
	}
	patience := time.NewTimer(leaveAfter)
	defer patience.Stop()
	select {
	case told = <-answers:
		return told, true
	case <-patience.C:
		return answer{err: errGone}, false
	}
}

// Failed is the outcome of a call that was not made, or failed.
func Failed(format string, args ...any) Outcome {
	return Outcome{Text: bounded(fmt.Sprintf(format, args...))}
}

func succeeded(r Result) Outcome {
	text := bounded(r.Text)
	if strings.TrimSpace(text) == "" {
		text = "(no output)" // some servers refuse results without text
	}
	sources := r.Sources
	if len(sources) > maxSources {
		sources = sources[:maxSources]
	}
	clean := make([]chunk.Source, 0, len(sources))
	for _, s := range sources {
		clean = append(clean, chunk.Source{Type: valid(s.Type), Path: valid(s.Path), Line: s.Line, Title: valid(s.Title)})
	}
	// The best come first in the text; a list of sources is for people, who look for a place.
	slices.SortStableFunc(clean, func(a, b chunk.Source) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line)) })
	if len(clean) == 0 {
		clean = nil
	}
	return Outcome{OK: true, Text: text, Sources: clean}
}

// plainly is an error's text with the hint that it may have.
func plainly(err error) string {
	text := strings.TrimSpace(err.Error())
	if text == "" {
		text = "it failed and did not say why"
	}
	if classed, ok := errors.AsType[*signalbox.Error](err); ok && classed.Hint != "" {
		text += "; " + classed.Hint
	}
	return text
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// bounded is a text in UTF-8 that is no longer than a result may be.
func bounded(text string) string {
	text = valid(text)
	if len(text) <= MaxResult {
		return text
	}
	note := fmt.Sprintf("\n(cut here: the result has %d bytes; ask for less at once)", len(text))
	return Cut(text, MaxResult-len(note)) + note
}

// Cut is the beginning of a text, of at most so many bytes and of whole runes.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:max(limit, 0)]
}

// tail is the end of a text in the same way.
func tail(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	from := len(text) - limit
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return text[from:]
}

// Check reports the first of some tools that a model cannot be offered.
func Check(tools []Tool) error {
	names := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	seen := make(map[string]bool, len(tools))
	for _, tool := range tools {
		switch {
		case !names.MatchString(tool.Name):
			return fmt.Errorf("tool %.80q: a name has 1 to 64 letters, digits, _ and -: rename it", tool.Name)
		case seen[tool.Name]:
			return fmt.Errorf("tool %s is there twice: rename one of them", tool.Name)
		case tool.Use == nil:
			return fmt.Errorf("tool %s does nothing: give it a function", tool.Name)
		}
		seen[tool.Name] = true
		var object map[string]json.RawMessage
		if json.Unmarshal(tool.Schema, &object) != nil || object == nil {
			return fmt.Errorf("tool %s: its parameters are no JSON schema: write an object with type: object and properties", tool.Name)
		}
		if string(object["type"]) != `"object"` {
			return fmt.Errorf("tool %s: the JSON schema of its parameters must have type: object", tool.Name)
		}
		var properties map[string]json.RawMessage
		if text, given := object["properties"]; given && json.Unmarshal(text, &properties) != nil {
			return fmt.Errorf("tool %s: properties in the JSON schema of its parameters must be an object", tool.Name)
		}
	}
	return nil
}
