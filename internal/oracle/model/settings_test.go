package model

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// requests returns a handler that passes on the bodies of requests before h answers them.
func requests(h http.Handler, bodies *[]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a body that is cut fails the test below
		*bodies = append(*bodies, string(body))
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		h.ServeHTTP(w, r)
	})
}

// TestNameOfTheTokenLimit checks which name a request has for the longest reply, and that it can be
// set for a server.
func TestNameOfTheTokenLimit(t *testing.T) {
	for _, tt := range []struct {
		provider Provider
		name     LimitName
		want     string // the fields that begin with max_
	}{
		{OpenAI, "", `{"max_tokens":77}`},
		{OpenAI, LimitMaxTokens, `{"max_tokens":77}`},
		{OpenAI, LimitMaxCompletionTokens, `{"max_completion_tokens":77}`},
		{OpenAI, LimitNone, `{}`},
		{Anthropic, "", `{"max_tokens":77}`},
		{Anthropic, LimitMaxTokens, `{"max_tokens":77}`},
	} {
		var bodies []string
		c, _ := serve(t, tt.provider, requests(newServer(t, play(say("Hello."))), &bodies),
			&Options{MaxTokens: 77, LimitName: tt.name})
		reply(t, c, ask("hello"))
		var all map[string]any
		if len(bodies) != 1 || json.Unmarshal([]byte(bodies[0]), &all) != nil {
			t.Fatalf("requests %q", bodies)
		}
		limits := map[string]any{}
		for name, v := range all {
			if strings.HasPrefix(name, "max_") {
				limits[name] = v
			}
		}
		if got, _ := json.Marshal(limits); string(got) != tt.want {
			t.Errorf("%s with %q: %s, want %s", tt.provider, tt.name, got, tt.want)
		}
	}
	if c, err := New(OpenAI, "m", &Options{Key: "k"}); err != nil ||
		c.opts.LimitName != LimitMaxCompletionTokens {
		t.Errorf("OpenAI's own server: %v", err)
	}
	for _, opts := range []struct {
		provider Provider
		name     LimitName
	}{{OpenAI, "max"}, {Anthropic, LimitNone}, {Anthropic, LimitMaxCompletionTokens}} {
		if _, err := New(opts.provider, "m", &Options{Key: "k", LimitName: opts.name}); err == nil {
			t.Errorf("%s accepts %q", opts.provider, opts.name)
		}
	}
}

func TestTemperature(t *testing.T) {
	zero, warm := 0.0, 0.7
	for _, p := range []Provider{OpenAI, Anthropic} {
		for want, temperature := range map[string]*float64{"": nil, `"temperature":0,`: &zero,
			`"temperature":0.7,`: &warm} {
			var bodies []string
			c, _ := serve(t, p, requests(newServer(t, play(say("Hello."))), &bodies), nil)
			request := ask("hello")
			request.Temperature = temperature
			reply(t, c, request)
			if len(bodies) != 1 || !strings.Contains(bodies[0], want) ||
				strings.Contains(bodies[0], "temperature") != (want != "") {
				t.Errorf("%s: requests %q, want %s", p, bodies, want)
			}
		}
	}
}
