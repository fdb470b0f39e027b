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

// Reasons in Done beside those of package decide.
const (
	ReasonModelFailed = "model_failed" // the model gave no reply
	ReasonTreeFailed  = "tree_failed"  // the tree failed
	ReasonTreeEnded   = "tree_ended"   // the tree ended and decided nothing
	ReasonFailed      = "failed"       // something outside the conversation failed, such as the disk
)

// ErrNoQuestion is a session in which nothing was asked. Ask something.
var ErrNoQuestion = errors.New("nothing was asked in this conversation")

// conversation is one question on its way through the tree.
type conversation struct {
	*Oracle
	session *session.Session
	out     *stream
	ledger  *register
	limit   decide.Resources
	turn    atomic.Int64 // of the model, as the last tick left it
	number  int
	// question and its class are given to the tree; a run that goes on has them already.
	question, class string
}

// Answer is how a question ended.
type Answer struct {
	// Text is what the last turn said, without signals.
	Text string
	Done chunk.Done
	// Error is set if Done tells of a failure.
	Error *chunk.Error
}

// Ask puts a question to the model and hands out what happens, until Done. The session must not be in use for another
// question. The error is that of emit: all else is told by chunks, and in the answer.
func (o *Oracle) Ask(ctx context.Context, s *session.Session, question string, emit Emit) (*Answer, error) {
	return o.ask(ctx, s, question, o.Limit, emit)
}

// ask is Ask with another limit.
func (o *Oracle) ask(ctx context.Context, s *session.Session, question string, limit decide.Resources, emit Emit) (*Answer, error) {
	last := session.Last(s.Entries())
	v := &conversation{Oracle: o, session: s, limit: limit, number: last.Number + 1, question: question,
		class: string(cmp.Or(o.Class, o.Prompt.Classify(question)))}
	return v.hold(ctx, emit, func(ctx context.Context) (*tree.Run, error) {
		v.recordAgain(ctx, last.Run) // of a question that was cut off
		if err := v.settle(); err != nil {
			return nil, err
		}
		err := s.Append(session.Entry{Kind: session.Question, Question: v.number, Text: question, Class: v.class}, false)
		if err != nil {
			return nil, err
		}
		return v.begin(ctx, 1)
	})
}

// Resume goes on with the last question of a session: where it was cut off, or from its beginning if the model or the tree
// failed. What happened of it before is handed out again, so that the stream is whole; of a question that was answered
// that is all. The error is that of emit, or ErrNoQuestion.
func (o *Oracle) Resume(ctx context.Context, s *session.Session, emit Emit) (*Answer, error) {
	return o.resume(ctx, s, o.Limit, emit)
}

// resume is Resume with another limit.
func (o *Oracle) resume(ctx context.Context, s *session.Session, limit decide.Resources, emit Emit) (*Answer, error) {
	last := session.Last(s.Entries())
	v := &conversation{Oracle: o, session: s, limit: limit, number: last.Number, question: last.Text, class: last.Class}
	switch {
	case last.Number == 0:
		return nil, ErrNoQuestion
	case last.Done && !canResume(last.Reason):
		return v.answerAgain(emit)
	}
	return v.hold(ctx, emit, func(ctx context.Context) (*tree.Run, error) {
		if last.Runs == 0 || last.Reason == ReasonModelFailed || last.Reason == ReasonTreeFailed {
			if last.Runs > 0 {
				v.tellAgain("asking again")
			}
			return v.begin(ctx, last.Runs+1)
		}
		v.tellAgain("going on where it was cut off")
		v.recordAgain(ctx, last.Run)
		return v.run(ctx, last.Run, last.Journal)
	})
}

// canResume tells whether a question that ended so can be gone on with.
func canResume(reason string) bool {
	return slices.Contains([]string{ReasonModelFailed, ReasonTreeFailed, ReasonFailed, string(decide.ReasonCancelled)}, reason)
}

// hold has the conversation, from the first chunk to Done.
func (v *conversation) hold(ctx context.Context, emit Emit, talk func(context.Context) (*tree.Run, error)) (*Answer, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v.out = &stream{emit: emit, cancel: cancel}
	v.ledger = v.newRegister()
	run, err := talk(inner)
	if unrecorded := v.ledger.wait(); err == nil {
		err = unrecorded
	}
	if failed := v.out.failed(); failed != nil {
		return nil, failed
	}
	if cause := context.Cause(inner); err != nil && cause != nil {
		err = cause
	}
	answer := v.ended(ctx.Err() != nil, run, err)
	return answer, v.finish(answer)
}

