package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/serve/access"
	"signalbox/internal/testkit/must"
)

// follow gets a page with the redirects and refreshes that lead to it, and returns its address, and
// how many pages it took.
func (s *stage) follow(path string) (address, body string, pages int) {
	s.t.Helper()
	for client := s.logIn(access.Read); ; pages++ {
		status, header, body := s.get(client, path)
		switch {
		case pages > 100:
			s.t.Fatalf("%s leads nowhere", path)
		case status == http.StatusSeeOther:
			path = header.Get("Location")
		case header.Get("Refresh") != "":
			path = strings.TrimPrefix(header.Get("Refresh"), "0;url=")
		case status != http.StatusOK:
			s.t.Fatalf("%s: %d %s", path, status, body)
		default:
			return path, body, pages
		}
	}
}

var line = regexp.MustCompile(
	`(?s)<li class="line ([^"]*)" data-from="(\d+)" data-to="(\d+)">.*?<span class="words">(.*?)</span></li>`)

// shownLines returns the text of the lines of a page.
func shownLines(body string) (lines []string) {
	for _, m := range line.FindAllStringSubmatch(body, -1) {
		lines = append(lines, html.UnescapeString(tagOf.ReplaceAllString(m[4], "")))
	}
	return lines
}

// TestTranscriptPieces reads a blob of many pieces, in both directions: nothing is
// lost, and every answer is small.
func TestTranscriptPieces(t *testing.T) {
	s := newStage(t)
	var text bytes.Buffer
	for n := 0; text.Len() < 600<<10; n++ {
		fmt.Fprintf(&text, "line %d %s\n", n, strings.Repeat("word ", n%50))
	}
	path := "/blob/" + s.blob(text.String()).String()
	attribute := func(body, name string) string {
		m := regexp.MustCompile(`class="piece"[^>]* data-` + name +
			`="(\d+)"`).FindStringSubmatch(body)
		if m == nil {
			t.Fatalf("no piece in %.300s", body)
		}
		return m[1]
	}
	for _, raw := range []string{"", "raw=1&"} {
		var all []string
		for at := "0"; at != fmt.Sprint(text.Len()); {
			status, _, body := s.get(s.viewer(), path+"/piece?"+raw+"at="+at)
			if status != 200 || len(body) > 1<<20 || strings.Contains(body, "<html") {
				t.Fatalf("at %s: status %d, %d bytes", at, status, len(body))
			}
			all = append(all, shownLines(body)...)
			at = attribute(body, "to")
		}
		if got := strings.Join(all, "\n") + "\n"; got != text.String() {
			t.Fatalf("raw %q: the pieces are not the text: %.100q", raw, got)
		}
		var back []string
		for before := fmt.Sprint(text.Len()); before != "0"; {
			_, _, body := s.get(s.viewer(), path+"/piece?"+raw+"before="+before)
			back = append(shownLines(body), back...)
			before = attribute(body, "from")
		}
		if strings.Join(back, "\n") != strings.Join(all, "\n") {
			t.Fatalf("raw %q: read backwards, the pieces are others", raw)
		}
	}
}

// TestTranscriptSearch goes from hit to hit and from signal to signal, in steps that are bounded.
func TestTranscriptSearch(t *testing.T) {
	s := newStage(t)
	filler := strings.Repeat("nothing to see here, move on\n", 3<<20/4)
	text := "READY_FOR_REVIEW: T9\n" + filler + `he said "Zürich 🚂"` + "\n" + filler +
		"READY_FOR_REVIEW: T9\nhe SAID \\\"Z\\u00fcrich \\ud83d\\ude82\\\"\n"
	path := "/blob/" + s.blob(text).String()
	first, last := strings.Index(text, `"Zürich`), strings.LastIndex(text, `\"Z`)
	for _, step := range []struct {
		query string
		want  int
		steps int
	}{
		{"find=%22Z%C3%BCrich%20%F0%9F%9A%82&go=next&at=-1", first, 2},
		{fmt.Sprintf("find=%%22z%%C3%%BCrich%%20%%F0%%9F%%9A%%82&go=next&at=%d", first), last, 2},
		{fmt.Sprintf("find=%%22Z%%C3%%BCrich&go=previous&at=%d", last), first, 2},
		{"go=next&at=-1", 0, 1},
		{"go=next&at=0", strings.LastIndex(text, "READY"), 1},
		{fmt.Sprintf("go=previous&at=%d", strings.LastIndex(text, "READY")), 0, 1},
	} {
		address, body, steps := s.follow(path + "?" + step.query)
		if !strings.Contains(address, fmt.Sprintf("at=%d", step.want)) ||
			!strings.Contains(body, " here\"") {
			t.Errorf("%s leads to %s, not to %d", step.query, address, step.want)
		}
		if steps < step.steps {
			t.Errorf("%s took %d steps, so it read too much at once", step.query, steps)
		}
	}
	for _, query := range []string{"find=absent&go=next&at=-1",
		fmt.Sprintf("go=next&at=%d", len(text)), "find=nothing&go=previous&at=0"} {
		if _, body, _ := s.follow(path + "?" + query); !strings.Contains(body,
			"There is no other") {
			t.Errorf("%s finds something", query)
		}
	}
}

