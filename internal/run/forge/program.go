package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/lazy"
	"signalbox/internal/process"
	"signalbox/internal/text"
)

// Limits of a program.
const (
	maxOutput      = 8 << 20
	maxDiagnostics = 8 << 10 // the end of its standard error
	defaultTimeout = 2 * time.Minute
	grace          = 2 * time.Second
)

// program is a program that talks to a forge.
type program struct {
	kind    string
	argv    []string
	environ []string
	timeout time.Duration
}

func newProgram(o Options, kind string, argv ...string) *program {
	p := &program{kind: kind, argv: argv, environ: o.Environ, timeout: o.Timeout}
	if p.environ == nil {
		p.environ = process.Environ()
	}
	if p.timeout == 0 {
		p.timeout = defaultTimeout
	}
	return p
}

// steering are variables that would make a program act on another repository or host, or print
// something else.
var steering = lazy.Regexp(
	`^(GIT_.*|GH_(REPO|HOST|FORCE_TTY|DEBUG|PAGER)|DEBUG|CLICOLOR_FORCE|GITLAB_(HOST|URI|REPO)|GL_HOST|GLAB_DEBUG.*)=`)

// environment returns the environment of a program in a folder.
func (p *program) environment(dir string) []string {
	env := slices.DeleteFunc(slices.Clone(p.environ), steering().MatchString)
	return append(env, "GH_PROMPT_DISABLED=1", "GH_NO_UPDATE_NOTIFIER=1", "NO_PROMPT=1",
		"GLAB_CHECK_UPDATE=false", "NO_COLOR=1", "GIT_TERMINAL_PROMPT=0",
		// git, which they run, does not look for a repository above the folder
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
}

// run runs the program in an empty folder, and returns what it printed. Every argument with text of
// others is of the form --flag=text.
func (p *program) run(ctx context.Context, input []byte, args ...string) (string, error) {
	return p.runLimited(ctx, maxOutput, input, args...)
}

func (p *program) runLimited(ctx context.Context, limit int, input []byte,
	args ...string) (string, error) {
	dir, err := os.MkdirTemp("", "signalbox-forge-")
	if err != nil {
		return "", fail(ErrTemporary, "", err.Error())
	}
	defer os.RemoveAll(dir)
	within, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	stderr := &tail{limit: maxDiagnostics}
	result, err := process.Shell{Argv: slices.Concat(p.argv, args), Dir: dir,
		Env: p.environment(dir), Input: input, Limit: limit, Grace: grace,
		Stderr: stderr}.Run(within)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case within.Err() != nil:
		return "", fail(ErrTemporary, "check the network",
			fmt.Sprintf("%s did not end within %v", p.name(args), p.timeout))
	case signalbox.CodeOf(err) == signalbox.CodeNotFound:
		return "", fail(ErrNotInstalled, p.install(),
			fmt.Sprintf("program %s was not found", p.argv[0]))
	case process.Transient(err):
		return "", fail(ErrTemporary, "", err.Error())
	case err != nil:
		return "", fail(ErrRefused, signalbox.HintOf(err), err.Error())
	case result.Truncated:
		return "", refusedf("", "%s printed more than %d bytes", p.name(args), limit)
	case result.Exit.Code != 0 || result.Exit.Err != nil:
		return "", p.failure(result.Exit, stderr.String(), args)
	}
	return result.Output, nil
}

// name returns what was called, for messages: the program and its subcommands.
func (p *program) name(args []string) string {
	name := filepath.Base(p.argv[0])
	for _, arg := range args[:min(len(args), 2)] {
		if strings.HasPrefix(arg, "-") {
			break
		}
		name += " " + arg
	}
	return name
}

// install returns how to get the program.
func (p *program) install() string {
	switch p.kind {
	case GH:
		return "install it (https://cli.github.com), and run gh auth login"
	case GLab:
		return "install it (https://gitlab.com/gitlab-org/cli), and run glab auth login"
	}
	return "install it, or correct the command; a path must be absolute"
}

// Exit statuses.
const (
	exitLogin     = 4  // of gh: authentication is required
	exitTemporary = 75 // of commands: EX_TEMPFAIL of sysexits.h
)

