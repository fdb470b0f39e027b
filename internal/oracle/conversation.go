package oracle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/session"
	"signalbox/internal/tree"
	"signalbox/internal/tree/runner"
	"signalbox/internal/tree/turnlog"
	"signalbox/internal/tree/turnsignal"
	"signalbox/transcript"
)

// Reasons in Done, in addition to those of package decide.
const (
	ReasonModelFailed = "model_failed" // there is no reply of the model
	ReasonTreeFailed  = "tree_failed"  // the tree failed
	// the tree succeeded without a decision that ends the conversation
	ReasonTreeEnded = "tree_ended"
	ReasonFailed    = "failed" // something else failed, such as the disk
)

// ErrNoQuestion is returned for a session without a question. Call Ask first.
var ErrNoQuestion = errors.New("nothing was asked in this conversation")

// conversation is the processing of one question.
type conversation struct {
	*Oracle
	session *session.Session
	out     *stream
	ledger  *recorder
	limit   decide.Resources
	// deadline is when the time of the question is spent. Zero means no limit.
	deadline time.Time
	turn     atomic.Int64 // of the model, as of the last tick
	number   int          // of the question
	// question and class are inputs of the tree. A resumed run has them already.
	question, class string
}

// Answer is the end of a question.
type Answer struct {
	// Text is the content of the last turn, without signals.
	Text string
	Done chunk.Done
	// Error is not nil if Done reports a failure.
	Error *chunk.Error
}

// Ask asks a question and passes its chunks to emit, up to Done. The session must not be in use for
// another question. The error is that of emit; other failures are chunks and part of the answer.
func (o *Oracle) Ask(ctx context.Context, s *session.Session, question string,
	emit Emit) (*Answer, error) {
	return o.ask(ctx, s, question, o.Limit, emit)
}

// ask is Ask with another limit.
func (o *Oracle) ask(ctx context.Context, s *session.Session, question string,
	limit decide.Resources, emit Emit) (*Answer, error) {
	last := session.Last(s.Entries())
	v := &conversation{Oracle: o, session: s, limit: limit, number: last.Number + 1,
		question: question,
		class:    string(cmp.Or(o.Class, o.Prompt.Classify(question)))}
	return v.converse(ctx, emit, func(ctx context.Context) (*tree.Run, error) {
		v.rerecordSignals(ctx, last.Run) // in case the previous question was interrupted
		if err := v.settleCalls(); err != nil {
			return nil, err
		}
		err := s.Append(session.Entry{Kind: session.Question, Question: v.number, Text: question,
			Class: v.class}, false)
		if err != nil {
			return nil, err
		}
		return v.startRun(ctx, 1)
	})
}

// Resume continues the last question of a session: where it was interrupted, or from its beginning
// if the model or the tree failed. It repeats the chunks so far, so that the stream is complete;
// for a question that was answered it does nothing else. The error is that of emit, or
// ErrNoQuestion.
func (o *Oracle) Resume(ctx context.Context, s *session.Session, emit Emit) (*Answer, error) {
	return o.resume(ctx, s, o.Limit, emit)
}

// resume is Resume with another limit.
func (o *Oracle) resume(ctx context.Context, s *session.Session, limit decide.Resources,
	emit Emit) (*Answer, error) {
	last := session.Last(s.Entries())
	v := &conversation{Oracle: o, session: s, limit: limit, number: last.Number,
		question: last.Text, class: last.Class}
	switch {
	case last.Number == 0:
		return nil, ErrNoQuestion
	case !CanResume(last):
		return v.replayAnswer(emit)
	}
	return v.converse(ctx, emit, func(ctx context.Context) (*tree.Run, error) {
		if last.Runs == 0 || last.Reason == ReasonModelFailed || last.Reason == ReasonTreeFailed {
			if last.Runs > 0 {
				v.replay("asking again")
			}
			return v.startRun(ctx, last.Runs+1)
		}
		v.replay("resuming where it was interrupted")
		v.rerecordSignals(ctx, last.Run)
		return v.run(ctx, last.Run, last.Journal)
	})
}

