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
	"signalbox/internal/text"
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

// Policies for the signal of a whole turn, as in signalbox scan.
const (
	policyLast = "last"
	policySeed = "seed"
)

// scanSnapshot is the result of scanning a transcript.
type scanSnapshot struct {
	head
	Format  signalbox.Format           `json:"format"`
	Said    scannedSignal              `json:"said" jsonschema:"the signal of the whole turn"`
	Taken   int                        `json:"taken" jsonschema:"accepted signals"`
	Refused int                        `json:"refused" jsonschema:"refused signals"`
	Dropped int                        `json:"dropped" jsonschema:"not listed, too many"`
	Signals schema.List[scannedSignal] `json:"signals" jsonschema:"at most 10"`
	Failed  bool                       `json:"agent_failed"`
	Error   *string                    `json:"agent_error"`
	LeftOut bool                       `json:"left_out" jsonschema:"the file has more"`
}

// scannedSignal is the short form of a signal.
type scannedSignal struct {
	Dialect signalbox.Dialect `json:"dialect"`
	Signal  string            `json:"signal"`
	TaskID  string            `json:"task_id"`
	Title   string            `json:"title"`
	Line    int               `json:"line"`
	Refused *signalbox.Reason `json:"refused" jsonschema:"why it is refused, null if it is accepted"`
	Detail  string            `json:"detail"`
}

func newScannedSignal(sig signalbox.Signal) scannedSignal {
	h := scannedSignal{Dialect: sig.Dialect, Signal: oneLine(sig.Name, maxTitle),
		TaskID: oneLine(sig.TaskID, maxTitle), Title: oneLine(sig.Title, maxTitle), Line: sig.Line,
		Detail: oneLine(sig.Detail, 2*maxTitle)}
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
		flags = append(flags, brief.Flag{Flag: "nothing_said", Severity: brief.Warning,
			Message: "The turn has no accepted signal"})
	}
	if s.Refused > 0 {
		flags = append(flags, brief.Flag{Flag: "signals_refused", Severity: brief.Warning,
			Message: fmt.Sprintf("%s refused", text.Count(s.Refused, "signal"))})
	}
	if s.Dropped > 0 {
		flags = append(flags, brief.Flag{Flag: "signals_dropped", Severity: brief.Warning,
			Message: fmt.Sprintf("%d more were counted but not listed", s.Dropped)})
	}
	if s.Failed {
		flags = append(flags, brief.Flag{Flag: "agent_failed", Severity: brief.Warning,
			Message: "The agent's program reports a failure"})
	}
	return flags
}

// maxTranscript is the maximum length of a transcript, in characters.
const maxTranscript = 2_000_000

// fullScan is the content of the file of an answer.
type fullScan struct {
	Said    signalbox.Signal   `json:"said"`
	Signals []signalbox.Signal `json:"signals"`
}

func (s *Server) addScanTranscript() {
	const word = `^\S+$`
	add(s, definition{
		name: "scan_transcript", title: "Find the signals in a transcript", readOnly: true,
		description: "Finds the signals in the output of an agent, and the signal of the whole turn. Ignores tool results, quoted prompts and code fences. " +
			"Sends nothing.",
		input: schema.Object(
			schema.Text("text", maxTranscript, "The transcript itself, not a path.").Require(),
			schema.Choice("format", signalbox.Formats(),
				"The format of the transcript; auto detects it.").Default(signalbox.FormatAuto),
			schema.Choice("role", signalbox.Roles(),
				"Refuse line signals that this role may not send."),
			schema.Text("work", 1024, "Refuse line signals about other work.").Pattern(word),
			schema.Text("key", 1024, "Refuse signals without this session key.").Pattern(word),
			schema.Bool("include_refused",
				"Also list refused signals, with the reason.").Default(false),
			schema.Choice("policy", []string{policyLast, policySeed},
				"last: of several verdicts of one family the last one counts. "+
					"seed: the first match in table order, ignoring role, work, key and code fences.").Default(policyLast),
		),
	}, func(_ context.Context, in scanInput) (scanSnapshot, error) { return in.scan() })
}

func (in *scanInput) scan() (found scanSnapshot, err error) {
	scanner := transcript.NewScanner(&transcript.Options{Format: in.Format, Key: in.Key})
	heard := append(scanner.Push([]byte(in.Text)), scanner.Close()...)
	report := scanner.Report()
	said := transcript.Resolve(append([]signalbox.Signal(nil), heard...), in.Role, in.Work)
	if in.Policy == policySeed {
		if said, err = transcript.ResolveSeed(strings.NewReader(in.Text),
			&transcript.Options{Format: in.Format}); err != nil {
			return found, err
		}
	}
	found = scanSnapshot{Format: report.Format, Said: newScannedSignal(said), Dropped: report.Dropped, Failed: report.Failed}
	if report.Failed {
		why := oneLine(cmp.Or(report.Error, "no reason given"), 2*maxTitle)
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
			found.Signals = append(found.Signals, newScannedSignal(sig))
		}
		found.LeftOut = found.LeftOut || len(full.Signals) > maxListed || len(sig.Body) > 0 ||
			sig.Exit != nil || sig.Turn != nil
	}
	if found.LeftOut {
		found.attachment = &files.Attachment{Prefix: "scan", Result: full}
	}
	found.Verdict = found.verdict()
	return found, nil
}

func (s *scanSnapshot) verdict() string {
	switch {
	case s.Said.Signal == signalbox.NameUnknown && s.Said.Detail != "":
		return "The turn has no accepted signal: " + s.Said.Detail
	case s.Said.Signal == signalbox.NameUnknown && s.Refused > 0:
		return fmt.Sprintf("The turn has no accepted signal, and %d refused: call again with include_refused to see why", s.Refused)
	case s.Said.Signal == signalbox.NameUnknown:
		return "The turn has no signal: ask the agent to end its turn with one"
	case s.Said.TaskID != "":
		return fmt.Sprintf("The signal of the turn is %s about %s, on line %d: act only on that",
			s.Said.Signal, s.Said.TaskID, s.Said.Line)
	}
	return fmt.Sprintf("The signal of the turn is %s, on line %d: act only on that", s.Said.Signal,
		s.Said.Line)
}
