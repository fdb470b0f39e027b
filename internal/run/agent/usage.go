package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/process"
)

// SessionFiles reads what a program has used from the files that it keeps about its sessions, for
// programs that report their usage only at the end of a turn. The files are the program's own and
// their form may change, so a file that cannot be read is as good as none.
type SessionFiles struct {
	// Format is that of the program. Only codex and gemini have such files.
	Format signalbox.Format
	// Dir is the state folder of the program: CODEX_HOME, or the folder .gemini.
	Dir string
	// Private means that no other program uses the folder. Otherwise only a file that was created
	// after Since counts.
	Private bool
	// Since is when the program was started. What was used before it does not count.
	Since time.Time

	path  string    // of the session in Dir, once it is found
	lines newLines  // of the file of codex
	size  int64     // of the file of gemini when it was read
	read  time.Time // its modification time then
	state sessionState
}

// sessionState is what a file says so far.
type sessionState struct {
	known         bool // it is the session's
	before, total signalbox.Usage
	reported      bool // usage after Since
	model         string
}

// SessionUsage is what a session has used.
type SessionUsage struct {
	// Usage is since SessionFiles.Since, and Before what it had used until then, if the session was
	// resumed.
	Usage, Before signalbox.Usage
	Model         string
}

// StateDir returns the state folder that a program with an environment uses, "" if it has none that
// is known.
func StateDir(format signalbox.Format, env []string) string {
	home := func(variable, folder string) string {
		for _, name := range []string{variable, "HOME", "USERPROFILE"} {
			if dir := process.Getenv(env, name); filepath.IsAbs(dir) {
				return filepath.Join(dir, folder)
			}
		}
		return ""
	}
	switch format {
	case signalbox.FormatCodex:
		if dir := process.Getenv(env, "CODEX_HOME"); filepath.IsAbs(dir) {
			return dir
		}
		return home("HOME", ".codex")
	case signalbox.FormatGemini:
		return home("GEMINI_CLI_HOME", ".gemini")
	case signalbox.FormatOpencode:
		if dir := process.Getenv(env, "XDG_DATA_HOME"); filepath.IsAbs(dir) {
			return filepath.Join(dir, "opencode")
		}
		return home("HOME", filepath.Join(".local", "share", "opencode"))
	}
	return ""
}

// Read returns what a session has used so far; ok is false if no file says so. It is called again
// and again, and reads only what is new.
func (f *SessionFiles) Read(session string) (u SessionUsage, ok bool) {
	if f.Dir == "" || session == "" || strings.ContainsAny(session, `/\*?[`) {
		return u, false
	}
	in, name := f.Dir, "."
	if f.Private { // the program can replace it
		in, name = filepath.Dir(f.Dir), filepath.Base(f.Dir)
	}
	folder, err := openFolder(in, name)
	if err != nil {
		return u, false
	}
	defer folder.root.Close()
	if f.path == "" && !f.find(folder, session) {
		return u, false
	}
	if file, info, err := folder.open(f.path); err == nil {
		defer file.Close()
		switch f.Format {
		case signalbox.FormatCodex:
			f.readCodex(file, info, session)
		case signalbox.FormatGemini:
			f.readGemini(file, info, session)
		}
	}
	u = SessionUsage{Usage: minus(f.state.total, f.state.before), Before: f.state.before,
		Model: f.state.model}
	return u, f.state.known && f.state.reported
}

// find looks for the file of a session. Its name contains the id, or the start of it.
func (f *SessionFiles) find(folder *stateFolder, session string) bool {
	top, patterns := "sessions", []string{"*", "*", "*", "rollout-*" + session + ".jsonl"}
	if f.Format == signalbox.FormatGemini {
		top, patterns = "tmp", []string{"*", "chats", "session-*" + session[:min(8, len(session))] +
			"*.json*"}
	}
	return folder.find(top, patterns, func(name string) bool {
		file, info, err := folder.open(name)
		if err != nil {
			return false
		}
		defer file.Close()
		if info.ModTime().Before(f.Since.Truncate(time.Second)) {
			return false
		}
		f.path = name
		return true
	})
}

func minus(u, v signalbox.Usage) signalbox.Usage {
	return signalbox.Usage{InputTokens: max(0, u.InputTokens-v.InputTokens),
		CachedInputTokens: max(0, u.CachedInputTokens-v.CachedInputTokens),
		OutputTokens:      max(0, u.OutputTokens-v.OutputTokens)}
}

// started reports whether something that a file dates happened after the program was started.
// Files have milliseconds.
func (f *SessionFiles) started(at time.Time) bool {
	return !at.Before(f.Since.Truncate(time.Millisecond))
}

// codexLine is a line of a file of codex. Usage is that of the whole session.
type codexLine struct {
	Timestamp time.Time `json:"timestamp"`
	Type      string    `json:"type"`
	Payload   struct {
		Type      string    `json:"type"`
		ID        string    `json:"id"`
		Timestamp time.Time `json:"timestamp"`
		Model     string    `json:"model"`
		Info      *struct {
			Total struct {
				Input  int64 `json:"input_tokens"`
				Cached int64 `json:"cached_input_tokens"`
				Output int64 `json:"output_tokens"`
			} `json:"total_token_usage"`
		} `json:"info"`
	} `json:"payload"`
}