// CanResume reports whether Resume would continue the last question of a session, rather than
// repeat its answer.
func CanResume(last session.QuestionState) bool {
	return last.Number > 0 &&
		(!last.Done || slices.Contains([]string{ReasonModelFailed, ReasonTreeFailed, ReasonFailed,
			string(decide.ReasonCancelled)}, last.Reason))
}

// converse calls runTree and emits everything up to Done.
func (v *conversation) converse(ctx context.Context, emit Emit,
	runTree func(context.Context) (*tree.Run, error)) (*Answer, error) {
	limited := ctx
	if v.limit.Time > 0 {
		_, spent := v.spentBefore()
		v.deadline = time.Now().Add(v.limit.Time - spent.Time)
		var stop context.CancelFunc
		limited, stop = context.WithDeadlineCause(ctx, v.deadline, errTimeSpent)
		defer stop()
	}
	inner, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	v.out = &stream{emit: emit, cancel: cancel}
	v.ledger = v.newRecorder()
	run, err := runTree(inner)
	if ledgerErr := v.ledger.wait(context.WithoutCancel(ctx)); err == nil {
		err = ledgerErr
	}
	if failed := v.out.Err(); failed != nil {
		return nil, failed
	}
	if cause := context.Cause(inner); err != nil && cause != nil {
		err = cause
	}
	answer := v.newAnswer(ctx.Err() != nil, run, err)
	return answer, v.finish(answer)
}

// errTimeSpent is the cause with which a conversation is stopped at its time limit, whatever its
// tree waits for.
var errTimeSpent = errors.New(
	"the time limit of the question was reached before there was an answer")

// timeFor returns how long a model or tool call may take of the time that the tree has given it.
// The rest of a question is for the turn that must answer, and that turn must end a little before
// everything is stopped, so that its text is kept.
func (v *conversation) timeFor(millis int64, last bool) time.Duration {
	rest := finalTime(v.limit.Time)
	if last {
		rest = min(200*time.Millisecond, v.limit.Time/20)
	}
	return min(time.Duration(millis)*time.Millisecond, time.Until(v.deadline)-rest)
}

// startRun starts the nth run of the tree on the question.
func (v *conversation) startRun(ctx context.Context, n int) (*tree.Run, error) {
	run := fmt.Sprintf("%s.%d.%d", v.session.ID, v.number, n)
	journal := session.JournalName(v.number, n)
	err := v.session.Append(session.Entry{Kind: session.RunStart, Question: v.number, Run: run,
		Journal: journal}, true)
	if err != nil {
		return nil, err
	}
	if said := session.Messages(v.session.Entries()); n > 1 &&
		said[len(said)-1].Role == model.Assistant {
		// An earlier run failed after a reply, and a request must end with a user message.
		e := session.Entry{Kind: session.Note, Key: run, Question: v.number,
			Text: v.advice(prompt.Continue)}
		if err := v.session.Append(e, false); err != nil {
			return nil, err
		}
	}
	return v.run(ctx, run, journal)
}

// run runs the tree until it ends or fails.
func (v *conversation) run(ctx context.Context, id, journal string) (*tree.Run, error) {
	services := &tree.Registry{}
	services.Add(tree.LLMCall, "", v.modelLeaf())
	services.Add(tree.Tool, "call_tools", v.toolCallsLeaf())
	services.Add(tree.Tool, "delegate", v.delegateLeaf())
	for _, t := range v.Tools {
		services.Add(tree.Tool, t.Name, v.toolLeaf(t.Name))
	}
	inputs := limitInputs(v.limit)
	inputs[keyQuestion], inputs[keyClass] = truncate(v.question, maxBoardText), v.class
	if turns, spent := v.spentBefore(); turns > 0 {
		inputs[keyTurn], inputs[keyTokens], inputs[keyCost], inputs[keyMillis] = int64(turns),
			spent.Tokens, spent.CostUSD, spent.Time.Milliseconds()
		// If the budget is spent already, the first turn must answer.
		if d := decide.Decide(decide.Situation{Spent: spent, Limit: workLimit(v.limit), Turn: turns,
			TurnLimit: v.TurnLimit, Text: true}); d.Action == decide.AskFinal {
			advice, err := v.Prompt.Advice(prompt.AskFinal,
				prompt.AdviceData{Reason: string(d.Reason), Detail: d.Detail})
			if err != nil {
				return nil, err
			}
			inputs[keyAsked], inputs[keyAdvice] = string(d.Reason), advice
		}
	}
	updateTurn := func(run *tree.Run) { v.turn.Store(int64(turnOf(run))) }
	return runner.Do(ctx, v.tree.Tree(), &runner.Options{
		Run:     tree.RunOptions{ID: id, Services: services, Inputs: inputs},
		Journal: filepath.Join(v.session.Dir, journal), File: v.tree.Name,
		Source:   string(v.tree.Source),
		Watchdog: -1,               // the model and each tool have a time limit of their own
		Grace:    20 * time.Second, // longer than toolbox.Run waits for a tool that was cancelled
		Emitted:  v.handleEmit,
		Opened:   updateTurn,
		Ticked:   updateTurn,
		// Safe: a repeated tick gets the same reply from the session, and handleEmit ignores what
		// it has already handled.
		EmitUnsynced: true,
	})
}

