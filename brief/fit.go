package brief

import (
	"encoding/json"
	"slices"
)

// MaxAgentBytes is the maximum length of an answer in the agent format, encoded as compact JSON by
// encoding/json with or without HTML escaping.
const MaxAgentBytes = 4096

// maxPathBytes leaves room for the answer itself. A truncated path is useless, so a longer one is
// omitted.
const maxPathBytes = 2048

// limits are the maximum sizes of the texts (in characters), lists and objects of an answer, and of
// its list of flags.
type limits struct{ text, list, object, flags int }

// tightening returns the limits to try in order until the answer is short enough. Lists and texts
// are shortened in turns, so that neither a long error nor a long list displaces the other. Other
// lists are shortened before flags, because a missing flag can make an answer wrong. The keys of
// objects are removed last.
func tightening() []limits {
	return []limits{
		{1000, 100, 500, 100}, {1000, 30, 500, 30}, {500, 30, 500, 30}, {500, 10, 500, 20},
		{250, 10, 500, 20}, {250, 5, 500, 20}, {250, 4, 500, 20}, {250, 3, 500, 20},
		{250, 2, 500, 20}, {250, 3, 500, 8}, {250, 5, 500, 5},
		{120, 5, 200, 5}, {120, 3, 200, 3}, {60, 3, 100, 3}, {60, 1, 50, 1}, {30, 1, 25, 1},
		{20, 0, 10, 1}, {10, 0, 5, 1},
	}
}

// Fit returns the answer with its flags sorted and, if it is longer than MaxAgentBytes, with
// shorter texts, lists and objects. A shortened text ends in "…"; the flag brief_shortened reports
// that entries were omitted. Names of flags, their severities and the path are never shortened. The
// result is deterministic. An answer that cannot be encoded as JSON, such as one that contains NaN,
// is replaced by a failure.
func Fit(answer Answer) Answer {
	answer.Flags = Sort(answer.Flags)
	if path := answer.FilePath; path != nil && encodedSize(*path) > maxPathBytes {
		answer.FilePath = nil
		answer.Flags = Sort(append(answer.Flags, Flag{"file_path_too_long", Warning,
			"The full result was saved, but its path is too long for this answer"}))
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return notEncodable()
	}
	if len(data) <= MaxAgentBytes {
		return answer
	}
	snapshot, err := json.Marshal(answer.Snapshot)
	if err != nil {
		return notEncodable()
	}
	root, err := parseTree(snapshot)
	if err != nil {
		return notEncodable()
	}
	for _, limit := range tightening() {
		if short, ok := tighten(answer, root, limit); ok {
			return short
		}
	}
	return Answer{
		Status: StatusOf(string(answer.Status)), Format: FormatAgent,
		Snapshot: json.RawMessage("{}"),
		Flags:    Sort(append(mostSevere(answer.Flags), shortened())), FilePath: answer.FilePath,
	}
}

// tighten applies limits to the answer and reports whether it is short enough. It does not change
// root.
func tighten(answer Answer, root *tree, limit limits) (Answer, bool) {
	snapshot, dropped := root.append(nil, limit)
	flags := slices.Clone(answer.Flags)
	// The first flags are the most severe; one always remains.
	if len(flags) > limit.flags {
		flags, dropped = flags[:limit.flags], true
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
	return Flag{"brief_shortened", Info,
		"Entries were left out to keep this answer short — the full format has them"}
}

// mostSevere returns the most severe flag with a short name, and shortens its message.
func mostSevere(flags []Flag) []Flag {
	for _, flag := range flags {
		if len(flag.Flag) <= 64 && flag.Severity.known() {
			return []Flag{{flag.Flag, flag.Severity, cut(flag.Message, 20)}}
		}
	}
	return nil
}

func (s Severity) known() bool { return s == Error || s == Warning || s == Info || s == Success }

// notEncodable returns the answer that replaces one that cannot be encoded.
func notEncodable() Answer {
	const message = "The result cannot be written as JSON — it contains a value that JSON cannot represent"
	return Answer{
		Status: StatusError, Format: FormatAgent, Snapshot: failure{StatusError, message},
		Flags: []Flag{{"answer_not_writable", Error, message}},
	}
}

// encodedSize returns the length of value as JSON. A value that cannot be encoded counts as too
// long.
func encodedSize(value any) int {
	data, err := json.Marshal(value)
	if err != nil {
		return MaxAgentBytes + 1
	}
	return len(data)
}
