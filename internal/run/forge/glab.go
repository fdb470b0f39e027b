package forge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"signalbox/internal/lazy"
)

// glab opens merge requests on GitLab. It uses nothing but glab api: glab mr create adds remotes to
// the repository that it runs in, and without one, many versions do nothing and report success.
type glab struct {
	*program
	logs *logs
}

// mergeRequests separates the project from the number in the address of a merge request.
const mergeRequests = "/-/merge_requests/"

// project returns the path of a project in the API.
func (r remote) project() string { return "projects/" + url.PathEscape(r.path) }

// call calls the API. A nil input means that nothing is changed.
func (g *glab) call(ctx context.Context, host, method, path string,
	input map[string]string) (string, error) {
	args := []string{"api", "--hostname=" + host, "--method=" + method}
	if input == nil {
		return g.run(ctx, nil, append(args, path)...)
	}
	body, err := json.Marshal(input)
	if err != nil {
		return "", err
	}
	return g.run(ctx, body, append(args, "--header=Content-Type: application/json", "--input=-",
		path)...)
}

// list calls the API for all pages of a list.
func (g *glab) list(ctx context.Context, host, path string) (string, error) {
	return g.run(ctx, nil, "api", "--hostname="+host, "--method=GET", "--paginate", path)
}

// glabRequest is a merge request in the API.
type glabRequest struct {
	URL         string     `json:"web_url"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Head        string     `json:"source_branch"`
	Base        string     `json:"target_branch"`
	Source      int64      `json:"source_project_id"`
	Target      int64      `json:"target_project_id"`
	State       string     `json:"state"`
	SHA         string     `json:"sha"`
	MergeCommit string     `json:"merge_commit_sha"`
	SquashedTo  string     `json:"squash_commit_sha"`
	Conflicts   bool       `json:"has_conflicts"`
	Author      glabAuthor `json:"author"`
	Pipeline    *struct {
		ID     int64  `json:"id"`
		SHA    string `json:"sha"`
		Status string `json:"status"`
		URL    string `json:"web_url"`
	} `json:"head_pipeline"`
}

type glabAuthor struct {
	Username string `json:"username"`
}

// quickAction is a line that GitLab would carry out, such as /merge, with the rights of the user.
var quickAction = lazy.Regexp(`(?m)^([\s>]*)/`)

func (g *glab) Open(ctx context.Context, r Request) (string, error) {
	repo, err := parseRemote(r.Remote)
	if err != nil {
		return "", err
	}
	if r, err = r.clean(); err != nil {
		return "", err
	}
	r.Body = quickAction().ReplaceAllString(r.Body, `$1\/`)
	query := url.Values{"state": {"opened"}, "source_branch": {r.Head}, "target_branch": {r.Base},
		"per_page": {"100"}}
	out, err := g.list(ctx, repo.host, repo.project()+"/merge_requests?"+query.Encode())
	if err != nil {
		return "", err
	}
	open, err := decodeLists[glabRequest]("glab api", out)
	if err != nil {
		return "", err
	}
	for _, o := range open {
		// those of forks are not ours
		if o.Source == 0 || o.Source != o.Target || o.Head != r.Head || o.Base != r.Base {
			continue
		}
		return o.URL, g.update(ctx, repo, o, r)
	}
	out, err = g.call(ctx, repo.host, "POST", repo.project()+"/merge_requests",
		map[string]string{"source_branch": r.Head, "target_branch": r.Base, "title": r.Title,
			"description": r.Body})
	if err != nil {
		return "", err
	}
	var made glabRequest
	if err := decode("glab api", out, &made, "web_url"); err != nil {
		return "", err
	}
	_, err = repo.requestOn(made.URL, mergeRequests)
	return made.URL, err
}

func (g *glab) update(ctx context.Context, repo remote, old glabRequest, r Request) error {
	p, err := repo.requestOn(old.URL, mergeRequests)
	if err != nil || old.Title == r.Title &&
		strings.TrimSpace(normal(old.Description)) == strings.TrimSpace(r.Body) {
		return err
	}
	_, err = g.call(ctx, p.host, "PUT", fmt.Sprintf("%s/merge_requests/%d", p.project(), p.number),
		map[string]string{"title": r.Title, "description": r.Body})
	return err
}

// glabDiscussion is a thread of comments.
type glabDiscussion struct {
	Notes []struct {
		ID       int64      `json:"id"`
		Body     string     `json:"body"`
		At       string     `json:"created_at"`
		Author   glabAuthor `json:"author"`
		System   bool       `json:"system"`
		Resolved bool       `json:"resolved"`
		Position *struct {
			NewPath string `json:"new_path"`
			NewLine int    `json:"new_line"`
			OldPath string `json:"old_path"`
			OldLine int    `json:"old_line"`
		} `json:"position"`
	} `json:"notes"`
}

// glabJob is a job of a pipeline.
type glabJob struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Stage   string `json:"stage"`
	Status  string `json:"status"`
	Reason  string `json:"failure_reason"`
	Allowed bool   `json:"allow_failure"`
	URL     string `json:"web_url"`
}

func (g *glab) Look(ctx context.Context, url string) (Status, error) {
	p, err := parsePage(url, mergeRequests)
	if err != nil {
		return Status{}, err
	}
	at := fmt.Sprintf("%s/merge_requests/%d", p.project(), p.number)
	out, err := g.call(ctx, p.host, "GET", at, nil)
	if err != nil {
		return Status{}, err
	}
	mr, s, err := readGLabStatus(out)
	if err != nil || s.State == Merged {
		return s, err
	}
	if out, err = g.list(ctx, p.host, at+"/discussions?per_page=100"); err != nil {
		return Status{}, err
	}
	threads, err := decodeLists[glabDiscussion]("glab api", out)
	if err != nil {
		return Status{}, err
	}
	comments, err := mr.findings(threads)
	if err != nil {
		return Status{}, err
	}
	var checks []Finding
	if mr.Pipeline != nil && s.State == Open {
		if checks, err = g.checks(ctx, p, mr); err != nil {
			return Status{}, err
		}
	}
	s.add(checks, inOrder(comments))
	return s, nil
}

// readGLabStatus reads a merge request, except for the findings.
func readGLabStatus(out string) (mr glabRequest, s Status, err error) {
	if err := decode("glab api", out, &mr, "state", "sha", "author", "head_pipeline"); err != nil {
		return mr, s, err
	}
	s = Status{Head: mr.SHA, Conflicts: mr.Conflicts, Pending: mr.running()}
	switch mr.State {
	case "opened", "locked": // locked while it is being merged
		s.State = Open
	case "closed":
		s.State, s.Pending = Closed, false
	case "merged":
		// A fast-forward makes no commit.
		s = Status{Head: mr.SHA, State: Merged, Merged: cmp.Or(mr.MergeCommit, mr.SquashedTo,
			mr.SHA)}
	}
	return mr, s, s.check("glab api", mr.State)
}

// running reports whether the pipeline has not ended. One that waits for a person has.
func (mr *glabRequest) running() bool {
	return mr.Pipeline != nil &&
		!slices.Contains([]string{"success", "failed", "canceled", "skipped", "manual"},
			mr.Pipeline.Status)
}

// findings returns the comments of others that are not resolved.
func (mr *glabRequest) findings(threads []glabDiscussion) (others []comment, err error) {
	for _, thread := range threads {
		for _, n := range thread.Notes {
			c := comment{kind: kindComment, id: strconv.FormatInt(n.ID, 10), at: n.At,
				author: n.Author.Username, body: n.Body}
			if at := n.Position; at != nil {
				c.kind, c.place = kindLine, cmp.Or(at.NewPath, at.OldPath)
				if line := cmp.Or(at.NewLine, at.OldLine); line > 0 {
					c.place = fmt.Sprintf("%s:%d", c.place, line)
				}
			}
			if n.ID == 0 {
				return nil, refusedf("update glab",
					"the answer of glab has a comment without an id")
			}
			if !n.System && !n.Resolved && clean(n.Body) != "" &&
				(!sameLogin(mr.Author.Username, n.Author.Username) ||
					c.ownReview(mr.Author.Username)) {
				others = append(others, c)
			}
		}
	}
	return others, nil
}

// checks returns the failed jobs of the pipeline, or the pipeline itself if it failed for another
// reason.
func (g *glab) checks(ctx context.Context, p page, mr glabRequest) ([]Finding, error) {
	out, err := g.list(ctx, p.host, fmt.Sprintf("%s/pipelines/%d/jobs?per_page=100", p.project(),
		mr.Pipeline.ID))
	if err != nil {
		return nil, err
	}
	jobs, err := decodeLists[glabJob]("glab api", out)
	if err != nil {
		return nil, err
	}
	var checks []Finding
	for _, j := range jobs {
		if j.Allowed || j.Status != "failed" && j.Status != "canceled" {
			continue
		}
		log, result := "", j.Status
		if j.Reason != "" {
			result += ", " + j.Reason
		}
		if len(checks) < maxLogs && j.ID > 0 {
			log = g.logs.end(ctx, fmt.Sprintf("%s/%d", p.host, j.ID),
				func(ctx context.Context) (string, error) {
					return g.runLimited(ctx, maxLogBytes, nil, "api", "--hostname="+p.host,
						"--method=GET", fmt.Sprintf("%s/jobs/%d/trace", p.project(), j.ID))
				})
		}
		checks = append(checks, failedCheck(mr.Pipeline.SHA, j.Stage+" / "+j.Name, result, j.URL,
			log))
	}
	if len(checks) == 0 && mr.Pipeline.Status == "failed" {
		checks = append(checks, failedCheck(mr.Pipeline.SHA, "pipeline", "failed", mr.Pipeline.URL,
			""))
	}
	return checks, nil
}