// begin starts the n-th run on the question.
func (v *conversation) begin(ctx context.Context, n int) (*tree.Run, error) {
	run := fmt.Sprintf("%s.%d.%d", v.session.ID, v.number, n)
	journal := session.JournalName(v.number, n)
	err := v.session.Append(session.Entry{Kind: session.Begun, Question: v.number, Run: run, Journal: journal}, true)
	if err != nil {
		return nil, err
	}
	if said := session.Messages(v.session.Entries()); n > 1 && said[len(said)-1].Role == model.Assistant {
		// A run before failed after a reply, and a model must be asked something.
		e := session.Entry{Kind: session.Note, Key: run, Question: v.number, Text: v.words(prompt.GoOn)}
		if err := v.session.Append(e, false); err != nil {
			return nil, err
		}
	}
	return v.run(ctx, run, journal)
}

// run runs the tree on the question until it ends or cannot go on.
func (v *conversation) run(ctx context.Context, id, journal string) (*tree.Run, error) {
	services := &tree.Registry{}
	services.Add(tree.LLMCall, "", v.think())
	services.Add(tree.Tool, "call_tools", v.useTools())
	services.Add(tree.Tool, "delegate", v.delegate())
	for _, t := range v.Tools {
		services.Add(tree.Tool, t.Name, v.useTool(t.Name))
	}
	inputs := limitInputs(v.limit)
	inputs[keyQuestion], inputs[keyClass] = startOf(v.question, maxBoardText), v.class
	if turns, gone := v.before(); turns > 0 { // in runs before this one
		inputs[keyTurn], inputs[keyTokens], inputs[keyCost], inputs[keyMillis] = int64(turns), gone.Tokens, gone.CostUSD, gone.Time.Milliseconds()
		// One that spent all is asked for its answer at once.
		if d := decide.Decide(decide.Situation{Spent: gone, Limit: v.limit, Turn: turns, TurnLimit: v.TurnLimit, Text: true}); d.Do == decide.AskFinal {
			words, err := v.Prompt.Advice(prompt.AskFinal, prompt.Occasion{Reason: string(d.Reason), Detail: d.Detail})
			if err != nil {
				return nil, err
			}
			inputs[keyAsked], inputs[keyAdvice] = string(d.Reason), words
		}
	}
	see := func(run *tree.Run) { v.turn.Store(int64(turnOf(run))) }
	return runner.Do(ctx, v.tree.Tree(), &runner.Options{
		Run:     tree.RunOptions{ID: id, Services: services, Inputs: inputs},
		Journal: filepath.Join(v.session.Dir, journal), File: v.tree.Name, Source: string(v.tree.Source),
		Watchdog: -1,               // the model and each tool have a time limit of their own
		Grace:    20 * time.Second, // longer than toolbox.Run waits for a tool that was cancelled
		Emitted:  v.published,
		Opened:   see,
		Ticked:   see,
		// A tick comes again with the same reply, which the session has, and published knows what it has had.
		EmitUnsynced: true,
	})
}

// before is how many turns the question has had, and what they cost, with the sub-agents that were asked.
func (v *conversation) before() (turns int, gone decide.Resources) {
	for _, e := range v.session.Entries() {
		if e.Question != v.number {
			continue
		}
		switch {
		case e.Kind == session.Reply:
			turns = max(turns, e.Turn)
			gone.Tokens += max(0, e.Reply.Usage.Input) + max(0, e.Reply.Usage.Output)
			gone.CostUSD += max(0, e.Reply.Usage.CostUSD)
		case e.Kind == session.Result && e.Done != nil:
			gone.Tokens += e.Done.Tokens
			gone.CostUSD += e.Done.CostUSD
		}
		if e.Kind == session.Reply || e.Kind == session.Result {
			gone.Time += time.Duration(e.Millis) * time.Millisecond
		}
	}
	return turns, gone
}

// halt ends a conversation that cannot be recorded. Unlike a leaf that fails, it can be gone on with.
func (v *conversation) halt(err error) error {
	if err != nil {
		v.out.cancel(err)
	}
	return err
}

