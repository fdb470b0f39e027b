package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/oracle"
	"signalbox/internal/serve/access"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/command"
	"signalbox/internal/tree/luatree"
	"signalbox/internal/tree/runner"
	"signalbox/internal/tree/treeruns"
)

// turnTree asks a model twice. Its texts are hostile.
const turnTree = `return BT.tree("turns", { description = "pwned <script>alert(1)</script>",
    blackboard = { count = { type = "int", default = 0 }, note = { type = "string", default = "pwned <img src=x onerror=alert(2)>" } },
    root = BT.repeat_times(2, BT.sequence("turn <b>&\"", {
        BT.script("count", function(t) t:set("count", t:get("count") + 1) end),
        BT.llm_call("think", { prompt = "go" }),
        BT.action("parse", { fn = "parse_response_signal" }),
        BT.action("update", { fn = "update_signal_state" }),
        BT.action("log", { fn = "log_signal" }),
        BT.wait(0),
    })),
})`

const reply = `Text before. <signal type="need_turn"><reason>pwned <i>markup</i></reason><confidence>0.75</confidence></signal> Text after.`

// record runs a tree and returns its journal.
func record(t *testing.T, name, id, source string) string {
	t.Helper()
	file, err := luatree.Load(t.Context(), name, []byte(source),
		&luatree.Options{Functions: oracle.Functions()})
	must.Succeed(t, err)
	defer file.Close()
	services := &tree.Registry{}
	services.Add(tree.LLMCall, "",
		command.Replies([]string{reply, "pwned <script>alert(3)</script>"}))
	journal := filepath.Join(t.TempDir(), "run.journal")
	run, err := runner.Do(t.Context(), file.Tree(),
		&runner.Options{Run: tree.RunOptions{ID: id, Services: services}, Journal: journal,
			File: name, Source: source})
	if err != nil || run.Status() != tree.Success {
		t.Fatalf("the run ended as %v: %v", run.Status(), err)
	}
	return journal
}

// noteRun records a run of turnTree, as signalbox tree run does.
func (s *stage) noteRun(t *testing.T, id string) string {
	t.Helper()
	journal := record(t, "turns.lua", id, turnTree)
	must.Succeed(t, treeruns.Note(s.box.Dir, id, journal))
	return journal
}

// viewer returns a client that may read, and nothing else.
func (s *stage) viewer() *http.Client {
	if s.reads == nil {
		s.reads = s.logIn(access.Read)
	}
	return s.reads
}

func (s *stage) mustGet(t *testing.T, path string) string {
	t.Helper()
	status, _, page := s.get(s.viewer(), path)
	if status != http.StatusOK {
		t.Fatalf("%s: %d\n%s", path, status, page)
	}
	return page
}

// TestTreeSteps follows the links from the first tick to the last: what changed, the reply and its
// signal are on the right pages.
func TestTreeSteps(t *testing.T) {
	s := newStage(t)
	s.noteRun(t, "T-1")
	if list := s.mustGet(t, "/trees"); !strings.Contains(list, `<a href="/trees/T-1">`) ||
		!strings.Contains(list, "succeeded") {
		t.Errorf("the list does not have the run:\n%s", list)
	}
	next := regexp.MustCompile(`href="(/trees/T-1\?tick=\d+)" rel="next"`)
	path, pages := "/trees/T-1?tick=1", []string{}
	for {
		page := s.mustGet(t, path)
		pages = append(pages, page)
		if want := fmt.Sprintf("<strong>tick %d</strong>", len(pages)); !strings.Contains(page,
			want) {
			t.Fatalf("%s does not contain %s", path, want)
		}
		link := next.FindStringSubmatch(page)
		if link == nil {
			break
		}
		path = link[1]
	}
	if len(pages) < 4 || !strings.Contains(s.mustGet(t, "/trees/T-1"),
		fmt.Sprintf("<strong>tick %d</strong> of %[1]d", len(pages))) {
		t.Fatalf("there are %d steps", len(pages))
	}
	changed := regexp.MustCompile(`<tr class="changed"><td><code><bdi>([^<]+)`)
	keys := func(page string) (all []string) {
		for _, match := range changed.FindAllStringSubmatch(page, -1) {
			all = append(all, match[1])
		}
		return all
	}
	first, second := pages[0], pages[1]
	if got := strings.Join(keys(first), " "); !strings.Contains(got, "count") ||
		strings.Contains(got, "llm_response") {
		t.Errorf("the first tick changes %s", got)
	}
	if !strings.Contains(first, "Waiting for the model") || strings.Contains(first, "<mark>") {
		t.Error("the first page does not wait for the reply")
	}
	if got := strings.Join(keys(second), " "); !strings.Contains(got, "llm_response") ||
		!strings.Contains(got, "last_signal") || strings.Contains(got, "count ") {
		t.Errorf("the second tick changes %s", got)
	}
	for _, want := range []string{
		// where it was
		"Text before. <mark>&lt;signal type=&#34;need_turn&#34;",
		"&lt;/signal&gt;</mark> Text after.",
		"confidence 0.75", "pwned &lt;i&gt;markup", `class="noted"`, `class="leaf success"`,
		`rel="prev"`,
	} {
		if !strings.Contains(second, want) {
			t.Errorf("the second page does not contain %q:\n%s", want, second)
		}
	}
	last := pages[len(pages)-1]
	if strings.Contains(last, `rel="next"`) || !strings.Contains(last, "Reply 2") ||
		!strings.Contains(last, ">Reply before</a>") {
		t.Error("the last page has a link to the next, or not the last reply")
	}
	for _, bad := range []string{"0x", "-1", "99", "99999999999999999999"} {
		if status, _, page := s.get(s.viewer(), "/trees/T-1?tick="+
			bad); status != http.StatusNotFound || strings.Contains(page, "tick-picture") {
			t.Errorf("tick %s: %d", bad, status)
		}
	}
	if status, _, _ := s.get(s.viewer(), "/trees/T-2"); status != http.StatusNotFound {
		t.Errorf("another run: %d", status)
	}
}

