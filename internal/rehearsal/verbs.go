package rehearsal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox"
	"signalbox/transcript"
)

// action is what a step does.
type action func(ctx context.Context, p *player) error

// verb is one kind of step.
type verb struct {
	// form is the syntax, for hints.
	form string
	// lines reports whether indented lines may follow, document whether it may end with <<END.
	lines, document bool
	parse           func(c call) (action, error)
}

var verbs = map[string]verb{
	"say":      {"say TEXT", true, true, textAction((*player).say)},
	"ask":      {"ask TEXT", true, true, textAction((*player).say)},
	"signal":   {"signal READY_FOR_REVIEW: {task}", true, true, parseSignal},
	"exit":     {"exit JSON, or exit <<END", true, true, parseExit},
	"quote":    {"quote TEXT", true, true, textAction((*player).quote)},
	"thinking": {"thinking TEXT", true, true, textAction((*player).think)},
	"subagent": {"subagent TEXT", true, true, textAction((*player).subagent)},
	"half":     {"half TEXT", true, true, textAction((*player).half)},
	"stderr":   {"stderr TEXT", true, true, textAction((*player).stderr)},
	"raw":      {"raw TEXT", true, true, textAction((*player).raw)},
	"bytes":    {"bytes HEX, such as bytes e282", false, false, parseBytes},

	"read": {"read FILE", false, false, fileAction((*player).read)},
	"write": {"write FILE TEXT, or write FILE <<END", false, true,
		contentAction((*player).write)},
	"append": {"append FILE TEXT, or append FILE <<END", false, true,
		contentAction((*player).append)},
	"replace": {`replace FILE "OLD" "NEW"`, false, false, parseReplace},
	"run":     {"run COMMAND, or run <<END", false, true, textAction((*player).run)},
	"touch":   {"touch FILE", false, false, fileAction((*player).touch)},

	"expect": {`expect "TEXT"`, false, false, parseExpect},
	"listen": {`listen, or listen "TEXT"`, false, false, parseListen},
	"usage": {"usage INPUT OUTPUT [COST [CACHED]], such as usage 1200 340 0.012", false, false,
		parseUsage},
	"wait":      {"wait DURATION, such as wait 2s, or wait for FILE", false, false, parseWait},
	"end":       {"end", false, false, noArguments((*player).end)},
	"exit-code": {"exit-code N, from 0 to 255", false, false, parseExitCode},

	"crash":       {"crash [CODE]", false, false, parseCrash},
	"signal-kill": {"signal-kill", false, false, noArguments((*player).killSelf)},
	"hang":        {"hang, or hang after result", false, false, parseHang},
	"ignore":      {"ignore TERM, or ignore INT", false, false, parseIgnore},
	"fork":        {"fork N [detached] [into FILE]", false, false, parseFork},
	"flood":       {"flood SIZE [in one line], such as flood 1GB", false, false, parseFlood},
	"ratelimit": {"ratelimit DURATION, such as ratelimit 5m, or ratelimit none", false, false,
		parseRateLimit},
}

