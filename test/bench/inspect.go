package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect/render"
)

// Goals of the commands that only look, in seconds and bytes.
const (
	goalStatusShort = 0.1 // with shortLog events
	goalStatusLong  = 1.0 // with a million
	goalFirstScreen = 0.3
	goalLogMemory   = 100 * megabyte

	shortLog    = 10_000
	firstScreen = 24 // lines

	goalExplain = 0.5 // with plannedLog events
	plannedLog  = 100_000
	// newestEvents is how many events are newer than the snapshot: as many as the engine lets them
	// become.
	newestEvents = 40_000
)

// measureInspect measures the commands that show the state of a box: whole processes of the program
// itself.
func measureInspect(s settings) error {
	return s.withProgram("inspect",
		func(dir, program string) error { return timeInspect(s, dir, program) })
}

func timeInspect(s settings, dir, program string) error {
	var t table
	t.row("command", "seconds", "peak resident MB", "goal")
	for _, c := range []struct {
		events int
		goal   float64
	}{{min(shortLog, s.events), goalStatusShort}, {s.events, goalStatusLong}} {
		progress("inspect: a log of %d events", c.events)
		folder := filepath.Join(dir, fmt.Sprintf("status-%d", c.events))
		if err := writeLong(folder, c.events); err != nil {
			return err
		}
		seconds, err := timeCommand(program, folder, s.rounds, "status")
		if err != nil {
			return err
		}
		t.row(fmt.Sprintf("status, %d events", c.events), fmt.Sprintf("%.3f", seconds), "–",
			formatGoal(fmt.Sprintf("< %g s", c.goal), seconds < c.goal))
	}
	if err := measureHistory(&t, program, filepath.Join(dir, "planned"), s); err != nil {
		return err
	}
	if err := measureLogs(&t, program, filepath.Join(dir, "logs", box.FolderName), s); err != nil {
		return err
	}
	t.print(fmt.Sprintf("What is going on: whole processes (median of %d rounds)", s.rounds))
	return nil
}

// measureHistory measures how long it takes to explain a task in the middle of a long plan, and to
// say what its ledger has learned.
func measureHistory(t *table, program, dir string, s settings) error {
	events := min(plannedLog, s.events)
	progress("inspect: a plan of %d events", events)
	if err := writePlanned(dir, events); err != nil {
		return err
	}
	task := fmt.Sprintf("T%d", events/eventsPerPlanned/2)
	for _, command := range [][]string{{"status"}, {"explain", task}, {"stats"}} {
		seconds, err := timeCommand(program, dir, s.rounds, command...)
		if err != nil {
			return err
		}
		goal := "–"
		if command[0] != "status" {
			goal = formatGoal(fmt.Sprintf("< %g s", goalExplain), seconds < goalExplain)
		}
		t.row(fmt.Sprintf("%s, a plan of %d events", command[0], events),
			fmt.Sprintf("%.3f", seconds), "–", goal)
	}
	return nil
}

// timeCommand returns how many seconds a command takes, the median of all rounds.
func timeCommand(program, dir string, rounds int, command ...string) (float64, error) {
	var seconds []float64
	for range rounds {
		start := time.Now()
		if out, err := exec.Command(program, append(command, "--box",
			dir)...).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%s: %w: %s", command[0], err, out)
		}
		seconds = append(seconds, time.Since(start).Seconds())
	}
	return median(seconds), nil
}

// measureLogs measures how soon the first screen of a long transcript appears, and how much memory
// all of it takes.
func measureLogs(t *table, program, dir string, s settings) error {
	progress("inspect: a transcript of %d MB", s.log/megabyte)
	if err := writeTalk(dir, s.log); err != nil {
		return err
	}
	var seconds []float64
	var resident int64
	for range s.rounds {
		took, err := timeFirstScreen(program, dir)
		if err != nil {
			return err
		}
		r, _, err := runChild("logs", dir, 0)
		if err != nil {
			return err
		}
		seconds, resident = append(seconds, took), max(resident, r.Resident)
	}
	name := fmt.Sprintf("logs, a transcript of %d MB", s.log>>20)
	t.row(name+": first screen", fmt.Sprintf("%.3f", median(seconds)), "–",
		formatGoal(fmt.Sprintf("< %g s", goalFirstScreen), median(seconds) < goalFirstScreen))
	t.row(name+": all of it", "–", fmt.Sprintf("%.0f", float64(resident)/megabyte),
		formatGoal(fmt.Sprintf("< %d MB", goalLogMemory/megabyte), resident < goalLogMemory))
	return nil
}

