package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"signalbox"
	"signalbox/transcript"
)

// Policies for what a whole turn said.
const (
	policyLast = "last"
	policySeed = "seed"
)

// A flag whose empty value would mean "anything goes" is a pointer, and so is every FILE, so that an empty shell
// variable is refused instead of switching a check off or waiting for standard input.
type scanCommand struct {
	Format  signalbox.Format `default:"auto" placeholder:"F" help:"How the transcript is written: ${formats}. Name it for a live plain stream: auto holds input back until it is sure. Default: auto."`
	Role    *signalbox.Role  `placeholder:"R" help:"Refuse line signals that this role may not send: ${roles}."`
	Work    *string          `placeholder:"ID" help:"Refuse line signals about any other work item."`
	Key     *string          `placeholder:"K" help:"Refuse signals that do not carry this session key."`
	All     bool             `help:"Print what was refused too, and remarks about the stream; \"refused\" has the reason."`
	Resolve bool             `help:"Print exactly one object: what the whole turn said."`
	Policy  string           `default:"last" placeholder:"P" help:"How to resolve. last: within a family of verdicts the last one stands. seed: the first match in table order, with no regard to role, key or fences; implies --resolve. Default: last."`
	JSON    bool             `name:"json" help:"Print JSON, which scan always does."`
	File    *string          `arg:"" optional:"" help:"The transcript; - or none is standard input."`
}

func (scanCommand) Help() string {
	return `Reads what an agent wrote and prints the signals in it, one JSON object a line, each as soon as it is certain. Only the agent's own words count: tool results, quoted prompts and code fences do not. A signal that counts has "refused": null. With --resolve it reads to the end and prints the one thing the turn said; if it said nothing that counts, that is "unknown".

Examples:

    signalbox scan session.jsonl
    signalbox scan --all session.jsonl
    signalbox scan --resolve --role auditor --work task-7 session.jsonl
    tail -f agent.log | signalbox scan --format plain`
}

func (c *scanCommand) Run(p *program) error {
	if err := c.check(); err != nil {
		return err
	}
	in, err := p.open(c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	switch {
	case c.Policy == policySeed:
		return c.resolveSeed(p, in)
	case c.Resolve:
		return c.resolve(p, in)
	}
	return c.list(p, in)
}

func (c *scanCommand) check() error {
	if err := oneOf("format", c.Format, signalbox.Formats()); err != nil {
		return err
	}
	if err := oneOf("policy", c.Policy, []string{policyLast, policySeed}); err != nil {
		return err
	}
	if c.Role != nil {
		if err := oneOf("role", *c.Role, signalbox.Roles()); err != nil {
			return err
		}
	}
	if c.Work != nil && !isToken(*c.Work) {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("--work %q is not an id", *c.Work),
			Hint: "give one word, or leave --work out to hear about all work"}
	}
	if c.Key != nil && !isToken(*c.Key) {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("--key %q is not a key", *c.Key),
			Hint: "give one word, or leave --key out if the session has none"}
	}
	return nil
}

// list prints signals while they come in.
func (c *scanCommand) list(p *program, in io.Reader) error {
	printed, refused := 0, 0
	report, err := c.hear(in, func(heard []signalbox.Signal) error {
		for i := range heard {
			sig := &heard[i]
			transcript.Authorize(sig, deref(c.Role), deref(c.Work))
			if !sig.Taken() && !c.All {
				refused++
				continue
			}
			printed++
			if err := p.printJSON(sig, ""); err != nil {
				return err
			}
		}
		return p.out.Flush()
	})
	if err != nil {
		return err
	}
	if printed == 0 && refused > 0 {
		p.notef("no signal was taken; --all shows what was refused, and why (%d)", refused)
	}
	p.remark(report)
	return nil
}

// resolve prints what the whole turn said.
func (c *scanCommand) resolve(p *program, in io.Reader) error {
	var turn []signalbox.Signal
	report, err := c.hear(in, func(heard []signalbox.Signal) error {
		turn = append(turn, heard...)
		return nil
	})
	if err != nil {
		return err
	}
	said := transcript.Resolve(turn, deref(c.Role), deref(c.Work))
	if err := p.printJSON(&said, ""); err != nil {
		return err
	}
	p.remark(report)
	return nil
}

func (c *scanCommand) resolveSeed(p *program, in io.Reader) error {
	if c.Role != nil || c.Work != nil || c.Key != nil {
		p.notef("--policy seed knows no roles, work items or keys; --role, --work and --key are ignored")
	}
	said, err := transcript.ResolveSeed(in, &transcript.Options{Format: c.Format})
	if err != nil {
		return err
	}
	return p.printJSON(&said, "")
}

// hear scans to the end and hands over signals whenever some became certain.
func (c *scanCommand) hear(in io.Reader, take func([]signalbox.Signal) error) (signalbox.StreamReport, error) {
	scanner := transcript.NewScanner(&transcript.Options{Format: c.Format, Key: deref(c.Key)})
	buf := make([]byte, readSize)
	for {
		n, readErr := in.Read(buf)
		if err := take(scanner.Push(buf[:n])); err != nil {
			return signalbox.StreamReport{}, err
		}
		if readErr == io.EOF {
			err := take(scanner.Close())
			return scanner.Report(), err
		}
		if readErr != nil {
			return signalbox.StreamReport{}, readErr
		}
	}
}

// remark tells on standard error what the answer alone does not.
func (p *program) remark(r signalbox.StreamReport) {
	if r.Dropped > 0 {
		p.warnf("%d more signals were counted but not kept; a stream keeps the first %d", r.Dropped, transcript.MaxSignals)
	}
	if r.Failed {
		p.notef("the agent's stream reports a failure: %s", cmp.Or(r.Error, "it gives no reason"))
	}
}

// oneOf refuses a value that is not among the allowed ones, and names them.
func oneOf[T ~string](flag string, got T, allowed []T) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	return &signalbox.Error{
		Code: signalbox.CodeUsage,
		Err:  fmt.Errorf("unknown %s %q", flag, got),
		Hint: fmt.Sprintf("--%s is one of: %s", flag, commaList(allowed)),
	}
}

func commaList[T ~string](values []T) string {
	return strings.Join(names(values), ", ")
}

func isToken(s string) bool { return s != "" && !strings.ContainsFunc(s, unicode.IsSpace) }

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
