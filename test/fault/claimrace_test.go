package fault

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
)

// claimChild claims each work item that it is told, as a session of its own, and says what came of it.
func claimChild(ctx context.Context, args []string) error {
	b, err := box.Open(ctx, args[0], &box.Options{KeyFile: args[1]})
	if err != nil {
		return err
	}
	defer b.Close()
	fmt.Println("ready")
	for told := bufio.NewScanner(os.Stdin); told.Scan(); {
		answer, err := b.Engine.Do(ctx, claimOf(told.Text(), args[2]))
		refused := (*signalbox.Error)(nil)
		switch {
		case err == nil:
			fmt.Println("granted", answer.Lease.Epoch)
		case errors.As(err, &refused):
			fmt.Println("refused", refused.Code)
		default:
			return err
		}
	}
	return nil
}

func claimOf(work, session string) rules.Claim {
	return rules.Claim{Work: work, Role: signalbox.RoleDeveloper, Session: session, Actor: "tester", Lease: "l-" + session}
}

// TestOneClaimWins lets many processes claim the same work at the same time, again and again.
func TestOneClaimWins(t *testing.T) {
	claimers, rounds := sized(16, 64), sized(25, 300)
	s := newSite(t)
	b := s.open(t)
	var processes []*child
	for i := range claimers {
		processes = append(processes, startChild(t, "claim", s.box, s.keyFile, fmt.Sprintf("s-%d", i)))
	}
	for _, c := range processes {
		c.hear(t) // ready
	}
	epochs := map[string]uint64{}
	for round := range rounds {
		work := fmt.Sprintf("task-%d", round)
		if _, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: work, Actor: "tester"}); err != nil {
			t.Fatal(err)
		}
		for _, c := range processes {
			c.tell(t, work)
		}
		refused, granted := 0, uint64(0)
		for _, c := range processes {
			said := c.hear(t)
			if said == fmt.Sprint("refused ", signalbox.CodeConflict) {
				refused++
			} else if _, err := fmt.Sscanf(said, "granted %d", &granted); err != nil {
				t.Errorf("%s: %s", work, said)
			}
		}
		if refused != claimers-1 || granted == 0 {
			t.Fatalf("%s: %d of %d claims were refused", work, refused, claimers)
		}
		epochs[work] = granted
	}
	for _, c := range processes {
		c.end(t)
	}
	onlyGrants(t, s.mustVerify(t), epochs)
}

// onlyGrants checks that the ledger has one grant for each work item, under the epoch that was answered.
func onlyGrants(t *testing.T, events []signalbox.Event, epochs map[string]uint64) {
	t.Helper()
	granted := map[string]uint64{}
	for _, e := range events {
		if e.Type == rules.TypeLeaseGranted {
			if first, twice := granted[e.Work]; twice {
				t.Errorf("%s was granted in event %d and again in event %d", e.Work, first, e.Seq)
			}
			granted[e.Work] = e.Seq
		}
	}
	if len(granted) != len(epochs) {
		t.Errorf("the ledger has %d grants, %d were answered", len(granted), len(epochs))
	}
	for work, epoch := range epochs {
		if granted[work] != epoch {
			t.Errorf("%s: the ledger has epoch %d, the answer was %d", work, granted[work], epoch)
		}
	}
}

// TestOneClaimCommandWins is the same with plain commands. They are held in the writers' queue until all have started.
func TestOneClaimCommandWins(t *testing.T) {
	claimers := sized(16, 64)
	s := newSite(t)
	s.must(t, "work", "open", "task-1")
	queue, err := durable.Acquire(t.Context(), s.file("ledger.lock"))
	check(t, err)
	commands := make([]*exec.Cmd, claimers)
	answers := make([]strings.Builder, claimers)
	for i := range commands {
		commands[i] = s.command(t, "work", "claim", "task-1", "--role", "developer", "--json")
		commands[i].Stdout = &answers[i]
		check(t, commands[i].Start())
	}
	check(t, queue.Release())
	statuses := map[int]int{}
	epochs := map[string]uint64{}
	for i, cmd := range commands {
		if err := cmd.Wait(); err == nil {
			var answer struct{ Lease struct{ Epoch uint64 } }
			check(t, json.Unmarshal([]byte(answers[i].String()), &answer))
			epochs["task-1"] = answer.Lease.Epoch
		}
		statuses[cmd.ProcessState.ExitCode()]++
	}
	if statuses[0] != 1 || statuses[4] != claimers-1 {
		t.Errorf("exit statuses %v, want 0 once and 4 for the others", statuses)
	}
	onlyGrants(t, s.mustVerify(t), epochs)
}

