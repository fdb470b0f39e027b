package crew

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/prompts"
	"signalbox/internal/run/stored"
	"signalbox/internal/text"
)

// program is a running program; *process.Process is one.
type program interface {
	Wait() process.Exit
	Stop(grace time.Duration)
	WriteLine(line string) error
	CloseInput()
}

// supervisor waits for a program to end, and ends it when it takes too long, stays silent too long,
// keeps running after its last signal, or when the session ends.
type supervisor struct {
	run      *agentRun
	program  program
	listener *listener
	linger   time.Duration
	exited   chan struct{} // closed when the program has ended

	lingerOver <-chan time.Time // when it fires, the program is ended, and that is not a failure
	turn       int              // the turn after which the program lingers; 0 if it does not
	lingered   bool             // the program was ended because it kept running after its turn
	told       bool             // the program was ended because there are words that it must read
	mustWait   bool             // the agent asked for something that it must wait for
	gaveUp     bool             // the program was ended because it kept sending no valid signal
	limit      string           // the limit that the program exceeded, for people
	tooLarge   <-chan struct{}  // closed when the program has written more than limits.tree
	exceeded   bool             // it was ended because of tooLarge
	meter      *meter           // nil if nothing is measured
	refusals   *agent.Refusals  // nil if the program prints what its service refuses
	// when it fires, the program is ended because of a cap, unless its turn has ended
	spentOver <-chan time.Time
	reached   rules.Cap // the cap for which spentOver was set
	cap       rules.Cap // the limit that ended the program
	// checkpointTurn is the turn in which the agent sent the last checkpoint that it was asked for;
	// 0 if it sent none.
	checkpointTurn int
}

func (a *agentRun) supervise(p program, l *listener, linger time.Duration) *supervisor {
	sup := &supervisor{run: a, program: p, listener: l, linger: linger,
		exited: make(chan struct{})}
	done := a.endWithLease(p.Stop)
	go func() {
		p.Wait()
		done()
		close(sup.exited)
	}()
	return sup
}

// wait returns when the program has ended or was told to end. It returns the reason if ending it is
// a failure.
func (sup *supervisor) wait(ctx context.Context, remaining time.Duration) rules.FailCause {
	config := sup.run.crew.box.Config
	role := config.RoleOf(sup.run.role)
	// At once, and not when the loop below comes to it: it may be waiting for a ledger that cannot
	// be reached.
	end := sync.OnceFunc(func() { sup.stop("") })
	defer context.AfterFunc(ctx, end)()
	timeout := time.NewTimer(remaining)
	defer timeout.Stop()
	stall := startTimer(min(config.Limits.Silence, lookForLife))
	defer stall.Stop()
	quiet := startTimer(0)
	if sup.listener.interactive {
		quiet = startTimer(role.Checkpoint)
	}
	defer quiet.Stop()
	usage := sup.measureUsage()
	defer usage.Stop()
	var log <-chan time.Time
	if sup.refusals != nil {
		ticker := time.NewTicker(cmp.Or(sup.run.crew.opts.delays.look, lookEvery))
		defer ticker.Stop()
		log = ticker.C
	}
	for {
		select {
		case <-sup.exited:
			return ""
		case <-ctx.Done():
			end()
			return ""
		case <-timeout.C:
			return sup.stopForLimit(rules.FailTimeout,
				fmt.Sprintf("not done after %s (roles.%s.timeout)", role.Timeout, sup.run.role))
		case <-stall.C:
			if limit := sup.silenceLimit(stall, config.Limits.Silence); limit != "" {
				return sup.stopForLimit(rules.FailStall, limit)
			}
		case <-sup.tooLarge:
			sup.exceeded = true
			return sup.stop(rules.FailCrash)
		case <-quiet.C:
			sup.remindIfQuiet(ctx, quiet, role.Checkpoint)
		case <-sup.listener.used:
			sup.checkSpending(usage)
		case <-usage.C:
			sup.checkSpending(usage)
		case <-log:
			sup.listener.readRefusals(sup.refusals)
		case <-sup.listener.refused:
			if !sup.listener.hasVerdict() {
				return sup.stopForLimit(rules.FailRateLimit, "its service refuses to serve it")
			}
		case <-sup.run.spending: // of others
			sup.stopAt(sup.run.overspent())
		case <-sup.run.messages:
			sup.deliverMessages(ctx)
			if sup.told = sup.mustReadNow(); sup.told {
				return sup.stop("")
			}
		case <-sup.spentOver:
			if sup.spentOver = nil; !sup.listener.hasEnded() {
				sup.cap = sup.reached
			}
		case <-sup.listener.turnEnded:
			if cause := sup.handleTurnEnd(ctx); cause != "" {
				return sup.stop(cause)
			}
		case <-sup.listener.mustPark: // the agent must wait, and a program cannot
			sup.program.CloseInput()
			sup.lingerOver, sup.turn, sup.mustWait = time.After(sup.run.crew.opts.delays.park),
				0, true
		case <-sup.lingerOver:
			if !sup.hasContinued() {
				sup.lingered = sup.turn > 0 || sup.listener.hasEnded()
				return sup.stop("")
			}
		}
		if sup.cap != "" {
			return sup.stop("")
		}
	}
}