// TestEventsLeadToTheirBytes follows the links of events to the transcript.
func TestEventsLeadToTheirBytes(t *testing.T) {
	s := newStage(t)
	s.start(signalbox.RoleDeveloper, "T3")
	a := s.held["T3"]
	said := "Zürich\nCHECKPOINT: T3\n\n```\nREVIEW_PASSED: T3\n```\nI may say READY_FOR_REVIEW: T3 now.\n"
	text := `{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"` +
		strings.ReplaceAll(said, "\n", `\n`) + `READY_FOR_REVIEW: T3"}}` + "\n"
	s.do(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch, Signal: "ready_for_review",
		Named: "T3", Offset: int64(len(said)), Blob: s.blob(text),
		Turn: &rules.Turn{Output: s.blob(text), Bytes: int64(len(text))},
		Refused: []rules.RefusedSignal{{Signal: "review_passed", Reason: signalbox.ReasonFenced,
			Times: 1}}})
	// The lease is over, which the transcript does not show.
	late := rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch, Signal: "checkpoint",
		Named: "T3", Blob: s.blob(text)}
	if _, err := s.box.Engine.Do(t.Context(), late); err == nil {
		t.Error("a late signal is accepted")
	}
	places := map[string]string{"ready_for_review": "READY_FOR_REVIEW: T3\"",
		"review_passed": "REVIEW_PASSED", "checkpoint": "CHECKPOINT"}
	events, err := s.box.Journal.Read(t.Context(), 0, 1000)
	must.Succeed(t, err)
	seen := 0
	for _, e := range events {
		if e.Work != "T3" || e.Session != a.Session {
			continue
		}
		var about struct{ Signal, Said string }
		switch e.Type {
		case rules.TypeSignalHeard, rules.TypeSignalRefused:
			must.Succeed(t, json.Unmarshal(e.Data, &about))
		case rules.TypeAgentTurnEnded:
		default:
			continue
		}
		seen++
		link := fmt.Sprintf("/work/T3/log?event=%d", e.Seq)
		if _, _, page := s.get(s.viewer(),
			fmt.Sprintf("/ledger/%d", e.Seq)); !strings.Contains(page, html.EscapeString(link)) {
			t.Errorf("the page of %s has no link to the transcript", e.Type)
		}
		address, body, _ := s.follow(link)
		if name := about.Signal + about.Said; name != "" {
			if want := fmt.Sprintf("at=%d&",
				strings.Index(text, places[name])); !strings.Contains(address+"&", want) {
				t.Errorf("%s of %s leads to %s, not to %s", e.Type, name, address, want)
			}
		}
		if !strings.Contains(body, "✔ READY_FOR_REVIEW: T3") {
			t.Errorf("%s does not lead to the transcript", e.Type)
		}
	}
	if seen != 4 {
		t.Errorf("%d events were seen, not 4", seen)
	}
}

// TestLiveTranscriptGrows reads the output of an agent that is running.
func TestLiveTranscriptGrows(t *testing.T) {
	s := newStage(t)
	s.start(signalbox.RoleDeveloper, "T3")
	file := agent.LiveTranscript(s.box.Dir, s.held["T3"].Session)
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
	text := ""
	for _, more := range []string{"first", " words\nand ", "more\nCHECKPOINT: T3\n", "and on\n"} {
		text += more
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		_, _, body := s.get(s.viewer(), "/work/T3/log")
		if got := strings.Join(shownLines(body), "\n"); strings.TrimSpace(strings.ReplaceAll(got,
			"✔ ", "")) != strings.TrimSpace(text) || !strings.Contains(body, "data-running") {
			t.Errorf("after %q: %q", more, got)
		}
	}
	if _, _, body := s.get(s.viewer(), "/work/T3/log"); strings.Count(body, "<mark") != 1 ||
		!strings.Contains(body, "✔ CHECKPOINT: T3") {
		t.Errorf("the signal is not marked: %v", shownLines(body))
	}
}

// TestDamagedTranscript checks that a transcript whose bytes were changed is not shown for long.
func TestDamagedTranscript(t *testing.T) {
	s := newStage(t)
	digest := s.blob("the truth\n").String()
	must.Succeed(t, os.WriteFile(filepath.Join(s.box.Dir, "blobs", digest[:2], digest[2:]),
		[]byte("something else\n"), 0o600))
	if status, _, body := s.get(s.viewer(), "/blob/"+digest); status == 200 ||
		strings.Contains(body, "something else") {
		t.Errorf("status %d: %s", status, body)
	}
}

// TestTranscriptOfNothing asks for what is not there.
func TestTranscriptOfNothing(t *testing.T) {
	s := newStage(t)
	for _, path := range []string{"/blob/x", "/blob/" + strings.Repeat("0", 64), "/blob/" +
		strings.Repeat("0", 64) + "/piece", "/work/T1/log?event=999999", "/work/T1/log?event=1",
		"/work/T1/log?event=x", "/work/none/log/piece"} {
		if status, _, _ := s.get(s.viewer(), path); status != http.StatusNotFound {
			t.Errorf("%s: status %d", path, status)
		}
	}
	for _, query := range []string{"at=99999999999999999999", "at=-5", "at=5000000000",
		"session=99&turn=-1", "before=x", "go=x", "find=%ff&go=next", "raw&at=0",
		"session=0&turn=7"} {
		if status, _, _ := s.get(s.viewer(), "/work/T1/log?"+query); status != 200 &&
			status != http.StatusSeeOther {
			t.Errorf("%s: status %d", query, status)
		}
		if status, _, _ := s.get(s.viewer(), "/work/T1/log/piece?"+query); status != 200 {
			t.Errorf("piece %s: status %d", query, status)
		}
	}
}
