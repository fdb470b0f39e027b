//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

// mergeCheck is how long the check takes that runs before the base moves, in seconds.
const mergeCheck = 2

// writingAgents is the script of agents that write a file in each task.
const writingAgents = `on developer *:
    run echo {task} >{task}.txt
    signal READY_FOR_REVIEW: {task}
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
`

// compareMerges measures how many tasks a minute are merged that are ready at the same time, one by
// one and in trains.
func compareMerges(name string, db database, shared bool, s settings) error {
	return s.withProgram("merges", func(dir, program string) error {
		var t table
		t.row("ready tasks", "train", "merges", "runs of the check", "seconds", "merges a minute")
		for _, tasks := range s.ready {
			for _, size := range []int{1, 10, 50} {
				if size > 1 && tasks == 1 || size > 10 && tasks <= 10 {
					continue // the same as the smaller train
				}
				progress("%s: merges of %s, train %d", name, text.Count(tasks, "task"), size)
				journal := ""
				if shared {
					journal = db.place(fmt.Sprintf("merges_%d_%d", tasks, size))
				}
				m := &merging{tasks: tasks}
				if err := m.measure(filepath.Join(dir, fmt.Sprintf("%d-%d", tasks, size)), program,
					journal, size); err != nil {
					return err
				}
				train := "off"
				if size > 1 {
					train = fmt.Sprint(size)
				}
				t.row(fmt.Sprint(tasks), train, fmt.Sprint(m.merged), fmt.Sprint(m.trains),
					fmt.Sprintf("%.1f", m.took.Seconds()),
					fmt.Sprintf("%.0f", float64(m.merged)/m.took.Minutes()))
			}
		}
		t.print(fmt.Sprintf("Merges with %s, with a check of %d s", name, mergeCheck))
		return nil
	})
}

// merging is a measurement of merges.
type merging struct {
	tasks  int
	merged int
	trains int // a task that is merged alone counts as one
	// took is the time from the first lease of the merger until the last task is merged.
	took time.Duration
}

// measure makes a box, whose journal is SQLite if journal is "", takes tasks up to their merge, and
// merges them in trains of a size.
func (m *merging) measure(dir, program, journal string, size int) error {
	id := func(i int) string { return fmt.Sprint("T", i+1) }
	const settings = "approve: merge\nslots: 5\nchecks: [{name: wait, command: 'true'}]\n"
	site, err := makeRunSite(dir, program, m.tasks, m.tasks, id, writingAgents, settings, nil)
	if err == nil && journal != "" {
		err = site.command(site.repo(), nil, program, "ledger", "migrate", "--to", journal)
	}
	if err != nil {
		return err
	}
	// It ends when every task waits for approval, which is not success. The approvals show it.
	run := []string{program, "run", "plan.md", "--no-wait", "--plain"}
	first := site.command(site.repo(), nil, run...)
	for i := range m.tasks {
		if err := site.command(site.repo(), nil, program, "approve", id(i)); err != nil {
			return errors.Join(first, err)
		}
	}
	file := filepath.Join(site.repo(), ".signalbox", "signalbox.yaml")
	fast, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	slow := strings.Replace(string(fast), "command: 'true'",
		fmt.Sprintf("command: 'sleep %d'", mergeCheck), 1)
	if err := os.WriteFile(file, fmt.Appendf(nil, "%sdeliver: {train: %d}\n", slow, size),
		0o600); err != nil {
		return err
	}
	if err := site.command(site.repo(), nil, run...); err != nil {
		return err
	}
	return m.read(site)
}

// read finds out from the ledger what happened.
func (m *merging) read(site *runSite) error {
	list := exec.Command(site.program, "ledger", "export")
	list.Dir, list.Env = site.repo(),
		append(os.Environ(), "SIGNALBOX_KEY="+filepath.Join(site.dir, "box.key"))
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the ledger: %w", err)
	}
	var begin, end time.Time
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var e struct {
			Type string    `json:"type"`
			Time time.Time `json:"time"`
			Data struct {
				Role  signalbox.Role `json:"role"`
				Train *rules.Train   `json:"train"`
			} `json:"data"`
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // an event of another kind
		}
		switch {
		case strings.HasSuffix(e.Type, rules.TypeLeaseGranted) &&
			e.Data.Role == signalbox.RoleMerger && begin.IsZero():
			begin = e.Time
		case strings.HasSuffix(e.Type, "."+rules.TypeMerged):
			m.merged, end = m.merged+1, e.Time
			if e.Data.Train == nil || e.Data.Train.Position == 1 {
				m.trains++
			}
		}
	}
	if m.merged != m.tasks || begin.IsZero() {
		return fmt.Errorf("%d of %d tasks were merged", m.merged, m.tasks)
	}
	m.took = end.Sub(begin)
	return nil
}