// stop ends the program, and returns the cause. If the lease is lost, the program gets less time:
// see endWithLease.
func (sup *supervisor) stop(cause rules.FailCause) rules.FailCause {
	sup.program.Stop(sup.run.crew.box.Config.Grace)
	return cause
}

// stopForLimit ends the program because it has exceeded a limit.
func (sup *supervisor) stopForLimit(cause rules.FailCause, limit string) rules.FailCause {
	sup.limit = limit
	return sup.stop(cause)
}

// startTimer returns a timer that fires once after d. If d is not positive, it does not fire until
// it is reset.
func startTimer(d time.Duration) *time.Timer {
	timer := time.NewTimer(d)
	if d <= 0 {
		timer.Stop()
	}
	return timer
}

const (
	// lookForLife is the longest time between looks at whether a program is silent.
	lookForLife = time.Minute
	// repeatTime is how long a program may only repeat a request that gets no answer. claude
	// itself gives up after this time.
	repeatTime = 3 * time.Minute
)

// silenceLimit describes the limit that a program has exceeded whose output streams. If there is
// none, it resets the timer for the next look.
func (sup *supervisor) silenceLimit(timer *time.Timer, after time.Duration) string {
	next := min(after, lookForLife)
	if silent, streams := sup.listener.silence(); streams {
		// Otherwise its format is not known yet, or it may keep its output until the end.
		if silent >= after {
			return fmt.Sprintf("no output for %s (limits.silence)", after)
		}
		if repeats := sup.listener.repeats(); repeats != "" && silent >= repeatTime {
			return fmt.Sprintf("its server has not answered for %s: %s", repeatTime, repeats)
		}
		next = min(after-silent, lookForLife)
	}
	timer.Reset(next)
	return ""
}

// remindIfQuiet reminds an agent that has been silent for a while, and may be waiting for input. It
// resets the timer for the next look.
func (sup *supervisor) remindIfQuiet(ctx context.Context, timer *time.Timer, after time.Duration) {
	if silent, _ := sup.listener.silence(); silent < after {
		timer.Reset(after - silent)
		return
	}
	if sup.lingerOver == nil && sup.listener.idle() {
		sup.remind(ctx)
	}
	timer.Reset(after)
}

// hasContinued reports whether a program that lingered after a turn has started another one. Then
// it may linger after that.
func (sup *supervisor) hasContinued() bool {
	if sup.turn == 0 || sup.listener.turnOver() {
		return false
	}
	sup.lingerOver, sup.turn = nil, 0
	return true
}

// measureUsage returns a timer for the next look at what the program uses. It is stopped if no look
// is needed.
func (sup *supervisor) measureUsage() *time.Timer {
	timer := startTimer(0)
	if sup.meter != nil {
		sup.checkSpending(timer)
	}
	return timer
}

