package chat

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"signalbox/internal/text"
)

// press handles a key.
func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	if m.leaving {
		return nil
	}
	name := msg.String()
	switch name {
	case "ctrl+c":
		m.search = nil
		m.interrupt()
		return nil
	}
	m.twice = false
	switch name {
	case "ctrl+z":
		m.suspend = true
		return nil
	}
	if m.search != nil && m.pressInSearch(msg) {
		return nil
	}
	switch name {
	case "enter":
		return m.send()
	case "ctrl+d":
		if m.input.Value() == "" {
			m.leave()
			return nil
		}
	case "ctrl+r":
		m.search = newSearch(m.history.entries)
		return nil
	case "esc":
		return nil
	case "up", "ctrl+p":
		if m.input.Line() == 0 && m.input.LineInfo().RowOffset == 0 {
			m.recall(m.at - 1)
			return nil
		}
	case "down", "ctrl+n":
		if info := m.input.LineInfo(); m.input.Line() == m.input.LineCount()-1 &&
			info.RowOffset >= info.Height-1 {
			m.recall(m.at + 1)
			return nil
		}
	}
	if m.isFull(msg.Text) {
		return nil
	}
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(msg)
	return cmd
}

// recall shows an entry of the history, or the draft after the last one.
func (m *model) recall(at int) {
	entries := m.history.entries
	if at < 0 || at > len(entries) {
		return
	}
	if m.at == len(entries) {
		m.draft = m.input.Value()
	}
	m.at = at
	if at == len(entries) {
		m.setInput(m.draft)
		return
	}
	m.setInput(entries[at])
}

// setInput replaces the input. The cursor is at its end.
func (m *model) setInput(value string) {
	m.input.SetValue(strings.TrimRight(typable(value), "\n"))
	m.input, _ = m.input.Update(nil) // scrolls to the cursor
}

// paste inserts text. Its line ends do not send it.
func (m *model) paste(pasted string) {
	pasted = typable(pasted)
	switch {
	case m.search != nil:
		m.search.find(m.search.query + strings.ReplaceAll(pasted, "\n", " "))
	case !m.isFull(pasted):
		m.input, _ = m.input.Update(tea.PasteMsg{Content: pasted})
	}
}

// isFull reports whether text does not fit into the input, and says so.
func (m *model) isFull(more string) bool {
	switch {
	case more == "":
	case m.opts.MaxQuestion > 0 && len(m.input.Value())+len(more) > m.opts.MaxQuestion:
		m.status = "this is too much text; put it into a file and ask about the file"
		return true
	case m.input.LineCount()+strings.Count(more, "\n") > maxLines:
		m.status = "these are too many lines; put them into a file and ask about the file"
		return true
	}
	return false
}

// typable returns text for the input: with the line ends of this system, and without characters
// that a terminal obeys or hides. Nobody types them, but text from a web page may contain them.
func typable(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	return strings.Map(func(r rune) rune {
		if text.IsUnsafe(r) {
			return -1
		}
		return r
	}, s)
}

// search is a search in the history for entries that contain a text, from new to old.
type search struct {
	entries []string
	query   string
	at      int // the entry that was found, len(entries) if there is none
}

func newSearch(entries []string) *search { return &search{entries: entries, at: len(entries)} }

// find looks for the newest entry with a text.
func (s *search) find(query string) {
	s.query, s.at = query, len(s.entries)
	if query != "" {
		s.next()
	}
}

// next looks for an older entry. It stays where it is if there is none.
func (s *search) next() {
	for i := s.at - 1; i >= 0; i-- {
		if strings.Contains(strings.ToLower(s.entries[i]), strings.ToLower(s.query)) {
			s.at = i
			return
		}
	}
}

func (s *search) found() (string, bool) {
	if s.at == len(s.entries) {
		return "", false
	}
	return s.entries[s.at], true
}

// pressInSearch handles a key during a search. It reports false for a key that ends the search and
// has its usual meaning.
func (m *model) pressInSearch(msg tea.KeyPressMsg) bool {
	s := m.search
	switch name := msg.String(); {
	case name == "ctrl+r":
		s.next()
	case name == "backspace" || name == "ctrl+h":
		if runes := []rune(s.query); len(runes) > 0 {
			s.find(string(runes[:len(runes)-1]))
		}
	case name == "esc" || name == "ctrl+g":
		m.search = nil
	case msg.Text != "":
		s.find(s.query + typable(msg.Text))
	default:
		m.search = nil
		if entry, ok := s.found(); ok {
			m.at = s.at
			m.setInput(entry)
		}
		return name == "enter" || name == "tab" // to be edited before it is sent
	}
	return true
}
