package crew

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
)

// report tells the rules how the turn ended and what it said.
func (s *session) report(t *turn) (rules.Answer, error) {
	l := t.listener
	result := t.result()
	ended := &result
	ended.Messages = s.told
	refusals := l.refusals(t.signal)
	name := t.signal.Name
	failure, crashed := t.crashed()
	until, limited := l.rateLimit(time.Now())
	trouble, message := t.trouble()
	limited = limited || trouble == agent.TroubleLimit
	hasVerdict := t.cause == "" && name != signalbox.NameUnknown && !crashed
	fail := func(f rules.ReportFailure) (rules.Answer, error) {
		ended.Messages = nil // the next agent gets them
		f.Session, f.Epoch, f.Turn = s.id, s.epoch, ended
		_, err := s.submit(f)
		return rules.Answer{}, asLeaseLost(err)
	}
	report := rules.ReportSignal{Session: s.id, Epoch: s.epoch, Blob: t.output, Refused: refusals,
		Turn: ended}
	switch {
	case l.parked: // the signal was reported while the agent ran
		_, err := s.submit(rules.EndTurn{Session: s.id, Epoch: s.epoch, Turn: *ended,
			Refused: refusals})
		return rules.Answer{Parked: true}, asLeaseLost(err)
	case name == signalbox.NameExpertRequest: // signalbox ends an agent that keeps running
		return s.reportSignal(report, t.signal)
	case !hasVerdict && limited:
		return fail(rules.ReportFailure{Cause: rules.FailRateLimit, Until: until})
	case !hasVerdict && trouble != "":
		configured := s.crew.box.Config.AgentNamed(s.agentName())
		return fail(rules.ReportFailure{Cause: rules.FailCause(trouble),
			Detail: hideKey(message, l.key),
			Advice: agent.Advice(configured.Preset, configured.BaseURL, trouble)})
	case t.cause == rules.FailProgram:
		return fail(rules.ReportFailure{Cause: t.cause, Detail: t.advice, Advice: t.remedy})
	case t.cause != "":
		return fail(rules.ReportFailure{Cause: t.cause, Detail: t.advice})
	case crashed:
		return fail(rules.ReportFailure{Cause: rules.FailCrash, Detail: t.describeCrash(failure)})
	case t.progressed && s.mayContinue():
		_, err := s.submit(rules.EndTurn{Session: s.id, Epoch: s.epoch, Turn: *ended,
			Refused: refusals})
		return rules.Answer{Again: true}, asLeaseLost(err)
	case name == signalbox.NameUnknown:
		t.progressed = false
		return s.reportUnknown(report, t)
	case t.signal.Dialect == signalbox.DialectExit:
		exit, err := s.exit(t)
		if err != nil {
			return rules.Answer{}, err
		}
		exit.Turn, exit.Refused = ended, refusals
		answer, err := s.submit(*exit)
		if refused := (*rules.RefusedError)(nil); errors.As(err, &refused) &&
			refused.Reason != signalbox.ReasonStaleLease {
			t.advice = refused.Msg
			return s.reportUnknown(report, t)
		}
		return answer, asLeaseLost(err)
	}
	if advice := missingFindings(t.signal); advice != "" {
		t.advice = advice
		return s.reportUnknown(report, t)
	}
	if t.signal.Exit != nil {
		var err error
		if report.Exit, err = s.exit(t); err != nil {
			return rules.Answer{}, err
		}
	}
	return s.reportSignal(report, t.signal)
}

// exit returns the command for the turn's exit signal, and stores what it refers to.
func (s *session) exit(t *turn) (*rules.Exit, error) {
	exit := &rules.Exit{Session: s.id, Epoch: s.epoch, Signal: *t.signal.Exit, Blob: t.output}
	for _, sig := range t.listener.signals {
		if sig.Exit == t.signal.Exit {
			exit.Offset = sig.Offset
		}
	}
	var err error
	if t.submitted != nil {
		if exit.Blob, err = s.put(t.submitted); err != nil {
			return nil, err
		}
	}
	if notes, _ := rules.LongNotes(t.signal.Exit); notes != nil {
		exit.Notes, err = s.put(notes)
	}
	return exit, err
}

// missingFindings returns what to tell a reviewer who rejects work without a reason, "" if there is
// a reason. A developer could do nothing with it.
func missingFindings(sig signalbox.Signal) string {
	switch sig.Name {
	case signalbox.NameReviewFailed, signalbox.NameAuditFailed:
		if len(sig.Body) == 0 && strings.TrimSpace(sig.Title) == "" {
			row, _ := signalbox.LineSignalNamed(sig.Name)
			return fmt.Sprintf("%s has no findings. Send it again and list what must be fixed below it, as `Issues Found:` and a list.", row.Text)
		}
	}
	return ""
}

// reportSignal reports a signal with its body.
func (s *session) reportSignal(report rules.ReportSignal,
	sig signalbox.Signal) (rules.Answer, error) {
	report.Signal, report.Named, report.Offset = sig.Name, sig.TaskID, sig.Offset
	if err := s.addBody(&report, sig); err != nil {
		return rules.Answer{}, err
	}
	answer, err := s.submit(report)
	return answer, asLeaseLost(err)
}

// reportUnknown reports that the turn had no valid signal.
func (s *session) reportUnknown(report rules.ReportSignal, t *turn) (rules.Answer, error) {
	report.Signal, report.Fields = signalbox.NameUnknown,
		rules.SignalFields{Summary: t.head, Advice: t.advice,
			Confirm: t.signal.Refused == signalbox.ReasonTextAfter}
	answer, err := s.submit(report)
	return answer, asLeaseLost(err)
}

// addBody stores the signal and extracts what the rules need from its body.
func (s *session) addBody(report *rules.ReportSignal, sig signalbox.Signal) error {
	text, err := json.Marshal(sig)
	if err != nil {
		return err
	}
	if report.Body, err = s.put(text); err != nil {
		return err
	}
	report.Fields, err = extract(sig, s.put)
	return err
}
