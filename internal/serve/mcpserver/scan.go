package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/serve/mcpserver/schema"
	"signalbox/transcript"
)

type scanInput struct {
	Text   string           `json:"text"`
	Format signalbox.Format `json:"format"`
	Role   signalbox.Role   `json:"role"`
	Work   string           `json:"work"`
	Key    string           `json:"key"`
	All    bool             `json:"include_refused"`
	Policy string           `json:"policy"`
}

// Policies for what a whole turn said, as signalbox scan has them.
const (
	policyLast = "last"
	policySeed = "seed"
)

// scanSnapshot is what an agent's output says.
type scanSnapshot struct {
	head
	Format  signalbox.Format         `json:"format"`
	Said    heardSignal              `json:"said" jsonschema:"what the turn said as a whole"`
	Taken   int                      `json:"taken" jsonschema:"signals that count"`
	Refused int                      `json:"refused" jsonschema:"signals that do not"`
	Dropped int                      `json:"dropped" jsonschema:"not kept"`
	Signals schema.List[heardSignal] `json:"signals" jsonschema:"at most 10"`
	Failed  bool                     `json:"agent_failed"`
	Error   *string                  `json:"agent_error"`
	LeftOut bool                     `json:"left_out" jsonschema:"the file has more"`
}

// heardSignal is a signal in short.
type heardSignal struct {
	Dialect signalbox.Dialect `json:"dialect"`
	Signal  string            `json:"signal"`
	TaskID  string            `json:"task_id"`
	Title   string            `json:"title"`
	Line    int               `json:"line"`
	Refused *signalbox.Reason `json:"refused" jsonschema:"null if it counts"`
	Detail  string            `json:"detail"`
}

func heardFrom(sig signalbox.Signal) heardSignal {
	h := heardSignal{Dialect: sig.Dialect, Signal: line(sig.Name, maxTitle), TaskID: line(sig.TaskID, maxTitle), Title: line(sig.Title, maxTitle), Line: sig.Line,
		Detail: line(sig.Detail, 2*maxTitle)}
	if !sig.Taken() {
		h.Refused = &sig.Refused
	}
	return h
}

func (s *scanSnapshot) flags() (flags []brief.Flag) {
	if s.Problem != nil {
		return nil
	}
	if s.Said.Signal == signalbox.NameUnknown {
		flags = append(flags, brief.Flag{Flag: "nothing_said", Severity: brief.Warning, Message: "The turn says nothing that counts"})
	}
	if s.Refused > 0 {
		flags = append(flags, brief.Flag{Flag: "signals_refused", Severity: brief.Warning,
			Message: fmt.Sprintf("%d look%s like signals and do not count", s.Refused, map[bool]string{true: "s"}[s.Refused == 1])})
	}
	if s.Dropped > 0 {
		flags = append(flags, brief.Flag{Flag: "signals_dropped", Severity: brief.Warning, Message: fmt.Sprintf("%d more were counted and not kept", s.Dropped)})
	}
	if s.Failed {
		flags = append(flags, brief.Flag{Flag: "agent_failed", Severity: brief.Warning, Message: "The agent's program reports a failure"})
	}
	return flags
}

// maxTranscript is the longest transcript, in characters.
const maxTranscript = 2_000_000

// fullScan is what goes to the file.
type fullScan struct {
	Said    signalbox.Signal   `json:"said"`
	Signals []signalbox.Signal `json:"signals"`
}

func (s *Server) addScanTranscript() {
	const word = `^\S+$`
	add(s, definition{
		name: "scan_transcript", title: "Find the signals in a transcript", reads: true,
		description: "Finds the signals in what an agent wrote, and what the whole turn said. Only the agent's own words count: not tool results, quoted prompts or code fences. " +
			"Nothing is handed in.",
		input: schema.Object(
			schema.Text("text", maxTranscript, "The transcript itself.").Must(),
			schema.Choice("format", signalbox.Formats(), "How it is written; auto recognises it.").Or(signalbox.FormatAuto),
			schema.Choice("role", signalbox.Roles(), "Refuse line signals that this role may not send."),
			schema.Text("work", 1024, "Refuse line signals about any other work.").Like(word),
			schema.Text("key", 1024, "Refuse signals that do not carry this session key.").Like(word),
			schema.Truth("include_refused", "Also list what does not count, with the reason.").Or(false),
			schema.Choice("policy", []string{policyLast, policySeed}, "last: within a family of verdicts the last one stands. "+
				"seed: the first match in table order, whatever role, work, key and fences.").Or(policyLast),
		),
	}, func(_ context.Context, in scanInput) (scanSnapshot, *files.Rest, error) { return in.scan() })
}

func (in *scanInput) scan() (found scanSnapshot, rest *files.Rest, err error) {
	scanner := transcript.NewScanner(&transcript.Options{Format: in.Format, Key: in.Key})
	heard := append(scanner.Push([]byte(in.Text)), scanner.Close()...)
	report := scanner.Report()
	said := transcript.Resolve(append([]signalbox.Signal(nil), heard...), in.Role, in.Work)
	if in.Policy == policySeed {
		if said, err = transcript.ResolveSeed(strings.NewReader(in.Text), &transcript.Options{Format: in.Format}); err != nil {
			return found, nil, err
		}
	}
	found = scanSnapshot{Format: report.Format, Said: heardFrom(said), Dropped: report.Dropped, Failed: report.Failed}
	if report.Failed {
		why := line(cmp.Or(report.Error, "it gives no reason"), 2*maxTitle)
		found.Error = &why
	}
	full := fullScan{Said: said, Signals: []signalbox.Signal{}}
	for _, sig := range heard {
		transcript.Authorize(&sig, in.Role, in.Work)
		if sig.Taken() {
			found.Taken++
		} else if found.Refused++; !in.All {
			continue
		}
		full.Signals = append(full.Signals, sig)
		if len(found.Signals) < maxListed {
			found.Signals = append(found.Signals, heardFrom(sig))
		}
		found.LeftOut = found.LeftOut || len(full.Signals) > maxListed || len(sig.Body) > 0 || sig.Exit != nil || sig.Turn != nil
	}
	if found.LeftOut {
		rest = &files.Rest{Prefix: "scan", Result: full}
	}
	found.Verdict = found.verdict()
	return found, rest, nil
}

func (s *scanSnapshot) verdict() string {
	switch {
	case s.Said.Signal == signalbox.NameUnknown && s.Said.Detail != "":
		return "The turn says nothing that counts: " + s.Said.Detail
	case s.Said.Signal == signalbox.NameUnknown && s.Refused > 0:
		return fmt.Sprintf("The turn says nothing that counts, and %d refused: call again with include_refused to see why", s.Refused)
	case s.Said.Signal == signalbox.NameUnknown:
		return "The turn says nothing that counts: ask the agent to end with one signal"
	case s.Said.TaskID != "":
		return fmt.Sprintf("The turn says %s about %s, in line %d: act on that alone", s.Said.Signal, s.Said.TaskID, s.Said.Line)
	}
	return fmt.Sprintf("The turn says %s, in line %d: act on that alone", s.Said.Signal, s.Said.Line)
}
