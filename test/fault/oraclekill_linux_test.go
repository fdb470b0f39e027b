package fault

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/rules"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/session"
)

// TestOracleKilled kills signalbox oracle during replies, during tool calls, during the work of a
// sub-agent, and at random moments, and resumes it until it ends. The answer must be that of an
// undisturbed run, and nothing may be done twice.
func TestOracleKilled(t *testing.T) {
	addresses := startModel(t)
	for _, protocol := range oracleProtocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel() // it mostly waits
			s := newOracleSite(t, protocol, addresses[protocol])
			whole := s.newConversation(t, oracleQuestion)
			p := whole.start(t)
			if status := p.end(t); status != 0 {
				t.Fatalf("without a kill: exit status %d\n%s", status, &p.stderr)
			}
			want := outputOf(t, p.printed)
			whole.checkEnd(t)
			if len(want.Results) != 7 || want.replaceUnknown(want) != 0 || len(want.Content) != 5 {
				t.Fatalf("without a kill the output is %s", asJSON(want))
			}
			random := newRand(t)
			unknown, kills := 0, 0
			for i, plan := range killPlans(random, p.printed) {
				o := s.newConversation(t, oracleQuestion)
				n, lost := o.runWithKills(t, random, plan, want)
				kills, unknown = kills+n, unknown+lost
				if t.Failed() {
					t.Fatalf("plan %d (%s), killed %d times", i, plan.name, n)
				}
			}
			t.Logf("%d kills left %d calls with an unknown result", kills, unknown)
			s.mustVerify(t)
			s.verifyCommand(t, 0)
		})
	}
}

// killPlan says when to kill: after the first chunk for which match returns true, or after some
// time, whichever is first.
type killPlan struct {
	name  string
	match func(chunk.Chunk) bool
	after time.Duration
}

// atInstant returns a plan to kill after some time.
func atInstant(d time.Duration) killPlan {
	return killPlan{d.String(), func(chunk.Chunk) bool { return false }, d}
}

// afterChunk returns a plan to kill after the n-th chunk, counting from 1.
func afterChunk(n int) killPlan {
	return killPlan{fmt.Sprintf("chunk %d", n), func(chunk.Chunk) bool { n--; return n == 0 },
		patience}
}

// longest is the approximate duration of a run without a kill.
const longest = 800 * time.Millisecond

// killPlans returns a plan for the first kill of each conversation.
func killPlans(random *rand.Rand, undisturbed []chunk.Chunk) (plans []killPlan) {
	// Kill after the first chunk of each kind in each turn: content is in the middle of a reply, a
	// call has no result yet, and a signal is about to be acted on.
	seen := map[string]bool{}
	for i, c := range undisturbed {
		key := string(c.Kind())
		switch c := c.(type) {
		case chunk.Content:
			key = fmt.Sprint(key, c.Turn)
		case chunk.ToolCall:
			key = fmt.Sprint(key, c.Turn)
		case chunk.ToolResult:
			key = fmt.Sprint(key, c.Turn)
		case chunk.Signal:
			key = fmt.Sprint(key, c.Turn)
		}
		if !seen[key] {
			seen[key] = true
			plans = append(plans, afterChunk(i+1))
		}
	}
	random.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
	plans = plans[:sized(1, len(plans))]
	for range sized(1, 8) {
		plans = append(plans, afterChunk(1+random.IntN(len(undisturbed))))
	}
	for range sized(1, 8) {
		plans = append(plans, atInstant(time.Duration(random.Int64N(int64(longest)))))
	}
	return plans
}

