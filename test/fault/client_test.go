package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// operation is one command of a client: the request, its times of call and return, and the answer.
type operation struct {
	Client int `json:"client"`
	// claim, renew, release, revoke, exit, unblock, expire or look
	Do     string               `json:"do"`
	Work   string               `json:"work"`
	As     string               `json:"as"` // the session
	Role   signalbox.Role       `json:"role"`
	Epoch  uint64               `json:"epoch"`
	TTL    time.Duration        `json:"ttl"`
	Phase  signalbox.Phase      `json:"phase"`  // in an exit signal
	Reason signalbox.ExitReason `json:"reason"` // in an exit signal

	Call   int64 `json:"call"`
	Return int64 `json:"return"` // 0 means that it is not known

	Code     signalbox.Code   `json:"code"` // of the error; 0 means success
	At       time.Time        `json:"at"`
	Seq      uint64           `json:"seq"`
	Lease    *signalbox.Lease `json:"lease"`
	Now      signalbox.Phase  `json:"now"` // the work's phase afterwards
	Repeated bool             `json:"repeated"`
	// the database could store nothing, and the command had no effect
	Failed bool `json:"failed,omitempty"`
}

// tenure is a lease that a client obtained.
type tenure struct {
	work, session string
	epoch         uint64
	phase         signalbox.Phase
	left          int64 // when the client abandoned it
}

// client issues random commands and records them.
type client struct {
	number int
	works  []string
	box    *box.Box
	now    func() time.Time
	rand   *rand.Rand
	held   []tenure // as far as the client knows
	past   []tenure
}

// historyChild runs a client and prints its operations as JSON lines, each before and after it is
// carried out. Its arguments are the box, the key file, the client's number, a seed, the number of
// commands, the work items, separated by commas, and whether it follows the journal, and by how
// much its clock is ahead. If the number of commands is 0, the client runs until its standard input
// is closed.
func historyChild(ctx context.Context, args []string) error {
	skew, err := time.ParseDuration(args[7])
	if err != nil {
		return err
	}
	now, jump := func() time.Time { return time.Now().Add(skew) }, jumps()
	opts := &box.Options{KeyFile: args[1], Now: func() time.Time { return now().Add(jump()) }}
	b, err := box.Open(ctx, args[0], opts)
	for errors.Is(err, journal.ErrUnavailable) {
		time.Sleep(100 * time.Millisecond)
		b, err = box.Open(ctx, args[0], opts)
	}
	if err != nil {
		return err
	}
	defer b.Close()
	var numbers [3]int
	for i := range numbers {
		if numbers[i], err = strconv.Atoi(args[2+i]); err != nil {
			return err
		}
	}
	c := &client{number: numbers[0], box: b, now: now, rand: rand.New(rand.NewPCG(uint64(numbers[1]), uint64(numbers[0])))}
	c.works = strings.Split(args[5], ",")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, os.Stdin)
	}()
	if args[6] == "true" {
		following, stop := context.WithCancel(ctx)
		followed := make(chan error, 1)
		go func() { followed <- b.Engine.Follow(following) }()
		defer func() {
			stop()
			<-followed
		}()
	}
	out := json.NewEncoder(os.Stdout)
	for i := 0; numbers[2] == 0 || i < numbers[2]; i++ {
		if numbers[2] == 0 && isClosed(ended) {
			return nil
		}
		op := c.choose()
		op.Call = machineTime()
		if err := out.Encode(op); err != nil {
			return err
		}
		for {
			err := c.execute(ctx, &op)
			if err == nil {
				break
			}
			if !errors.Is(err, journal.ErrClockSkew) {
				return fmt.Errorf("%+v: %w", op, err)
			}
			time.Sleep(100 * time.Millisecond) // until the clock is right again
		}
		if err := out.Encode(op); err != nil {
			return err
		}
		c.learn(ctx, op)
	}
	return nil
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// choose picks the next operation at random.
func (c *client) choose() operation {
	op := operation{Client: c.number,
		TTL: time.Second + time.Duration(c.rand.IntN(200))*time.Millisecond}
	past := c.pastTenure()
	switch n := c.rand.IntN(100); {
	case n < 5:
		op.Do = "expire"
	case n < 10:
		op.Do, op.Work = "look", c.anyWork()
	case n < 11:
		op.Do, op.Work = "revoke", c.anyWork()
	case n < 30 && past != nil:
		c.useLease(&op, *past)
	case n < 70 && len(c.held) > 0:
		i := c.rand.IntN(len(c.held))
		if c.rand.IntN(3) == 0 { // abandon the lease
			c.held[i].left = machineTime()
			c.drop(i)
			op.Do = "expire"
			break
		}
		c.useLease(&op, c.held[i])
	default:
		c.claimOrUnblock(&op)
	}
	return op
}

func (c *client) anyWork() string { return c.works[c.rand.IntN(len(c.works))] }