// spentBefore returns how many turns the question has had in earlier runs, and what they cost,
// including sub-agents.
func (v *conversation) spentBefore() (turns int, spent decide.Resources) {
	for _, e := range v.session.Entries() {
		if e.Question != v.number {
			continue
		}
		switch {
		case e.Kind == session.Reply:
			turns = max(turns, e.Turn)
			spent.Tokens += max(0, e.Reply.Usage.Input) + max(0, e.Reply.Usage.Output)
			spent.CostUSD += max(0, e.Reply.Usage.CostUSD)
		case e.Kind == session.Result && e.Done != nil:
			spent.Tokens += e.Done.Tokens
			spent.CostUSD += e.Done.CostUSD
		}
		if e.Kind == session.Reply || e.Kind == session.Result {
			spent.Time += time.Duration(e.Millis) * time.Millisecond
		}
	}
	return turns, spent
}

// abort cancels the conversation if err is not nil, because it cannot be recorded. Unlike after a
// failed leaf, the run can be resumed.
func (v *conversation) abort(err error) error {
	if err != nil {
		v.out.cancel(err)
	}
	return err
}

// handleEmit handles what the tree's leaves emit, after the journal has it. The same emit may come
// again in a resumed run.
func (v *conversation) handleEmit(ctx context.Context, run *tree.Run, e tree.Emit) error {
	key := fmt.Sprintf("%s#%d", run.ID(), e.Seq)
	turn := turnOf(run)
	entry := session.Entry{Key: key, Question: v.number, Turn: turn}
	var c chunk.Chunk
	record := func() {}
	switch e.Topic {
	case turnsignal.Topic:
		s, ok := turnlog.SignalOf(run, e)
		if !ok {
			return fmt.Errorf("the value of topic '%s' is not a turn signal", turnsignal.Topic)
		}
		signal := chunk.Signal{Turn: turn, Name: s.Signal.Type, Confidence: s.Signal.Confidence, Fields: s.Signal.Fields, Raw: s.Signal.RawXML}
		entry.Kind, entry.Signal, c = session.Signal, &signal, signal
		entry.Node, entry.Nth, entry.Text = s.Node, s.Nth, s.Signal.Timestamp
		record = func() { v.ledger.add(ctx, s) }
	case topicSystem:
		fields, _ := e.Value.(map[string]any)
		system := chunk.System{Turn: turn}
		system.Name, _ = fields["name"].(string)
		system.Level, _ = fields["level"].(string)
		system.Text, _ = fields["text"].(string)
		entry.Kind, entry.System, c = session.System, &system, system
	case topicSay:
		entry.Kind = session.TreeText
		entry.Text, _ = e.Value.(string)
		entry.Turn = 0 // the message does not belong to the model's reply
		if v.out.midLine(0) {
			entry.Text = "\n" + entry.Text
		}
		c = chunk.Content{Text: entry.Text}
	default:
		return nil
	}
	added, err := v.session.Once(entry, false)
	if err == nil && added {
		record()
		v.out.send(c)
	}
	return err
}

func turnOf(run *tree.Run) int {
	n, _ := valueOf(run, keyTurn).(int64)
	return int(n)
}

func valueOf(run *tree.Run, key string) any {
	if run == nil {
		return nil
	}
	v, _ := run.Board().Get(key)
	return v
}