// runWithKills runs the conversation, kills it as planned and then up to three more times, and
// checks it. It returns the number of kills and of calls whose result is unknown.
func (o *conversation) runWithKills(t *testing.T, random *rand.Rand, plan killPlan,
	want output) (kills, unknown int) {
	t.Helper()
	for more := true; more; more = kills < 4 && random.IntN(3) > 0 {
		p := o.start(t)
		if !p.kill(t, random.IntN(2) == 0, plan.match, plan.after) {
			o.checkAnswer(t, p, want)
			o.checkRecorded(t, want)
			return kills, o.checkEnd(t)
		}
		kills++
		o.killed = append(o.killed, p.printed)
		o.checkPrinted(t, p.printed)
		if o.isAnswered(t) { // the kill came after the end
			break
		}
		// A resumed run repeats the earlier chunks at once, so counting chunks alone would rarely
		// reach new ones.
		if plan = afterChunk(1 + random.IntN(60)); random.IntN(2) == 0 {
			plan = atInstant(time.Duration(random.Int64N(int64(longest))))
		}
	}
	p := o.start(t)
	p.end(t)
	o.checkAnswer(t, p, want)
	o.checkRecorded(t, want)
	return kills, o.checkEnd(t)
}

// isAnswered reports whether the answer is recorded.
func (o *conversation) isAnswered(t *testing.T) bool {
	t.Helper()
	return o.find(t) && slices.ContainsFunc(o.record(t, o.folder()),
		func(e session.Entry) bool { return e.Kind == session.Answer })
}

// checkRecorded checks that the record has the same content as the output of an undisturbed run.
func (o *conversation) checkRecorded(t *testing.T, want output) {
	t.Helper()
	entries, err := session.Read(o.folder())
	check(t, err)
	chunks := oracle.Chunks(entries, 1)
	for _, e := range entries {
		if e.Kind == session.Answer {
			chunks = append(chunks, *e.Done)
		}
	}
	got := outputOf(t, chunks)
	got.replaceUnknown(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the record differs from that of a run without a kill:\n%s", diff)
	}
}

// checkAnswer checks the output of the process that finished.
func (o *conversation) checkAnswer(t *testing.T, p *oracleProcess, want output) {
	t.Helper()
	if status := p.cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("exit status %d\n%s", status, &p.stderr)
	}
	got := outputOf(t, p.printed)
	got.replaceUnknown(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the output differs from that of a run without a kill:\n%s", diff)
	}
	o.checkPrinted(t, p.printed)
}

// checkEnd checks the invariants of a finished conversation, and returns the number of calls whose
// result is unknown.
func (o *conversation) checkEnd(t *testing.T) (unknown int) {
	t.Helper()
	if !o.find(t) {
		t.Fatal("the conversation is not recorded")
	}
	o.diary.checkNoTools(t)
	o.diary.checkNoOverlaps(t)
	for _, printed := range o.killed {
		o.checkPrinted(t, printed)
	}
	subs, err := filepath.Glob(filepath.Join(o.folder(), "sub", "*"))
	if check(t, err); len(subs) != 1 {
		t.Fatalf("the sub-agent has the sessions %v", subs)
	}
	entries := o.record(t, o.folder())
	unknown = o.checkCalls(t, append(slices.Clone(entries), o.record(t, subs[0])...))
	o.checkSignals(t, filepath.Base(subs[0]))
	o.checkShown(t, entries)
	return unknown
}

// checkCalls checks that each call that changes something ran exactly once, or at most once if its
// result is unknown.
func (o *conversation) checkCalls(t *testing.T, entries []session.Entry) (unknown int) {
	t.Helper()
	started, done := o.diary.counts(t, "keys"), o.diary.counts(t, "done")
	calls := map[string]session.Entry{}
	for _, e := range entries {
		switch e.Kind {
		case session.Call:
			if _, twice := calls[e.Key]; twice {
				t.Errorf("call %s is recorded twice", e.Key)
			}
			calls[e.Key] = e
		case session.Result:
			call, there := calls[e.Key]
			if !there {
				t.Errorf("call %s has a result but is not recorded: %s", e.Key, e.Text)
			}
			if strings.HasPrefix(call.Call.Name, "delegate:") {
				continue
			}
			starts, ends := started[e.Key], done[e.Key]
			delete(started, e.Key)
			switch {
			case strings.HasPrefix(e.Text, unknownOutcome):
				unknown++
				if call.Call.Name == "look" || starts > 1 || ends > 1 {
					t.Errorf("%s %s has an unknown result: it started %d times and finished %d times", call.Call.Name, e.Key, starts, ends)
				}
			case !e.OK:
				t.Errorf("%s %s failed: %s", call.Call.Name, e.Key, e.Text)
			case call.Call.Name == "look":
				if starts < 1 || starts > 1+len(o.killed) {
					t.Errorf("look %s started %d times in %d processes", e.Key, starts,
						1+len(o.killed))
				}
			case starts != 1 || ends != 1:
				t.Errorf("%s %s started %d times and finished %d times", call.Call.Name, e.Key,
					starts, ends)
			}
		}
	}
	if len(started) > 0 {
		t.Errorf("these calls started but have no result: %v", started)
	}
	return unknown
}

