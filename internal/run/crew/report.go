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

// turnReport tells the rules how a turn ended and what it said.
type turnReport struct {
	*agentRun
	turn     *turn
	ended    *rules.Turn // what is recorded of it
	refusals []rules.RefusedSignal
}

// report tells the rules how the turn ended and what it said.
func (a *agentRun) report(t *turn) (rules.Answer, error) {
	ended := t.result()
	ended.Messages = a.told
	return (&turnReport{a, t, &ended, t.listener.claims.refusals(t.signal)}).send()
}

func (r *turnReport) send() (rules.Answer, error) {
	t, l := r.turn, r.turn.listener
	name := t.signal.Name
	failure, crashed := t.crashed()
	until, limited := l.rateLimit(time.Now())
	trouble, message := t.trouble()
	limited = limited || trouble == agent.TroubleLimit
	hasVerdict := t.cause == "" && name != signalbox.NameUnknown && !crashed
	switch {
	case l.parked: // the signal was reported while the agent ran
		return rules.Answer{Parked: true}, r.endTurn()
	case name == signalbox.NameExpertRequest: // signalbox ends an agent that keeps running
		return r.signal(nil)
	case !hasVerdict && limited:
		return r.failure(rules.ReportFailure{Cause: rules.FailRateLimit, Until: until})
	case !hasVerdict && trouble != "":
		configured := r.crew.box.Config.AgentNamed(r.agentName())
		return r.failure(rules.ReportFailure{Cause: rules.FailCause(trouble),
			Detail: hideKey(message, l.key),
			Advice: agent.Advice(configured.Preset, configured.BaseURL, trouble)})
	case t.cause == rules.FailProgram:
		return r.failure(rules.ReportFailure{Cause: t.cause, Detail: t.advice, Advice: t.remedy})
	case t.cause != "":
		return r.failure(rules.ReportFailure{Cause: t.cause, Detail: t.advice})
	case crashed:
		return r.failure(rules.ReportFailure{Cause: rules.FailCrash,
			Detail: t.describeCrash(failure)})
	case t.progressed && r.mayContinue():
		return rules.Answer{Again: true}, r.endTurn()
	case name == signalbox.NameUnknown:
		t.progressed = false
		return r.unknown()
	case t.signal.Dialect == signalbox.DialectExit:
		return r.exit()
	}
	if advice := missingFindings(t.signal); advice != "" {
		t.advice = advice
		return r.unknown()
	}
	if t.signal.Exit == nil {
		return r.signal(nil)
	}
	exit, err := r.exitCommand()
	if err != nil {
		return rules.Answer{}, err
	}
	return r.signal(exit)
}

// endTurn reports a turn whose signals have acted while the agent ran.
func (r *turnReport) endTurn() error {
	_, err := r.submit(rules.EndTurn{Session: r.id, Epoch: r.epoch, Turn: *r.ended,
		Refused: r.refusals})
	return asLeaseLost(err)
}

// failure reports a turn that failed.
func (r *turnReport) failure(f rules.ReportFailure) (rules.Answer, error) {
	r.ended.Messages = nil // the next agent gets them
	switch f.Cause {
	case rules.FailRateLimit, rules.FailLogin, rules.FailCredit, rules.FailServer:
		// Nothing was wrong with its work, so it continues later if it had started.
		used := r.turn.used
		r.ended.Interrupted = r.turn.head != "" || !used.estimated && used.spent.Tokens > 0
	}
	f.Session, f.Epoch, f.Turn = r.id, r.epoch, r.ended
	_, err := r.submit(f)
	return rules.Answer{}, asLeaseLost(err)
}

// exit reports a turn whose result is an exit signal alone.
func (r *turnReport) exit() (rules.Answer, error) {
	exit, err := r.exitCommand()
	if err != nil {
		return rules.Answer{}, err
	}
	exit.Turn, exit.Refused = r.ended, r.refusals
	answer, err := r.submit(*exit)
	if refused := (*rules.RefusedError)(nil); errors.As(err, &refused) &&
		refused.Reason != signalbox.ReasonStaleLease {
		r.turn.advice = refused.Msg
		return r.unknown()
	}
	return answer, asLeaseLost(err)
}

// exitCommand returns the command for the turn's exit signal, and stores what it refers to.
func (r *turnReport) exitCommand() (*rules.Exit, error) {
	t := r.turn
	exit := &rules.Exit{Session: r.id, Epoch: r.epoch, Signal: *t.signal.Exit, Blob: t.output}
	for _, sig := range t.listener.claims.signals {
		if sig.Exit == t.signal.Exit {
			exit.Offset = sig.Offset
		}
	}
	var err error
	if t.submitted != nil {
		if exit.Blob, err = r.put(t.submitted); err != nil {
			return nil, err
		}
	}
	if notes, _ := rules.LongNotes(t.signal.Exit); notes != nil {
		exit.Notes, err = r.put(notes)
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

// command returns the report of a signal, without the signal.
func (r *turnReport) command() rules.ReportSignal {
	return rules.ReportSignal{Session: r.id, Epoch: r.epoch, Blob: r.turn.output,
		Refused: r.refusals, Turn: r.ended}
}

// signal reports the signal of the turn with its body. exit is the exit signal beside it, nil if
// there is none.
func (r *turnReport) signal(exit *rules.Exit) (rules.Answer, error) {
	report, sig := r.command(), r.turn.signal
	report.Signal, report.Named, report.Offset = sig.Name, sig.TaskID, sig.Offset
	report.Exit = exit
	if err := addBody(&report, sig, r.put); err != nil {
		return rules.Answer{}, err
	}
	report.Fields.Findings = r.findings(sig)
	answer, err := r.submit(report)
	return answer, asLeaseLost(err)
}

// unknown reports that the turn had no valid signal.
func (r *turnReport) unknown() (rules.Answer, error) {
	report, t := r.command(), r.turn
	report.Signal, report.Fields = signalbox.NameUnknown,
		rules.SignalFields{Summary: t.head, Advice: t.advice,
			Confirm: t.signal.Refused == signalbox.ReasonTextAfter}
	answer, err := r.submit(report)
	return answer, asLeaseLost(err)
}

// addBody stores a signal with put, and extracts what the rules need from its body.
func addBody(report *rules.ReportSignal, sig signalbox.Signal,
	put func([]byte) (signalbox.Hash, error)) error {
	text, err := json.Marshal(sig)
	if err != nil {
		return err
	}
	if report.Body, err = put(text); err != nil {
		return err
	}
	report.Fields, err = extract(sig, put)
	return err
}
