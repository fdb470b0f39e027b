package byhand

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/transcript"
)

// Policies of --resolve.
const (
	policyLast = "last"
	policySeed = "seed"
)

// readSize is the size of the read buffer, which bounds the memory for transcripts of any length.
const readSize = 256 << 10

// ScanCommand has pointers for flags whose empty value would mean "anything", and for FILE, so that
// an empty shell variable is refused instead of turning off a check or reading standard input.
type ScanCommand struct {
	Format    signalbox.Format `default:"auto" placeholder:"F" help:"The format of the transcript: ${formats}. auto detects it by the first line that is not blank. Default: auto."`
	Role      *signalbox.Role  `placeholder:"R" help:"Refuse line signals that this role may not send: ${roles}."`
	Work      *string          `placeholder:"ID" help:"Refuse line signals about any other work item."`
	Key       *string          `placeholder:"K" help:"Refuse signals that do not carry this session key."`
	All       bool             `help:"Also print refused signals, with the reason in \"refused\", and remarks about the stream."`
	Resolve   bool             `help:"Print exactly one object: the result of the whole turn."`
	Policy    string           `default:"last" placeholder:"P" help:"How to resolve. last: the last verdict of a family counts. seed: the first match in table order counts, regardless of role, key and fences; implies --resolve. Default: last."`
	RawOutput bool             `help:"With --resolve, add the agent's whole text to the result as \"raw_output\"."`
	JSON      bool             `name:"json" help:"Print JSON. This is the only output format."`
	File      *string          `arg:"" optional:"" help:"The transcript. Default: standard input, like -."`
}

func (ScanCommand) Help() string {
	return `Reads the output of an agent and prints the signals in it, one JSON object per line, as soon as each is certain. Only the agent's own text counts: signals in tool results, quoted prompts and code fences are ignored. A signal that counts has "refused": null. With --resolve it reads to the end and prints the one result of the turn, which is "unknown" if no signal counts.

Examples:

    signalbox scan session.jsonl
    signalbox scan --all session.jsonl
    signalbox scan --resolve --role auditor --work task-7 session.jsonl
    tail -f agent.log | signalbox scan --format plain`
}

