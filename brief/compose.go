package brief

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Answer is an answer in the agent format. FilePath is null unless the full result was saved.
type Answer struct {
	Status   Status  `json:"status"`
	Format   Format  `json:"format"`
	Snapshot any     `json:"snapshot"`
	Flags    []Flag  `json:"flags"`
	FilePath *string `json:"file_path"`
}

// Compose returns an answer in the agent format: the snapshot of the result, the flags of the
// snapshot, and the path of the file (the zero Saved if none was requested). The answer is short
// enough: see [Fit].
func Compose[R, S any](result R, snapshot func(R) S, flags func(S) []Flag, status func(S) Status,
	saved Saved) Answer {
	short := snapshot(result)
	answer := Answer{
		Status: saved.status(status(short)), Format: FormatAgent, Snapshot: short,
		Flags: append(Sort(flags(short)), saved.flags()...), FilePath: saved.filePath(),
	}
	return Fit(answer)
}

// Failed returns the answer for a tool that has no result: an error with one flag.
func Failed(flag, message string) Answer {
	return Fit(Answer{
		Status: StatusError, Format: FormatAgent,
		Snapshot: failure{Status: StatusError, Verdict: message},
		Flags:    []Flag{{Flag: flag, Severity: Error, Message: message}},
	})
}

type failure struct {
	Status  Status `json:"status"`
	Verdict string `json:"verdict"`
}

// Tool converts the results of one tool to answers in any format. All its functions must be pure.
type Tool[R, S any] struct {
	Snapshot func(R) S
	Flags    func(S) []Flag
	// Status returns the status of the answer.
	Status func(S) Status
	// Summary returns the result without its long details; nil means that the summary is the whole
	// result.
	Summary func(R) any
	// Report returns the result as Markdown; nil means that the tool has no reports.
	Report func(R) string
}

// Answer returns the answer in the given format as one JSON object: an [Answer], or the summary or
// the result with flags (and file_path if a file was requested), or {status, format, report,
// file_path, flags}. If a requested file could not be saved, file_path is null and flags contains
// file_not_saved; the status is still that of the result.
func (t Tool[R, S]) Answer(result R, format Format, saved Saved) (json.RawMessage, error) {
	flags := func() []Flag { return Sort(append(t.Flags(t.Snapshot(result)), saved.flags()...)) }
	switch format {
	case FormatAgent:
		return Encode(Compose(result, t.Snapshot, t.Flags, t.Status, saved))
	case FormatSummary:
		if t.Summary == nil {
			return withFlags(result, flags(), saved)
		}
		return withFlags(t.Summary(result), flags(), saved)
	case FormatFull:
		return withFlags(result, flags(), saved)
	case FormatReport:
		if t.Report == nil {
			return nil, errors.New("this tool has no reports: use another format")
		}
		return Encode(report{
			Status: saved.status(t.Status(t.Snapshot(result))), Format: FormatReport,
			Report:   t.Report(result),
			FilePath: saved.filePath(), Flags: flags(),
		})
	}
	_, err := ParseFormat(string(format))
	return nil, err
}

type report struct {
	Status   Status  `json:"status"`
	Format   Format  `json:"format"`
	Report   string  `json:"report"`
	FilePath *string `json:"file_path"`
	Flags    []Flag  `json:"flags"`
}

// withFlags encodes value as a JSON object and appends the flags and, if a file was requested,
// file_path.
func withFlags(value any, flags []Flag, saved Saved) (json.RawMessage, error) {
	object, err := Encode(value)
	if err != nil {
		return nil, err
	}
	if len(object) < 2 || object[0] != '{' {
		return nil, fmt.Errorf(
			"a result of type %T is not a JSON object, so flags cannot be added", value)
	}
	added := any(struct {
		Flags []Flag `json:"flags"`
	}{flags})
	if saved.requested() {
		added = struct {
			FilePath *string `json:"file_path"`
			Flags    []Flag  `json:"flags"`
		}{saved.filePath(), flags}
	}
	tail, err := Encode(added)
	if err != nil {
		return nil, err
	}
	head := object[:len(object)-1]
	if len(head) > 1 {
		head = append(head, ',')
	}
	return append(head, tail[1:]...), nil
}

// Encode returns value as compact JSON in which <, > and & are not escaped.
func Encode(value any) (json.RawMessage, error) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
