package checkrun

import "strings"

// shellCommand is a simple command at the start of a shell script.
type shellCommand struct {
	words []shellWord
	// decides means that the script fails if the command fails.
	decides bool
}

// shellWord is a word of a command. literal means that the shell does not expand it.
type shellWord struct {
	text            string
	literal, quoted bool
}

// reserved are words that begin something else than a simple command.
var reserved = []string{"!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "then", "until", "while", "[["}

// parseShell returns the simple commands at the start of a shell script, up to the first construct
// that it does not understand. It is not a full parser: it must only be right about what it
// returns.
func parseShell(script string) (commands []shellCommand) {
	p := shellParser{rest: script}
	list := 0 // where the current list of commands with && begins
	stops := false
	for {
		var words []shellWord
		for {
			word, ok := p.word()
			if !ok {
				break
			}
			words = append(words, word)
		}
		operator := p.operator()
		for _, name := range reserved {
			if len(words) > 0 && words[0].text == name && !words[0].quoted {
				return commands
			}
		}
		switch operator {
		case "&&", ";", "\n", "|", "":
		case "||", "&": // a failure is handled, or ignored
			return commands[:list]
		default: // a subshell or a here-document
			return commands
		}
		if len(words) > 0 {
			last := operator == "" || strings.TrimSpace(p.rest) == ""
			commands = append(commands, shellCommand{words, operator == "&&" || operator != "|" &&
				(stops || last)})
			stops = stops || words[0].text == "set" && len(words) > 1 &&
				strings.HasPrefix(words[1].text, "-") && strings.Contains(words[1].text, "e")
		}
		if operator == ";" || operator == "\n" {
			list = len(commands)
		}
		if operator == "" {
			return commands
		}
	}
}

type shellParser struct{ rest string }

// word returns the next word; ok is false before an operator and at the end. Redirections are
// skipped.
func (p *shellParser) word() (w shellWord, ok bool) {
	for {
		p.rest = strings.TrimLeft(p.rest, " \t")
		switch {
		case strings.HasPrefix(p.rest, "\\\n"):
			p.rest = p.rest[2:]
			continue
		case strings.HasPrefix(p.rest, "#"):
			end := strings.IndexByte(p.rest, '\n')
			if end < 0 {
				end = len(p.rest)
			}
			p.rest = p.rest[end:]
			continue
		}
		break
	}
	w.literal = true
	var text strings.Builder
	for p.rest != "" && !strings.ContainsRune(" \t\n;&|()<>", rune(p.rest[0])) {
		c := p.rest[0]
		switch c {
		case '\'':
			end := strings.IndexByte(p.rest[1:], '\'')
			if end < 0 {
				end = len(p.rest) - 1
				w.literal = false
			}
			text.WriteString(p.rest[1:min(1+end, len(p.rest))])
			p.rest = p.rest[min(end+2, len(p.rest)):]
			w.quoted = true
		case '"':
			p.rest = p.rest[1:]
			w.quoted = true
			for p.rest != "" && p.rest[0] != '"' {
				if strings.ContainsRune("$`\\", rune(p.rest[0])) {
					w.literal = false
				}
				if p.rest[0] == '\\' && len(p.rest) > 1 {
					p.rest = p.rest[1:]
				}
				text.WriteByte(p.rest[0])
				p.rest = p.rest[1:]
			}
			if p.rest == "" {
				w.literal = false
			} else {
				p.rest = p.rest[1:]
			}
		case '\\':
			w.literal = false
			p.rest = p.rest[min(2, len(p.rest)):]
		default:
			if strings.ContainsRune("$`*?[~", rune(c)) && !(c == '[' && text.Len() == 0) {
				w.literal = false
			}
			text.WriteByte(c)
			p.rest = p.rest[1:]
		}
	}
	w.text = text.String()
	if p.redirect(&w) {
		return p.word()
	}
	return w, w.text != "" || w.quoted
}

// redirect skips a redirection to or from a file, such as 2>&1 or > out. w is the word before it,
// which may be a number.
func (p *shellParser) redirect(w *shellWord) bool {
	if p.rest == "" || p.rest[0] != '<' && p.rest[0] != '>' || strings.HasPrefix(p.rest, "<<") ||
		w.text != "" && strings.Trim(w.text, "0123456789") != "" {
		return false
	}
	p.rest = strings.TrimLeft(p.rest, "<>&")
	p.rest = strings.TrimLeft(p.rest, " \t")
	for p.rest != "" && !strings.ContainsRune(" \t\n;&|()<>", rune(p.rest[0])) {
		p.rest = p.rest[1:]
	}
	return true
}

// operator returns what ends a command: "" at the end of the script.
func (p *shellParser) operator() string {
	for _, operator := range []string{"&&", "||", ";", "|", "&", "\n", "(", ")", "<", ">"} {
		if rest, found := strings.CutPrefix(p.rest, operator); found {
			p.rest = rest
			return operator
		}
	}
	return ""
}
