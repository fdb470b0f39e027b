package dashboard

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/testkit/must"
)

// TestEveryRequestIsAnsweredInTheInbox shows a question of every kind: each has a form, with a
// button for each answer that has a meaning.
func TestEveryRequestIsAnsweredInTheInbox(t *testing.T) {
	s := newStage(t)
	now := time.Now()
	for _, kind := range rules.QuestionKinds() {
		r := inspect.NewRequest(&rules.Question{ID: "Q-7", Kind: kind, Text: onlyText, Asked: now})
		var page bytes.Buffer
		f := frame{MayAnswer: true, Data: inboxPage{Status: &inspect.Status{},
			Requests: []request{{Request: r}}}}
		must.Succeed(t, s.dashboard.pages["inbox"].ExecuteTemplate(&page, "content", f))
		for _, want := range append([]string{`id="request-Q-7"`, "pwned",
			`<textarea id="answer-Q-7"`, `class="request ` + string(r.Kind) + `"`}, r.Answers...) {
			if !strings.Contains(page.String(), want) {
				t.Errorf("%s: the inbox does not have %q:\n%s", kind, want, &page)
			}
		}
		if forms := strings.Count(page.String(),
			`action="/questions/Q-7/answer"`); forms != 1+len(r.Answers) {
			t.Errorf("%s: %d forms for %q", kind, forms, r.Answers)
		}
	}
}

// What all plans used does not count as that of the current one.
func TestInboxSpendingOfSeveralPlans(t *testing.T) {
	s := newStage(t)
	for plans, want := range map[int]string{1: "5 tokens.", 2: "5 tokens in this box."} {
		status := &inspect.Status{Plans: []inspect.Plan{{Title: "Second", Current: true}}}
		status.Spending.Plans, status.Spending.Tokens = plans, 5
		var page bytes.Buffer
		must.Succeed(t, s.dashboard.pages["inbox"].ExecuteTemplate(&page, "content",
			frame{Data: inboxPage{Status: status}}))
		if !strings.Contains(page.String(), want) {
			t.Errorf("%d plans: the page does not have %q:\n%s", plans, want, &page)
		}
	}
}
