package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/text"
)

// Describer describes events in words, for people. What it returns is not part of the state.
type Describer struct {
	State *State
	// Zone is the time zone of the reader.
	Zone *time.Location
	// Limits is the timeout of each check. It is nil if the checks are not known, and empty if
	// there are none.
	Limits map[string]time.Duration
	// LastLines is the last output line of each failed check.
	LastLines map[signalbox.Hash]string
	// Activity returns the last activity in the output of an agent.
	Activity func(output string) string
	// Approval returns what to say about work whose merge needs approval: the rest of the line, and
	// the commands with which the human decides.
	Approval func(w *Work) (more, commands string)
}

// Line returns a short description of an event and a detail. Both are empty for events that people
// do not need to see. Fields that this version does not know are ignored.
func (d *Describer) Line(e *signalbox.Event) (text, detail string) {
	read, known := decoders[e.Type]
	if !known {
		return "", ""
	}
	b, _ := read(e.Data, false)
	if b, ok := b.(described); ok {
		return b.describe(d, e)
	}
	return "", ""
}

// About returns the work that an event belongs to. A turn signal names none; it belongs to the work
// of its agent.
func (d *Describer) About(e *signalbox.Event) string {
	session, known := d.State.Session(e.Actor)
	if known && e.Type == TypeTurnSignalHeard && len(session.Held) > 0 {
		return session.Held[len(session.Held)-1].Work
	}
	return e.Work
}

// role returns the role of the session that caused an event.
func (d *Describer) role(e *signalbox.Event) string {
	session, known := d.State.Session(e.Session)
	if !known {
		return "agent"
	}
	w, known := d.State.Work(e.Work)
	if known && w.Task != nil && w.Task.Expert != "" && session.Role == signalbox.RoleExpert {
		return "expert " + w.Task.Expert
	}
	return string(session.Role)
}

func (d *Describer) title(work string) string {
	w, known := d.State.Work(work)
	if !known {
		return ""
	}
	return w.Title
}

func (d *Describer) isBaseline(e *signalbox.Event) bool {
	w, known := d.State.Work(e.Work)
	return known && w.Task != nil && w.Task.Kind == KindBaseline
}

// checksRun announces the checks, if there are any.
func (d *Describer) checksRun() string {
	if d.Limits != nil && len(d.Limits) == 0 {
		return ""
	}
	return "; running checks"
}

// ending describes how a failed check ended.
func (d *Describer) ending(r CheckRow) string {
	if limit := d.Limits[r.Check]; limit > 0 && r.Millis >= limit.Milliseconds() {
		return "timed out after " + text.Duration(limit)
	}
	return fmt.Sprintf("exit status %d", r.Exit)
}

// undelivered says that no agent got a message before the work was completed.
func (d *Describer) undelivered(work string) string {
	w, known := d.State.Work(work)
	if !known {
		return ""
	}
	return w.Undelivered()
}

// Undelivered says for completed work that no agent got a message of the human, "" if that is not
// so.
func (w *Work) Undelivered() string {
	if w.Task == nil || len(w.Task.Messages) == 0 {
		return ""
	}
	who := cmp.Or(string(w.Task.Messages[0].Role), "agent")
	if slices.ContainsFunc(w.Task.Messages,
		func(m Message) bool { return string(m.Role) != who }) {
		who = "agent"
	}
	return "no " + who + " got your " + messages(len(w.Task.Messages))
}

// messages returns the noun for a number of messages.
func messages(n int) string {
	if n == 1 {
		return "message"
	}
	return text.Count(n, "message")
}

// formatMillis formats a time in milliseconds.
func formatMillis(ms int64) string { return text.Duration(time.Duration(ms) * time.Millisecond) }

// shortCommit returns the first characters of a commit.
func shortCommit(commit string) string { return commit[:min(len(commit), 7)] }

// nthAttempt returns the number of an attempt for the end of a sentence, and nothing for the first.
func nthAttempt(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d)", n)
}

// nthTime returns how often something happened for the end of a sentence, and nothing for the first
// time.
func nthTime(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" (%s time)", text.Ordinal(n))
}