// TestTreeTextStaysText: names, values, replies and signals of trees are text, and nothing in the
// pages violates the content policy.
func TestTreeTextStaysText(t *testing.T) {
	s := newStage(t)
	s.noteRun(t, "T-1")
	file := filepath.Join(t.TempDir(), "turns.lua")
	must.Succeed(t, os.WriteFile(file, []byte(turnTree), 0o600))
	s.box.Config.Agents = map[string]config.Agent{"worker": {Tree: file}}
	for _, path := range []string{"/trees", "/trees/agents/worker", "/trees/T-1",
		"/trees/T-1?tick=1", "/trees/T-1?tick=2"} {
		page := s.mustGet(t, path)
		main := page[strings.Index(page, "<main"):]
		for _, bad := range []string{"<script", "<img", "<i>", "<b>", "<style", "style=",
			"onerror=alert(2)>\"", "\x1b"} {
			if strings.Contains(main, bad) {
				t.Errorf("%s contains %q", path, bad)
			}
		}
		if path != "/trees" && !strings.Contains(main, "turn &lt;b&gt;&amp;&#34;") {
			t.Errorf("%s does not show the name of the node", path)
		}
	}
}

// TestTreePages: the list and the navigation have what the configuration and the box have.
func TestTreePages(t *testing.T) {
	s := newStage(t)
	if page := s.mustGet(t, "/trees"); !strings.Contains(page,
		"signalbox tree run FILE.lua --journal") || strings.Contains(page, `<a href="/trees"`) {
		t.Errorf("without trees:\n%s", page)
	}
	file := filepath.Join(t.TempDir(), "turns.lua")
	must.Succeed(t, os.WriteFile(file, []byte(turnTree), 0o600))
	s.box.Config.Agents = map[string]config.Agent{"worker": {Tree: file},
		"claude": {Preset: "claude"}}
	page := s.mustGet(t, "/trees")
	if !strings.Contains(page, `<a href="/trees" aria-current="page">Trees`) ||
		!strings.Contains(page, `<a href="/trees/agents/worker">`) ||
		strings.Contains(page, "/trees/agents/claude") {
		t.Errorf("with a tree:\n%s", page)
	}
	if page := s.mustGet(t, "/trees/agents/worker"); !strings.Contains(page,
		"It is not running.") || !strings.Contains(page, `<svg xmlns`) ||
		strings.Contains(page, "Blackboard") {
		t.Errorf("the page of the tree:\n%s", page)
	}
	for _, path := range []string{"/trees/agents/claude", "/trees/agents/none", "/trees/oracle",
		"/trees/subagents/x"} {
		if status, _, _ := s.get(s.viewer(), path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	s.box.Config.Models = map[string]config.Model{"m": {}}
	if page := s.mustGet(t, "/trees/oracle"); !strings.Contains(page, "<svg xmlns") {
		t.Error("the tree of the oracle is not drawn")
	}
	_, header, css := s.get(s.viewer(), "/static/tree-picture.css")
	if header.Get("Content-Type") != "text/css; charset=utf-8" ||
		!strings.Contains(css, ".bt .paper{fill:var(--panel)}") {
		t.Errorf("the style sheet: %s\n%s", header, css)
	}
}

// TestTreeLive: while a run is active, the page of its tree shows it, and the page of the run
// follows it.
func TestTreeLive(t *testing.T) {
	s := newStage(t)
	file := filepath.Join(t.TempDir(), "turns.lua")
	must.Succeed(t, os.WriteFile(file, []byte(turnTree), 0o600))
	s.box.Config.Agents = map[string]config.Agent{"worker": {Tree: file}}
	loaded, err := luatree.Load(t.Context(), file, []byte(turnTree),
		&luatree.Options{Functions: oracle.Functions()})
	must.Succeed(t, err)
	defer loaded.Close()
	journal := filepath.Join(t.TempDir(), "run.journal")
	must.Succeed(t, treeruns.Note(s.box.Dir, "T-1", journal))
	asked, answer := make(chan struct{}), make(chan struct{})
	services := &tree.Registry{}
	services.Add(tree.LLMCall, "",
		runner.Model(func(ctx context.Context, _ string, _ runner.Prompt) (string, error) {
			asked <- struct{}{}
			<-answer
			return reply, nil
		}))
	ended := make(chan error)
	go func() {
		_, err := runner.Do(context.Background(), loaded.Tree(),
			&runner.Options{Run: tree.RunOptions{ID: "T-1", Services: services}, Journal: journal,
				File: file, Source: turnTree})
		ended <- err
	}()
	<-asked
	for _, path := range []string{"/trees/agents/worker", "/trees/T-1"} {
		page := s.mustGet(t, path)
		for _, want := range []string{"data-running", "Waiting for the model",
			`class="leaf running live"`, "> running", "tick 1"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s does not contain %q:\n%s", path, want, page)
			}
		}
	}
	if page := s.mustGet(t, "/trees/T-1?tick=1"); strings.Contains(page, "data-running") {
		t.Error("the page of a tick follows the run")
	}
	answer <- struct{}{}
	<-asked
	if page := s.mustGet(t, "/trees/T-1"); !strings.Contains(page, "Reply 1") ||
		!strings.Contains(page, "Waiting for the model") {
		t.Errorf("after the first reply:\n%s", page)
	}
	answer <- struct{}{}
	must.Succeed(t, <-ended)
	page := s.mustGet(t, "/trees/T-1")
	if strings.Contains(page, "data-running") || !strings.Contains(page, "succeeded") ||
		!strings.Contains(page, "Reply 2") {
		t.Errorf("after the end:\n%s", page)
	}
	if page := s.mustGet(t, "/trees/agents/worker"); !strings.Contains(page,
		"It is not running.") || !strings.Contains(page, `<a href="/trees/T-1">`) {
		t.Errorf("the page of the tree, after the end:\n%s", page)
	}
}

// TestDamagedTreeRuns: journals that were changed, are not journals, or are gone are errors of
// their own, not of the pages.
func TestDamagedTreeRuns(t *testing.T) {
	s := newStage(t)
	journal := s.noteRun(t, "T-1")
	text, err := os.ReadFile(journal)
	must.Succeed(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	lines[2] = strings.Replace(lines[2], "RUNNING", "SUCCESS", 1)
	must.Succeed(t, os.WriteFile(journal, []byte(strings.Join(lines, "")), 0o600))
	if page := s.mustGet(t, "/trees/T-1"); !strings.Contains(page,
		"<strong>tick 1</strong> of 1") || !strings.Contains(page, "the line was changed") {
		t.Errorf("a changed line:\n%s", page)
	}
	must.Succeed(t, os.WriteFile(journal, []byte("secret\n"), 0o600))
	if page := s.mustGet(t, "/trees"); !strings.Contains(page, "not the journal of a tree") {
		t.Errorf("the list:\n%s", page)
	}
	if status, _, page := s.get(s.viewer(), "/trees/T-1"); status == http.StatusOK ||
		strings.Contains(page, "secret") {
		t.Errorf("not a journal: %d\n%s", status, page)
	}
	must.Succeed(t, os.Remove(journal))
	if status, _, _ := s.get(s.viewer(), "/trees/T-1"); status != http.StatusNotFound {
		t.Errorf("without its journal: %d", status)
	}
}

// TestTreesArePrivate: without a login, the pages show nothing, also if other pages can be read
// without one.
func TestTreesArePrivate(t *testing.T) {
	s := newStage(t)
	s.allowAnonymousReads()
	s.noteRun(t, "T-1")
	for _, path := range []string{"/trees", "/trees/T-1", "/trees/T-1?tick=1", "/trees/oracle",
		"/trees/agents/worker"} {
		if status, _, page := s.get(http.DefaultClient, path); status != http.StatusUnauthorized ||
			strings.Contains(page, "turns") {
			t.Errorf("%s: %d\n%s", path, status, page)
		}
	}
	// Conversations with the oracle are for those who can ask it.
	text, err := os.ReadFile(record(t, "turns.lua", "O-1.1.1", turnTree))
	must.Succeed(t, err)
	folder := filepath.Join(s.box.Dir, treeruns.OracleFolder, "O-1")
	must.Succeed(t, os.MkdirAll(folder, 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(folder, "1-1.journal"), text, 0o600))
	for scope, want := range map[access.Scope]int{access.Read: http.StatusForbidden,
		access.Answer: http.StatusForbidden, access.Operate: http.StatusOK} {
		if status, _, page := s.get(s.logIn(scope), "/trees/O-1.1.1?tick=2"); status != want ||
			strings.Contains(page, "Text before") != (want == http.StatusOK) {
			t.Errorf("with scope %s: %d\n%s", scope, status, page)
		}
	}
	if _, _, page := s.get(http.DefaultClient, "/"); strings.Contains(page, `href="/trees"`) {
		t.Error("a visitor has a link to the trees")
	}
	if page := s.mustGet(t, "/"); !strings.Contains(page, `href="/trees"`) {
		t.Error("there is no link to the trees")
	}
}
