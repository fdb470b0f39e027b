// Package rehearsal plays scripted agents: they write what an agent program would write, in any of
// five formats, edit files, run commands, and misbehave on cue. docs/reference/rehearsal.md
// specifies the language.
//
// Parse does no I/O. It reports the first error of a script, with its line and what to write
// instead. A Script can be played any number of times, also concurrently. Play uses only its
// Options, the files of the script's steps, and, for the steps ignore, fork and signal-kill, the
// process itself. It waits only in steps that ask for it. The encoders, one for each format, are
// pure: they turn what the agent does into bytes.
package rehearsal

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox"
)

// Script determines what agents do, by role, task and attempt.
type Script struct {
	// Name is the name of the file, for messages.
	Name string
	// Sections are tried in order. The first that matches is played.
	Sections []Section
}

// Section determines what one agent does.
type Section struct {
	// Line is its first line.
	Line int
	// Roles and Tasks are patterns; one of each must match. * matches any characters except a
	// slash.
	Roles, Tasks []string
	// Attempt is the attempt that it is for. Zero means every attempt.
	Attempt int
	// OrLater makes it match later attempts too.
	OrLater bool
	// Steps are played in order.
	Steps []Step
}

// Step is one line of a section, with the indented lines below it.
type Step struct {
	Line int
	// Verb is its first word, such as "say".
	Verb string
	act  action
}

// Options configure Play.
type Options struct {
	// Format is the format of the output, any except auto and oracle. Empty means plain.
	Format signalbox.Format
	// Role and Task select the section, and are the values of {role} and {task}. Empty matches only
	// sections for all.
	Role, Task string
	// Session is the value of {session} and the seed of the ids in the stream. Empty means
	// "rehearsal".
	Session string
	// Resume is the id of the program's session that the agent continues. Empty means that it
	// starts a new one.
	Resume string
	// Attempt is the attempt number of the role on the task. Zero means 1.
	Attempt int
	// Dir is the folder of files and commands. Empty means the current folder.
	Dir string
	// Prompt is the prompt. Nil means that it is read from Stdin: to the end or, if Interactive is
	// set, to a line with only a full stop.
	Prompt      *string
	Interactive bool
	// Stdin has the prompt and the lines that listen waits for. Nil means empty.
	Stdin io.Reader
	// Stdout receives the stream of the agent, and the children of fork inherit it. Stderr receives
	// the rest. Nil means discarded.
	Stdout, Stderr io.Writer
	// Pace is the minimum duration of each step, for people who watch.
	Pace time.Duration
	// Now is the clock of the timestamps in the stream. Nil means time.Now.
	Now func() time.Time
}

func (o Options) orDefault() (Options, error) {
	if o.Format == "" {
		o.Format = signalbox.FormatPlain
	}
	if !slices.Contains(signalbox.Formats(), o.Format) || o.Format == signalbox.FormatAuto ||
		o.Format == signalbox.FormatOracle {
		return o, signalbox.CodeUsage.Errorf(
			"the formats are plain, claude, codex, gemini and opencode",
			"an agent cannot write %q", o.Format)
	}
	if o.Session == "" {
		o.Session = "rehearsal"
	}
	if o.Attempt == 0 {
		o.Attempt = 1
	}
	if o.Stdin == nil {
		o.Stdin = strings.NewReader("")
	}
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return o, err
		}
		o.Dir = dir
	}
	return o, nil
}

// Exit is the error of Play if the script ends with an exit status. The caller should exit with it.
type Exit struct {
	Code int
	// Why is the reason, for debugging. It need not be printed.
	Why string
}

func (e *Exit) Error() string {
	return fmt.Sprintf("the script ends with status %d: %s", e.Code, e.Why)
}

// Find returns the section for a role, a task and an attempt.
func (s *Script) Find(role, task string, attempt int) (*Section, error) {
	for i := range s.Sections {
		if s.Sections[i].matches(role, task, attempt) {
			return &s.Sections[i], nil
		}
	}
	return nil, signalbox.CodeNotFound.Errorf(
		"end the script with a section that matches everything: on *:",
		"%s: no section matches role %q, task %q, attempt %d", s.Name, role, task,
		attempt)
}

func (s *Section) matches(role, task string, attempt int) bool {
	attemptMatches := s.Attempt == 0 || attempt == s.Attempt || s.OrLater && attempt > s.Attempt
	return attemptMatches && matchesAny(s.Roles, role) && matchesAny(s.Tasks, task)
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // Parse refuses bad patterns
		return ok || pattern == "*"
	})
}

// String returns the first line of the section, in its shortest form.
func (s *Section) String() string {
	text := "on " + strings.Join(s.Roles, ",")
	if !slices.Equal(s.Tasks, []string{"*"}) {
		text += " " + strings.Join(s.Tasks, ",")
	}
	if s.Attempt > 0 {
		text += " attempt " + strconv.Itoa(s.Attempt)
	}
	if s.OrLater {
		text += "+"
	}
	return text + ":"
}