func (c *ScanCommand) Run(p *cli.Program) error {
	if err := c.check(); err != nil {
		return err
	}
	in, err := p.Open(c.File)
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

func (c *ScanCommand) check() error {
	if err := oneOf("format", c.Format, signalbox.Formats()); err != nil {
		return err
	}
	if err := oneOf("policy", c.Policy, []string{policyLast, policySeed}); err != nil {
		return err
	}
	if c.RawOutput && !c.Resolve && c.Policy != policySeed {
		return signalbox.CodeUsage.Errorf(
			"the output belongs to the result of the whole turn; each signal has its own line in raw", "--raw-output needs --resolve")
	}
	if c.Role != nil {
		if err := oneOf("role", *c.Role, signalbox.Roles()); err != nil {
			return err
		}
	}
	if c.Work != nil && !isToken(*c.Work) {
		return signalbox.CodeUsage.Errorf("use one word, or leave out --work to accept all work",
			"--work %q is not an id", *c.Work)
	}
	if c.Key != nil && !isToken(*c.Key) {
		return signalbox.CodeUsage.Errorf(
			"use one word, or leave out --key if the session has none", "--key %q is not a key",
			*c.Key)
	}
	return nil
}

// list prints signals as they arrive.
func (c *ScanCommand) list(p *cli.Program, in io.Reader) error {
	printed, refused := 0, 0
	scanner, err := c.scan(in, func(signals []signalbox.Signal) error {
		for i := range signals {
			sig := &signals[i]
			transcript.Authorize(sig, deref(c.Role), deref(c.Work))
			if !sig.Taken() && !c.All {
				refused++
				continue
			}
			printed++
			if err := p.PrintJSON(sig, ""); err != nil {
				return err
			}
		}
		return p.Out.Flush()
	})
	if err != nil {
		return err
	}
	if printed == 0 && refused > 0 {
		p.Notef("no signal counts; use --all to see the refused ones (%d)", refused)
	}
	printReport(p, scanner.Report())
	return nil
}

// resolve prints the result of the whole turn.
func (c *ScanCommand) resolve(p *cli.Program, in io.Reader) error {
	var turn []signalbox.Signal
	scanner, err := c.scan(in, func(signals []signalbox.Signal) error {
		turn = append(turn, signals...)
		return nil
	})
	if err != nil {
		return err
	}
	result := transcript.Resolve(turn, deref(c.Role), deref(c.Work))
	if result.Name == signalbox.NameUnknown && result.Refused == "" && result.Detail == "" {
		near, _ := scanner.NearMiss(deref(c.Role), deref(c.Work))
		result.Detail = near.Detail
	}
	if c.Key != nil {
		result.Detail = strings.ReplaceAll(result.Detail, "key:<key>", "key:"+*c.Key)
	}
	if err := c.printResult(p, result, scanner); err != nil {
		return err
	}
	printReport(p, scanner.Report())
	return nil
}

func (c *ScanCommand) resolveSeed(p *cli.Program, in io.Reader) error {
	if c.Role != nil || c.Work != nil || c.Key != nil {
		p.Notef("--policy seed ignores --role, --work and --key")
	}
	var read bytes.Buffer
	if c.RawOutput {
		in = io.TeeReader(in, &read)
	}
	result, err := transcript.ResolveSeed(in, &transcript.Options{Format: c.Format})
	if err != nil {
		return err
	}
	scanner, err := c.scan(&read, func([]signalbox.Signal) error { return nil })
	if err != nil {
		return err
	}
	return c.printResult(p, result, scanner)
}

// printResult prints the result of a turn, with the output that it is the result of if that is
// wanted.
func (c *ScanCommand) printResult(p *cli.Program, result signalbox.Signal,
	scanner *transcript.Scanner) error {
	if !c.RawOutput {
		return p.PrintJSON(&result, "")
	}
	var fields bytes.Buffer
	enc := json.NewEncoder(&fields)
	enc.SetEscapeHTML(false)
	if err := cmp.Or(enc.Encode(result), enc.Encode(scanner.RawOutput())); err != nil {
		return err
	}
	joined := bytes.Replace(fields.Bytes(), []byte("}\n"), []byte(`,"raw_output":`), 1)
	return p.PrintJSON(json.RawMessage(append(joined, '}')), "")
}

// adviceSize is how much of the end of a turn without a valid signal is searched for what the agent
// should send.
const adviceSize = 4 << 10

// scan scans the input to its end, and calls take with signals as they become certain.
func (c *ScanCommand) scan(in io.Reader,
	take func([]signalbox.Signal) error) (*transcript.Scanner, error) {
	scanner := transcript.NewScanner(&transcript.Options{Format: c.Format, Key: deref(c.Key),
		Excerpt: adviceSize, RawOutput: c.RawOutput})
	buf := make([]byte, readSize)
	for {
		n, readErr := in.Read(buf)
		if err := take(scanner.Push(buf[:n])); err != nil {
			return nil, err
		}
		if readErr == io.EOF {
			return scanner, take(scanner.Close())
		}
		if readErr != nil {
			return nil, readErr
		}
	}
}

// printReport prints on standard error what is wrong with the stream.
func printReport(p *cli.Program, r signalbox.StreamReport) {
	if r.Mixed != "" {
		p.Warnf("%s; signals of success do not count", r.Mixed)
	}
	if r.Dropped > 0 {
		p.Warnf("%d signals were dropped; only the first %d of a stream are kept", r.Dropped,
			transcript.MaxSignals)
	}
	if r.Failed {
		p.Notef("the agent's stream reports a failure: %s", cmp.Or(r.Error, "no reason given"))
	}
}

// oneOf returns an error that lists the allowed values if got is not one of them.
func oneOf[T ~string](flag string, got T, allowed []T) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	return signalbox.CodeUsage.Errorf(fmt.Sprintf("--%s is one of: %s", flag,
		cli.CommaList(allowed)), "unknown %s %q", flag, got)
}

func isToken(s string) bool { return s != "" && !strings.ContainsFunc(s, unicode.IsSpace) }

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
