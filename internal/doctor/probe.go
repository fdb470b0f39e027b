package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/text"
	"signalbox/transcript"
)

const (
	// probePrompt costs a few tokens, besides what the program adds to every prompt.
	probePrompt = "Reply with the word ok and nothing else. Do not use any tool."
	// probeTimeout is how long a program may take to answer it.
	probeTimeout = 2 * time.Minute
	// maxProbeOutput is how much a program may write.
	maxProbeOutput = 1 << 20
)

// Probe asks each agent that a run may start for one word, and reports whether its service answers.
// That costs what one short request costs. An agent whose program was not found is not asked, nor
// is a tree or a program whose errors signalbox does not know.
func Probe(ctx context.Context, c *config.Config, checks []box.Check) []box.Check {
	var probed []roleAgent
	for _, r := range roleAgents(c) {
		found := slices.ContainsFunc(checks,
			func(check box.Check) bool { return check.Name == "agent "+r.name && check.Health == box.Healthy })
		if found && r.agent.Tree == "" &&
			(r.agent.Preset != "" || r.agent.Format != signalbox.FormatPlain) {
			probed = append(probed, r)
		}
	}
	results := make([]box.Check, len(probed))
	var all sync.WaitGroup
	for i, r := range probed {
		all.Go(func() { results[i] = probe(ctx, r) })
	}
	all.Wait()
	return results
}

// probe asks one agent.
func probe(ctx context.Context, r roleAgent) box.Check {
	check := box.Check{Name: "probe " + r.name, Health: box.Problem}
	command, err := agent.CommandOf(r.agent)
	if err != nil {
		return withError(check, err)
	}
	dir, err := os.MkdirTemp("", "signalbox-probe-")
	if err != nil {
		return withError(check, err)
	}
	defer os.RemoveAll(dir)
	spec, cleanup, err := command.Build(agent.Values{Prompt: []byte(probePrompt), Dir: dir,
		Role: "doctor", Task: "probe", Model: r.agent.Model, Base: process.Environ()})
	defer cleanup()
	if err != nil {
		return withError(check, err)
	}
	var out, errors limited
	spec.Stdout, spec.Stderr = &out, &errors
	running, err := process.Start(spec, func(process.ID) error { return nil })
	if err != nil {
		return withError(check, err)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { running.Stop(0) })
	exit := running.Wait()
	stop()
	scanner := transcript.NewScanner(&transcript.Options{Format: command.Format})
	scanner.Push(out)
	scanner.Close()
	stream := scanner.Report()
	status, message := 0, ""
	switch {
	case stream.Failed:
		status, message = stream.ErrorStatus, stream.Error
	case ctx.Err() != nil:
		message = stream.Retrying
	case exit.Code != 0 && !stream.Ended:
		message = strings.TrimSpace(string(errors))
		message = message[strings.LastIndexByte(message, '\n')+1:]
	default:
		check.Health, check.Detail = box.Healthy, "logged in: it answered"
		return check
	}
	trouble := agent.Diagnose(command.Format, status, message)
	what := map[agent.Trouble]string{agent.TroubleLogin: "not logged in",
		agent.TroubleCredit: "logged in, but its account has no credit left",
		agent.TroubleServer: "its server does not answer",
		agent.TroubleLimit:  "logged in, but at a rate limit"}[trouble]
	switch {
	case trouble == agent.TroubleLimit: // a run waits for its end
		check.Health = box.Warning
	case what == "" && ctx.Err() != nil:
		what = fmt.Sprintf("it did not answer within %v", probeTimeout)
	case what == "":
		what = fmt.Sprintf("it failed with exit status %d", exit.Code)
	}
	check.Detail, check.Fix = what, agent.Advice(r.agent.Preset, r.agent.BaseURL, trouble)
	if message = text.OneLine(message); message != "" {
		check.Detail += " (it said: " + text.Shorten(message, 300) + ")"
	}
	if check.Fix == "" && check.Health == box.Problem {
		check.Fix = "run " + command.Argv[0] + " by hand to see what is wrong"
	}
	return check
}

// limited keeps the first bytes that are written to it.
type limited []byte

func (l *limited) Write(p []byte) (int, error) {
	*l = append(*l, p[:min(len(p), maxProbeOutput-len(*l))]...)
	return len(p), nil
}