// readCodex reads the lines that were added since the last time.
func (f *SessionFiles) readCodex(file *os.File, info fs.FileInfo, session string) {
	f.lines.read(file, info, func(line []byte) {
		// Most lines say nothing about usage.
		if bytes.Contains(line, []byte(`"token_count"`)) ||
			bytes.Contains(line, []byte(`"session_meta"`)) ||
			bytes.Contains(line, []byte(`"turn_context"`)) {
			f.addCodexLine(line, session)
		}
	})
}

func (f *SessionFiles) addCodexLine(text []byte, session string) {
	var line codexLine
	if json.Unmarshal(text, &line) != nil {
		return
	}
	switch p := &line.Payload; {
	case line.Type == "session_meta":
		created := p.Timestamp
		if created.IsZero() {
			created = line.Timestamp
		}
		f.state.known = f.state.known || p.ID == session && (f.Private || f.started(created))
	case line.Type == "turn_context" && p.Model != "":
		f.state.model = p.Model
	case line.Type == "event_msg" && p.Type == "token_count" && p.Info != nil:
		t := p.Info.Total
		f.state.total = signalbox.Usage{InputTokens: max(0, t.Input),
			CachedInputTokens: max(0, t.Cached), OutputTokens: max(0, t.Output)}
		if f.started(line.Timestamp) {
			f.state.reported = true
		} else {
			f.state.before = f.state.total
		}
	}
}

// geminiMessage is a message in a file of gemini. Usage is that of the message.
type geminiMessage struct {
	SessionID string    `json:"sessionId"` // of the whole file
	StartTime time.Time `json:"startTime"`
	// decoded one by one, because many empty ones would use much memory
	Messages json.RawMessage `json:"messages"`

	ID        string    `json:"id"`
	Timestamp time.Time `json:"timestamp"`
	Model     string    `json:"model"`
	Tokens    *struct {
		Input    int64 `json:"input"`
		Output   int64 `json:"output"`
		Cached   int64 `json:"cached"`
		Thoughts int64 `json:"thoughts"`
	} `json:"tokens"`
}

// readGemini reads the file again if it has changed. It is one object, or one on each line.
func (f *SessionFiles) readGemini(file *os.File, info fs.FileInfo, session string) {
	if info.ModTime().Equal(f.read) && info.Size() == f.size || info.Size() > maxSessionFile {
		return
	}
	state, messages := sessionState{}, map[string]signalbox.Usage{}
	add := func(m geminiMessage) {
		if m.Tokens == nil {
			return
		}
		u := signalbox.Usage{InputTokens: max(0, m.Tokens.Input), CachedInputTokens: max(0, m.Tokens.Cached), OutputTokens: max(0, m.Tokens.Output) + max(0, m.Tokens.Thoughts)}
		delta := signalbox.Usage{InputTokens: u.InputTokens - messages[m.ID].InputTokens,
			CachedInputTokens: u.CachedInputTokens - messages[m.ID].CachedInputTokens,
			OutputTokens:      u.OutputTokens - messages[m.ID].OutputTokens}
		if m.ID != "" {
			messages[m.ID] = u
		}
		to := &state.before
		if f.started(m.Timestamp) {
			to, state.reported, state.model = &state.total, true, m.Model
		}
		to.InputTokens, to.CachedInputTokens, to.OutputTokens = to.InputTokens+delta.InputTokens,
			to.CachedInputTokens+delta.CachedInputTokens, to.OutputTokens+delta.OutputTokens
	}
	decoder := json.NewDecoder(limited(file, info, 0))
	for {
		var m geminiMessage
		if err := decoder.Decode(&m); err == io.EOF {
			break
		} else if err != nil { // it is being written; read it again later
			return
		}
		if m.SessionID != "" {
			state.known = m.SessionID == session && (f.Private || f.started(m.StartTime))
		}
		if !eachMessage(m.Messages, add) {
			return
		}
		add(m)
	}
	b := state.before // total covers the whole session
	state.total = signalbox.Usage{InputTokens: state.total.InputTokens + b.InputTokens,
		CachedInputTokens: state.total.CachedInputTokens + b.CachedInputTokens,
		OutputTokens:      state.total.OutputTokens + b.OutputTokens}
	f.state, f.read, f.size = state, info.ModTime(), info.Size()
}

// eachMessage calls use for each message of a list, and reports whether the list is valid. There
// may be none.
func eachMessage(list json.RawMessage, use func(geminiMessage)) bool {
	decoder := json.NewDecoder(bytes.NewReader(list))
	if first, err := decoder.Token(); err == io.EOF || err == nil && first == nil {
		return true
	} else if first != json.Delim('[') {
		return false
	}
	for decoder.More() {
		var m geminiMessage
		if decoder.Decode(&m) != nil {
			return false
		}
		use(m)
	}
	return true
}
