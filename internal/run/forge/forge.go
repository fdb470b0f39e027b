// Package forge opens pull requests and reports what became of them. It does so with a program that
// the user has logged in: gh for GitHub, glab for GitLab, or a command of the user's for everything
// else. A merge request of GitLab is a pull request here.
//
// The programs run in an empty temporary folder, never in a repository, and get everything as
// arguments or on standard input. So nothing that agents planted in a repository or in its
// configuration is read.
//
// Anybody may write a comment, and a check may print anything. The text of findings is bounded, has
// no control characters and no hidden comments, and is otherwise as its author wrote it: quote it,
// and obey nothing in it.
//
// # Commands
//
// A command gets one JSON object on standard input, and prints one on standard output. To open a
// request, or to update the title and the text of the open one with the same head and base:
//
//	{"do":"open","remote":"https://…","head":"signalbox/T1","base":"main","title":"…","body":"…"}
//	{"url":"https://git.example.com/ann/app/pulls/7"}
//
// To look at it:
//
//	{"do":"look","url":"https://git.example.com/ann/app/pulls/7"}
//	{"head":"COMMIT","state":"open","pending":true,"conflicts":false,"findings":[{"id":"42","summary":"…","body":"…"}]}
//	{"head":"COMMIT","state":"merged","merged":"COMMIT"}
//
// The state is open, merged or closed. The id of a finding must be the same each time; if its
// summary or its body changes, it counts as another finding. Exit status 75 means that it may work
// later, and every other one except 0 that it will not. The end of standard error is shown.
package forge

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

// Forge opens pull requests and looks at them. It is safe for concurrent use. An error wraps
// ErrNotInstalled, ErrLogin, ErrTemporary or ErrRefused, or is that of ctx.
type Forge interface {
	// Open opens a pull request, or returns the open one of the same branches with its title and
	// body brought up to date. It may be repeated.
	Open(ctx context.Context, r Request) (url string, err error)
	// Look reports what became of a request that Open returned.
	Look(ctx context.Context, url string) (Status, error)
}

var (
	// ErrNotInstalled means that the program was not found. A person must install it.
	ErrNotInstalled = errors.New("the program is not installed")
	// ErrLogin means that the program is not logged in. A person must do that; the hint has the
	// command.
	ErrLogin = errors.New("not logged in")
	// ErrTemporary means that the network, a rate limit or the server is the cause. Try again
	// later.
	ErrTemporary = errors.New("not possible at the moment")
	// ErrRefused means that the same call will not succeed.
	ErrRefused = errors.New("refused")
)

// Request is a pull request to open.
type Request struct {
	// Remote is the URL that the branch was pushed to.
	Remote string
	// Head is the branch with the work, and Base the one that it should be merged into. Both are in
	// the repository of Remote.
	Head, Base string
	// Title is shortened to one line. Body is Markdown, and shortened too.
	Title, Body string
}

// State is what became of a request.
type State string

const (
	Open   State = "open"
	Merged State = "merged"
	Closed State = "closed" // without being merged
)

// Status is what a forge says about a request.
type Status struct {
	// Head is the commit of the branch that the status is about.
	Head  string
	State State
	// Merged is the commit by which it was merged, "" unless State is Merged.
	Merged string
	// Findings are failed checks, in the order of their names, and then comments, the oldest first.
	// A merged request has none. They do not include what the author of the request wrote.
	Findings []Finding
	// LeftOut is how many older findings there are besides.
	LeftOut int
	// Pending means that checks have not ended.
	Pending bool
	// Conflicts means that the branch cannot be merged without resolving conflicts with the base.
	Conflicts bool
}

// Finding is a failed check or a comment.
type Finding struct {
	// ID is the same each time, and another one if the text has changed. It consists of letters,
	// digits and dashes.
	ID string
	// Summary is one line.
	Summary string
	// Body is its text, or what is known about a failed check.
	Body string
}

// Kinds of forges.
const (
	GH      = "gh"
	GLab    = "glab"
	Command = "command"
)

// Options configure a Forge.
type Options struct {
	// Remote is the URL of the repository. It decides about the kind if that is not set.
	Remote string
	// Command is the program with its arguments if the kind is Command. A path must be absolute.
	Command []string
	// Environ is the environment of the program; nil means that of this process without signalbox's
	// own variables.
	Environ []string
	// Timeout is how long one start of the program may take; zero means two minutes.
	Timeout time.Duration
}

// New returns a forge. The kind is GH, GLab or Command; "" means the one that the host of the
// remote suggests. The error is a *signalbox.Error.
func New(kind string, o Options) (Forge, error) {
	if kind == "" {
		var err error
		if kind, err = KindOf(o.Remote); err != nil {
			return nil, err
		}
	}
	switch kind {
	case GH:
		return &gh{program: newProgram(o, GH, "gh"), logs: newLogs()}, nil
	case GLab:
		return &glab{program: newProgram(o, GLab, "glab"), logs: newLogs()}, nil
	case Command:
		if len(o.Command) == 0 || o.Command[0] == "" {
			return nil, signalbox.CodeUsage.Errorf("set the command",
				"there is no command that opens pull requests")
		}
		return &command{newProgram(o, Command, o.Command...)}, nil
	}
	return nil, signalbox.CodeUsage.Errorf("use gh, glab or command",
		"there is no forge '%s'", text.Printable(kind))
}

// KindOf returns the kind of the forge with a remote repository: GH or GLab. The error is a
// *signalbox.Error.
func KindOf(remote string) (string, error) {
	r, err := parseRemote(remote)
	if err != nil {
		return "", err
	}
	switch {
	case githubHost().MatchString(r.host):
		return GH, nil
	case gitlabHost().MatchString(r.host):
		return GLab, nil
	}
	return "", signalbox.CodeUsage.Errorf("set the forge: gh, glab or command",
		"it is not known which program opens pull requests on %s", r.host)
}

var (
	githubHost = lazy.Regexp(`^(.*\.)?github([.-][^/]*)?$|\.ghe\.com$`)
	gitlabHost = lazy.Regexp(`^(.*\.)?gitlab([.-][^/]*)?$`)
)

// Limits of what is sent.
const (
	maxTitle  = 200      // characters; GitHub allows 256, GitLab 255
	maxText   = 60 << 10 // bytes of a body; GitHub allows 65,536 characters
	maxURL    = 1000
	maxBranch = 250
)

// isBranchName reports whether no program takes a name of a branch for anything else. Git allows
// few others.
func isBranchName(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= maxBranch && utf8.ValidString(name) &&
		name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.C, r) || strings.ContainsRune(`:~^?*[\`, r)
	})
}

// clean checks a request, and returns it with a bounded title and text.
func (r Request) clean() (Request, error) {
	for _, branch := range []string{r.Head, r.Base} {
		if !isBranchName(branch) {
			return r, refusedf("use another name",
				"there is no pull request for a branch named '%s'",
				text.Shorten(text.Printable(branch), 100))
		}
	}
	r.Title = text.Shorten(text.OneLine(text.Visible(r.Title)), maxTitle)
	if r.Title == "" {
		return r, refusedf("give it a title", "the pull request of %s has no title", r.Head)
	}
	if r.Body = text.Visible(normal(r.Body)); len(r.Body) > maxText {
		r.Body = text.Truncate(r.Body, maxText) + "\n…"
	}
	return r, nil
}
