package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// SessionFiles reads what a program has used from the files that it keeps about its sessions, for programs that report their usage only
// at the end of a turn. The files are the program's own and their form may change, so a file that cannot be read is as good as none.
type SessionFiles struct {
	// Format is that of the program. Only codex and gemini have such files.
	Format signalbox.Format
	// Dir is the state folder of the program: CODEX_HOME, or the folder .gemini.
	Dir string
	// Private means that no other program uses the folder. Otherwise only a file that was created after Since counts.
	Private bool
	// Since is when the program was started. What was used before it does not count.
	Since time.Time

	path   string    // of the session, once it is found
	offset int64     // up to which the file of codex was read
	read   time.Time // the modification time of what was read
	state  sessionState
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
	// Usage is since SessionFiles.Since, and Before what it had used until then, if the session was resumed.
	Usage, Before signalbox.Usage
	Model         string
}

// maxSessionFile bounds how much of a file of gemini is read.
const maxSessionFile = 256 << 20

// StateDir returns the state folder that a program with an environment uses, "" if it has none that is known.
func StateDir(format signalbox.Format, env []string) string {
	value := func(name string) string {
		for _, entry := range slices.Backward(env) {
			if v, ok := strings.CutPrefix(entry, name+"="); ok {
				return v
			}
		}
		return ""
	}
	home := func(variable, folder string) string {
		for _, name := range []string{variable, "HOME", "USERPROFILE"} {
			if dir := value(name); filepath.IsAbs(dir) {
				return filepath.Join(dir, folder)
			}
		}
		return ""
	}
	switch format {
	case signalbox.FormatCodex:
		if dir := value("CODEX_HOME"); filepath.IsAbs(dir) {
			return dir
		}
		return home("HOME", ".codex")
	case signalbox.FormatGemini:
		return home("GEMINI_CLI_HOME", ".gemini")
	}
	return ""
}

// Read returns what a session has used so far; ok is false if no file says so. It is called again and again, and reads only what is new.
func (f *SessionFiles) Read(session string) (u SessionUsage, ok bool) {
	if f.Dir == "" || session == "" || strings.ContainsAny(session, `/\*?[`) {
		return u, false
	}
	if f.path == "" && !f.find(session) {
		return u, false
	}
	switch f.Format {
	case signalbox.FormatCodex:
		f.readCodex(session)
	case signalbox.FormatGemini:
		f.readGemini(session)
	}
	u = SessionUsage{Usage: minus(f.state.total, f.state.before), Before: f.state.before, Model: f.state.model}
	return u, f.state.known && f.state.reported
}

// find looks for the file of a session. Its name contains the id, or the start of it.
func (f *SessionFiles) find(session string) bool {
	pattern := filepath.Join(f.Dir, "sessions", "*", "*", "*", "rollout-*"+session+".jsonl")
	if f.Format == signalbox.FormatGemini {
		pattern = filepath.Join(f.Dir, "tmp", "*", "chats", "session-*"+session[:min(8, len(session))]+"*.json*")
	}
	names, _ := filepath.Glob(pattern) // the pattern is valid
	for _, name := range names {
		info, err := os.Lstat(name)
		if err == nil && info.Mode().IsRegular() && !info.ModTime().Before(f.Since.Truncate(time.Second)) {
			f.path = name
			return true
		}
	}
	return false
}

func minus(u, v signalbox.Usage) signalbox.Usage {
	return signalbox.Usage{InputTokens: max(0, u.InputTokens-v.InputTokens), CachedInputTokens: max(0, u.CachedInputTokens-v.CachedInputTokens),
		OutputTokens: max(0, u.OutputTokens-v.OutputTokens)}
}

// started reports whether something that a file dates is of the time after the program was started. Files have milliseconds.
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
func (f *SessionFiles) readCodex(session string) {
	file, err := os.Open(f.path)
	if err != nil {
		return
	}
	defer file.Close()
	if _, err := file.Seek(f.offset, io.SeekStart); err != nil {
		return
	}
	r := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil { // the last line is not complete
			return
		}
		f.offset += int64(len(line))
		// Most lines are long and say nothing about usage.
		if bytes.Contains(line, []byte(`"token_count"`)) || bytes.Contains(line, []byte(`"session_meta"`)) || bytes.Contains(line, []byte(`"turn_context"`)) {
			f.addCodexLine(line, session)
		}
	}
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
		f.state.total = signalbox.Usage{InputTokens: max(0, t.Input), CachedInputTokens: max(0, t.Cached), OutputTokens: max(0, t.Output)}
		if f.started(line.Timestamp) {
			f.state.reported = true
		} else {
			f.state.before = f.state.total
		}
	}
}

// geminiMessage is a message in a file of gemini. Usage is that of the message.
type geminiMessage struct {
	SessionID string          `json:"sessionId"` // of the whole file
	StartTime time.Time       `json:"startTime"`
	Messages  []geminiMessage `json:"messages"`

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
func (f *SessionFiles) readGemini(session string) {
	info, err := os.Stat(f.path)
	if err != nil || info.ModTime().Equal(f.read) && info.Size() == f.offset {
		return
	}
	file, err := os.Open(f.path)
	if err != nil {
		return
	}
	defer file.Close()
	state, messages := sessionState{}, map[string]signalbox.Usage{}
	add := func(m geminiMessage) {
		if m.Tokens == nil {
			return
		}
		u := signalbox.Usage{InputTokens: max(0, m.Tokens.Input), CachedInputTokens: max(0, m.Tokens.Cached), OutputTokens: max(0, m.Tokens.Output) + max(0, m.Tokens.Thoughts)}
		delta := signalbox.Usage{InputTokens: u.InputTokens - messages[m.ID].InputTokens, CachedInputTokens: u.CachedInputTokens - messages[m.ID].CachedInputTokens,
			OutputTokens: u.OutputTokens - messages[m.ID].OutputTokens}
		if m.ID != "" {
			messages[m.ID] = u
		}
		to := &state.before
		if f.started(m.Timestamp) {
			to, state.reported, state.model = &state.total, true, m.Model
		}
		to.InputTokens, to.CachedInputTokens, to.OutputTokens = to.InputTokens+delta.InputTokens, to.CachedInputTokens+delta.CachedInputTokens, to.OutputTokens+delta.OutputTokens
	}
	decoder := json.NewDecoder(io.LimitReader(file, maxSessionFile))
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
		for _, message := range m.Messages {
			add(message)
		}
		add(m)
	}
	b := state.before // total is of the whole session
	state.total = signalbox.Usage{InputTokens: state.total.InputTokens + b.InputTokens, CachedInputTokens: state.total.CachedInputTokens + b.CachedInputTokens,
		OutputTokens: state.total.OutputTokens + b.OutputTokens}
	f.state, f.read, f.offset = state, info.ModTime(), info.Size()
}
