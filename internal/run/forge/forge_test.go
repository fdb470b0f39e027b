package forge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

const (
	head   = "1111111111111111111111111111111111111111"
	merge  = "2222222222222222222222222222222222222222"
	ghURL  = "https://github.com/ann/app/pull/7"
	glURL  = "https://gitlab.com/team/sub/app/-/merge_requests/7"
	ghList = "pr list --repo=github.com/ann/app --head=signalbox/T1 --base=main --state=open --limit=100 --json=url,title,body,headRefName,baseRefName,isCrossRepository"
	ghView = "pr view " + ghURL + " --repo=github.com/ann/app --json=" + ghFields
	ghLook = "api --hostname=github.com --method=GET --paginate repos/ann/app/pulls/7/comments?per_page=100"
	glMR   = "projects/team%2Fsub%2Fapp/merge_requests"
)

func ghWork() Request {
	return Request{Remote: "git@github.com:ann/app.git", Head: "signalbox/T1", Base: "main",
		Title: "-x: do\nit", Body: "--body\r\nof it\x1b"}
}

func glWork() Request {
	r := ghWork()
	r.Remote = "https://user:secret@gitlab.com/team/sub/app.git"
	return r
}

func TestKindOf(t *testing.T) {
	for remote, want := range map[string]string{
		"https://github.com/ann/app":                     GH,
		"https://x-access-token:abc@github.com/a/b.git/": GH,
		"git@github.com:ann/app.git":                     GH,
		"ssh://git@ssh.github.com:443/ann/app.git":       GH,
		"https://GitHub.example.com:8443/ann/app":        GH,
		"https://company.ghe.com/ann/app":                GH,
		"git@gitlab.com:team/sub/app.git":                GLab,
		"gitlab.example.com:team/app":                    GLab,
		"ssh://git@altssh.gitlab.com:443/t/a":            GLab,
		"https://code.gitlab-eu.example.com/t/app":       GLab,
		"https://git.example.com/ann/app":                "it is not known which program opens pull requests on git.example.com",
		"https://notgithub.com/ann/app":                  "it is not known which program opens pull requests on notgithub.com",
		"https://example.com/github.com/app":             "it is not known which program opens pull requests on example.com",
		"/srv/git/app.git":                               "the remote is not the URL of a repository on a forge",
		"../app":                                         "the remote is not the URL of a repository on a forge",
		"file:///srv/github.com/app":                     "the remote is not the URL of a repository on a forge",
		"https://github.com/ann":                         "the remote is not the URL of a repository on a forge",
		"https://github.com/ann/../app":                  "the remote is not the URL of a repository on a forge",
		"https://github.com/-ann/app":                    "the remote is not the URL of a repository on a forge",
		"https://secret:token@github.com/a b/c":          "the remote is not the URL of a repository on a forge",
		"ext::sh -c x":                                   "the remote is not the URL of a repository on a forge",
		"":                                               "the remote is not the URL of a repository on a forge",
	} {
		got, err := KindOf(remote)
		if err != nil {
			got = err.Error()
			if signalbox.HintOf(err) == "" || signalbox.CodeOf(err) != signalbox.CodeUsage {
				t.Errorf("%q: %#v", remote, err)
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", remote, got, want)
		}
	}
}

func TestNew(t *testing.T) {
	for _, tt := range []struct {
		kind string
		o    Options
		want string
	}{
		{"", Options{Remote: "git@github.com:ann/app"}, "*forge.gh"},
		{"", Options{Remote: "git@gitlab.com:ann/app"}, "*forge.glab"},
		{"", Options{Remote: "git@example.com:ann/app"},
			"it is not known which program opens pull requests on example.com"},
		{GLab, Options{Remote: "git@github.com:ann/app"}, "*forge.glab"},
		{Command, Options{Command: []string{"x"}}, "*forge.command"},
		{Command, Options{}, "there is no command that opens pull requests"},
		{"gitea", Options{}, "there is no forge 'gitea'"},
	} {
		f, err := New(tt.kind, tt.o)
		got := fmt.Sprintf("%T", f)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q %v: %s, want %s", tt.kind, tt.o, got, tt.want)
		}
	}
}

func TestGHOpens(t *testing.T) {
	f, s := newStage(t, GH, answer{When: ghList, Stdout: "[]"},
		answer{When: "pr create", Stdout: "Warning: 1 uncommitted change\n" + ghURL + "\n"})
	url, err := f.Open(context.Background(), ghWork())
	if err != nil || url != ghURL {
		t.Fatalf("%s, %v", url, err)
	}
	calls := s.calls()
	want := []string{"pr", "create", "--repo=github.com/ann/app", "--head=signalbox/T1", "--base=main", "--title=-x: do it", "--body-file=-"}
	if diff := cmp.Diff(want, calls[1].Args); len(calls) != 2 || diff != "" ||
		calls[1].Input != "--body\nof it\ufffd" {
		t.Errorf("%d calls, input %q (-want +got):\n%s", len(calls), calls[1].Input, diff)
	}
}

