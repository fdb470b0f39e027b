// Package chat is a conversation on a terminal: the user edits questions, and the answers are
// rendered as they arrive.
//
// The terminal stays in its normal screen. Whatever is final is above the input line, where the
// terminal keeps it when it scrolls; only the last part of an answer, which may still change, and
// the input are drawn again. Text from models and tools cannot send control sequences to the
// terminal. The terminal is restored when Run returns.
package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
)

// Options configure a chat.
type Options struct {
	// Keys and Screen are the terminal.
	Keys, Screen *os.File
	// Environ describes the terminal: TERM and what else a terminal sets. Nil means the environment
	// of the process.
	Environ []string
	// Colours allows colours. Without it, text is bold, faint or underlined.
	Colours bool
	// Reasoning shows the model's reasoning.
	Reasoning bool
	// Hint is shown at the start; "" shows nothing.
	Hint string
	// History is the file with earlier questions. Empty means that none are kept.
	History string
	// MaxQuestion is the size of the longest question in bytes.
	MaxQuestion int
	// Ask answers a question and passes chunks to emit as they arrive. It runs in its own
	// goroutine, and never twice at once. It must return soon after its context is done.
	Ask func(ctx context.Context, question string, emit oracle.Emit) error
	// Fatal reports whether an error of Ask ends the chat. Other errors are shown.
	Fatal func(error) bool
}

// ErrInterrupted means that the user left while a question was being answered.
var ErrInterrupted = errors.New("interrupted")

// framesPerSecond limits how often the terminal is written to.
const framesPerSecond = 60

// Run runs a chat until the user leaves it or ctx is done. It returns when Ask has returned.
func Run(ctx context.Context, opts Options) error {
	past, err := openHistory(opts.History)
	m := newModel(opts, past)
	if err != nil {
		m.fail(fmt.Errorf("the history is not available: %w", err))
	}
	screen := &output{file: opts.Screen}
	m.screen = screen
	program := tea.NewProgram(m, tea.WithInput(opts.Keys), tea.WithOutput(screen),
		tea.WithEnvironment(opts.Environ), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	// the model decides what an interrupt means
	answering, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var asking sync.WaitGroup
	m.ask = func(question string) (tea.Cmd, context.CancelFunc) {
		ctx, cancel := context.WithCancel(answering)
		asking.Add(1)
		return func() tea.Msg {
			defer asking.Done()
			return answeredMsg{opts.Ask(ctx, question, func(c chunk.Chunk) error {
				program.Send(chunkMsg{c})
				return nil
			})}
		}, cancel
	}
	forget := context.AfterFunc(ctx, func() { program.Send(leaveMsg{}) })
	defer forget()
	_, err = program.Run()
	stop()
	if restored := screen.end(); err == nil {
		err = restored
	}
	asking.Wait()
	if err != nil {
		return fmt.Errorf("cannot use this terminal: %w", err)
	}
	return m.err
}

// frameInterval is how often text that arrives is rendered.
const frameInterval = 30 * time.Millisecond
