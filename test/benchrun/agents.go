//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// measureAgents has many agents run at once, and then finish.
func measureAgents(dir, program string, n int) error {
	s, err := newSite(filepath.Join(dir, "agents"), program, "", n)
	if err != nil {
		return err
	}
	gate := filepath.Join(s.dir, "gate")
	if err := os.WriteFile(filepath.Join(s.dir, "agents.script"), []byte(strings.Replace(atTheGate, "GATE", gate, 1)), 0o600); err != nil {
		return err
	}
	if err := s.plan(n, n); err != nil {
		return err
	}
	c := s.command(program, "run", "plan.md", "--no-wait", "--plain")
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	began := time.Now()
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	most := 0
	for most < n {
		select {
		case err := <-ended:
			return fmt.Errorf("it ended with %d agents at once: %w: %s", most, err, tail(output.Bytes()))
		case <-time.After(200 * time.Millisecond):
		}
		most = max(most, s.agentsAlive())
		if time.Since(began) > 10*time.Minute {
			break
		}
	}
	up := time.Since(began)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		return err
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("%w: %s", err, tail(output.Bytes()))
	}
	fmt.Printf("\n%d agents at once (goal: %d)%s, all up after %.0f s; all %d tasks done after %.0f s; peak memory of signalbox %.0f MB\n",
		most, n, short(most < n), up.Seconds(), n, time.Since(began).Seconds(), peakMemory(c))
	return nil
}

// agentsAlive counts the processes that play agents of this site.
func (s *site) agentsAlive() int {
	if runtime.GOOS != "linux" {
		output, _ := exec.Command("pgrep", "-f", "rehearse agent "+filepath.Join(s.dir, "agents.script")).Output()
		return bytes.Count(output, []byte("\n"))
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	n := 0
	for _, name := range lines {
		text, _ := os.ReadFile(name)
		if bytes.HasPrefix(text, []byte(s.program+"\x00rehearse\x00")) && bytes.Contains(text, []byte(s.dir)) {
			n++
		}
	}
	return n
}