// checkSpending reports what the program uses, and ends it if it has reached a cap. The timer is
// for the next time: when the time that may be used has passed, and often if the stream does not
// say what is used.
func (sup *supervisor) checkSpending(timer *time.Timer) {
	if sup.meter == nil || sup.listener.hasEnded() {
		return // what is used by now is part of the turn's result
	}
	every, look := cmp.Or(sup.run.crew.opts.delays.look, lookEvery), sup.meter.needsLook()
	if since := time.Since(sup.meter.looked); look && since < every/3 { // not for each line
		timer.Reset(every/3 - since)
		return
	}
	reached, next := sup.meter.report()
	if look && (next == 0 || every < next) {
		next = every
	}
	if next > 0 {
		timer.Reset(next)
	}
	sup.stopAt(reached)
}

// stopAt ends the program if it has reached a cap. If it has sent its verdict, it may end its turn
// first.
func (sup *supervisor) stopAt(reached rules.Cap) {
	switch {
	case reached == "" || sup.meter == nil || sup.spentOver != nil || sup.listener.hasEnded():
	case sup.listener.hasVerdict():
		sup.reached, sup.spentOver = reached,
			time.After(cmp.Or(sup.run.crew.opts.delays.finish, finishTime))
	default:
		sup.cap = reached
	}
}

// finishTime is how long a program that has sent its verdict may take to end its turn after a cap
// is reached.
const finishTime = 10 * time.Second

// handleTurnEnd runs when the stream reports the end of the turn. An interactive program without a
// valid signal is asked for one; otherwise the program gets a little time to end.
func (sup *supervisor) handleTurnEnd(ctx context.Context) rules.FailCause {
	if sup.listener.interactive {
		turn := sup.listener.turn() // first: another turn may end meanwhile, which is handled next
		valid, tried, fields := sup.listener.verdict()
		if !valid && !tried && turn <= sup.checkpointTurn {
			// the turn that was asked about, or that of the checkpoint: the agent has not read the
			// request for its signal yet
			return ""
		}
		if !valid && !tried && sup.listener.progressedIn(turn) && sup.run.mayContinue() {
			sup.program.WriteLine(continueLine + sup.signalLines())
			return ""
		}
		if !valid {
			return sup.askForSignal(ctx, fields)
		}
		sup.program.CloseInput()
	}
	// The time starts again if the program continued and ended another turn, but not if it must
	// wait.
	turn := sup.listener.turn()
	if sup.linger > 0 && (sup.lingerOver == nil || sup.turn > 0 && sup.turn != turn) {
		sup.lingerOver, sup.turn = time.After(sup.linger), turn
	}
	return ""
}

// askForSignal asks a running agent for a checkpoint, to see whether it reads its input, and then
// for its signal. An agent that does not answer in time has failed.
func (sup *supervisor) askForSignal(ctx context.Context,
	fields rules.SignalFields) rules.FailCause {
	s := sup.run
	if s.isLastChance() { // reporting now would end the lease without a record of the turn
		sup.gaveUp = true
		return sup.stop("")
	}
	answer, err := s.submit(rules.ReportSignal{Session: s.id, Epoch: s.epoch,
		Signal: signalbox.NameUnknown, Fields: fields})
	if err != nil || !answer.Again { // the report failed, or the lease is lost: this agent must end
		s.loseLease()
		return ""
	}
	answered, timedOut := sup.requestCheckpoint(ctx, "Your output has no valid signal.")
	switch {
	case timedOut:
		return rules.FailTimeout
	case answered:
		sup.program.WriteLine(strings.TrimSpace(showKey(fields.Advice, sup.listener.key) +
			" Now send your signal again, on a line of its own. One of: " + sup.signalLines()))
	}
	return ""
}

