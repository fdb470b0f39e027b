package agent

import (
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Refusals reads from the log of opencode that its service refuses its requests, because opencode
// prints nothing while it repeats them. The log is the program's own, and its tools can write to
// it, so what it says may only make the agent itself stop and wait.
type Refusals struct {
	// Dir is the state folder of the program. Home is its own home folder, which has Dir in it, ""
	// if others use the same one. Then only runs in Workspace count.
	Dir, Home, Workspace string
	// Since is when the program was started. What happened before it does not count.
	Since time.Time

	lines newLines
	runs  map[string]bool // in Workspace
	last  refusal
}

// refusal is an error that the service answered with, and whether the program waits after it.
type refusal struct {
	message     string
	first, last time.Time // of the errors since which nothing else was heard
	waiting     bool      // it has not sent another request
}

const (
	// maxRuns bounds how many runs are remembered.
	maxRuns = 1000
	// logTail is how much of the end of a log counts that is older than the program.
	logTail = 1 << 20
)

// Read returns the error with which the service refused the last request, and when it refused the
// first one since the program was heard of; ok is false if the program does not wait to repeat one.
// It is called again and again, and reads only what is new.
func (r *Refusals) Read(heard time.Time) (message string, since time.Time, ok bool) {
	in, name := r.Dir, "."
	if rel, err := filepath.Rel(r.Home, r.Dir); r.Home != "" && err == nil {
		in, name = r.Home, rel
	}
	if in == "" {
		return "", time.Time{}, false
	}
	folder, err := openFolder(in, name)
	if err != nil {
		return "", time.Time{}, false
	}
	defer folder.root.Close()
	file, info, err := folder.open(path.Join("log", "opencode.log"))
	if err != nil {
		return "", time.Time{}, false
	}
	defer file.Close()
	if r.lines.offset == 0 && info.Size() > logTail { // the rest of a line counts as none
		r.lines.offset = info.Size() - logTail
	}
	r.lines.read(file, info, func(line []byte) { r.add(line, heard) })
	l := &r.last
	return l.message, l.first, l.waiting && l.message != "" && l.last.After(heard)
}

// add reads a line. Those about the title of the session, which a small model writes, do not count.
func (r *Refusals) add(line []byte, heard time.Time) {
	fields := logFields(string(line))
	at, err := time.Parse(time.RFC3339, fields["timestamp"])
	if err != nil || at.Before(r.Since.Truncate(time.Millisecond)) {
		return
	}
	run := fields["run"]
	if fields["directory"] == r.Workspace && len(r.runs) < maxRuns {
		if r.runs == nil {
			r.runs = map[string]bool{}
		}
		r.runs[run] = true
	}
	if r.Home == "" && !r.runs[run] || fields["small"] != "false" {
		return
	}
	switch fields["message"] {
	case "stream":
		r.last.waiting = false
	case "stream error":
		first := r.last.first
		if first.IsZero() || !first.After(heard) {
			first = at
		}
		r.last = refusal{fields["error.error"], first, at, true}
	}
}

// logFields parses a line of a log: pairs as in key=value or key="quoted value". What comes after
// something else is ignored.
func logFields(line string) map[string]string {
	fields := map[string]string{}
	for {
		key, rest, found := strings.Cut(strings.TrimLeft(line, " "), "=")
		if !found || key == "" || strings.ContainsAny(key, " \"") {
			return fields
		}
		var value string
		if quoted, err := strconv.QuotedPrefix(rest); err == nil && rest[0] == '"' {
			value, _ = strconv.Unquote(quoted) // it is valid
			line = rest[len(quoted):]
		} else {
			end := strings.IndexAny(rest, " \r\n")
			if end < 0 {
				end = len(rest)
			}
			value, line = rest[:end], rest[end:]
		}
		fields[key] = value
	}
}