// checkSignals checks that the ledger has the signals of the model and of the sub-agent, each once
// and in order.
func (o *conversation) checkSignals(t *testing.T, sub string) {
	t.Helper()
	var got []string
	for _, h := range all[rules.TurnSignalHeard](o.events(t), rules.TypeTurnSignalHeard, "") {
		if strings.HasPrefix(h.Run, o.id) {
			got = append(got, fmt.Sprintf("%s %s %d %s", h.Run, h.Tree, h.Turn, h.Signal))
		}
	}
	want := []string{
		o.id + ".1.1 oracle 1 need_turn",
		o.id + ".1.1 oracle 2 need_turn",
		o.id + ".1.1 oracle 3 delegation_recommended",
		sub + ".1.1 agent 1 need_turn",
		sub + ".1.1 agent 2 context_sufficient",
		o.id + ".1.1 oracle 4 need_turn",
		o.id + ".1.1 oracle 5 context_sufficient",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the ledger has these signals:\n%s", diff)
	}
}

// checkShown checks that the record has one reply per turn, and that oracle --show can show it.
func (o *conversation) checkShown(t *testing.T, entries []session.Entry) {
	t.Helper()
	var replies []string
	for _, e := range entries {
		if e.Kind == session.Reply {
			replies = append(replies, fmt.Sprintf("turn %d: %s", e.Turn, e.Reply.Text))
		}
	}
	if len(replies) != 5 {
		t.Errorf("the record has %d replies: %q", len(replies), replies)
	}
	shown := o.must(t, "oracle", "--show", o.id, "--json")
	if n := strings.Count(shown, `"type":"done"`); n != 1 {
		t.Errorf("the end is shown %d times", n)
	}
}

// TestOracleInDoubt kills the oracle while a tool that changes something runs. The tool ends with
// it, and must not keep running unnoticed. The result of the call is unknown, and the resumed
// oracle tells the model so.
func TestOracleInDoubt(t *testing.T) {
	addresses := startModel(t)
	for _, protocol := range oracleProtocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := newOracleSite(t, protocol, addresses[protocol])
			for _, group := range []bool{false, true} {
				o := s.newConversation(t, "Which tool hangs? keep")
				p := o.start(t)
				o.diary.awaitLine(t, "keys")
				if len(o.diary.toolsAlive()) == 0 {
					t.Fatal("the tool is not alive")
				}
				p.kill(t, group, func(chunk.Chunk) bool { return false }, 0)
				p = o.start(t)
				if status := p.end(t); status != 0 {
					t.Fatalf("exit status %d\n%s", status, &p.stderr)
				}
				got := outputOf(t, p.printed)
				if got.Results["h-1"] != unknownOutcome || got.Content[2] != "It did." ||
					got.Done.Reason != string(decide.ReasonContextSufficient) {
					t.Errorf("the output is %s", asJSON(got))
				}
				o.diary.checkNoTools(t)
				if n := o.diary.counts(t, "keys"); len(n) != 1 {
					t.Errorf("the tool started for the calls %v", n)
				}
			}
		})
	}
}