// Verbs returns the first words of all steps, sorted.
func Verbs() []string {
	names := make([]string, 0, len(verbs))
	for name := range verbs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var (
	errNothing = errors.New("the argument is missing")
	errForm    = errors.New("the arguments are wrong")
)

// text is the text of a step. Placeholders are filled in, except in a document.
type text struct {
	value    string
	verbatim bool
}

func (c call) text() (text, error) {
	if c.document != nil {
		if c.rest != "" {
			return text{}, fmt.Errorf("%q before <<", c.rest)
		}
		return text{strings.TrimSuffix(*c.document, "\n"), true}, nil
	}
	whole := strings.Join(append([]string{c.rest}, c.body...), "\n")
	if c.rest == "" {
		whole = strings.Join(c.body, "\n")
	}
	if strings.TrimSpace(whole) == "" {
		return text{}, errNothing
	}
	return text{whole, false}, nil
}

// unquoted removes the quotes of a quoted string.
func unquoted(s string) string {
	if strings.HasPrefix(s, `"`) {
		if plain, err := strconv.Unquote(s); err == nil {
			return plain
		}
	}
	return s
}

func textAction(do func(*player, context.Context, string) error) func(call) (action, error) {
	return func(c call) (action, error) {
		said, err := c.text()
		return func(ctx context.Context, p *player) error { return do(p, ctx, p.fill(said)) }, err
	}
}

func noArguments(do func(*player) error) func(call) (action, error) {
	return func(c call) (action, error) {
		if c.rest != "" {
			return nil, fmt.Errorf("unexpected argument %q", c.rest)
		}
		return func(_ context.Context, p *player) error { return do(p) }, nil
	}
}

func fileAction(do func(*player, string) error) func(call) (action, error) {
	return func(c call) (action, error) {
		if c.rest == "" {
			return nil, errNothing
		}
		file := text{value: unquoted(c.rest)}
		return func(_ context.Context, p *player) error { return do(p, p.fill(file)) }, nil
	}
}

func contentAction(do func(p *player, file, content string) error) func(call) (action, error) {
	return func(c call) (action, error) {
		name, content, found := strings.Cut(c.rest, " ")
		body := text{value: strings.TrimLeft(content, " \t") + "\n"}
		if c.document != nil {
			if body = (text{*c.document, true}); found {
				return nil, fmt.Errorf("%q before <<", content)
			}
		}
		if name == "" || c.document == nil && !found {
			return nil, errNothing
		}
		file := text{value: name}
		return func(_ context.Context,
			p *player) error {
			return do(p, p.fill(file), p.fill(body))
		}, nil
	}
}

// parseSignal reports a text that a scanner would not accept as a signal.
func parseSignal(c call) (action, error) {
	said, err := c.text()
	if err != nil {
		return nil, err
	}
	if _, ok := firstSignal(sample(said)); ok {
		return func(ctx context.Context,
			p *player) error {
			return p.say(ctx, withKey(p.fill(said), p.key))
		}, nil
	}
	first, _, _ := strings.Cut(said.value, "\n")
	return nil, &hintError{fmt.Errorf("%q is not a signal", first),
		"write a signal from docs/reference/signals.md, such as READY_FOR_REVIEW: {task}; to send an invalid one, use say"}
}

// firstSignal returns the signal that a text begins with.
func firstSignal(said string) (signalbox.Signal, bool) {
	scanner := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatPlain})
	for _, s := range append(slices.Clone(scanner.Push([]byte(said))), scanner.Close()...) {
		if s.Taken() && s.Line == 1 {
			return s, true
		}
	}
	return signalbox.Signal{}, false
}

// withKey adds a key, unless it is "", to a text that begins with a line signal: after the
// argument, before the title.
func withKey(said, key string) string {
	sig, ok := firstSignal(said)
	if key == "" || !ok || sig.Dialect != signalbox.DialectLine {
		return said
	}
	first, rest, more := strings.Cut(said, "\n")
	signal, _ := strings.CutSuffix(strings.TrimRight(first, " \t\r"), sig.Title)
	first = strings.TrimRight(strings.TrimRight(signal, " \t")+" key:"+key+" "+sig.Title, " ")
	if more {
		return first + "\n" + rest
	}
	return first
}

func parseExit(c call) (action, error) {
	said, err := c.text()
	if err != nil {
		return nil, err
	}
	if _, err := transcript.ParseExit([]byte(sample(said))); err != nil {
		return nil, &hintError{err, "correct the object; to send an invalid one, use say"}
	}
	return func(ctx context.Context, p *player) error { return p.say(ctx, p.fill(said)) }, nil
}

func parseBytes(c call) (action, error) {
	raw, err := hex.DecodeString(strings.ReplaceAll(c.rest, " ", ""))
	if err != nil || len(raw) == 0 {
		return nil, fmt.Errorf("%q is not pairs of hexadecimal digits", c.rest)
	}
	return func(_ context.Context, p *player) error { return p.bytes(raw) }, nil
}

func parseReplace(c call) (action, error) {
	name, rest, _ := strings.Cut(c.rest, " ")
	var quoted [2]text
	for i := range quoted {
		literal, err := strconv.QuotedPrefix(strings.TrimSpace(rest))
		if err != nil {
			return nil, errForm
		}
		rest = strings.TrimSpace(rest)[len(literal):]
		quoted[i].value, _ = strconv.Unquote(literal)
	}
	if strings.TrimSpace(rest) != "" || quoted[0].value == "" {
		return nil, errForm
	}
	file := text{value: name}
	return func(_ context.Context, p *player) error {
		return p.replace(p.fill(file), p.fill(quoted[0]), p.fill(quoted[1]))
	}, nil
}

func parseExpect(c call) (action, error) {
	want := text{value: unquoted(c.rest)}
	if want.value == "" {
		return nil, errNothing
	}
	return func(_ context.Context, p *player) error { return p.expect(p.fill(want), c.line) }, nil
}