// What the programs print when the cause is not the request. The patterns have spaces, which names
// of branches and repositories cannot have.
var (
	temporaryText = lazy.Regexp(
		`(?i)rate limit|was submitted too quickly|abuse detection|HTTP (408|425|429|5\d\d)\b|\b(429|5\d\d) (too many requests|internal server error|bad gateway|` +
			`service unavailable|gateway time-?out)|something went wrong while executing your query|error connecting to |no such host|server misbehaving|` +
			`connection (refused|reset|timed out)|network is unreachable|no route to host|i/o timeout|TLS handshake timeout|deadline exceeded|` +
			`Client\.Timeout exceeded|: unexpected EOF|temporary failure in name resolution`)
	loginText = lazy.Regexp(
		`(?i)(gh|glab) auth (login|refresh)|HTTP 401\b|401 unauthorized|bad credentials|not logged in|token (was revoked|is expired|has expired)`)
)

// failure returns the error of a program that did not succeed.
func (p *program) failure(exit process.Exit, stderr string, args []string) error {
	says := fmt.Sprintf("exit status %d", exit.Code)
	if exit.Err != nil {
		says = exit.Err.Error()
	}
	if end := text.OneLine(text.Visible(stderr)); end != "" {
		says = text.Tail(end, 500)
	}
	says = p.name(args) + " failed: " + says
	own := p.kind == Command
	switch {
	case own && exit.Code == exitTemporary, !own && temporaryText().MatchString(stderr):
		return fail(ErrTemporary, "", says)
	case !own && (p.kind == GH && exit.Code == exitLogin || loginText().MatchString(stderr)):
		return fail(ErrLogin, "run "+p.kind+" auth login"+loginHost(args), says)
	}
	return fail(ErrRefused, "", says)
}

// loginHost returns the flag for a host that is not the one that the programs mean without it.
func loginHost(args []string) string {
	for _, arg := range args {
		host, ok := strings.CutPrefix(arg, "--hostname=")
		if repo, isRepo := strings.CutPrefix(arg, "--repo="); isRepo {
			host, _, ok = strings.Cut(repo, "/")
		}
		if ok && host != "github.com" && host != "gitlab.com" {
			return " --hostname " + host
		}
	}
	return ""
}

// failure is an error with a condition that its text does not repeat.
type failure struct {
	text      string
	condition error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.condition }

func fail(condition error, hint, says string) error {
	code := signalbox.CodeFailed
	if errors.Is(condition, ErrNotInstalled) {
		code = signalbox.CodeNotFound
	}
	return &signalbox.Error{Code: code, Err: &failure{says, condition}, Hint: hint}
}

// decode reads a JSON object that must have some fields. Others are ignored.
func decode(what, source string, into any, required ...string) error {
	var has map[string]json.RawMessage
	if err := json.Unmarshal([]byte(source), &has); err != nil {
		return invalid(what, err)
	}
	for _, name := range required {
		if len(has[name]) == 0 {
			return refusedf("update the program", "the answer of %s has no field '%s'", what, name)
		}
	}
	if err := json.Unmarshal([]byte(source), into); err != nil {
		return invalid(what, err)
	}
	return nil
}

// decodeLists reads one list, or several in a row: gh and glab print each page as a list of its
// own.
func decodeLists[T any](what, source string) (all []T, err error) {
	d := json.NewDecoder(strings.NewReader(source))
	for n := 0; n == 0 || d.More(); n++ {
		var some *[]T
		if err := d.Decode(&some); err != nil {
			return nil, invalid(what, err)
		}
		if some == nil {
			return nil, invalid(what, errors.New("there is no list"))
		}
		all = append(all, *some...)
	}
	return all, nil
}

func invalid(what string, err error) error {
	return refusedf("update the program", "the answer of %s cannot be read: %s", what,
		text.Shorten(text.Printable(err.Error()), 200))
}

// tail keeps the last bytes that are written to it.
type tail struct {
	limit int
	kept  []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return text.Tail(string(t.kept), t.limit) }
