package forge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

// Limits of findings.
const (
	maxFindings = 50       // the newest
	maxBody     = 8 << 10  // bytes
	maxSummary  = 200      // characters
	maxName     = 100      // characters of the name of a person, a check or a file
	maxLog      = 4 << 10  // bytes of the end of a log
	maxLogs     = 5        // logs that are read in one look
	maxLogBytes = 32 << 20 // of a log; a longer one is not read
	maxCached   = 100      // logs
)

// kinds of findings, with which their ids begin.
const (
	kindCheck   = "check"
	kindComment = "comment"
	kindReview  = "review"
	kindLine    = "line"
	kindFinding = "finding"
)

// comment is a finding before it is cleaned.
type comment struct {
	kind, id string // which one it is
	at       string // when it was made, for the order
	author   string
	place    string // the file and line, if it has one
	says     string // what comes before the text in the summary, if not the author and the place
	body     string
}

// finding cleans a comment. The id depends on the whole text, also on what is cut off.
func (c comment) finding() Finding {
	says := c.says
	if says == "" {
		says = name(c.author)
		if c.place != "" {
			says += ", " + name(c.place)
		}
	}
	body := clean(c.body)
	summary := says
	if body != "" {
		summary += ": " + text.OneLine(body)
	}
	return Finding{ID: digest(c.kind, c.id, c.body), Summary: text.Shorten(summary, maxSummary),
		Body: bounded(body)}
}

// inOrder returns the findings of comments, the oldest first.
func inOrder(comments []comment) (all []Finding) {
	slices.SortStableFunc(comments, func(a, b comment) int { return cmp.Compare(a.at, b.at) })
	for _, c := range comments {
		all = append(all, c.finding())
	}
	return all
}

// add puts findings into a status. If there are too many, it leaves out the oldest comments, and
// more checks than half of the room.
func (s *Status) add(checks, comments []Finding) {
	slices.SortStableFunc(checks,
		func(a, b Finding) int { return cmp.Compare(a.Summary, b.Summary) })
	checks, comments = unique(checks), unique(comments)
	n := len(checks) + len(comments)
	checks = checks[:min(len(checks), max(maxFindings/2, maxFindings-len(comments)))]
	comments = comments[max(0, len(comments)-(maxFindings-len(checks))):]
	s.Findings = append(checks, comments...)
	s.LeftOut = n - len(s.Findings)
}

// unique removes findings that were there before.
func unique(all []Finding) []Finding {
	known := map[string]bool{}
	return slices.DeleteFunc(all, func(f Finding) bool {
		repeated := known[f.ID]
		known[f.ID] = true
		return repeated
	})
}

// digest returns an id for something with these values.
func digest(kind string, values ...string) string {
	h := sha256.New()
	for _, v := range values {
		binary.Write(h, binary.BigEndian, uint64(len(v))) // a hash does not fail
		h.Write([]byte(v))
	}
	return kind + "-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// escapes are the sequences with which programs colour their logs.
var escapes = lazy.Regexp(`\x1b\[[0-9;?]*[ -/]*[@-~]`)

// normal returns text with line ends of one kind.
func normal(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// clean returns text of others as people see it.
func clean(s string) string {
	return strings.Trim(text.Visible(text.WithoutComments(normal(s))), "\n\t ")
}

// bounded returns the start of the text of a finding.
func bounded(s string) string {
	if len(s) > maxBody {
		return text.Truncate(s, maxBody) + "\n…"
	}
	return s
}

// name returns a short name that others have chosen.
func name(s string) string {
	return text.Shorten(cmp.Or(text.OneLine(text.Visible(s)), "somebody"), maxName)
}

// failedCheck returns a finding about a check. commit and result say when it is the same failure.
func failedCheck(commit, title, result, link, log string) Finding {
	f := Finding{ID: digest(kindCheck, commit, title, result)}
	f.Summary = text.Shorten(fmt.Sprintf("check %s: %s", name(title), name(result)), maxSummary)
	f.Body = f.Summary
	if _, err := webAddress(link); err == nil {
		f.Body += "\n" + link
	}
	if log != "" {
		f.Body += "\n\nThe end of its log:\n\n" + log
	}
	return f
}

// logs keeps the ends of logs, so that each is read only once.
type logs struct {
	mu   sync.Mutex
	ends map[string]string // guarded by mu
}

func newLogs() *logs { return &logs{ends: map[string]string{}} }

// end returns the end of the log of a job, "" if it cannot be read. A check is a finding also
// without it, and it is not read again: that may take long each time.
func (l *logs) end(ctx context.Context, job string,
	read func(context.Context) (string, error)) string {
	l.mu.Lock()
	log, known := l.ends[job]
	l.mu.Unlock()
	if known {
		return log
	}
	log, err := read(ctx)
	if ctx.Err() != nil {
		return ""
	}
	if err != nil {
		log = ""
	}
	log = clean(escapes().ReplaceAllString(text.Tail(log, 4*maxLog), ""))
	log = text.Tail(log, maxLog)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ends) >= maxCached {
		clear(l.ends)
	}
	l.ends[job] = log
	return log
}

// ownReview reports whether a comment is a review, or about a line, by the person with whose login
// the request was opened. signalbox writes neither, so such a comment asks for a change; an
// ordinary comment may be for other people.
func (c *comment) ownReview(author string) bool {
	return c.kind != kindComment && strings.EqualFold(author, c.author) &&
		!strings.HasPrefix(author, "app/") && !strings.HasSuffix(author, "[bot]") &&
		!strings.EqualFold(author, "signalbox")
}

// sameLogin reports whether a comment is by the author of the request, or by signalbox. An app has
// another name in each interface of GitHub.
func sameLogin(author, login string) bool {
	own := func(s string) bool { return strings.EqualFold(s, login) }
	if app, ok := strings.CutPrefix(author, "app/"); ok && (own(app) || own(app+"[bot]")) {
		return true
	}
	return author != "" && own(author) || own("signalbox") || own("signalbox[bot]")
}