// newAnswer returns the answer that results from the end of a run.
func (v *conversation) newAnswer(cancelled bool, run *tree.Run, err error) *Answer {
	a := &Answer{Done: chunk.Done{Session: v.session.ID, Question: v.number, Turns: turnOf(run)}}
	a.Done.Tokens, _ = valueOf(run, keyTokens).(int64)
	cost, _ := valueOf(run, keyCost).(float64)
	a.Done.CostUSD = math.Round(cost*1e6) / 1e6
	fail := func(reason, name, text string) {
		a.Done.Reason, a.Error = reason, &chunk.Error{Name: name, Text: text}
	}
	decision := decisionFrom(valueOf(run, keyDecision))
	cut, _ := valueOf(run, keyCut).(string)
	modelError, _ := valueOf(run, keyModelError).(map[string]any)
	switch {
	case errors.Is(err, errTimeSpent) && !cancelled:
		fail(string(decide.ReasonTimeLimit), string(decide.ReasonTimeLimit), errTimeSpent.Error())
	case err != nil && cancelled:
		d := decide.Decide(decide.Situation{Cancelled: true})
		fail(string(d.Reason), string(d.Reason), describe(d)+"; it can be resumed")
	case err != nil:
		fail(ReasonFailed, ReasonFailed, err.Error())
	case modelError != nil: // also if the tree ignored the failure: the text before it is not the outcome
		name, _ := modelError["name"].(string)
		text, _ := modelError["text"].(string)
		if hint, _ := modelError["hint"].(string); hint != "" {
			text += "; " + hint
		}
		fail(ReasonModelFailed, name, text)
	case run.Status() != tree.Success:
		fail(ReasonTreeFailed, ReasonTreeFailed, "the tree failed: "+failureOf(run))
	case decide.Action(decision["decision"]).Ends():
		a.Done.Reason = decision["reason"]
	case cutReason(model.Stop(cut)) != "":
		a.Done.Reason = string(cutReason(model.Stop(cut)))
	default:
		a.Done.Reason = ReasonTreeEnded
		a.Done.Detail = undecided(decision)
	}
	if run != nil {
		a.Text, a.Done.Model = v.lastContent()
		a.Done.Answer = a.Text
	}
	return a
}

// undecided explains to the user that the tree ended without a decision that ends the conversation.
func undecided(decision map[string]string) string {
	if decision["decision"] == "" {
		return "the tree ended without a decision: call the action decide after the last model call"
	}
	return fmt.Sprintf("the tree ended although its last decision is %s (%s): repeat the turn until decision_ends", decision["decision"], decision["reason"])
}

// lastContent returns the content of the last turn, with what the tree itself said after it, and
// the name of the model.
func (v *conversation) lastContent() (text, modelName string) {
	var parts []string
	var reply *model.Reply
	for _, e := range v.session.Entries() {
		switch e.Kind {
		case session.RunStart:
			parts, reply = nil, nil
		case session.Reply:
			parts, reply = nil, e.Reply
		case session.TreeText:
			parts = append(parts, e.Text)
		}
	}
	if reply != nil {
		modelName = reply.Model
		if content := strings.TrimSpace(transcript.Content(reply.Text)); content != "" {
			parts = slices.Insert(parts, 0, content+"\n")
		}
	}
	return strings.TrimSpace(strings.Join(parts, "")), modelName
}

// failureOf returns the last leaf that failed with an error, and its error.
func failureOf(run *tree.Run) string {
	reason := "none of its leaves reported an error"
	for i := range run.Tree().Len() {
		if look := run.View(i); look.Status == tree.Failure && look.Err != "" {
			reason = run.Tree().Path(i) + ": " + look.Err
		}
	}
	return reason
}

// finish records the answer and emits sources, error and Done.
func (v *conversation) finish(a *Answer) error {
	if found := v.sources(); len(found) > 0 && a.Error == nil {
		v.out.send(chunk.Sources{Sources: found})
	}
	err := v.session.Append(session.Entry{Kind: session.Answer, Question: v.number, Text: a.Text,
		Done: &a.Done, Error: a.Error}, true)
	if err != nil && a.Error == nil {
		a.Done.Reason, a.Error = ReasonFailed, &chunk.Error{Name: ReasonFailed, Text: err.Error()}
	}
	if a.Error != nil {
		v.out.send(*a.Error)
	}
	v.out.send(a.Done)
	return v.out.Err()
}