// remind asks an agent that has been silent, and may be waiting for input, for a checkpoint and
// then for its signal. That is not a failure, and neither is an agent that does not answer: a
// program that keeps its output until the end may be at work.
func (sup *supervisor) remind(ctx context.Context) {
	if answered, _ := sup.requestCheckpoint(ctx,
		"You have been silent, and have sent no signal yet."); answered {
		sup.program.WriteLine(continueLine + sup.signalLines())
	}
}

const continueLine = "Continue if you are not done. If you are, send your signal on a line of its own. One of: "

// deliverMessages gives messages of the human to an agent that listens, each on one line. What it
// has not got is in the next prompt, also if this process is killed before the delivery is
// recorded.
func (sup *supervisor) deliverMessages(ctx context.Context) {
	s := sup.run
	if !sup.listener.interactive || sup.lingerOver != nil || sup.listener.hasVerdict() {
		return
	}
	var delivered []uint64
	for _, m := range s.workItem().Task.Messages {
		if slices.Contains(s.told, m.Seq) || !m.IsFor(s.role) {
			continue
		}
		words, err := stored.Words(ctx, s.crew.box, m.Text, m.Body)
		if err != nil {
			s.crew.log.Warn("cannot read a message", "work", s.work, "error", err)
			break
		}
		if sup.program.WriteLine("Message from the human ("+m.Actor+"): "+
			text.OneLine(words)) != nil {
			break // it has ended
		}
		s.told, delivered = append(s.told, m.Seq), append(delivered, m.Seq)
	}
	if len(delivered) == 0 {
		return
	}
	if _, err := s.try(rules.DeliverMessages{Session: s.id, Epoch: s.epoch,
		Messages: delivered}); err != nil && !isRefusal(err) {
		s.crew.log.Warn("cannot record that a message was delivered", "work", s.work, "error", err)
	}
}

// mustReadNow reports whether there are words for which the program is interrupted. One that has sent
// its verdict is not: its next turn gets them.
func (sup *supervisor) mustReadNow() bool {
	s := sup.run
	return !sup.listener.interactive && sup.lingerOver == nil && !sup.listener.hasVerdict() &&
		slices.ContainsFunc(s.workItem().Task.Messages, func(m rules.Message) bool {
			return m.Now && m.IsFor(s.role) && !slices.Contains(s.told, m.Seq)
		})
}

// requestCheckpoint asks a running agent for a checkpoint and waits for it.
func (sup *supervisor) requestCheckpoint(ctx context.Context,
	why string) (answered, timedOut bool) {
	s := sup.run
	for len(sup.listener.checkpointed) > 0 {
		<-sup.listener.checkpointed
	}
	line := ""
	for _, sig := range prompts.SignalsFor(s.role, s.work, sup.listener.key) {
		if sig.Name == signalbox.NameCheckpoint {
			line = sig.Line
		}
	}
	if sup.program.WriteLine(why+" Send this line now, alone, at column 0: "+line) != nil {
		return false, false
	}
	select {
	case <-sup.listener.checkpointed:
		sup.checkpointTurn = sup.listener.lastCheckpoint()
		return true, false
	case <-sup.exited:
	case <-ctx.Done():
	case <-time.After(s.crew.box.Config.Limits.CheckpointAnswer):
		return false, true
	}
	return false, false
}

// signalLines lists the signals that the agent may send.
func (sup *supervisor) signalLines() string {
	var lines []string
	for _, sig := range prompts.SignalsFor(sup.run.role, sup.run.work, sup.listener.key) {
		lines = append(lines, sig.Line)
	}
	return strings.Join(lines, " | ")
}

// dotTerminated ends a prompt with a line that contains only a full stop, so that an interactive
// program knows where the prompt ends. Such a line within the prompt gets a second full stop.
func dotTerminated(prompt []byte) []byte {
	var b []byte
	for line := range bytes.Lines(prompt) {
		if string(bytes.TrimRight(line, "\r\n")) == "." {
			b = append(b, '.')
		}
		b = append(b, line...)
	}
	if len(b) > 0 && b[len(b)-1] != '\n' {
		b = append(b, '\n')
	}
	return append(b, ".\n"...)
}
