package brief

import (
	"encoding/json"
	"slices"
)

// MaxAgentBytes bounds an agent's answer, written as compact JSON by encoding/json with or without its escapes
// for HTML.
const MaxAgentBytes = 4096

// maxPathBytes leaves room for the answer itself. A path is of no use when cut, so a longer one is left out.
const maxPathBytes = 2048

// limits bound the texts (in characters), lists and objects of an answer.
type limits struct{ text, list, object int }

// tightening is tried in order until the answer fits. Lists and texts give way in turns, so that neither a long
// error nor a long list costs the other much; the keys of objects stay until nothing else helps.
func tightening() []limits {
	return []limits{
		{1000, 100, 500}, {1000, 30, 500}, {500, 30, 500}, {500, 10, 500}, {250, 10, 500}, {250, 5, 500},
		{120, 5, 200}, {120, 3, 200}, {60, 3, 100}, {60, 1, 50}, {30, 1, 25}, {20, 0, 10}, {10, 0, 5},
	}
}

// Fit returns the answer, its flags sorted, if it is short enough, or else the same answer with shorter texts, lists and objects. A
// cut text ends in "…"; entries that are left out are told by the flag brief_shortened. Names of flags, their
// severities and the path are never cut. The same answer is always shortened the same way. An answer that cannot be
// written as JSON, such as one with NaN in it, becomes a failed one.
func Fit(answer Answer) Answer {
	answer.Flags = Sort(answer.Flags)
	if path := answer.FilePath; path != nil && encodedSize(*path) > maxPathBytes {
		answer.FilePath = nil
		answer.Flags = Sort(append(answer.Flags, Flag{"file_path_too_long", Warning,
			"The full result was saved, but its path is too long for this answer"}))
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return unwritable()
	}
	if len(data) <= MaxAgentBytes {
		return answer
	}
	snapshot, err := json.Marshal(answer.Snapshot)
	if err != nil {
		return unwritable()
	}
	root, err := parseTree(snapshot)
	if err != nil {
		return unwritable()
	}
	for _, limit := range tightening() {
		if short, ok := tighten(answer, root, limit); ok {
			return short
		}
	}
	return Answer{
		Status: StatusOf(string(answer.Status)), Format: FormatAgent, Snapshot: json.RawMessage("{}"),
		Flags: Sort(append(bare(answer.Flags), shortened())), FilePath: answer.FilePath,
	}
}

// tighten shortens the answer to one set of limits and reports whether that was enough. The tree stays as it was.
func tighten(answer Answer, root *tree, limit limits) (Answer, bool) {
	snapshot, dropped := root.append(nil, limit)
	flags := slices.Clone(answer.Flags)
	// The first flags are the gravest; one always stays.
	if most := max(limit.list, 1); len(flags) > most {
		flags, dropped = flags[:most], true
	}
	for i := range flags {
		flags[i].Message = cut(flags[i].Message, limit.text)
	}
	if dropped {
		flags = Sort(append(flags, shortened()))
	}
	answer.Snapshot, answer.Flags = json.RawMessage(snapshot), flags
	return answer, encodedSize(answer) <= MaxAgentBytes
}

func shortened() Flag {
	return Flag{"brief_shortened", Info, "Entries were left out to keep this answer short — the full format has them"}
}

// bare is the gravest flag without its message, if its name is one that a program would know.
func bare(flags []Flag) []Flag {
	for _, flag := range flags {
		if len(flag.Flag) <= 64 && flag.Severity.known() {
			return []Flag{{flag.Flag, flag.Severity, cut(flag.Message, 20)}}
		}
	}
	return nil
}

func (s Severity) known() bool { return s == Error || s == Warning || s == Info || s == Success }

// unwritable has nothing of the answer that could not be written, so it cannot fail the same way.
func unwritable() Answer {
	const message = "The result cannot be written as JSON — a number in it may be no number"
	return Answer{
		Status: StatusError, Format: FormatAgent, Snapshot: failure{StatusError, message},
		Flags: []Flag{{"answer_not_writable", Error, message}},
	}
}

// encodedSize is the length of a value as JSON; a value without JSON counts as too long.
func encodedSize(value any) int {
	data, err := json.Marshal(value)
	if err != nil {
		return MaxAgentBytes + 1
	}
	return len(data)
}
