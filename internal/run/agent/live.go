package agent

import (
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/contain"
)

// Activity is something that an agent just did. It is not recorded in the ledger.
type Activity struct {
	Work, Session string
	Role          signalbox.Role
	// Text is one line that the agent wrote. It may contain anything: escape it before printing.
	// Empty means that what the agent did before is over.
	Text string
}

// ToolUse is the call of a tool, or its result. It is not recorded in the ledger.
type ToolUse struct {
	Work, Session string
	// Tool is the name of the tool, in a call.
	Tool string
	// Call identifies the call, "" if the program does not report that.
	Call string
	// Result is set for a result, and Failed if it is that of a tool that failed.
	Result, Failed bool
	// Took is how long the tool ran, in a result, if the program reports it.
	Took time.Duration
}

// LiveTranscript returns the file that has the output of the running turn of a session, for people
// who follow it. There is none while signals need a key: everyone who can read the box could read
// the key in it, while it still counts.
func LiveTranscript(boxDir, session string) string {
	// Package crew finds and removes it by the name of the session.
	return filepath.Join(boxDir, contain.TempFolder, session+".transcript")
}