// A request that is open already is updated, but one of a fork or to another base is not ours.
func TestGHUpdates(t *testing.T) {
	const other = `{"url":"https://github.com/ann/app/pull/6","title":"x","body":"","headRefName":"signalbox/T1","baseRefName":"main","isCrossRepository":true},
		{"url":"https://github.com/ann/app/pull/5","title":"x","body":"","headRefName":"signalbox/T1","baseRefName":"old","isCrossRepository":false},
		{"url":"https://github.com/ann/app/pull/4","title":"x","body":"","headRefName":"signalbox/T11","baseRefName":"main","isCrossRepository":false}`
	ours := func(title, body string) string {
		return fmt.Sprintf(`[%s,{"url":%q,"title":%q,"body":%q,"headRefName":"signalbox/T1","baseRefName":"main","isCrossRepository":false}]`, other, ghURL, title, body)
	}
	const patch = "api --hostname=github.com --method=PATCH --input=- repos/ann/app/pulls/7"
	for _, tt := range []struct {
		name, list string
		want       []string
	}{
		{"only others", "[" + other + "]",
			[]string{ghList, "pr create --repo=github.com/ann/app --head=signalbox/T1 --base=main --title=-x: do it --body-file=-"}},
		{"the same", ours("-x: do it", "--body\r\nof it\ufffd\n"), []string{ghList}},
		{"another title", ours("x", "--body\nof it\ufffd"), []string{ghList, patch}},
		{"another body", ours("-x: do it", ""), []string{ghList, patch}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, s := newStage(t, GH, answer{When: ghList, Stdout: tt.list},
				answer{When: "PATCH", Stdout: "{}"}, answer{When: "create", Stdout: ghURL})
			url, err := f.Open(context.Background(), ghWork())
			if diff := cmp.Diff(tt.want, s.arguments()); err != nil || url != ghURL || diff != "" {
				t.Fatalf("%s, %v (-want +got):\n%s", url, err, diff)
			}
			if calls := s.calls(); strings.Contains(tt.want[len(tt.want)-1], "PATCH") &&
				calls[1].Input != `{"body":"--body\nof it`+"\ufffd"+`","title":"-x: do it"}` {
				t.Errorf("input %q", calls[1].Input)
			}
		})
	}
}

