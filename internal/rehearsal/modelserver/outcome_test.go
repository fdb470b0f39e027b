package modelserver

import (
	"net/http"
	"strings"
	"testing"
)

// TestOutcomes checks that outcomes name the conversation and mention turns that are used up.
func TestOutcomes(t *testing.T) {
	r := newRig(t, `{"conversations":[
		{"name":"greeting","match":{"user":"hello"},"turns":[{"parts":[{"text":"Hello."}],"faults":[{"kind":"status","status":429}]}]},
		{"match":{"user":"bye"},"turns":[{"parts":[{"text":"Bye."}]}]}],
		"otherwise":{"parts":[{"text":"I only greet."}]}}`)
	for _, tt := range []struct{ question, want string }{
		{"hello", `"greeting".turns[0]: fault status`},
		{"hello", `"greeting".turns[0]`},
		{"hello", `otherwise, since "greeting".turns[0] is used up`},
		{"bye", "conversations[1].turns[0]"},
		{"bye", "otherwise, since conversations[1].turns[0] is used up"},
		{"what?", "otherwise"},
	} {
		path, body := ask("chat", tt.question, false)
		r.do(t, http.MethodPost, path, body)
		requests := r.Requests()
		if got := requests[len(requests)-1].Outcome; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.question, got, tt.want)
		}
	}
}

// TestEmptyText plays a model that answers with an empty text.
func TestEmptyText(t *testing.T) {
	for _, protocol := range protocols {
		for _, stream := range []bool{false, true} {
			r := newRig(t, turns(`{"parts":[{"text":""}]}`))
			path, body := ask(protocol, "hello", stream)
			if got := r.do(t, http.MethodPost, path, body); got.status != http.StatusOK ||
				got.err != nil || strings.TrimSpace(got.body) == "" {
				t.Errorf("%s, streamed %t: %+v", protocol, stream, got)
			}
		}
	}
}