// sources returns the distinct sources that the tools found for this question, in an order that
// does not depend on timing.
func (v *conversation) sources() []chunk.Source {
	var all []chunk.Source
	seen := map[chunk.Source]bool{}
	for _, e := range v.session.Entries() {
		for _, s := range e.Sources {
			if e.Question == v.number && !seen[s] {
				seen[s] = true
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b chunk.Source) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Path, b.Path),
			cmp.Compare(a.Line, b.Line), strings.Compare(a.Title, b.Title))
	})
	return all
}

// replay emits what happened on the question in earlier processes and runs.
func (v *conversation) replay(why string) {
	v.out.send(chunk.System{Name: chunk.Resumed, Text: fmt.Sprintf("question %d: %s", v.number,
		why)})
	for _, c := range Chunks(v.session.Entries(), v.number) {
		v.out.send(c)
	}
}

// replayAnswer emits the chunks of an answered question: its process may have been killed before it
// had emitted them all.
func (v *conversation) replayAnswer(emit Emit) (*Answer, error) {
	v.out = &stream{emit: emit, cancel: func(error) {}}
	v.replay("it was answered")
	a := &Answer{}
	for _, e := range v.session.Entries() {
		if e.Kind == session.Answer && e.Done != nil {
			a = &Answer{Text: e.Text, Done: *e.Done, Error: e.Error}
		}
	}
	if found := v.sources(); len(found) > 0 {
		v.out.send(chunk.Sources{Sources: found})
	}
	v.out.send(a.Done)
	return a, v.out.Err()
}

// Chunks returns the recorded chunks of a question. Reasoning is not recorded, and Done is left
// out.
func Chunks(entries []session.Entry, question int) []chunk.Chunk {
	r := &replayer{partial: map[string]*partialReply{}}
	for i := range entries {
		if entries[i].Question == question {
			r.addEntry(&entries[i])
		}
	}
	r.cutAll()
	return r.chunks
}

// replayer converts session entries to chunks.
type replayer struct {
	chunks  []chunk.Chunk
	begun   bool
	partial map[string]*partialReply // by entry key
	order   []string                 // keys of partial
}

// partialReply is a reply that is recorded only in pieces.
type partialReply struct {
	turn    int
	content *transcript.ContentStream
}

func (r *replayer) addEntry(e *session.Entry) {
	switch e.Kind {
	case session.RunStart:
		r.cutAll()
		if r.begun {
			r.add(chunk.System{Name: chunk.AskedAgain, Text: "the question was asked again"})
		}
		r.begun = true
	case session.Piece:
		p := r.partial[e.Key]
		if p == nil {
			p = &partialReply{e.Turn, transcript.NewContentStream()}
			r.partial[e.Key] = p
			r.order = append(r.order, e.Key)
		}
		r.addContent(e.Turn, p.content.Push([]byte(e.Text)))
	case session.Restart:
		r.cut(e.Key)
	case session.Reply:
		r.addContent(e.Turn, transcript.Content(e.Reply.Text))
	case session.TreeText:
		r.addContent(e.Turn, e.Text)
	case session.Call:
		r.add(toolCallChunk(e))
	case session.Result:
		r.add(toolResultChunk(e))
	case session.Signal:
		r.add(*e.Signal)
	case session.System:
		r.add(*e.System)
	}
}

func (r *replayer) add(c chunk.Chunk) { r.chunks = append(r.chunks, c) }

func (r *replayer) addContent(turn int, text string) {
	if text != "" {
		r.add(chunk.Content{Turn: turn, Text: text})
	}
}

// cut withdraws a partial reply.
func (r *replayer) cut(key string) {
	if p := r.partial[key]; p != nil {
		delete(r.partial, key)
		r.addContent(p.turn, p.content.Close())
		r.add(restarted(p.turn))
	}
}

func (r *replayer) cutAll() {
	for _, key := range r.order {
		r.cut(key)
	}
	r.order = nil
}
