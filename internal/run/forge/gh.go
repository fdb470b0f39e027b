package forge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"signalbox/internal/lazy"
)

// gh opens pull requests on GitHub.
type gh struct {
	*program
	logs *logs
}

// pull separates the repository from the number in the address of a pull request.
const pull = "/pull/"

func (r remote) ghRepo() string { return "--repo=" + r.host + "/" + r.path }

// github parses the URL of a repository on GitHub.
func github(url string) (remote, error) {
	r, err := parseRemote(url)
	if err == nil && strings.Count(r.path, "/") != 1 {
		err = refusedf("use a remote such as https://github.com/OWNER/NAME",
			"%s is not a repository on GitHub", r.path)
	}
	return r, err
}

// ghRequest is a request as gh pr list prints it.
type ghRequest struct {
	URL   string `json:"url"`
	Title string `json:"title"`
	Body  string `json:"body"`
	Head  string `json:"headRefName"`
	Base  string `json:"baseRefName"`
	Fork  *bool  `json:"isCrossRepository"`
}

func (g *gh) Open(ctx context.Context, r Request) (string, error) {
	repo, err := github(r.Remote)
	if err != nil {
		return "", err
	}
	if r, err = r.clean(); err != nil {
		return "", err
	}
	out, err := g.run(ctx, nil, "pr", "list", repo.ghRepo(), "--head="+r.Head, "--base="+r.Base,
		"--state=open", "--limit=100",
		"--json=url,title,body,headRefName,baseRefName,isCrossRepository")
	if err != nil {
		return "", err
	}
	open, err := decodeLists[ghRequest]("gh pr list", out)
	if err != nil {
		return "", err
	}
	for _, o := range open {
		// gh also lists requests of forks that have a branch of the same name. Anybody can open
		// one.
		if o.Fork == nil || *o.Fork || o.Head != r.Head || o.Base != r.Base {
			continue
		}
		return o.URL, g.update(ctx, repo, o, r)
	}
	out, err = g.run(ctx, []byte(r.Body), "pr", "create", repo.ghRepo(), "--head="+r.Head,
		"--base="+r.Base, "--title="+r.Title, "--body-file=-")
	if err != nil {
		return "", err
	}
	lines := strings.Fields(out)
	if len(lines) == 0 {
		return "", refusedf("", "gh pr create did not print the address of the pull request")
	}
	url := lines[len(lines)-1]
	_, err = repo.requestOn(url, pull)
	return url, err
}

// update brings the title and the body of a request up to date. gh pr edit would fail here before
// version 2.82.1: it asks GitHub for classic projects, which no longer exist.
func (g *gh) update(ctx context.Context, repo remote, old ghRequest, r Request) error {
	p, err := repo.requestOn(old.URL, pull)
	if err != nil || old.Title == r.Title &&
		strings.TrimSpace(normal(old.Body)) == strings.TrimSpace(r.Body) {
		return err
	}
	input, err := json.Marshal(map[string]string{"title": r.Title, "body": r.Body})
	if err != nil {
		return err
	}
	_, err = g.run(ctx, input, "api", "--hostname="+p.host, "--method=PATCH", "--input=-",
		fmt.Sprintf("repos/%s/pulls/%d", p.path, p.number))
	return err
}

// ghStatus is a request as gh pr view prints it.
type ghStatus struct {
	State       string `json:"state"`
	Head        string `json:"headRefOid"`
	Mergeable   string `json:"mergeable"`
	MergeCommit *struct {
		OID string `json:"oid"`
	} `json:"mergeCommit"`
	Author  ghAuthor    `json:"author"`
	Reviews []ghReview  `json:"reviews"`
	Remarks []ghComment `json:"comments"`
	Checks  []ghCheck   `json:"statusCheckRollup"`
}

type ghAuthor struct {
	Login string `json:"login"`
}