// pastTenure picks a lease that is over, as far as the client knows; nil means there is none. It
// does not pick an abandoned lease before it has expired.
func (c *client) pastTenure() *tenure {
	if len(c.past) == 0 {
		return nil
	}
	past := &c.past[c.rand.IntN(len(c.past))]
	if time.Duration(machineTime()-past.left) < 2*time.Second {
		return nil
	}
	return past
}

func (c *client) drop(i int) {
	c.past = append(c.past, c.held[i])
	c.held = append(c.held[:i], c.held[i+1:]...)
}

// useLease chooses an operation under a lease, which may be over.
func (c *client) useLease(op *operation, under tenure) {
	op.Work, op.As, op.Epoch = under.work, under.session, under.epoch
	switch n := c.rand.IntN(100); {
	case n < 35:
		op.Do = "renew"
	case n < 60:
		op.Do = "release"
	default:
		op.Do, op.Phase, op.Reason = "exit", under.phase, signalbox.ExitBlocked
		switch {
		case n < 63:
			op.Phase = signalbox.PhaseDraft // the phase of no work item
		case n < 66:
			op.Reason = signalbox.ExitCompleted
		}
	}
}

// claimOrUnblock claims work, or unblocks it if it is blocked. Occasionally the role is wrong.
func (c *client) claimOrUnblock(op *operation) {
	op.Do, op.Work, op.Role = "claim", c.anyWork(), signalbox.RoleCritic
	c.box.Engine.View(func(s *rules.State) {
		if w, ok := s.Work(op.Work); ok && c.rand.IntN(20) > 0 {
			op.Role = w.Phase.ClaimableBy()
		}
	})
	if op.Role == "" {
		op.Do, op.Role = "unblock", ""
	}
	op.As = fmt.Sprintf("s-%d-%s", c.number, op.Role)
}

// execute runs an operation and records the answer. A refusal is an answer, not an error.
func (c *client) execute(ctx context.Context, op *operation) error {
	if op.Do == "look" {
		err := c.look(ctx, op)
		op.Return = machineTime()
		return err
	}
	answer, err := c.box.Engine.DoPatiently(ctx, nil, op.command())
	op.Return = machineTime()
	op.At, op.Seq, op.Lease, op.Now, op.Repeated = answer.At, answer.Seq, answer.Lease,
		answer.Phase, answer.Repeated
	op.Failed = errors.Is(err, journal.ErrNotStored)
	if refused := (*signalbox.Error)(nil); errors.As(err, &refused) &&
		!errors.Is(err, journal.ErrClockSkew) {
		op.Code, err = refused.Code, nil
	}
	return err
}

// look reads the current state of the work.
func (c *client) look(ctx context.Context, op *operation) error {
	err := c.box.Engine.WhenAvailable(ctx, func() error { return c.box.Engine.Refresh(ctx) })
	c.box.Engine.View(func(s *rules.State) {
		if w, ok := s.Work(op.Work); ok {
			op.Now, op.Lease = w.Phase, w.Lease
		}
	})
	// The clock of this client may be behind those of others, but time never runs backwards in a
	// ledger.
	op.At = c.now().UTC()
	if last := c.box.Engine.Tail().Time; last.After(op.At) {
		op.At = last
	}
	return err
}

// revokeReason is the reason for which clients end leases of others.
const revokeReason = "to see what happens"

func (op *operation) command() rules.Command {
	switch op.Do {
	case "claim":
		return rules.Claim{Work: op.Work, Role: op.Role, Session: op.As, Actor: "tester",
			Lease: "l-" + op.As, TTL: op.TTL}
	case "renew":
		return rules.Renew{Work: op.Work, Session: op.As, Epoch: op.Epoch, TTL: op.TTL}
	case "release":
		return rules.Release{Work: op.Work, Session: op.As, Epoch: op.Epoch}
	case "revoke":
		return rules.Release{Work: op.Work, Actor: "tester", Reason: revokeReason}
	case "exit":
		return rules.Exit{Session: op.As, Epoch: op.Epoch, Signal: signalOf(op.Phase, op.Reason)}
	case "unblock":
		return rules.Unblock{Work: op.Work, Actor: "tester", Note: "continue"}
	}
	return rules.Expire{}
}

// learn updates the client's leases after an operation. If the work was held by another client, it
// waits briefly for the next event.
func (c *client) learn(ctx context.Context, op operation) {
	switch {
	case op.Do == "claim" && op.Code == 0 && !op.Repeated:
		c.held = append(c.held, tenure{work: op.Work, session: op.As, epoch: op.Seq, phase: op.Now})
	case op.Do == "claim" && op.Code == signalbox.CodeConflict:
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		_ = c.box.Engine.Wait(short, c.box.Engine.Tail().Seq)
	case op.Do != "claim" && op.Do != "renew" || op.Code != 0:
		for i := range c.held {
			if c.held[i].epoch == op.Epoch {
				c.drop(i)
				break
			}
		}
	}
}