func TestGHLooks(t *testing.T) {
	f, s := newStage(t, GH, answer{When: ghView, Stdout: fixture(t, "gh-view-open.json")},
		answer{When: ghLook, Stdout: fixture(t, "gh-lines.json")},
		answer{When: "run view --repo=github.com/ann/app --job=200 --log-failed",
			Stdout: strings.Repeat("line\n", 10000) + "test\tfailed: \x1b[31mwant 1\x1b[0m\n"})
	status := look(t, f, ghURL)
	want := []string{
		"check CI / test: failure",
		"check deploy/preview: error",
		"dora requests changes: This is not safe.",
		"dora: A remark.",
		"dora, main.go:12: Check the error.",
		"dora, old.go:5: Still here?",
		"coderabbitai[bot], main.go: Too long.",
		"ann: My own.",
		"bob: Please add a test.\ufffd[31m",
		"ann, main.go:1: Done.",
	}
	if diff := cmp.Diff(want, summaries(t, status)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if status.Head != head || status.State != Open || status.Merged != "" || !status.Pending ||
		!status.Conflicts || status.LeftOut != 0 {
		t.Errorf("%+v", status)
	}
	body := status.Findings[0].Body
	if !strings.HasPrefix(body,
		"check CI / test: failure\nhttps://github.com/ann/app/actions/runs/100/job/200\n\nThe end of its log:\n\n") ||
		!strings.HasSuffix(body, "line\ntest\tfailed: want 1") || len(body) > maxLog+500 {
		t.Errorf("body of the check %q", body)
	}
	if got := status.Findings[8].Body; got != "Please\nadd a test.\ufffd[31m" {
		t.Errorf("body of the comment %q", got)
	}
	// The same look gives the same ids, and does not read the log again.
	if diff := cmp.Diff(status, look(t, f, ghURL)); diff != "" {
		t.Errorf("the second look (-want +got):\n%s", diff)
	}
	if got := s.arguments(); len(got) != 5 {
		t.Errorf("calls %q", got)
	}
}

func TestGHMerged(t *testing.T) {
	f, s := newStage(t, GH, answer{When: "view", Stdout: fixture(t, "gh-view-merged.json")})
	status := look(t, f, ghURL)
	if diff := cmp.Diff(Status{Head: head, State: Merged, Merged: merge}, status); diff != "" ||
		len(s.calls()) != 1 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, status, err := readGHStatus(strings.Replace(fixture(t, "gh-view-merged.json"), `{"oid": "`+
		merge+`"}`, "null", 1))
	if err != nil || status.Merged != head {
		t.Errorf("%+v, %v", status, err)
	}
	_, status, err = readGHStatus(strings.Replace(fixture(t, "gh-view-merged.json"), "MERGED",
		"CLOSED", 1))
	if err != nil || status.State != Closed || status.Merged != "" {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestGHAnswersWithoutWhatMatters(t *testing.T) {
	source := fixture(t, "gh-view-open.json")
	for _, name := range strings.Split(ghFields, ",") {
		if _, _, err := readGHStatus(strings.Replace(source, "\n  \""+name+`":`, "\n  "+`"no":`,
			1)); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "'"+name+"'") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for old, replacement := range map[string]string{
		`"OPEN"`: `"DRAFT"`, head: "11111111", `"` + head + `"`: "null", `"OPEN",`: "null,",
		source: "[]", `"reviews": [`: `"reviews": "`,
	} {
		if _, s, err := readGHStatus(strings.ReplaceAll(source, old, replacement)); !errors.Is(err,
			ErrRefused) {
			t.Errorf("%s instead of %s: %+v, %v", replacement, old, s, err)
		}
	}
	pr, _, err := readGHStatus(strings.Replace(source, "IC_2", "", 1))
	must.Succeed(t, err)
	if _, err := pr.findings(nil); !errors.Is(err, ErrRefused) {
		t.Errorf("a comment without an id: %v", err)
	}
}

func TestGHChecks(t *testing.T) {
	for result, want := range map[string]string{
		"SUCCESS": "passed", "NEUTRAL": "passed", "SKIPPED": "passed", "FAILURE": "failed",
		"ERROR": "failed", "CANCELLED": "failed", "TIMED_OUT": "failed",
		"ACTION_REQUIRED": "failed", "STARTUP_FAILURE": "failed", "STALE": "pending",
		"PENDING": "pending", "EXPECTED": "pending", "": "pending", "NEW": "pending",
	} {
		for _, c := range []ghCheck{{Type: "CheckRun", Name: "a", Status: "COMPLETED",
			Conclusion: result}, {Type: "StatusContext", Context: "a", State: result}} {
			failed, pending := failedGHChecks([]ghCheck{c,
				{Type: c.Type, Name: "b", Context: c.Context + "b", Status: "COMPLETED",
					Conclusion: "SUCCESS", State: "SUCCESS"}})
			got := "passed"
			if pending {
				got = "pending"
			}
			if len(failed) == 1 && !pending {
				got = "failed"
			}
			if got != want {
				t.Errorf("%s of a %s: %s, want %s", result, c.Type, got, want)
			}
		}
	}
	for _, status := range []string{"QUEUED", "IN_PROGRESS", "WAITING", "REQUESTED", "PENDING"} {
		if failed, pending := failedGHChecks([]ghCheck{{Type: "CheckRun", Name: "a", Status: status,
			Conclusion: "FAILURE"}}); failed != nil || !pending {
			t.Errorf("%s: %v, %t", status, failed, pending)
		}
	}
}

// Ids are the same for the same comment, and others for others, for an edited one, and for a check
// of another commit.
func TestIDs(t *testing.T) {
	source, lines := fixture(t, "gh-view-open.json"), fixture(t, "gh-lines.json")
	ids := func(view, lines string) map[string]string {
		f, _ := newStage(t, GH, answer{When: "pr view", Stdout: view},
			answer{When: "api", Stdout: lines}, answer{When: "run view", Exit: 1})
		byID := map[string]string{}
		for _, f := range look(t, f, ghURL).Findings {
			byID[f.ID] = f.Summary
		}
		return byID
	}
	before := ids(source, lines)
	for _, tt := range []struct {
		name, view, lines string
		want              []string // what is new
	}{
		{"edited", strings.Replace(source, "A remark.", "A remark!", 1), lines,
			[]string{"dora: A remark!"}},
		{"edited line", source, strings.Replace(lines, "Check the", "Look at the", 1),
			[]string{"dora, main.go:12: Look at the error."}},
		{"the hidden part edited", strings.Replace(source, "and ignore", "or ignore", 1), lines,
			[]string{"bob: Please add a test.\ufffd[31m"}},
		{"another one with the same text", source, strings.Replace(lines, `"id": 900`, `"id": 910`,
			1), []string{"dora, main.go:12: Check the error."}},
		{"moved", source, strings.Replace(lines, `"line": 12`, `"line": 20`, 1), nil},
		{"updated without a change", source, strings.ReplaceAll(lines, `"updated_at": "2026-01-02`,
			`"updated_at": "2026-01-03`), nil},
		{"run again", strings.Replace(source, "runs/100/job/200", "runs/102/job/203", 1), lines,
			nil},
		{"another commit", strings.Replace(source, head, merge, 1), lines,
			[]string{"check CI / test: failure", "check deploy/preview: error"}},
	} {
		after := ids(tt.view, tt.lines)
		var fresh []string
		for id, summary := range after {
			if _, known := before[id]; !known {
				fresh = append(fresh, summary)
			}
		}
		if diff := cmp.Diff(sorted(tt.want), sorted(fresh)); diff != "" {
			t.Errorf("%s: new findings (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestGLabOpens(t *testing.T) {
	const list = "api --hostname=gitlab.com --method=GET --paginate " + glMR +
		"?per_page=100&source_branch=signalbox%2FT1&state=opened&target_branch=main"
	f, s := newStage(t, GLab, answer{When: list, Stdout: "[]"},
		answer{When: "POST", Stdout: fixture(t, "glab-open.json")})
	r := glWork()
	r.Body = "-\n/merge\n> /approve\n  /close\na/b"
	url, err := f.Open(context.Background(), r)
	if err != nil || url != glURL {
		t.Fatalf("%s, %v", url, err)
	}
	calls := s.calls()
	want := []string{"api", "--hostname=gitlab.com", "--method=POST", "--header=Content-Type: application/json", "--input=-", glMR}
	if diff := cmp.Diff(want, calls[1].Args); diff != "" || len(calls) != 2 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// GitLab would carry out lines such as /merge.
	if want := `{"description":"-\n\\/merge\n\u003e \\/approve\n  \\/close\na/b","source_branch":"signalbox/T1","target_branch":"main","title":"-x: do it"}`; calls[1].Input != want {
		t.Errorf("input %s\nwant  %s", calls[1].Input, want)
	}
}

func TestGLabUpdates(t *testing.T) {
	mr := strings.NewReplacer(`"title": "T1"`,
		`"title": "old"`).Replace(fixture(t, "glab-open.json"))
	fork := strings.Replace(mr, `"source_project_id": 3`, `"source_project_id": 4`, 1)
	f, s := newStage(t, GLab, answer{When: "GET", Stdout: "[" + fork + "]"},
		answer{When: "POST", Stdout: fixture(t, "glab-open.json")})
	if _, err := f.Open(context.Background(), glWork()); err != nil || len(s.calls()) != 2 ||
		!strings.Contains(s.arguments()[1], "POST") {
		t.Errorf("%v, calls %q", err, s.arguments())
	}
	f, s = newStage(t, GLab, answer{When: "GET", Stdout: "[" + fork + "," + mr + "]"},
		answer{When: "PUT", Stdout: "{}"})
	url, err := f.Open(context.Background(), glWork())
	if calls := s.calls(); err != nil || url != glURL || len(calls) != 2 ||
		calls[1].Args[len(calls[1].Args)-1] != glMR+"/7" ||
		calls[1].Input != `{"description":"--body\nof it`+"\ufffd"+`","title":"-x: do it"}` {
		t.Errorf("%s, %v, calls %q", url, err, s.arguments())
	}
	same := strings.NewReplacer(`"title": "old"`, `"title": "-x: do it"`, `"description": ""`,
		`"description": "--body\nof it`+"\ufffd"+`"`).Replace(mr)
	f, s = newStage(t, GLab, answer{When: "GET", Stdout: "[" + same + "]"})
	if url, err := f.Open(context.Background(), glWork()); err != nil || url != glURL ||
		len(s.calls()) != 1 {
		t.Errorf("%s, %v, calls %q", url, err, s.arguments())
	}
}

func TestGLabLooks(t *testing.T) {
	f, s := newStage(t, GLab, answer{When: "--paginate " + glMR + "/7/discussions?per_page=100",
		Stdout: fixture(t, "glab-discussions.json")},
		answer{When: "--paginate projects/team%2Fsub%2Fapp/pipelines/55/jobs?per_page=100",
			Stdout: fixture(t, "glab-jobs.json")},
		answer{When: "projects/team%2Fsub%2Fapp/jobs/8/trace", Stdout: "offence\n"},
		answer{When: glMR + "/7", Stdout: fixture(t, "glab-open.json")})
	status := look(t, f, glURL)
	want := []string{"check test / rubocop: failed, script_failure",
		"dora, main.go:12: Check the error.", "bob: Please add a test."}
	if diff := cmp.Diff(want, summaries(t, status)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if status.Head != head || status.State != Open || !status.Pending || !status.Conflicts ||
		!strings.HasSuffix(status.Findings[0].Body, "\n\noffence") {
		t.Errorf("%+v", status)
	}
	if diff := cmp.Diff(status, look(t, f, glURL)); diff != "" || len(s.calls()) != 7 {
		t.Errorf("the second look, after %d calls (-want +got):\n%s", len(s.calls()), diff)
	}
}

func TestGLabStates(t *testing.T) {
	source := fixture(t, "glab-open.json")
	for _, tt := range []struct {
		name string
		old  []string
		want Status
	}{
		{"merged", []string{`"opened"`, `"merged"`, `"merge_commit_sha": null`,
			`"merge_commit_sha": "` + merge + `"`},
			Status{Head: head, State: Merged, Merged: merge}},
		{"squashed", []string{`"opened"`, `"merged"`, `"squash_commit_sha": null`,
			`"squash_commit_sha": "` + merge + `"`},
			Status{Head: head, State: Merged, Merged: merge}},
		{"fast-forward", []string{`"opened"`, `"merged"`},
			Status{Head: head, State: Merged, Merged: head}},
		{"closed", []string{`"opened"`, `"closed"`},
			Status{Head: head, State: Closed, Conflicts: true}},
		{"locked", []string{`"opened"`, `"locked"`}, Status{Head: head, State: Open, Pending: true,
			Conflicts: true}},
		{"passed", []string{`"running"`, `"success"`},
			Status{Head: head, State: Open, Conflicts: true}},
		{"waits for a person", []string{`"running"`, `"manual"`},
			Status{Head: head, State: Open, Conflicts: true}},
		{"a status of the future", []string{`"running"`, `"preparing"`},
			Status{Head: head, State: Open, Pending: true, Conflicts: true}},
	} {
		_, got, err := readGLabStatus(strings.NewReplacer(tt.old...).Replace(source))
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	for _, name := range []string{"state", "sha", "author", "head_pipeline"} {
		if _, s, err := readGLabStatus(strings.Replace(source, `"`+name+`":`, `"no":`,
			1)); !errors.Is(err, ErrRefused) {
			t.Errorf("without %s: %+v, %v", name, s, err)
		}
	}
}

// A pipeline may fail for a reason that is not one of its own jobs.
func TestGLabFailedPipeline(t *testing.T) {
	f, _ := newStage(t, GLab, answer{When: "discussions", Stdout: "[]"},
		answer{When: "jobs", Stdout: "[]"},
		answer{When: glMR, Stdout: strings.Replace(fixture(t, "glab-open.json"), `"running"`,
			`"failed"`, 1)})
	if diff := cmp.Diff([]string{"check pipeline: failed"},
		summaries(t, look(t, f, glURL))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCommand(t *testing.T) {
	const url = "https://git.example.com/ann/app/pulls/7"
	f, s := newStage(t, Command, answer{Stdout: `{"url":"` + url + `","more":1}`})
	r := ghWork()
	r.Remote = "/srv/git/app.git"
	got, err := f.Open(context.Background(), r)
	if err != nil || got != url {
		t.Fatalf("%s, %v", got, err)
	}
	const order = `{"do":"open","remote":"/srv/git/app.git","head":"signalbox/T1","base":"main","title":"-x: do it","body":"--body\nof it` + "\ufffd" + `"}` + "\n"
	if c := s.calls()[0]; c.Input != order || c.Args[0] != "--now" {
		t.Errorf("%q got %s", c.Args, c.Input)
	}

	f, s = newStage(t, Command, answer{Stdout: `{"head":"` + head + `","state":"open","pending":true,"conflicts":true,
		"findings":[{"id":"2","summary":"b\nc","body":"x<!-- y -->\u0007"},{"id":"1","summary":"a"},{"id":"1","summary":"a"},{"id":"1","summary":"a","body":"edited"}]}`})
	status := look(t, f, url)
	if diff := cmp.Diff([]string{"b c", "a", "a"}, summaries(t, status)); diff != "" ||
		!status.Pending || !status.Conflicts || status.Findings[0].Body != "x\ufffd" {
		t.Errorf("%+v (-want +got):\n%s", status, diff)
	}
	if c := s.calls()[0]; c.Input != `{"do":"look","url":"`+url+`"}`+"\n" {
		t.Errorf("input %s", c.Input)
	}
	for answer, want := range map[string]Status{
		`{"head":"` + head + `","state":"merged","merged":"` + merge +
			`"}`: {Head: head, State: Merged, Merged: merge},
		`{"head":"` + head + `","state":"closed","pending":true}`: {Head: head,
			State: Closed},
	} {
		if got, err := readCommandStatus(answer); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%s: %+v, %v", answer, got, err)
		}
	}
	for _, answer := range []string{"", "null", "[]", `{"head":"` + head + `"}`, `{"state":"open"}`,
		`{"head":"1","state":"open"}`, `{"head":"` + head + `","state":"OPEN"}`,
		`{"head":"` + head + `","state":"merged"}`, `{"head":"` + head +
			`","state":"open","findings":[{"summary":"a"}]}`,
		`{"head":"` + head + `","state":"open","findings":[{"id":"a","summary":" \n"}]}`} {
		if got, err := readCommandStatus(answer); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %+v, %v", answer, got, err)
		}
	}
}

// Whoever wrote the command learns what it printed instead, and where to read what it should.
func TestErrorOfACommandSaysHowToCorrectIt(t *testing.T) {
	f, _ := newStage(t, Command, answer{Stdout: "https://forge.example/7\n"})
	_, opened := f.Open(context.Background(), ghWork())
	_, looked := f.Look(context.Background(), "https://forge.example/7")
	for _, err := range []error{opened, looked} {
		if err == nil || !strings.Contains(err.Error(), "the answer of deliver.command") ||
			!strings.Contains(signalbox.HintOf(err), "docs/how-to/delivery.md") ||
			!strings.Contains(signalbox.HintOf(err), "printed 'https://forge.example/7'") {
			t.Errorf("error %v, hint %q", err, signalbox.HintOf(err))
		}
	}
}

// Only addresses that people can open on the host that was asked are returned.
func TestAddresses(t *testing.T) {
	for url, ok := range map[string]bool{
		ghURL: true, "https://GitHub.com/ann/app/pull/7": true,
		"https://github.com/ann/renamed/pull/7":          true,
		"https://github.com.evil.example/ann/app/pull/7": false, "javascript:alert(1)": false,
		"https://github.com/ann/app": false, "https://github.com/ann/app/pull/0": false,
		"https://github.com/ann/app/pull/7/../8":                            false,
		"https://evil@github.com/ann/app/pull/7":                            false,
		"https://github.com/ann/app/pull/x":                                 false,
		"https://github.com/" + strings.Repeat("a", maxURL) + "/app/pull/7": false,
		"ftp://github.com/ann/app/pull/7":                                   false,
		"\x1b[2Jhttps://github.com/ann/app/pull/7":                          false, "": false,
	} {
		f, _ := newStage(t, GH, answer{When: "list", Stdout: "[]"},
			answer{When: "create", Stdout: url})
		if got, err := f.Open(context.Background(), ghWork()); (err == nil) != ok || ok &&
			got != url || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("created %q: %s, %v", url, got, err)
		}
	}
	for _, kind := range []string{GH, GLab, Command} {
		f, s := newStage(t, kind)
		for _, url := range []string{"", "--help", "https://github.com/ann", "javascript:x",
			"file:///etc/passwd", "https://github.com/../pull/7", glURL + "x", "https://x y/"} {
			if kind == Command && strings.HasPrefix(url, "https://g") {
				continue
			}
			if got, err := f.Look(context.Background(), url); !errors.Is(err, ErrRefused) {
				t.Errorf("%s looks at %q: %+v, %v", kind, url, got, err)
			}
		}
		if calls := s.calls(); len(calls) != 0 {
			t.Errorf("%s was called: %v", kind, calls)
		}
	}
	f, _ := newStage(t, Command, answer{Stdout: `{"url":"javascript:alert(1)"}`})
	if url, err := f.Open(context.Background(), ghWork()); !errors.Is(err, ErrRefused) {
		t.Errorf("%s, %v", url, err)
	}
	f, _ = newStage(t, GLab, answer{When: "GET", Stdout: "[]"},
		answer{When: "POST",
			Stdout: `{"web_url":"https://evil.example/team/app/-/merge_requests/7"}`})
	if url, err := f.Open(context.Background(), glWork()); !errors.Is(err, ErrRefused) {
		t.Errorf("%s, %v", url, err)
	}
}

// Names of branches and titles that a program could misunderstand never reach it.
func TestRefusedRequests(t *testing.T) {
	for _, kind := range []string{GH, GLab, Command} {
		f, s := newStage(t, kind)
		for _, change := range []func(r *Request){
			func(r *Request) { r.Head = "" }, func(r *Request) { r.Head = "-x" },
			func(r *Request) { r.Head = "mallory:main" }, func(r *Request) { r.Base = "a b" },
			func(r *Request) { r.Base = "a\x00b" },
			func(r *Request) { r.Head = strings.Repeat("a", 300) },
			func(r *Request) { r.Title = " \n " },
		} {
			r := ghWork()
			change(&r)
			if url, err := f.Open(context.Background(), r); !errors.Is(err, ErrRefused) {
				t.Errorf("%s, %+v: %s, %v", kind, r, url, err)
			}
		}
		if calls := s.calls(); len(calls) != 0 {
			t.Errorf("%s was called: %v", kind, calls)
		}
	}
}

func TestLongRequest(t *testing.T) {
	f, s := newStage(t, GH, answer{When: "list", Stdout: "[]"},
		answer{When: "create", Stdout: ghURL})
	r := ghWork()
	r.Title, r.Body = strings.Repeat("é", 1000), strings.Repeat("é", 100<<10)
	if _, err := f.Open(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	c := s.calls()[1]
	if title := c.Args[5]; utf8.RuneCountInString(title) > maxTitle+len("--title=") ||
		len(c.Input) > maxText+10 || !utf8.ValidString(c.Input) {
		t.Errorf("a title of %d characters, a body of %d bytes", utf8.RuneCountInString(title),
			len(c.Input))
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		kind, stderr string
		exit         int
		want         error
		hint         string
	}{
		{GH, "To get started with GitHub CLI, please run:  gh auth login\n", 4, ErrLogin,
			"run gh auth login"},
		{GH, "", 4, ErrLogin, "run gh auth login"},
		{GH, "HTTP 401: Bad credentials (https://api.github.com/graphql)\nTry authenticating with:  gh auth login\n", 1, ErrLogin, "run gh auth login"},
		{GH, "GraphQL: API rate limit exceeded for user ID 1.\n", 1, ErrTemporary, ""},
		{GH, "HTTP 403: You have exceeded a secondary rate limit. (https://api.github.com/graphql)\n", 1, ErrTemporary, ""},
		{GH, "error connecting to api.github.com\ncheck your internet connection or https://githubstatus.com\n", 1, ErrTemporary, ""},
		{GH, "HTTP 502: Bad Gateway (https://api.github.com/graphql)\n", 1, ErrTemporary, ""},
		{GH, "Post \"https://api.github.com/graphql\": dial tcp: lookup api.github.com: no such host\n", 1, ErrTemporary, ""},
		{GH, "Post \"https://api.github.com/graphql\": net/http: TLS handshake timeout\n", 1,
			ErrTemporary, ""},
		{GH, "GraphQL: Something went wrong while executing your query. (createPullRequest)\n", 1,
			ErrTemporary, ""},
		{GH, "pull request create failed: GraphQL: No commits between main and fix-i/o-timeout (createPullRequest)\n", 1, ErrRefused, ""},
		{GH, "GraphQL: Could not resolve to a Repository with the name 'ann/500'. (repository)\n",
			1, ErrRefused, ""},
		{GH, "GraphQL: Resource not accessible by personal access token (createPullRequest)\n", 1,
			ErrRefused, ""},
		{GH, "gh: Not Found (HTTP 404)\n", 1, ErrRefused, ""},
		{GLab, "glab: 401 Unauthorized (HTTP 401)\n", 1, ErrLogin, "run glab auth login"},
		{GLab, "glab: 429 Too Many Requests (HTTP 429)\n", 1, ErrTemporary, ""},
		{GLab, "glab: 404 Project Not Found (HTTP 404)\n", 1, ErrRefused, ""},
		{Command, "busy\n", 75, ErrTemporary, ""},
		{Command, "rate limit, HTTP 401, gh auth login\n", 1, ErrRefused, ""},
		{Command, "", 4, ErrRefused, ""},
	} {
		f, _ := newStage(t, tt.kind, answer{Stderr: "earlier\x1b[2J " + tt.stderr, Exit: tt.exit})
		r := ghWork()
		if tt.kind == GLab {
			r = glWork()
		}
		_, err := f.Open(context.Background(), r)
		if !errors.Is(err, tt.want) || signalbox.HintOf(err) != tt.hint ||
			signalbox.CodeOf(err) != signalbox.CodeFailed ||
			strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s, %d, %q: %v, hint %q; want %v, %q", tt.kind, tt.exit, tt.stderr, err,
				signalbox.HintOf(err), tt.want, tt.hint)
		}
		for _, other := range []error{ErrNotInstalled, ErrLogin, ErrTemporary, ErrRefused} {
			if other != tt.want && errors.Is(err, other) {
				t.Errorf("%q is also %v", tt.stderr, other)
			}
		}
	}
	f, _ := newStage(t, GH, answer{Stderr: "gh auth login", Exit: 4})
	r := ghWork()
	r.Remote = "git@github.example.com:ann/app"
	if _, err := f.Open(context.Background(),
		r); signalbox.HintOf(err) != "run gh auth login --hostname github.example.com" {
		t.Errorf("%v, hint %q", err, signalbox.HintOf(err))
	}
	f, _ = newStage(t, GH, answer{Stderr: strings.Repeat("x", 100<<10) + " the end", Exit: 1})
	if _, err := f.Open(context.Background(), ghWork()); !strings.HasSuffix(err.Error(),
		" the end") || len(err.Error()) > 600 {
		t.Errorf("%d bytes: %.100s", len(err.Error()), err.Error())
	}
}

func TestProgramsThatDoNotAnswer(t *testing.T) {
	f, err := New(GH, Options{Environ: []string{"PATH=" + t.TempDir()}})
	must.Succeed(t, err)
	if _, err := f.Open(context.Background(), ghWork()); !errors.Is(err, ErrNotInstalled) ||
		signalbox.CodeOf(err) != signalbox.CodeNotFound || !strings.Contains(signalbox.HintOf(err),
		"gh auth login") {
		t.Errorf("no gh: %v, hint %q", err, signalbox.HintOf(err))
	}
	f, _ = newStage(t, GH, answer{Flood: true})
	if _, err := f.Open(context.Background(), ghWork()); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "more than 8388608 bytes") {
		t.Errorf("a flood: %v", err)
	}
	f, _ = newStageWith(t, GH, Options{Timeout: 50 * time.Millisecond}, answer{Hang: true})
	if _, err := f.Open(context.Background(), ghWork()); !errors.Is(err, ErrTemporary) ||
		!strings.Contains(err.Error(), "gh pr list did not end within 50ms") {
		t.Errorf("a program that hangs: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.Open(ctx, ghWork()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Many and long findings are bounded: the newest remain.
func TestManyFindings(t *testing.T) {
	lines := make([]string, 2*maxFindings)
	for i := range lines {
		lines[i] = fmt.Sprintf(
			`{"id":%d,"path":%q,"line":1,"user":{"login":%q},"body":"%d %s","created_at":"2026-01-01T00:%02d:%02dZ"}`, i+1, strings.Repeat("p", 500), strings.Repeat("u", 500), i,
			strings.Repeat("é", maxBody), i/60, i%60)
	}
	checks := make([]string, maxFindings)
	for i := range checks {
		checks[i] = fmt.Sprintf(
			`{"__typename":"StatusContext","context":"c%03d %s","state":"FAILURE","targetUrl":"javascript:x"}`, i, strings.Repeat("n", 500))
	}
	view := `{"author":{"login":"ann"},"comments":[],"headRefOid":"` + head +
		`","mergeCommit":null,"mergeable":"MERGEABLE","reviews":[],"state":"OPEN","statusCheckRollup":[` + strings.Join(checks, ",") + `]}`
	f, _ := newStage(t, GH, answer{When: "pr view", Stdout: view},
		answer{When: "api", Stdout: "[" + strings.Join(lines, ",") + "]"})
	status := look(t, f, ghURL)
	got := summaries(t, status)
	if len(got) != maxFindings || status.LeftOut != 2*maxFindings || status.Conflicts ||
		status.Pending {
		t.Errorf("%d findings, %d left out: %+v", len(got), status.LeftOut, status)
	}
	if !strings.HasPrefix(got[0], "check c000 n") || !strings.HasPrefix(got[maxFindings/2-1],
		"check c024 n") {
		t.Errorf("checks %q", got[:maxFindings/2])
	}
	if !strings.HasPrefix(status.Findings[maxFindings/2].Body, "75 é") ||
		!strings.HasPrefix(status.Findings[maxFindings-1].Body, "99 é") {
		t.Errorf("comments from %.10s to %.10s", status.Findings[maxFindings/2].Body,
			status.Findings[maxFindings-1].Body)
	}
	if strings.Contains(status.Findings[0].Body, "javascript") {
		t.Errorf("an address that is not one: %q", status.Findings[0].Body)
	}
}

func TestOwnComments(t *testing.T) {
	for _, tt := range []struct {
		author, login string
		want          bool
	}{
		{"ann", "ann", true}, {"ann", "ANN", true}, {"ann", "anna", false}, {"", "", false},
		{"ann", "", false}, {"ann", "signalbox", true}, {"ann", "signalbox[bot]", true},
		{"app/helper", "helper", true}, {"app/helper", "helper[bot]", true},
		{"helper", "helper[bot]", false},
	} {
		if got := sameLogin(tt.author, tt.login); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
}

// Reviews by the person whose login opens the request count; comments, and those of programs, do not.
func TestOwnReviews(t *testing.T) {
	for _, tt := range []struct {
		kind, author, login string
		want                bool
	}{
		{kindReview, "ann", "ann", true}, {kindLine, "ann", "Ann", true},
		{kindComment, "ann", "ann", false}, {kindLine, "ann", "bob", false},
		{kindLine, "app/helper", "app/helper", false}, {kindLine, "helper[bot]", "helper[bot]", false},
		{kindReview, "signalbox", "signalbox", false},
	} {
		c := comment{kind: tt.kind, author: tt.login}
		if got := c.ownReview(tt.author); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
}

var findingID = regexp.MustCompile(`^[a-z]+-[0-9a-f]{32}$`)

// checkFindings checks what must hold for findings, whatever others wrote.
func checkFindings(t testing.TB, s Status) {
	t.Helper()
	known := map[string]bool{}
	if len(s.Findings) > maxFindings {
		t.Errorf("%d findings", len(s.Findings))
	}
	for _, f := range s.Findings {
		if known[f.ID] || !findingID.MatchString(f.ID) {
			t.Errorf("id %q", f.ID)
		}
		known[f.ID] = true
		if f.Summary == "" || utf8.RuneCountInString(f.Summary) > maxSummary ||
			strings.ContainsAny(f.Summary, "\n\t") || len(f.Body) > maxBody+maxURL+maxLog {
			t.Errorf("summary %q, a body of %d bytes", f.Summary, len(f.Body))
		}
		if strings.Contains(f.Summary+f.Body, "<!--") {
			t.Errorf("a hidden comment in %q, %q", f.Summary, f.Body)
		}
		for _, r := range f.Summary + f.Body {
			if r != '\n' && r != '\t' &&
				(unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Errorf("%U in %q, %q", r, f.Summary, f.Body)
			}
		}
	}
}

func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"gh-view-open.json", "gh-view-merged.json", "gh-lines.json",
		"glab-open.json", "glab-discussions.json", "glab-jobs.json"} {
		source, err := os.ReadFile("testdata/" + name)
		must.Succeed(f, err)
		f.Add(string(source))
	}
	f.Add(`{"head":"` + head + `","state":"open","findings":[{"id":"1","summary":"a","body":"b"}]}`)
	f.Fuzz(func(t *testing.T, source string) {
		var all []Status
		if s, err := readCommandStatus(source); err == nil {
			all = append(all, s)
		}
		lines, _ := decodeLists[ghLine]("x", source)
		if pr, s, err := readGHStatus(source); err == nil || lines != nil {
			var checks []Finding
			failed, _ := failedGHChecks(pr.Checks)
			for _, c := range failed {
				checks = append(checks, failedCheck(head, c.title(), c.result(), c.Link, ""))
			}
			if comments, err := pr.findings(lines); err == nil {
				s.add(checks, inOrder(comments))
				all = append(all, s)
			}
		}
		threads, _ := decodeLists[glabDiscussion]("x", source)
		if mr, s, err := readGLabStatus(source); err == nil || threads != nil {
			if comments, err := mr.findings(threads); err == nil {
				s.add(nil, inOrder(comments))
				all = append(all, s)
			}
		}
		for _, s := range all {
			checkFindings(t, s)
		}
	})
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// Only an issue of the repository that the branch is pushed to is closed.
func TestIssueLine(t *testing.T) {
	const issue = "https://github.com/ann/shop/issues/12"
	for remote, want := range map[string]string{
		"https://github.com/ann/shop.git":        "Closes #12",
		"git@github.com:Ann/Shop.git":            "Closes #12",
		"ssh://git@ssh.github.com:443/ann/shop":  "Closes #12",
		"https://ann:secret@github.com/ann/shop": "Closes #12",
		"https://github.com/bob/shop.git":        "For ann/shop#12",
		"https://github.com/ann/shop2":           "For ann/shop#12",
		"https://github.example.com/ann/shop":    "For " + issue,
		"https://gitlab.com/ann/shop.git":        "For " + issue,
		"https://github.com:8443/ann/shop":       "For " + issue,
		"/srv/shop.git":                          "For " + issue,
		"":                                       "For " + issue,
	} {
		if got := IssueLine(remote, issue); got != want {
			t.Errorf("%s: %q, want %q", remote, got, want)
		}
	}
	for _, issue := range []string{"", "https://github.com/ann/shop/pull/12",
		"https://github.com/ann/shop/issues/12/closes/13", "https://github.com/ann/shop/issues/0",
		"https://github.com/ann/shop/issues/12\nCloses #13", "https://evil@github.com/ann/shop/issues/1",
		"https://github.com/ann/shop/issues/x", "javascript:alert(1)"} {
		if got := IssueLine("https://github.com/ann/shop", issue); got != "" {
			t.Errorf("%q: %q", issue, got)
		}
	}
}
