// Package rehearsal plays scripted agents: real processes that write what an agent program would write, in any
// of the five formats, really edit files and run commands, and misbehave on cue. docs/rehearsal-reference.md states the language.
//
// Parse does no I/O, and refuses a script for its first mistake, with the line and what to write instead. A Script
// that parsed can be played any number of times, by any number of goroutines. Play touches the outside world
// through its Options only, but for the files of the script's steps and for the steps whose purpose is to do
// something to the process: ignore, fork and signal-kill. It waits nowhere but in the steps that say so. The encoders, one
// for each format, are pure: they turn what the agent does into bytes.
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

// Script is what agents do, by role, task and attempt.
type Script struct {
	// Name is the file it came from, for messages.
	Name string
	// Sections are tried in order; the first that fits is played.
	Sections []Section
}

// Section is what one agent does.
type Section struct {
	// Line is where it begins.
	Line int
	// Roles and Tasks are patterns, one of which has to match: * stands for any characters but a slash.
	Roles, Tasks []string
	// Attempt is the one it is for; 0 means every attempt.
	Attempt int
	// OrLater lets it fit the attempts after Attempt too.
	OrLater bool
	// Steps are played in order.
	Steps []Step
}

// Step is one line of a section, with the lines that belong to it.
type Step struct {
	Line int
	// Verb is its first word, such as "say".
	Verb string
	act  action
}

// Options says as whom and where a script is played.
type Options struct {
	// Format is what the agent writes, any but auto. Zero: plain.
	Format signalbox.Format
	// Role and Task choose the section and stand for {role} and {task}. Zero: fits only sections for all.
	Role, Task string
	// Session stands for {session} and seeds the ids in the stream. Zero: "rehearsal".
	Session string
	// Attempt is the how manieth time this role is run on this task. Zero: 1.
	Attempt int
	// Dir is where files are and commands run. Zero: the current folder.
	Dir string
	// Prompt is what the agent is asked. Nil: it is read from Stdin, to its end, or, with Interactive, to a line
	// that holds nothing but a full stop.
	Prompt      *string
	Interactive bool
	// Stdin has the prompt and the lines that listen waits for. Zero: empty.
	Stdin io.Reader
	// Stdout gets the agent's stream, and the children of fork inherit it. Stderr gets the rest. Zero: discarded.
	Stdout, Stderr io.Writer
	// Pace is how long each step takes at least, for people who watch. Zero: no time.
	Pace time.Duration
	// Now is the clock of the time stamps in the stream. Zero: time.Now.
	Now func() time.Time
}

func (o Options) orDefault() (Options, error) {
	if o.Format == "" {
		o.Format = signalbox.FormatPlain
	}
	if !slices.Contains(signalbox.Formats(), o.Format) || o.Format == signalbox.FormatAuto || o.Format == signalbox.FormatOracle {
		return o, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("an agent cannot write %q", o.Format),
			Hint: "the formats are plain, claude, codex, gemini and opencode"}
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

// Exit is returned by Play when the script wants the process to end with a status of its own; end it so.
type Exit struct {
	Code int
	// Why is for tests and debugging; standard error has been told already.
	Why string
}

func (e *Exit) Error() string {
	return fmt.Sprintf("the script ends with status %d: %s", e.Code, e.Why)
}

// Find returns the section that is played for a role, a task and an attempt.
func (s *Script) Find(role, task string, attempt int) (*Section, error) {
	for i := range s.Sections {
		if s.Sections[i].fits(role, task, attempt) {
			return &s.Sections[i], nil
		}
	}
	return nil, &signalbox.Error{
		Code: signalbox.CodeNotFound,
		Err:  fmt.Errorf("%s: no section fits role %q, task %q, attempt %d", s.Name, role, task, attempt),
		Hint: "end the script with a section for all that is left: on *:",
	}
}

func (s *Section) fits(role, task string, attempt int) bool {
	fitsAttempt := s.Attempt == 0 || attempt == s.Attempt || s.OrLater && attempt > s.Attempt
	return fitsAttempt && matches(s.Roles, role) && matches(s.Tasks, task)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // Parse refuses bad patterns
		return ok || pattern == "*"
	})
}

// String is the section's first line, in its shortest form.
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
