package byhand

import (
	"bufio"
	"io"

	"signalbox/internal/cli"
	"signalbox/transcript"
)

type StripCommand struct {
	cli.RawFlag
	File *string `arg:"" optional:"" help:"The file with the reply. Default: standard input, like -."`
}

func (StripCommand) Help() string {
	return `Copies the reply of a model without its turn signals. It removes every complete <signal type="…">…</signal> outside code fences and inline code, of any type, and white space at the end; everything else is unchanged, except that control characters are escaped on a terminal. It works as a filter: text is written as soon as it cannot be part of a signal.

Examples:

    signalbox strip reply.txt
    model-client | signalbox strip`
}

func (c *StripCommand) Run(p *cli.Program) error {
	in, err := p.Open(c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	out := p.Exact(c.RawFlag)
	strip := transcript.NewStripStream(out)
	buf := make([]byte, readSize)
	for {
		n, readErr := in.Read(buf)
		if _, err := strip.Write(buf[:n]); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if readErr == io.EOF {
			return c.finish(p, strip, out)
		}
		if readErr != nil {
			return readErr
		}
	}
}

// finish ends the text. On a terminal it also ends the last line, so that the shell prompt starts
// on a new line.
func (c *StripCommand) finish(p *cli.Program, strip *transcript.StripStream,
	out *bufio.Writer) error {
	if err := strip.Close(); err != nil || !cli.IsTerminal(p.Stdout) {
		return err
	}
	return out.WriteByte('\n')
}
