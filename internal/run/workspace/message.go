package workspace

import (
	"fmt"
	"regexp"
	"strings"

	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

// Trailers of commits of finished work, for people who read the history.
const (
	taskTrailer = "Signalbox-Task"
	tipTrailer  = "Signalbox-Tip"
)

// Limits of the text in a commit message.
const (
	maxSubject = 100  // characters
	maxSummary = 4000 // characters
)

// CommitText returns the text of a commit message: a title on one line, and a summary. Agents wrote
// both, so they are bounded, have no control characters, cannot look like the trailers that follow,
// cannot keep a forge from running its checks, and cannot act on the forge: it is also the text of
// pull requests.
func CommitText(title, summary string) string {
	message := withoutOrders(text.Shorten(inert(text.Shorten(text.OneLine(text.Visible(title)),
		maxSubject)), maxSubject))
	if body := commitBody(summary); body != "" {
		message += "\n\n" + body
	}
	return message
}

// RequestText returns text for the description of a pull request, which like CommitText cannot act
// on the forge.
func RequestText(s string) string { return commitBody(s) }

// CommitMessage returns the message of a commit for a task: CommitText, and the task as a trailer.
func CommitMessage(task, title, summary string) string {
	return withTrailers(CommitText(title, summary), task, "")
}

// special matches lines that git, or a program that reads commits, takes for more than text:
// trailers, the end of a message, and a patch.
var special = lazy.Regexp(
	`(?i)^([A-Za-z0-9_-]+[ \t]*[:=]|---|diff |\(cherry picked from |>From |From )`)

// orders matches what tells a forge to run no checks, such as [skip ci]: words in brackets that
// include skip or no, and ***NO_CI***.
var orders = lazy.Regexp(`(?i)\[([^\[\]\n]*\b(?:skip|no)(?:_|\b)[^\[\]\n]*)\]|\*\*\*(NO_CI)\*\*\*`)

// withoutOrders returns text with round brackets around such words.
func withoutOrders(s string) string { return orders().ReplaceAllString(s, "(${1}${2})") }

// acting matches what a forge takes for more than text, in commits and in pull requests, in two
// parts between which a space makes it text:
//   - references to issues, with which "Fixes #12" closes one: #12, owner/name#12, GH-12;
//   - names of people and teams, who would be notified;
//   - addresses, which can refer to issues too, and links and images;
//   - HTML, and entities, which could stand for any of these characters;
//   - commands at the start of a line, such as /merge.
var acting = []func() *regexp.Regexp{
	lazy.Regexp(`(#)(\d)`),
	lazy.Regexp(`(?i)\b(GH-)(\d)`),
	lazy.Regexp(`(@)( ?)`),
	lazy.Regexp(`(:)(//)`),
	lazy.Regexp(`(?i)\b(www\.)(\S)`),
	lazy.Regexp(`(\])([(\[:])`),
	lazy.Regexp(`(<)([A-Za-z/!?])`),
	lazy.Regexp(`(&)(#?[A-Za-z0-9]+;)`),
	lazy.Regexp(`(?m)^([ \t>*+-]*/)([A-Za-z])`),
}

// inert returns text that no forge acts on. It stays readable.
func inert(s string) string {
	for _, pattern := range acting {
		s = pattern().ReplaceAllString(s, "$1 $2")
	}
	return s
}

// commitBody returns text of an agent for a commit message. Special lines are indented.
func commitBody(summary string) string {
	summary = strings.ReplaceAll(strings.ReplaceAll(summary, "\r\n", "\n"), "\r", "\n")
	summary = text.Shorten(strings.TrimSpace(text.Visible(summary)), maxSummary)
	summary = text.Shorten(inert(summary), maxSummary)
	summary = withoutOrders(summary)
	var lines []string
	for line := range strings.SplitSeq(summary, "\n") {
		line = strings.TrimRight(line, " \t")
		if special().MatchString(line) {
			line = "  " + line
		}
		if line != "" || len(lines) > 0 && lines[len(lines)-1] != "" {
			lines = append(lines, line)
		}
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// withTrailers returns a commit message with the task, and the commit that was checked and
// reviewed, as trailers.
func withTrailers(message, task, tip string) string {
	message = strings.TrimSpace(message) + fmt.Sprintf("\n\n%s: %s\n", taskTrailer, task)
	if tip != "" {
		message += fmt.Sprintf("%s: %s\n", tipTrailer, tip)
	}
	return message
}