// published takes what the tree's leaves publish, once it is recorded. It may come again when a run goes on.
func (v *conversation) published(ctx context.Context, run *tree.Run, e tree.Emit) error {
	key := fmt.Sprintf("%s#%d", run.ID(), e.Seq)
	turn := turnOf(run)
	entry := session.Entry{Key: key, Question: v.number, Turn: turn}
	var c chunk.Chunk
	record := func() {}
	switch e.Topic {
	case turnsignal.Topic:
		s, ok := turnlog.SignalOf(run, e)
		if !ok {
			return fmt.Errorf("what was published as '%s' is no turn signal", turnsignal.Topic)
		}
		heard := chunk.Signal{Turn: turn, Name: s.Heard.Type, Confidence: s.Heard.Confidence, Fields: s.Heard.Fields, Raw: s.Heard.RawXML}
		entry.Kind, entry.Signal, c = session.Signal, &heard, heard
		entry.Node, entry.Nth, entry.Text = s.Node, s.Nth, s.Heard.Timestamp
		record = func() { v.ledger.add(ctx, s) }
	case topicSystem:
		fields, _ := e.Value.(map[string]any)
		said := chunk.System{Turn: turn}
		said.Name, _ = fields["name"].(string)
		said.Level, _ = fields["level"].(string)
		said.Text, _ = fields["text"].(string)
		entry.Kind, entry.System, c = session.System, &said, said
	case topicSaid:
		entry.Kind = session.Said
		entry.Text, _ = e.Value.(string)
		entry.Turn = 0 // a message of its own: what the model said last, and how it left it, has nothing to do with it
		if v.out.midLine(0) {
			entry.Text = "\n" + entry.Text
		}
		c = chunk.Content{Text: entry.Text}
	default:
		return nil
	}
	fresh, err := v.session.Once(entry, false)
	if err == nil && fresh {
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

// ended is what the end of a run means.
func (v *conversation) ended(cancelled bool, run *tree.Run, err error) *Answer {
	a := &Answer{Done: chunk.Done{Session: v.session.ID, Question: v.number, Turns: turnOf(run)}}
	a.Done.Tokens, _ = valueOf(run, keyTokens).(int64)
	cost, _ := valueOf(run, keyCost).(float64)
	a.Done.CostUSD = math.Round(cost*1e6) / 1e6
	fail := func(reason, name, text string) {
		a.Done.Reason, a.Error = reason, &chunk.Error{Name: name, Text: text}
	}
	decision := decisionFrom(valueOf(run, keyDecision))
	wrong, _ := valueOf(run, keyModelError).(map[string]any)
	switch {
	case err != nil && cancelled:
		d := decide.Decide(decide.Situation{Cancelled: true})
		fail(string(d.Reason), string(d.Reason), describe(d)+"; it can be gone on with")
	case err != nil:
		fail(ReasonFailed, ReasonFailed, err.Error())
	case run.Status() != tree.Success && wrong != nil:
		name, _ := wrong["name"].(string)
		text, _ := wrong["text"].(string)
		if hint, _ := wrong["hint"].(string); hint != "" {
			text += "; " + hint
		}
		fail(ReasonModelFailed, name, text)
	case run.Status() != tree.Success:
		fail(ReasonTreeFailed, ReasonTreeFailed, "the tree failed: "+whyFailed(run))
	case decision["reason"] != "":
		a.Done.Reason = decision["reason"]
	default:
		a.Done.Reason = ReasonTreeEnded
	}
	if run != nil {
		a.Text, a.Done.Model = v.lastWords()
		a.Done.Answer = a.Text
	}
	return a
}

// lastWords are what the last turn said, and what the tree itself said after it; and who said it.
func (v *conversation) lastWords() (text, by string) {
	var words []string
	var reply *model.Reply
	for _, e := range v.session.Entries() {
		switch e.Kind {
		case session.Begun:
			words, reply = nil, nil
		case session.Reply:
			words, reply = nil, e.Reply
		case session.Said:
			words = append(words, e.Text)
		}
	}
	if reply != nil {
		by = reply.Model
		if content := strings.TrimSpace(transcript.Content(reply.Text)); content != "" {
			words = slices.Insert(words, 0, content+"\n")
		}
	}
	return strings.TrimSpace(strings.Join(words, "")), by
}

// whyFailed names the last leaf that failed with an error.
func whyFailed(run *tree.Run) string {
	reason := "none of its leaves says why"
	for i := range run.Tree().Len() {
		if look := run.Look(i); look.Status == tree.Failure && look.Err != "" {
			reason = run.Tree().Path(i) + ": " + look.Err
		}
	}
	return reason
}

// finish tells the end: sources, what went wrong, and Done.
func (v *conversation) finish(a *Answer) error {
	if found := v.sources(); len(found) > 0 && a.Error == nil {
		v.out.send(chunk.Sources{Sources: found})
	}
	err := v.session.Append(session.Entry{Kind: session.Answer, Question: v.number, Text: a.Text, Done: &a.Done, Error: a.Error}, true)
	if err != nil && a.Error == nil {
		a.Done.Reason, a.Error = ReasonFailed, &chunk.Error{Name: ReasonFailed, Text: err.Error()}
	}
	if a.Error != nil {
		v.out.send(*a.Error)
	}
	v.out.send(a.Done)
	return v.out.failed()
}

// sources are what the tools found for this question, each once, in an order that does not depend on which tool was quicker.
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
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), strings.Compare(a.Title, b.Title))
	})
	return all
}

