package forge

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"signalbox"
	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

// remote is a repository on a forge.
type remote struct {
	host string // in lower case, with the port of its web pages if it has one
	path string // OWNER/NAME, or GROUP/…/NAME
}

var (
	// scpRemote is the form of git's own: git@host:path.
	scpRemote  = lazy.Regexp(`^(?:[^/@:]+@)?([A-Za-z0-9.-]+):([^/].*)$`)
	hostName   = lazy.Regexp(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$`)
	repository = lazy.Regexp(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_.][A-Za-z0-9_.-]*)+$`)
)

// sshHosts are hosts that only serve SSH, on a port that firewalls let through.
var sshHosts = map[string]string{"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com", "altssh.bitbucket.org": "bitbucket.org"}

// parseRemote parses a URL that git can push to. The error does not contain it, because it may
// contain a password.
func parseRemote(s string) (remote, error) {
	var r remote
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		switch r.path = u.Path; u.Scheme {
		case "https", "http":
			r.host = u.Host
		case "ssh", "git+ssh", "git":
			r.host = u.Hostname() // the port is not that of the web pages
		}
	} else if found := scpRemote().FindStringSubmatch(s); found != nil &&
		!strings.Contains(s, "://") {
		r.host, r.path = found[1], found[2]
	}
	r.host = strings.ToLower(r.host)
	r.path = strings.TrimSuffix(strings.Trim(r.path, "/"), ".git")
	if web := sshHosts[r.host]; web != "" {
		r.host = web
	}
	if !hostName().MatchString(r.host) || !repository().MatchString(r.path) ||
		strings.Contains(r.path, "/.") || len(s) > maxURL {
		return remote{}, signalbox.CodeUsage.Errorf(
			"use a remote such as https://HOST/OWNER/NAME or git@HOST:OWNER/NAME",
			"the remote is not the URL of a repository on a forge")
	}
	return r, nil
}

// page is the web page of a request.
type page struct {
	remote
	number int
}

// parsePage parses the address of a request on a forge: its path is that of the repository, then a
// separator, then the number.
func parsePage(s, separator string) (page, error) {
	u, err := webAddress(s)
	if err != nil {
		return page{}, err
	}
	path, number, _ := strings.Cut(strings.Trim(u.Path, "/"), separator)
	n, err := strconv.Atoi(number)
	p := page{remote{strings.ToLower(u.Host), path}, n}
	if err != nil || n <= 0 || !hostName().MatchString(p.host) || !repository().MatchString(path) ||
		strings.Contains(path, "/.") {
		return page{}, refusedf("", "%s is not the address of a pull request", text.Printable(s))
	}
	return p, nil
}

// requestOn checks the address that a program returned: it must be a request on the host that was
// asked. The repository may have another name there, if it was renamed.
func (r remote) requestOn(s, separator string) (page, error) {
	p, err := parsePage(s, separator)
	if err == nil && p.host != r.host {
		err = refusedf("", "%s is not a pull request on %s", s, r.host)
	}
	return p, err
}

// IssueLine returns the line with which the description of a request in the repository of a remote
// names the issue at an address of GitHub, "" if it is none. Only in the repository of the issue does
// the line close the issue: elsewhere the number is that of something else, and a person who merges
// a request in a fork has not decided about the issues of the original. A repository that was renamed
// since counts as another one: closing an issue takes a click, and closing a wrong one is noticed late.
func IssueLine(remote, issue string) string {
	p, err := parsePage(issue, "/issues/")
	if err != nil {
		return ""
	}
	r, err := parseRemote(remote)
	switch {
	case err != nil || r.host != p.host:
		return "For " + issue
	case !strings.EqualFold(r.path, p.path):
		return fmt.Sprintf("For %s#%d", p.path, p.number)
	}
	return fmt.Sprintf("Closes #%d", p.number)
}

// address are the characters of the address of a request.
var address = lazy.Regexp(`^https?://[A-Za-z0-9:/._?=&%#~+@!$,;()*-]+$`)

// webAddress checks an address that people can open, and that is safe to show.
func webAddress(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || !address().MatchString(s) || len(s) > maxURL || u.Host == "" || u.User != nil {
		return nil, refusedf("", "the answer has no address of a pull request, but '%s'",
			text.Shorten(text.Printable(s), 100))
	}
	return u, nil
}

// refusedf returns an error for something that will not succeed.
func refusedf(hint, format string, args ...any) error {
	return fail(ErrRefused, hint, fmt.Sprintf(format, args...))
}
