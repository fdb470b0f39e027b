package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"signalbox"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/console/chat"
)

// historyFile is the file of the oracle's folder with the questions of chats.
const historyFile = "history"

const chatHint = "Enter sends the question, Alt-Enter starts a new line, Ctrl-R searches earlier questions, Ctrl-C stops an answer, Ctrl-D leaves."

// chat answers several questions in one conversation. If a stream is not a terminal, or one that cannot move its cursor, a question is a line.
func (t *conversation) chat() error {
	p := t.p
	keys, _ := p.stdin.(*os.File)
	screen, _ := p.stdout.(*os.File)
	columns, rows := sizeOf(p.stdout)
	if term := p.getenv("TERM"); keys == nil || screen == nil || !isTerminal(p.stderr) || columns == 0 || rows == 0 ||
		term == "dumb" || term == "" && runtime.GOOS != "windows" {
		return t.chatLines()
	}
	p.out.Flush() // the next write reports an error
	ctx, stop := untilInterrupted()
	defer stop()
	hint := chatHint
	if p.quiet {
		hint = ""
	}
	err := chat.Run(ctx, chat.Options{Keys: keys, Screen: screen, Environ: p.terminalVariables(), Colours: p.getenv("NO_COLOR") == "", Reasoning: t.c.Thoughts,
		Hint: hint, History: filepath.Join(t.folder, historyFile), MaxQuestion: oracle.MaxQuestion, Ask: t.ask,
		Fatal: func(err error) bool {
			code := signalbox.CodeOf(err)
			return code != signalbox.CodeFailed && code != signalbox.CodeInterrupted
		}})
	if errors.Is(err, chat.ErrInterrupted) {
		err = &signalbox.Error{Code: signalbox.CodeInterrupted, Err: err, Hint: "resume it with signalbox oracle --continue"}
	}
	return err
}

// terminalVariables returns the variables that describe the terminal.
func (p *program) terminalVariables() []string {
	environ := []string{}
	for _, name := range []string{"TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM_PROGRAM", "TMUX", "STY", "WT_SESSION", "SSH_TTY", "ConEmuANSI"} {
		if value := p.getenv(name); value != "" {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}
