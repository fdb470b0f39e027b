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
	"time"

	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
)

// childMode as the first argument makes this program a child process of a measurement: another
// process that uses the same box, or one whose time and memory are measured.
const childMode = "child"

// report is a message of a child to its parent. Fields that do not apply are zero.
type report struct {
	What string // the work that was claimed, or the event that was seen
	// time in nanoseconds since 1970: the end of what is reported, or the start if Lasted is set
	At       int64
	Events   uint64          // in the log
	Bytes    int64           // of the transcript
	Signals  int             // in the transcript
	Resident int64           // peak memory in bytes; 0 where the system does not report it
	Took     []time.Duration // of commands
	Lasted   time.Duration   // of all of them together
}

// task is the work of a child: on the box at a place, or on the named case. The number depends on
// the task.
type task func(name string, number int, send func(report) error) error

var tasks = map[string]task{
	"start": onJournal(fold), "verify": onJournal(verifyJournal), "claim": claimTask,
	"watch": watchTask, "scan": scanTask, "logs": logsTask, "bare": bareTask, "work": workTask,
	"nats": natsTask, "node": nodeTask,
}

// runTask is the child's main.
func runTask(args []string) error {
	if len(args) != 3 || tasks[args[0]] == nil {
		return fmt.Errorf("%s: want a task, a place or case, and a number", childMode)
	}
	number, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		exit(errors.New("the parent process has ended"))
	}()
	out := json.NewEncoder(os.Stdout)
	return tasks[args[0]](args[1], number, func(r report) error { return out.Encode(r) })
}

// child is a task in its own process, which ends when the task is done or its parent ends.
type child struct {
	*exec.Cmd
	reports *json.Decoder
}

func startChild(task, name string, number int) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, childMode, task, name, strconv.Itoa(number))
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

// receive returns the next report of the child.
func (c *child) receive() (r report, err error) {
	err = c.reports.Decode(&r)
	return r, err
}

// runChild runs a task that sends one report, and returns the report and the state of the process
// after its end.
func runChild(task, name string, number int) (report, *os.ProcessState, error) {
	c, err := startChild(task, name, number)
	if err != nil {
		return report{}, nil, err
	}
	r, err := c.receive()
	err = errors.Join(err, c.Wait())
	return r, c.ProcessState, err
}

// onJournal returns a task that reports the number of events in the log and its peak memory.
func onJournal(do func(j journal.Journal, number int) (events uint64, err error)) task {
	return func(place string, number int, send func(report) error) error {
		j, err := openJournal(place)
		if err != nil {
			return err
		}
		defer j.Close()
		events, err := do(j, number)
		if err != nil {
			return err
		}
		resident, err := peakResident()
		return errors.Join(err, send(report{Events: events, Resident: resident}))
	}
}

// fold opens an engine, which stays open until the process ends.
func fold(j journal.Journal, _ int) (uint64, error) {
	e, err := engine.Open(context.Background(), j, nil)
	if err != nil {
		return 0, err
	}
	return e.Tail().Seq, nil
}
