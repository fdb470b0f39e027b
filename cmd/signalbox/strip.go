package main

import (
	"io"

	"signalbox/transcript"
)

type stripCommand struct {
	File *string `arg:"" optional:"" help:"The text; - or none is standard input."`
}

func (stripCommand) Help() string {
	return `Copies a model's reply without its turn signals, for people to read: every complete <signal type="…">…</signal> outside code fences is removed, whatever its type, then the white space at the end. Nothing else is lost. It works as a filter: text is passed on as soon as it cannot be part of a signal.

Examples:

    signalbox strip reply.txt
    model-client | signalbox strip`
}

func (c *stripCommand) Run(p *program) error {
	in, err := p.open(c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	strip := transcript.NewStripStream(p.out)
	buf := make([]byte, readSize)
	for {
		n, readErr := in.Read(buf)
		if _, err := strip.Write(buf[:n]); err != nil {
			return err
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
		if readErr == io.EOF {
			return c.finish(p, strip)
		}
		if readErr != nil {
			return readErr
		}
	}
}

// finish ends the text, and on a terminal also its last line, so that the prompt stands on one of its own.
func (c *stripCommand) finish(p *program, strip *transcript.StripStream) error {
	if err := strip.Close(); err != nil || !isTerminal(p.stdout) {
		return err
	}
	return p.out.WriteByte('\n')
}