// timeFirstScreen returns after how many seconds the first lines of a transcript are printed.
func timeFirstScreen(program, dir string) (float64, error) {
	cmd := exec.Command(program, "logs", "T1", "--box", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewReader(out)
	for range firstScreen {
		if _, err := lines.ReadString('\n'); err != nil {
			return 0, err
		}
	}
	took := time.Since(start).Seconds()
	cmd.Process.Kill()
	cmd.Wait() // it was killed
	return took, nil
}

// writeTalk makes a box in which an agent of the task T1 has written a transcript of about n bytes.
func writeTalk(dir string, n int) error {
	ctx := context.Background()
	opts := &box.Options{KeyFile: filepath.Join(filepath.Dir(dir), "key")}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if _, err := box.Init(ctx, dir, "bench", opts); err != nil {
		return err
	}
	b, err := box.Open(ctx, dir, opts)
	if err != nil {
		return err
	}
	defer b.Close()
	policy := rules.Policy{Slots: 1, Limits: rules.DefaultLimits(), Roles: []rules.RoleSlots{{Role: signalbox.RoleDeveloper, Slots: 1}, {Role: signalbox.RoleCI, Slots: 1}}}
	dispatch := func(role signalbox.Role) (rules.Answer, error) {
		return b.Engine.Do(ctx, rules.Dispatch{Roles: []signalbox.Role{role}, Session: "bench-" +
			string(role), Actor: "bench", Lease: "lease-" + string(role)})
	}
	_, err = b.Engine.Do(ctx, rules.Configure{Policy: policy, Actor: "bench"})
	if err == nil {
		_, err = b.Engine.Do(ctx, rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "bench",
			ID: "bench", Source: "bench.md", Tasks: []rules.PlanTask{{ID: "T1", Title: "talk"}},
			Actor: "bench"})
	}
	if err != nil {
		return err
	}
	base, err := dispatch(signalbox.RoleCI)
	if err != nil {
		return err
	}
	if _, err := b.Engine.Do(ctx, rules.ReportChecks{Session: base.Session, Epoch: base.Lease.Epoch,
		Commit: strings.Repeat("0", 40)}); err != nil {
		return err
	}
	a, err := dispatch(signalbox.RoleDeveloper)
	if err != nil {
		return err
	}
	if _, err := b.Engine.Do(ctx, rules.StartAgent{Session: a.Session, Epoch: a.Lease.Epoch,
		Agent: "claude"}); err != nil {
		return err
	}
	blob, err := b.Engine.PutBlob(ctx, io.LimitReader(newTalk(), int64(n)))
	if err != nil {
		return err
	}
	_, err = b.Engine.Do(ctx, rules.EndTurn{Session: a.Session, Epoch: a.Lease.Epoch,
		Turn: rules.Turn{Output: blob, Bytes: int64(n)}})
	return err
}

// talk is the endless output of an agent: words, tool calls and long results.
type talk struct{ rest *strings.Reader }

func newTalk() *talk { return &talk{strings.NewReader("")} }

// talkLines is a message, a tool call and its result.
var talkLines = `{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"I look at the tests first.\nThen I change the code."},{"type":"tool_use","id":"t","name":"Bash","input":{"command":"go test ./..."}}]},"parent_tool_use_id":null,"session_id":"s"}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"` + strings.Repeat(`ok  \tsignalbox/internal/run\t0.5s\n`, 200) + `"}]},"parent_tool_use_id":null,"session_id":"s"}
`

func (t *talk) Read(p []byte) (int, error) {
	if t.rest.Len() == 0 {
		t.rest.Reset(talkLines)
	}
	return t.rest.Read(p)
}

// logsTask prints the log of a task, and reports the memory that it took.
func logsTask(dir string, _ int, send func(report) error) error {
	ctx := context.Background()
	b, err := box.OpenReadOnly(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := render.NewLog(io.Discard, b, "T1", render.LogOptions{}).Print(ctx,
		[]int{0}); err != nil {
		return err
	}
	resident, err := peakResident()
	if err != nil {
		return err
	}
	return send(report{Resident: resident})
}
