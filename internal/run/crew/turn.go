package crew

import (
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// maxSteering is how many files that steer agents are recorded, and named to an agent.
const maxSteering = 50

// lastTurn is what the next prompt says about the previous turn.
type lastTurn struct {
	cleanupNote string
	advice      string
	output      string
	again       bool
	progressed  bool // it had signals, but no result
	parked      bool
	told        bool // the human's words interrupted it
	// noResume means that a new session of the program must be started.
	noResume bool
	// steering are the files of the folder that are as on the base, and not as in the commit.
	steering []string
}

// turn is the result of one run of an agent's program.
type turn struct {
	exit  process.Exit
	cause rules.FailCause // why signalbox ended the program; "" if it ended by itself
	// lingered reports that signalbox ended the program after the end of its turn. Its exit status
	// means nothing then.
	lingered bool
	// progressed reports that the turn only has signals that acted while it ran.
	progressed bool
	// told reports that the program was ended because there are words that the agent must read.
	told bool
	// stoppedToWait reports that the program was to end because the agent must wait for what it
	// asked for.
	stoppedToWait bool
	// gaveUp reports that the program was ended because it kept sending no valid signal.
	gaveUp bool
	limit  string    // the limit that it exceeded, for people
	cap    rules.Cap // the limit that ended the program
	used   measured
	signal signalbox.Signal // what the turn says
	// submitted is the JSON of signal if the agent submitted it over its socket.
	submitted []byte
	listener  *listener
	took      time.Duration
	commit    string // what the agent changed; "" if it has no branch
	unchanged bool   // it changed nothing
	vendor    string // whose model it used; "" if that is not known
	output    signalbox.Hash
	advice    string
	remedy    string // what a person can do if the program cannot be started
	// loginRefused are changes to the copy of the program's login that were not copied to the
	// user's file.
	loginRefused []string
	// head and tail are the start and the end of the agent's own text.
	head, tail string
}

// ending is what the end of a turn means for its session.
type ending int

const (
	endReported    ending = iota // the rules decide about what it said
	endInterrupted               // the session is being ended, whatever the turn said
	endCapped                    // a cap ended it
	endTold                      // words of the human interrupted it; the session continues
	// signalbox ended the program with the lease, which is not a failure to report
	endLeaseLost
	// the program did not continue its session, so a new one is started
	endNotResumed
)

// ending returns what the end of a turn means. over is why the session is being ended; nil if it is
// not. resumed means that the program was to continue its session.
func (t *turn) ending(over error, resumed bool) ending {
	_, crashed := t.crashed()
	lost := errors.Is(over, errLeaseLost)
	switch {
	case over != nil && !lost:
		return endInterrupted
	case t.cap != "" && !t.listener.parked && t.signal.Name != signalbox.NameExpertRequest:
		return endCapped
	case t.told && !lost && (crashed || t.signal.Name == signalbox.NameUnknown):
		return endTold
	case lost && (crashed || t.signal.Name == signalbox.NameUnknown):
		return endLeaseLost
	case resumed && t.didNotResume():
		return endNotResumed
	}
	return endReported
}

// result returns what the rules record of the turn.
func (t *turn) result() rules.Turn {
	return rules.Turn{Exit: t.exit.Code, Output: t.output, Bytes: t.listener.bytes,
		Spent: t.used.spent, InputTokens: t.used.input, OutputTokens: t.used.output,
		Commit:    t.commit,
		Estimated: t.used.estimated, Model: t.used.model, Vendor: t.vendor, Thread: t.used.thread,
		Unchanged:    t.unchanged,
		LoginRefused: t.loginRefused}
}

// rejectWorkspace replaces what the turn said. The agent left its worktree in a state that only an
// agent can clean up, and must do that first.
func (t *turn) rejectWorkspace(err error) {
	t.signal, t.progressed = signalbox.Signal{Name: signalbox.NameUnknown,
		Handler: signalbox.HandlerClarify}, false
	t.advice = "Your changes cannot be saved: " + workspace.Explain(err) + "."
}

// failure returns how the turn failed, or "" if it did not. A failed turn has no passing verdict:
// whatever ended the agent may have written the verdict in its name. A failing verdict still
// counts, because the worst that a false one does is to cost another attempt.
func (t *turn) failure() string {
	stream := &t.listener.stream
	switch {
	case t.exit.Signal != "" && t.exit.Exceeded != "":
		return "ended because it exceeded limits." + t.exit.Exceeded
	case t.exit.Signal != "" && !t.lingered:
		return "ended by " + t.exit.Signal
	case t.exit.Code != 0 && !t.lingered && !t.listener.interactive && t.exit.Exceeded != "":
		return fmt.Sprintf("exit status %d; it exceeded limits.%s", t.exit.Code, t.exit.Exceeded)
	case t.exit.Code != 0 && !t.lingered &&
		!t.listener.interactive: // an interactive program ends when its input does, in any way
		return fmt.Sprintf("exit status %d", t.exit.Code)
	case t.exit.Err != nil:
		return t.exit.Err.Error()
	case stream.Failed:
		return "reported a failure"
	case t.signal.Passing() && stream.Format != signalbox.FormatPlain &&
		!stream.Ended: // a plain turn ends with the stream
		return "did not report the end of its turn"
	}
	return ""
}

// crashed reports whether the turn failed and has no verdict that counts nevertheless, and how it
// failed.
func (t *turn) crashed() (failure string, crashed bool) {
	failure = t.failure()
	// signalbox ends a program that it gives up
	unknown := t.signal.Name == signalbox.NameUnknown && !t.gaveUp
	return failure, failure != "" && (t.signal.Passing() || unknown)
}

// trouble returns why the program could not work, whatever its task, and what it said about that;
// "" if it could. Only the program's own word counts: the error that ended its turn, the last line
// of its standard error if it failed, or what it kept trying until it was ended. A model or a tool
// may write anything.
func (t *turn) trouble() (agent.Trouble, string) {
	stream := &t.listener.stream
	status, message := 0, ""
	switch {
	case t.cause == rules.FailTimeout || t.cause == rules.FailStall ||
		t.cause == rules.FailRateLimit:
		message = t.listener.refusals.message
	case t.cause != "" || t.limit != "" || t.exit.Signal != "" && !t.lingered:
	case stream.Failed:
		status, message = stream.ErrorStatus, stream.Error
	case t.exit.Code != 0 && !stream.Ended && !t.lingered:
		message = text.LastLine(t.listener.errors.String())
	}
	if status == 0 && message != "" && t.cause == "" {
		status = agent.StatusOfExit(t.listener.formatNow(), t.exit.Code)
	}
	if message = text.OneLine(message); message == "" && status == 0 {
		return "", ""
	}
	trouble := agent.Diagnose(t.listener.formatNow(), status, message)
	if trouble == agent.TroubleServer && t.exit.Unreachable != "" {
		// The program knows only that it got no answer.
		message += " (" + text.OneLine(t.exit.Unreachable) + ")"
	}
	return trouble, message
}

// describeCrash describes a failure for people: the verdict that does not count because of it, and
// what the program said about it.
func (t *turn) describeCrash(failure string) string {
	if t.signal.Passing() {
		said := "an exit signal"
		if row, known := signalbox.LineSignalNamed(t.signal.Name); known {
			said = row.Text
		}
		failure += " after " + said
	}
	if t.listener.stream.Error != "" {
		failure += ": " + t.listener.stream.Error
	} else if said := lastLines(t.listener.errors.String()); said != "" {
		failure += ": " + said
	}
	return hideKey(failure, t.listener.key)
}

// didNotResume reports whether a program that was to continue its session failed before the agent
// did anything, and for no other known reason.
func (t *turn) didNotResume() bool {
	trouble, _ := t.trouble()
	_, limited := t.listener.rateLimit(t.listener.heard)
	used := t.listener.stream.Usage // and not what is only estimated
	return t.cause == "" && t.cap == "" && !limited && trouble == "" &&
		t.signal.Name == signalbox.NameUnknown && t.exit.Signal == "" &&
		t.exit.Code != 0 && t.head == "" && used.InputTokens+used.OutputTokens == 0
}