type ghReview struct {
	ID     string   `json:"id"`
	Author ghAuthor `json:"author"`
	Body   string   `json:"body"`
	At     string   `json:"submittedAt"`
	State  string   `json:"state"`
}

type ghComment struct {
	ID     string   `json:"id"`
	Author ghAuthor `json:"author"`
	Body   string   `json:"body"`
	At     string   `json:"createdAt"`
	Hidden bool     `json:"isMinimized"`
	Own    bool     `json:"viewerDidAuthor"`
}

// ghCheck is a CheckRun, which has a name and a conclusion, or a StatusContext, which has a context
// and a state.
type ghCheck struct {
	Type       string `json:"__typename"`
	Workflow   string `json:"workflowName"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	Link       string `json:"detailsUrl"`
	Started    string `json:"startedAt"`

	Context string `json:"context"`
	State   string `json:"state"`
	Target  string `json:"targetUrl"`
}

// ghLine is a comment on a line, as the API of GitHub has it.
type ghLine struct {
	ID       int64    `json:"id"`
	User     ghAuthor `json:"user"`
	Body     string   `json:"body"`
	At       string   `json:"created_at"`
	Path     string   `json:"path"`
	Line     int      `json:"line"`          // 0 if the line has changed since
	Original int      `json:"original_line"` // 0 if the comment is about the file
}

const ghFields = "state,headRefOid,mergeCommit,mergeable,author,reviews,comments,statusCheckRollup"

func (g *gh) Look(ctx context.Context, url string) (Status, error) {
	p, err := parsePage(url, pull)
	if err != nil {
		return Status{}, err
	}
	out, err := g.run(ctx, nil, "pr", "view", url, p.ghRepo(), "--json="+ghFields)
	if err != nil {
		return Status{}, err
	}
	pr, s, err := readGHStatus(out)
	if err != nil || s.State == Merged {
		return s, err
	}
	out, err = g.run(ctx, nil, "api", "--hostname="+p.host, "--method=GET", "--paginate",
		fmt.Sprintf("repos/%s/pulls/%d/comments?per_page=100", p.path, p.number))
	if err != nil {
		return Status{}, err
	}
	lines, err := decodeLists[ghLine]("gh api", out)
	if err != nil {
		return Status{}, err
	}
	failed, pending := failedGHChecks(pr.Checks)
	s.Pending = pending && s.State == Open
	var checks []Finding
	for n, c := range failed {
		log := ""
		if n < maxLogs && s.State == Open {
			log = g.log(ctx, p, c.Link)
		}
		checks = append(checks, failedCheck(s.Head, c.title(), strings.ToLower(c.result()),
			cmp.Or(c.Link, c.Target), log))
	}
	comments, err := pr.findings(lines)
	if err != nil {
		return Status{}, err
	}
	s.add(checks, inOrder(comments))
	return s, nil
}

// readGHStatus reads what gh pr view printed, except for the findings.
func readGHStatus(out string) (pr ghStatus, s Status, err error) {
	if err := decode("gh pr view", out, &pr, strings.Split(ghFields, ",")...); err != nil {
		return pr, s, err
	}
	s = Status{Head: pr.Head, Conflicts: pr.Mergeable == "CONFLICTING"}
	switch pr.State {
	case "OPEN":
		s.State = Open
	case "CLOSED":
		s.State = Closed
	case "MERGED":
		// the branch is in the base if there is no other commit
		s.State, s.Merged, s.Conflicts = Merged, pr.Head, false
		if pr.MergeCommit != nil {
			s.Merged = pr.MergeCommit.OID
		}
	}
	return pr, s, s.check("gh pr view", pr.State)
}

// commitID is the id of a commit: SHA-1 or SHA-256.
var commitID = lazy.Regexp(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// check reports what a status must have.
func (s *Status) check(what, state string) error {
	switch {
	case s.State == "":
		return refusedf("update the program", "the answer of %s has the unknown state '%s'", what,
			name(state))
	case !commitID().MatchString(s.Head) || s.State == Merged && !commitID().MatchString(s.Merged):
		return refusedf("update the program", "the answer of %s does not name the commit", what)
	}
	return nil
}

// findings returns the reviews and comments of others. An approval is not one, whatever it says: it
// would be undone by more work.
func (pr *ghStatus) findings(lines []ghLine) ([]comment, error) {
	var all []comment
	for _, r := range pr.Reviews {
		c := comment{kind: kindReview, id: r.ID, at: r.At, author: r.Author.Login, body: r.Body}
		switch {
		case r.State == "CHANGES_REQUESTED":
			c.says = name(r.Author.Login) + " requests changes"
		case r.State != "COMMENTED" || clean(r.Body) == "":
			continue
		}
		all = append(all, c)
	}
	for _, r := range pr.Remarks {
		if !r.Hidden && !r.Own && clean(r.Body) != "" {
			all = append(all, comment{kind: kindComment, id: r.ID, at: r.At, author: r.Author.Login,
				body: r.Body})
		}
	}
	for _, l := range lines {
		c := comment{kind: kindLine, id: fmt.Sprint(l.ID), at: l.At, author: l.User.Login,
			place: l.Path, body: l.Body}
		if line := cmp.Or(l.Line, l.Original); line > 0 {
			c.place = fmt.Sprintf("%s:%d", l.Path, line)
		}
		if l.ID == 0 {
			c.id = ""
		}
		all = append(all, c)
	}
	var others []comment
	for _, c := range all {
		if c.id == "" {
			return nil, refusedf("update gh", "the answer of gh has a comment without an id")
		}
		if !sameLogin(pr.Author.Login, c.author) || c.ownReview(pr.Author.Login) {
			others = append(others, c)
		}
	}
	return others, nil
}

func (c ghCheck) title() string {
	title := cmp.Or(c.Name, c.Context)
	if c.Workflow != "" {
		title = c.Workflow + " / " + title
	}
	return title
}

// result returns the conclusion of a check, or its state until it has one.
func (c ghCheck) result() string {
	if c.Type == "StatusContext" || c.Context != "" {
		return c.State
	}
	if c.Status != "COMPLETED" {
		return c.Status
	}
	return c.Conclusion
}

// failedGHChecks returns the checks that failed, and whether others have not ended. Of several runs
// of a check the last one counts. What is a failure is as in gh pr checks.
func failedGHChecks(all []ghCheck) (failed []ghCheck, pending bool) {
	last := map[string]int{}
	for i, c := range all {
		key := c.Type + "\x00" + c.title()
		if n, known := last[key]; !known || all[n].Started <= c.Started {
			last[key] = i
		}
	}
	for i, c := range all {
		if last[c.Type+"\x00"+c.title()] != i {
			continue
		}
		switch c.result() {
		case "SUCCESS", "NEUTRAL", "SKIPPED":
		case "FAILURE", "ERROR", "CANCELLED", "TIMED_OUT", "ACTION_REQUIRED", "STARTUP_FAILURE":
			failed = append(failed, c)
		default:
			pending = true
		}
	}
	return failed, pending
}

// jobLink is the address of a job of GitHub Actions, below that of the repository.
var jobLink = lazy.Regexp(`^actions/runs/\d{1,20}/job/(\d{1,20})$`)

// log returns the end of the log of a job of GitHub Actions.
func (g *gh) log(ctx context.Context, p page, link string) string {
	below, ok := strings.CutPrefix(strings.ToLower(link),
		strings.ToLower("https://"+p.host+"/"+p.path+"/"))
	found := jobLink().FindStringSubmatch(below)
	if !ok || found == nil {
		return ""
	}
	return g.logs.end(ctx, p.host+"/"+found[1], func(ctx context.Context) (string, error) {
		return g.runLimited(ctx, maxLogBytes, nil, "run", "view", p.ghRepo(), "--job="+found[1],
			"--log-failed")
	})
}