// tellAgain hands out what happened on the question before.
func (v *conversation) tellAgain(why string) {
	v.out.send(chunk.System{Name: "resumed", Text: fmt.Sprintf("question %d: %s", v.number, why)})
	for _, c := range Chunks(v.session.Entries(), v.number) {
		v.out.send(c)
	}
}

// answerAgain hands out a question that was answered: whoever asked may have been killed before the end of it came.
func (v *conversation) answerAgain(emit Emit) (*Answer, error) {
	v.out = &stream{emit: emit, cancel: func(error) {}}
	v.tellAgain("it was answered")
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
	return a, v.out.failed()
}

// Chunks returns what a record has of a question, as it was handed out, but for reasoning and Done.
func Chunks(entries []session.Entry, question int) []chunk.Chunk {
	r := &retelling{partial: map[string]*partialReply{}}
	for i := range entries {
		if entries[i].Question == question {
			r.take(&entries[i])
		}
	}
	r.cutAll()
	return r.chunks
}

// retelling makes chunks of entries.
type retelling struct {
	chunks  []chunk.Chunk
	begun   bool
	partial map[string]*partialReply // by key
	order   []string                 // of the keys in partial
}

// partialReply is one of which pieces came, and not the whole.
type partialReply struct {
	turn    int
	content *transcript.ContentStream
}

func (r *retelling) take(e *session.Entry) {
	switch e.Kind {
	case session.Begun:
		r.cutAll()
		if r.begun {
			r.add(chunk.System{Name: "asked_again", Text: "the question was asked again"})
		}
		r.begun = true
	case session.Piece:
		p := r.partial[e.Key]
		if p == nil {
			p = &partialReply{e.Turn, transcript.NewContentStream()}
			r.partial[e.Key] = p
			r.order = append(r.order, e.Key)
		}
		r.content(e.Turn, p.content.Push([]byte(e.Text)))
	case session.Restart:
		r.cut(e.Key)
	case session.Reply:
		r.content(e.Turn, transcript.Content(e.Reply.Text))
	case session.Said:
		r.content(e.Turn, e.Text)
	case session.Called:
		r.add(toolCallChunk(e))
	case session.Result:
		r.add(toolResultChunk(e))
	case session.Signal:
		r.add(*e.Signal)
	case session.System:
		r.add(*e.System)
	}
}

func (r *retelling) add(c chunk.Chunk) { r.chunks = append(r.chunks, c) }

func (r *retelling) content(turn int, text string) {
	if text != "" {
		r.add(chunk.Content{Turn: turn, Text: text})
	}
}

// cut ends a reply that was cut off.
func (r *retelling) cut(key string) {
	if p := r.partial[key]; p != nil {
		delete(r.partial, key)
		r.content(p.turn, p.content.Close())
		r.add(restarted(p.turn))
	}
}

func (r *retelling) cutAll() {
	for _, key := range r.order {
		r.cut(key)
	}
	r.order = nil
}
