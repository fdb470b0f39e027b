package runner

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"signalbox/internal/tree"
)

// ErrNoTick means that a recording does not have a tick.
var ErrNoTick = errors.New("the run does not have this tick")

// Limits of a recording. The file may be in a folder that an agent can write to.
const (
	// MaxRecording is the size of the largest journal that can be stepped through.
	MaxRecording = 256 << 20
	// maxKept is how much of the run's states is kept for stepping back, as estimated by weight.
	maxKept = 32 << 20
	// maxStates is how many states are kept.
	maxStates = 64
)

// Recording steps through a journal in any order, also while another process writes it. It replays
// the journal once, and keeps the states of some ticks, so that a step replays only the ticks since
// the last of these. It is safe for concurrent use.
type Recording struct {
	name string
	open func() (*os.File, error)
	load func(context.Context, tree.Header) (*tree.Tree, error)

	turn chan struct{} // held by the caller that reads; a channel, so that waiting for it can end

	// All fields below belong to the holder of turn.
	file    os.FileInfo // the file that was read
	journal Journal
	lines   int
	head    *tree.Run // after the last tick that was read
	// offsets are where the lines of the ticks begin, and turns the ticks in which a reply of a
	// model arrived.
	offsets []int64
	turns   []int
	// states are the states after every interval ticks, from tick 0.
	states   []*tree.Run
	interval int
	kept     int
	failed   error // why the rest of the journal cannot be read
}

// Step is the state of a run after a tick.
type Step struct {
	Header tree.Header
	// Ending is how the run ended or was stopped; nil if the journal does not say.
	Ending *tree.Ending
	// Ticks is how many ticks the journal has so far, and Turns those in which a reply of a model
	// arrived.
	Ticks int
	Turns []int
	// Run is the run after the tick. It belongs to the caller.
	Run *tree.Run
	// Before is the blackboard before the tick.
	Before map[string]any
	// Failed is why the journal cannot be read after the last of its ticks; nil if all of it was
	// read.
	Failed error
}

// NewRecording returns a recording of a journal. The name is for messages, open opens the file, and
// load returns the tree of the run.
func NewRecording(name string, open func() (*os.File, error),
	load func(context.Context, tree.Header) (*tree.Tree, error)) *Recording {
	return &Recording{name: name, open: open, load: load, turn: make(chan struct{}, 1)}
}

// At returns the state after a tick. Zero means the state before the first tick, and a negative
// number the last tick so far. If the context ends while it reads, the next call continues there.
func (r *Recording) At(ctx context.Context, tick int) (*Step, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	file, err := r.open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := r.catchUp(ctx, file); err != nil {
		return nil, err
	}
	switch {
	case len(r.states) == 0 && r.failed != nil:
		return nil, r.failed
	case len(r.states) == 0:
		return nil, fmt.Errorf("%s has no complete line yet", r.name)
	case tick < 0:
		tick = len(r.offsets)
	case tick > len(r.offsets):
		return nil, fmt.Errorf("%w: %s has %d", ErrNoTick, r.name, len(r.offsets))
	}
	run := r.states[max(0, tick-1)/r.interval].Clone()
	if err := r.replayUpTo(ctx, file, run, tick-1); err != nil {
		return nil, err
	}
	step := &Step{Header: r.journal.Header, Ending: r.journal.Ending, Ticks: len(r.offsets), Turns: r.turns[:len(r.turns):len(r.turns)], Run: run, Before: run.Board().Snapshot(), Failed: r.failed}
	return step, r.replayUpTo(ctx, file, run, tick)
}

// catchUp replays the lines that were added since the last call. If another file has the name, it
// starts again.
func (r *Recording) catchUp(ctx context.Context, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > MaxRecording {
		return fmt.Errorf("%s has more than %d MB and cannot be shown", r.name, MaxRecording>>20)
	}
	if r.file == nil || !os.SameFile(r.file, info) || info.Size() < r.journal.size {
		r.journal, r.lines, r.head, r.offsets, r.turns, r.states, r.interval, r.kept,
			r.failed = Journal{}, 0, nil, nil, nil, nil, 1, 0, nil
	}
	r.file = info
	if r.failed != nil || info.Size() == r.journal.size {
		return nil
	}
	if _, err := file.Seek(r.journal.size, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(file, 1<<16)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := readLine(in)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.take(ctx, text); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.failed = &LineError{r.name, r.lines + 1, err}
			return nil
		}
		r.lines++
		r.journal.size += int64(len(text))
	}
}

// take replays a line.
func (r *Recording) take(ctx context.Context, text []byte) error {
	return r.journal.take(bytes.TrimSuffix(text, []byte("\n")), r.lines+1,
		func(h tree.Header) error {
			t, err := r.load(ctx, h)
			if err == nil {
				r.head, err = StartReplay(t, h)
			}
			if err == nil {
				r.keep()
			}
			return err
		}, func(rec *tree.Record) error {
			if err := r.head.Replay(rec); err != nil {
				return err
			}
			r.offsets = append(r.offsets, r.journal.size)
			if hasReply(r.head) {
				r.turns = append(r.turns, rec.Tick)
			}
			if len(r.offsets)%r.interval == 0 {
				r.keep()
			}
			return nil
		})
}

// hasReply reports whether a model call ended in the last tick.
func hasReply(run *tree.Run) bool {
	return slices.ContainsFunc(run.Transitions(),
		func(m tree.Transition) bool { return run.Tree().Kind(m.Node) == tree.LLMCall && m.To.Done() })
}

// keep keeps the state of the last tick. If there are too many, it drops every second one.
func (r *Recording) keep() {
	r.states = append(r.states, r.head.Clone())
	r.kept += weight(r.head)
	for len(r.states) > 1 && (len(r.states) > maxStates || r.kept > maxKept) {
		r.interval *= 2
		n := 0
		for i := 0; i < len(r.states); i += 2 {
			r.states[n] = r.states[i]
			n++
		}
		clear(r.states[n:])
		r.states, r.kept = r.states[:n], 0
		for _, s := range r.states {
			r.kept += weight(s)
		}
	}
}

// weight estimates the memory that a state needs if it shares nothing with others.
func weight(run *tree.Run) int { return run.Board().Size() + 64*run.Tree().Len() }

// replayUpTo replays the ticks of a run up to a tick. catchUp has checked the lines.
func (r *Recording) replayUpTo(ctx context.Context, file *os.File, run *tree.Run, tick int) error {
	if run.Ticks() >= tick {
		return nil
	}
	if _, err := file.Seek(r.offsets[run.Ticks()], io.SeekStart); err != nil {
		return err
	}
	for in := bufio.NewReaderSize(file, 1<<16); run.Ticks() < tick; {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := readLine(in)
		if err != nil {
			return fmt.Errorf("%s was changed: %w", r.name, err)
		}
		if bytes.HasPrefix(text, []byte(endingPrefix)) {
			continue // the run was interrupted here, and resumed
		}
		rec, err := tree.ParseRecord(text)
		if err == nil {
			err = run.Replay(rec)
		}
		if err != nil {
			return fmt.Errorf("%s was changed: %w", r.name, err)
		}
	}
	return nil
}
