package assistants

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/console/chat"
)

// historyFile is the file of the oracle's folder with the questions of chats.
const historyFile = "history"

const chatHint = "Enter sends the question, Alt-Enter starts a new line, Ctrl-R searches earlier questions, Ctrl-C stops an answer, Ctrl-D leaves."

// chat answers several questions in one conversation. If a stream is not a terminal, or one that
// cannot move its cursor, a question is a line.
func (t *conversation) chat() error {
	p := t.p
	keys, _ := p.Stdin.(*os.File)
	screen, _ := p.Stdout.(*os.File)
	columns, rows := cli.SizeOf(p.Stdout)
	if term := p.Getenv("TERM"); keys == nil || screen == nil || !cli.IsTerminal(p.Stderr) ||
		columns == 0 || rows == 0 ||
		term == "dumb" || term == "" && runtime.GOOS != "windows" {
		return t.chatLines()
	}
	p.Out.Flush() // the next write reports an error
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	hint := chatHint
	if p.Quiet {
		hint = ""
	}
	err := chat.Run(ctx, chat.Options{Keys: keys, Screen: screen, Environ: terminalVariables(p),
		Colours: p.Getenv("NO_COLOR") == "", Reasoning: t.c.Thoughts,
		Hint: hint, History: filepath.Join(t.folder, historyFile), MaxQuestion: oracle.MaxQuestion,
		Ask: t.ask,
		Fatal: func(err error) bool {
			code := signalbox.CodeOf(err)
			return code != signalbox.CodeFailed && code != signalbox.CodeInterrupted
		}})
	if errors.Is(err, chat.ErrInterrupted) {
		err = &signalbox.Error{Code: signalbox.CodeInterrupted, Err: err,
			Hint: "resume it with signalbox oracle --continue"}
	}
	return err
}

// terminalVariables returns the variables that describe the terminal.
func terminalVariables(p *cli.Program) []string {
	environ := []string{}
	for _, name := range []string{"TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE",
		"TERM_PROGRAM", "TMUX", "STY", "WT_SESSION", "SSH_TTY", "ConEmuANSI"} {
		if value := p.Getenv(name); value != "" {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}