// TestStaleExit sends exit signals under leases that are over, also several at the same time.
func TestStaleExit(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose func(t *testing.T, s *site, epoch string)
	}{
		{"released", func(t *testing.T, s *site, epoch string) {
			s.must(t, "work", "release", "task-1", "--session", "first", "--epoch", epoch)
			s.must(t, "work", "claim", "task-1", "--role", "developer", "--session", "second")
		}},
		{"taken away", func(t *testing.T, s *site, _ string) {
			s.must(t, "work", "release", "task-1", "--reason", "it hangs")
			s.must(t, "work", "claim", "task-1", "--role", "developer", "--session", "second")
		}},
		{"expired", func(t *testing.T, s *site, _ string) {
			s.must(t, "work", "claim", "--next", "--wait", "--role", "developer", "--session", "second")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.must(t, "work", "open", "task-1")
			ttl := "1m"
			if tt.name == "expired" {
				ttl = "1s"
			}
			var claimed struct{ Lease struct{ Epoch uint64 } }
			s.mustAnswer(t, &claimed, "work", "claim", "task-1", "--role", "developer", "--session", "first", "--ttl", ttl, "--json")
			epoch := fmt.Sprint(claimed.Lease.Epoch)
			tt.lose(t, s, epoch)
			sendStale(t, s, epoch)
			checkRefusedOnce(t, s)
		})
	}
}

// sendStale sends the first session's signal from several processes at once.
func sendStale(t *testing.T, s *site, epoch string) {
	var sending sync.WaitGroup
	for i := range 8 {
		args := []string{"work", "exit", "--session", "first"}
		if i%2 == 0 {
			args = append(args, "--epoch", epoch)
		}
		cmd := s.command(t, args...)
		sending.Go(func() {
			r := finish(t, cmd, strings.NewReader(exitSignal(signalbox.PhaseImplementation, signalbox.ExitCompleted)))
			if r.status != 4 {
				t.Errorf("%v: exit status %d, want 4", args, r.status)
			}
			r.says(t, args, "signalbox: stale lease: epoch "+epoch+" of work 'task-1' is over, epoch * is live",
				"hint: claim the work again; the signal under the old lease was ignored")
		})
	}
	sending.Wait()
}

func checkRefusedOnce(t *testing.T, s *site) {
	t.Helper()
	recorded := 0
	for _, e := range s.mustVerify(t) {
		switch e.Type {
		case "SignalRefused":
			var refused rules.SignalRefused
			check(t, json.Unmarshal(e.Data, &refused))
			if e.Session != "first" || refused.Reason != signalbox.ReasonStaleLease {
				t.Errorf("event %d refuses session %s: %s", e.Seq, e.Session, refused.Reason)
			}
			recorded++
		case "PhaseChanged", "AgentSessionCompleted":
			t.Errorf("event %d is a %s: a stale signal moved the work", e.Seq, e.Type)
		}
	}
	if recorded != 1 {
		t.Errorf("the refusal is recorded %d times, want once", recorded)
	}
	r := finish(t, s.command(t, "work", "exit", "--session", "second"),
		strings.NewReader(exitSignal(signalbox.PhaseImplementation, signalbox.ExitCompleted)))
	if r.status != 0 {
		t.Errorf("the holder's own signal: exit status %d\n%s", r.status, r.stderr)
	}
}

// exitSignal is an exit signal as agents write it.
func exitSignal(phase signalbox.Phase, reason signalbox.ExitReason) string {
	text, err := json.Marshal(signalOf(phase, reason))
	if err != nil {
		panic(err) // it is a struct of strings
	}
	return string(text)
}

func signalOf(phase signalbox.Phase, reason signalbox.ExitReason) signalbox.ExitSignal {
	return signalbox.ExitSignal{Protocol: signalbox.ExitProtocol, Version: "1.0.0", PhaseCompleted: phase, ExitReason: reason}
}
