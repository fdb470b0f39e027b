package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
)

// recordMode as the first argument makes this program a child of a measurement: another process at the same box, or
// one whose memory and time are its own.
const recordMode = "measure-record"

// said is what a child tells its parent about one thing. Fields that do not apply are zero.
type said struct {
	What     string // work that was claimed, an event that was seen
	At       int64  // when, by the clock of the machine
	Events   uint64 // that the log has
	Resident int64  // bytes of memory, at most
}

// task is what a child does with the box in a folder.
type task func(dir string, number int, tell func(said) error) error

var tasks = map[string]task{
	"start": onJournal(fold), "verify": onJournal(verifyJournal), "claim": claimTask, "watch": watchTask,
}

// runTask is the child's main.
func runTask(args []string) error {
	if len(args) != 3 || tasks[args[0]] == nil {
		return fmt.Errorf("%s: want a task, a folder and a number", recordMode)
	}
	number, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		exit(errors.New("the parent is gone"))
	}()
	out := json.NewEncoder(os.Stdout)
	return tasks[args[0]](args[1], number, func(s said) error { return out.Encode(s) })
}

// child is a task that runs in a process of its own. It ends by itself, or with its parent.
type child struct {
	*exec.Cmd
	says *json.Decoder
}

func startChild(task, dir string, number int) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, recordMode, task, dir, strconv.Itoa(number))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &child{cmd, json.NewDecoder(out)}, cmd.Start()
}

// hear returns the next that the child tells.
func (c *child) hear() (told said, err error) { return told, c.says.Decode(&told) }

// onJournal is a task that tells how many events it found in the log, and how much memory it took.
func onJournal(do func(j journal.Journal, number int) (events uint64, err error)) task {
	return func(dir string, number int, tell func(said) error) error {
		j, err := openJournal(dir)
		if err != nil {
			return err
		}
		defer j.Close()
		events, err := do(j, number)
		if err != nil {
			return err
		}
		resident, err := peakResident()
		return errors.Join(err, tell(said{Events: events, Resident: resident}))
	}
}

// fold opens an engine and leaves it to the end of the process.
func fold(j journal.Journal, _ int) (uint64, error) {
	e, err := engine.Open(context.Background(), j, nil)
	if err != nil {
		return 0, err
	}
	return e.Tail().Seq, nil
}