func parseListen(c call) (action, error) {
	want := text{value: unquoted(c.rest)}
	return func(ctx context.Context, p *player) error { return p.listen(ctx, p.fill(want)) }, nil
}

func parseUsage(c call) (action, error) {
	words := strings.Fields(c.rest)
	var u signalbox.Usage
	if len(words) < 2 || len(words) > 4 {
		return nil, errForm
	}
	for i, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		if i == 2 {
			u.CostUSD, err = strconv.ParseFloat(word, 64)
		}
		if err != nil || n < 0 || u.CostUSD < 0 || math.IsInf(u.CostUSD, 0) ||
			math.IsNaN(u.CostUSD) {
			return nil, fmt.Errorf("%q is not a number of tokens or dollars", word)
		}
		switch i {
		case 0:
			u.InputTokens = n
		case 1:
			u.OutputTokens = n
		case 3:
			u.CachedInputTokens = n
		}
	}
	return func(_ context.Context, p *player) error { return p.use(u) }, nil
}

func parseWait(c call) (action, error) {
	if name, ok := strings.CutPrefix(c.rest, "for "); ok && strings.TrimSpace(name) != "" {
		file := text{value: unquoted(strings.TrimSpace(name))}
		return func(ctx context.Context, p *player) error { return p.waitFor(ctx, p.fill(file)) },
			nil
	}
	d, err := time.ParseDuration(c.rest)
	if err != nil || d < 0 {
		return nil, fmt.Errorf("%q is not a duration", c.rest)
	}
	return func(ctx context.Context, _ *player) error { return pause(ctx, d) }, nil
}

func parseExitCode(c call) (action, error) {
	code, err := exitCode(c.rest)
	return func(_ context.Context, p *player) error { p.code = code; return nil }, err
}

func exitCode(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 255 {
		return 0, fmt.Errorf("%q is not an exit status", s)
	}
	return n, nil
}

func parseCrash(c call) (action, error) {
	code, err := 1, error(nil)
	if c.rest != "" {
		code, err = exitCode(c.rest)
	}
	return func(context.Context, *player) error { return &Exit{code, "crash"} }, err
}

func parseHang(c call) (action, error) {
	if c.rest != "" && c.rest != "after result" {
		return nil, errForm
	}
	return func(ctx context.Context, p *player) error {
		if c.rest != "" {
			if err := p.end(); err != nil {
				return err
			}
		}
		return hang(ctx)
	}, nil
}

func parseIgnore(c call) (action, error) {
	sig, ok := ignorable[strings.TrimPrefix(c.rest, "SIG")]
	if !ok {
		return nil, errForm
	}
	return func(_ context.Context, p *player) error { return p.ignore(sig) }, nil
}

func parseFork(c call) (action, error) {
	words := strings.Fields(c.rest)
	if len(words) == 0 {
		return nil, errNothing
	}
	count, err := strconv.Atoi(words[0])
	if err != nil || count < 1 || count > 1000 {
		return nil, fmt.Errorf("%q is not a number of children from 1 to 1000", words[0])
	}
	words = words[1:]
	detached := len(words) > 0 && words[0] == "detached"
	if detached {
		words = words[1:]
	}
	var into text
	if len(words) == 2 && words[0] == "into" {
		into.value = words[1]
	} else if len(words) > 0 {
		return nil, errForm
	}
	return func(_ context.Context,
		p *player) error {
		return p.fork(count, detached, p.fill(into))
	}, nil
}

func parseFlood(c call) (action, error) {
	digits, oneLine := strings.CutSuffix(c.rest, " in one line")
	size, err := parseSize(strings.TrimSpace(digits))
	return func(ctx context.Context, p *player) error { return p.flood(ctx, size, oneLine) }, err
}

// parseSize parses a number of bytes, such as 512, 64KB, 10MB or 1GB, in powers of 1000.
func parseSize(s string) (int64, error) {
	digits, unit := s, int64(1)
	for suffix, bytes := range map[string]int64{"KB": 1e3, "MB": 1e6, "GB": 1e9} {
		if before, ok := strings.CutSuffix(strings.ToUpper(s), suffix); ok {
			digits, unit = before, bytes
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size", s)
	}
	return n * unit, nil
}

func parseRateLimit(c call) (action, error) {
	if c.rest == "none" {
		return func(_ context.Context, p *player) error { return p.rateLimited(0) }, nil
	}
	d, err := time.ParseDuration(c.rest)
	if err != nil || d <= 0 {
		return nil, fmt.Errorf("%q is not a duration", c.rest)
	}
	return func(_ context.Context, p *player) error { return p.rateLimited(d) }, nil
}
