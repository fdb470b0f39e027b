package rehearsal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"signalbox"
)

// player is the state of one agent.
type player struct {
	Options
	script string
	prompt string
	key    string // that the prompt tells the agent to add to its signals; "" if none
	stdin  *bufio.Reader
	enc    encoder
	heard  string // the last line that listen accepted
	code   int    // the exit status after the last step

	ended         bool // nothing has happened since the end of the last turn
	usageReported bool // the script has reported the usage of this turn
	textBytes     int  // of this turn
}

// Play plays the matching section. It returns nil if the agent succeeds, an *Exit if the process
// must exit with a status, the error of the context if it ends first, and any other error if the
// script cannot be played.
func (s *Script) Play(ctx context.Context, opts Options) error {
	opts, err := opts.orDefault()
	if err != nil {
		return err
	}
	section, err := s.Find(opts.Role, opts.Task, opts.Attempt)
	if err != nil {
		return err
	}
	p := &player{Options: opts, script: s.Name, stdin: bufio.NewReader(opts.Stdin)}
	if err := p.readPrompt(); err != nil {
		return err
	}
	if found := keys.FindAllStringSubmatch(p.prompt, -1); found != nil {
		p.key = found[len(found)-1][1] // the instructions are at the end of a prompt
	}
	p.enc = newEncoder(agentInfo{opts.Session, opts.Resume, opts.Dir, p.prompt, opts.Now},
		opts.Format)
	p.enc.begin()
	if err := p.flush(); err != nil {
		return err
	}
	for _, step := range section.Steps {
		if err := p.play(ctx, step); err != nil {
			return err
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	if p.code != 0 {
		return &Exit{p.code, "exit-code"}
	}
	return nil
}

func (p *player) play(ctx context.Context, step Step) error {
	if p.Pace > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(p.Pace):
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := step.act(ctx, p)
	failed := (*stepError)(nil)
	if errors.As(err, &failed) {
		return signalbox.CodeFailed.Errorf(failed.hint,
			"%s:%d: %s: %w", p.script, step.Line, step.Verb, failed.err)
	}
	return err
}

// stepError is the failure of a step.
type stepError struct {
	err  error
	hint string
}

func (e *stepError) Error() string { return e.err.Error() }

// maxPrompt is the maximum size of a prompt, in bytes.
const maxPrompt = 64 << 20

func (p *player) readPrompt() error {
	if p.Prompt != nil {
		p.prompt = *p.Prompt
		return nil
	}
	if !p.Interactive {
		text, err := io.ReadAll(io.LimitReader(p.stdin, maxPrompt))
		p.prompt = string(text)
		return err
	}
	var lines strings.Builder
	for lines.Len() < maxPrompt {
		line, err := p.stdin.ReadString('\n')
		if strings.TrimRight(line, "\r\n") == "." {
			break
		}
		lines.WriteString(line)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	p.prompt = lines.String()
	return nil
}

// keys finds the key of a turn in a prompt. Without keys, a prompt contains nothing like it.
var keys = regexp.MustCompile(`\bkey:([a-z2-7]{16})\b`)

// fill replaces the placeholders by their values.
func (p *player) fill(t text) string {
	if t.verbatim || !strings.Contains(t.value, "{") {
		return t.value
	}
	return strings.NewReplacer("{task}", p.Task, "{role}", p.Role, "{attempt}",
		strconv.Itoa(p.Attempt),
		"{session}", p.Session, "{thread}",
		(&jsonLines{agentInfo: agentInfo{session: p.Session, resumed: p.Resume}}).thread(),
		"{heard}", p.heard, "{key}", p.key).Replace(t.value)
}

// sample fills in arbitrary values, for a scanner to check the text.
func sample(t text) string {
	p := player{Options: Options{Task: "t", Role: "r", Attempt: 1, Session: "s"}, heard: "h",
		key: "k"}
	return p.fill(t)
}

// flush writes the output of the encoder.
func (p *player) flush() error {
	_, err := p.Stdout.Write(p.enc.take())
	return err
}

// flushTurn writes the output of the encoder for something that is part of a turn.
func (p *player) flushTurn() error {
	p.ended = false
	return p.flush()
}

func (p *player) say(_ context.Context, text string) error {
	p.textBytes += len(text)
	p.enc.text(text + "\n")
	return p.flushTurn()
}

func (p *player) quote(ctx context.Context, text string) error { return p.say(ctx, fenced(text)) }

// fenced puts a text into a code fence that the text cannot close.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence
}

func (p *player) think(_ context.Context, text string) error {
	p.textBytes += len(text)
	p.enc.thinking(text)
	return p.flushTurn()
}

func (p *player) subagent(_ context.Context, text string) error {
	p.enc.subagent(text)
	return p.flushTurn()
}

func (p *player) stderr(_ context.Context, text string) error {
	_, err := io.WriteString(p.Stderr, text+"\n")
	return err
}

// raw writes a line without the encoder.
func (p *player) raw(_ context.Context, text string) error {
	_, err := io.WriteString(p.Stdout, text+"\n")
	return err
}

// half writes the first half of the output of say.
func (p *player) half(_ context.Context, text string) error {
	p.enc.message(text)
	event := p.enc.take()
	p.ended = false
	_, err := p.Stdout.Write(event[:len(event)/2])
	return err
}

// bytes puts bytes into the text of the agent that need not be UTF-8.
func (p *player) bytes(raw []byte) error {
	before, after := p.around("")
	p.ended = false
	_, err := p.Stdout.Write(append(append(before, raw...), after...))
	return err
}

// around returns the output of the encoder before and after a text with the given end.
func (p *player) around(end string) (before, after []byte) {
	const mark = "@@@"
	p.enc.message(mark + end)
	event := string(p.enc.take())
	n := strings.LastIndex(event, mark)
	return []byte(event[:n]), []byte(event[n+len(mark):])
}

func (p *player) expect(want string, line int) error {
	if strings.Contains(p.prompt, want) {
		return nil
	}
	fmt.Fprintf(p.Stderr, "%s:%d: the prompt does not contain %q\n", p.script, line, want)
	return &Exit{3, "the prompt lacks " + want}
}

// listen waits for a line on standard input that contains a text, and repeats it.
func (p *player) listen(ctx context.Context, want string) error {
	for {
		line, err := p.line(ctx)
		if line != "" && strings.Contains(line, want) {
			p.heard = strings.TrimRight(line, "\r\n")
			return p.say(ctx, "Heard: "+p.heard)
		}
		if err == io.EOF {
			return p.say(ctx, "Heard nothing more: standard input has ended.")
		}
		if err != nil {
			return err
		}
	}
}

// line reads the next line. A read cannot be interrupted: if the context ends first, the read stays
// behind, and the player must not be used again.
func (p *player) line(ctx context.Context) (string, error) {
	type read struct {
		line string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		line, err := p.stdin.ReadString('\n')
		got <- read{line, err}
	}()
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (p *player) use(u signalbox.Usage) error {
	p.usageReported = true
	p.enc.usage(u)
	return nil
}

// bytesPerToken estimates the usage of scripts that do not report it.
const bytesPerToken = 4

// end ends the turn, if anything has happened since the last one.
func (p *player) end() error {
	if p.ended {
		return nil
	}
	if !p.usageReported {
		p.enc.usage(signalbox.Usage{InputTokens: int64(len(p.prompt) / bytesPerToken),
			OutputTokens: int64(p.textBytes / bytesPerToken)})
	}
	p.enc.endTurn()
	err := p.flushTurn()
	p.ended, p.usageReported, p.textBytes = true, false, 0
	return err
}

// rateLimited writes what a program writes when the service refuses requests for a while, and
// exits.
func (p *player) rateLimited(d time.Duration) error {
	var until time.Time
	if d > 0 {
		until = p.Now().Add(d).Truncate(time.Second)
	}
	p.enc.rateLimit(until)
	if err := p.flush(); err != nil {
		return err
	}
	if p.Format == signalbox.FormatPlain {
		fmt.Fprintln(p.Stderr, limitMessage(until))
	}
	return &Exit{1, "rate limit"}
}
