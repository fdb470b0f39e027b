package modelserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// gemini is Google's generateContent protocol.
type gemini struct {
	// model and stream are in the path of the request, not in its body.
	model    string
	stream   bool
	counting bool
}

func (gemini) name() string { return "gemini" }

func (gemini) key(r *http.Request) string {
	if key := r.Header.Get("X-Goog-Api-Key"); key != "" {
		return key
	}
	if key := r.URL.Query().Get("key"); key != "" {
		return key
	}
	return bearer(r)
}

func (gemini) wrongKey() *refusal {
	return &refusal{status: http.StatusBadRequest, code: "API_KEY_INVALID",
		message: "API key not valid. Please pass a valid API key."}
}

type geminiErrorBody struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Status  string         `json:"status"`
	Details []geminiDetail `json:"details,omitempty"`
}

type geminiDetail struct {
	Type       string `json:"@type"`
	Reason     string `json:"reason,omitempty"`
	Domain     string `json:"domain,omitempty"`
	RetryDelay string `json:"retryDelay,omitempty"`
}

func (gemini) failure(f *refusal, _ string) any {
	status := map[int]string{401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
		429: "RESOURCE_EXHAUSTED",
		503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}[f.status]
	if status == "" && f.status >= 500 {
		status = "INTERNAL"
	}
	body := geminiErrorBody{Code: f.status, Message: f.message, Status: cmp.Or(status, "INVALID_ARGUMENT")}
	if f.code == "API_KEY_INVALID" || f.code == "script_unmatched" {
		body.Details = append(body.Details,
			geminiDetail{Type: "type.googleapis.com/google.rpc.ErrorInfo",
				Reason: strings.ToUpper(f.code), Domain: "googleapis.com"})
	}
	if f.retryAfter > 0 {
		body.Details = append(body.Details,
			geminiDetail{Type: "type.googleapis.com/google.rpc.RetryInfo",
				RetryDelay: fmt.Sprintf("%gs", f.retryAfter.Seconds())})
	}
	return map[string]geminiErrorBody{"error": body}
}

type geminiRequest struct {
	Contents []geminiContent `json:"contents"`
	// The real server accepts both spellings.
	System  *geminiContent `json:"systemInstruction"`
	System2 *geminiContent `json:"system_instruction"`
	Tools   []geminiTools  `json:"tools"`
	// Inner is the request inside a countTokens request.
	Inner *geminiRequest `json:"generateContentRequest"`
}

type geminiTools struct {
	Functions  []geminiFunction `json:"functionDeclarations"`
	Functions2 []geminiFunction `json:"function_declarations"`
}

type geminiFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	JSONSchema  json.RawMessage `json:"parametersJsonSchema"`
}

type geminiContent struct {
	Role  string       `json:"role,omitempty"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text     *string         `json:"text,omitempty"`
	Thought  bool            `json:"thought,omitempty"`
	Call     *geminiCall     `json:"functionCall,omitempty"`
	Response *geminiResponse `json:"functionResponse,omitempty"`
}

type geminiCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type geminiResponse struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response,omitempty"`
}

func (g gemini) parse(body []byte, req *Request) *refusal {
	req.Model, req.Stream = g.model, g.stream
	var in geminiRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return badRequest("Invalid JSON payload received. %v", err)
	}
	if g.counting && in.Inner != nil {
		in = *in.Inner
	}
	if len(in.Contents) == 0 {
		return badRequest("* GenerateContentRequest.contents: contents is not specified\n")
	}
	for _, system := range []*geminiContent{in.System, in.System2} {
		if system != nil {
			req.addSystem(system.text())
		}
	}
	for i, t := range in.Tools {
		for j, f := range append(t.Functions, t.Functions2...) {
			if f.Name == "" {
				return badRequest("* GenerateContentRequest.tools[%d].function_declarations[%d].name: Invalid function name. Must start with "+
					"a letter or an underscore.\n", i, j)
			}
			schema := f.Parameters
			if schema == nil {
				schema = f.JSONSchema
			}
			req.Tools = append(req.Tools, Tool{Name: f.Name, Description: f.Description,
				Schema: schema})
		}
	}
	return in.history(req)
}

// text returns the text of a content without thoughts.
func (c *geminiContent) text() string {
	var texts []string
	for _, p := range c.Parts {
		if p.Text != nil && *p.Text != "" && !p.Thought {
			texts = append(texts, *p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// history validates the contents. A turn with calls must be followed immediately by one result per
// call, with the same names.
func (in *geminiRequest) history(req *Request) *refusal {
	open := &callSet{} // names of calls: older clients send no ids
	for i, c := range in.Contents {
		if len(c.Parts) == 0 {
			return badRequest("* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.\n", i)
		}
		out := Message{Role: RoleUser, Text: c.text()}
		results := Message{Role: RoleTool}
		switch c.Role {
		case "", "user", "function":
		case "model":
			out.Role = RoleAssistant
		default:
			return badRequest("Please use a valid role: user, model.")
		}
		before := open
		open = &callSet{}
		for _, p := range c.Parts {
			if p.Call != nil {
				out.Calls = append(out.Calls, MadeCall{ID: p.Call.ID, Name: p.Call.Name,
					Arguments: string(p.Call.Args)})
				open.add(p.Call.Name)
			}
			if p.Response != nil {
				if !before.remove(p.Response.Name) {
					return badRequest("Please ensure that function response turn comes immediately after a function call turn.")
				}
				results.Results = append(results.Results,
					Result{ID: p.Response.ID, Name: p.Response.Name,
						Text: string(p.Response.Response)})
			}
		}
		if !before.empty() {
			return geminiUnanswered()
		}
		if results.Results != nil {
			req.add(results)
		}
		if results.Results == nil || out.Text != "" || out.Calls != nil {
			req.add(out)
		}
	}
	if !open.empty() {
		return geminiUnanswered()
	}
	return nil
}

func geminiUnanswered() *refusal {
	return badRequest("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
}

type geminiBody struct {
	Candidates []geminiCandidate `json:"candidates"`
	Usage      geminiUsage       `json:"usageMetadata"`
	Model      string            `json:"modelVersion"`
	ID         string            `json:"responseId"`
}

type geminiCandidate struct {
	Content      geminiContent `json:"content"`
	FinishReason string        `json:"finishReason,omitempty"`
	Index        int           `json:"index"`
}

type geminiUsage struct {
	Prompt     int `json:"promptTokenCount"`
	Candidates int `json:"candidatesTokenCount"`
	Total      int `json:"totalTokenCount"`
	Cached     int `json:"cachedContentTokenCount,omitempty"`
	Thoughts   int `json:"thoughtsTokenCount,omitempty"`
}

// newGeminiUsage counts like the protocol: thoughts are not part of the candidates.
func newGeminiUsage(u Usage) geminiUsage {
	return geminiUsage{Prompt: u.Input, Candidates: max(u.Output-u.Reasoning, 0),
		Total: u.Input + max(u.Output, u.Reasoning), Cached: u.Cached, Thoughts: u.Reasoning}
}

func (a *answer) geminiFinish() string {
	return map[string]string{finishStop: "STOP", finishLength: "MAX_TOKENS", finishCalls: "STOP",
		finishFilter: "SAFETY"}[a.finish]
}

func newGeminiBody(a *answer, parts []geminiPart, finish string) geminiBody {
	return geminiBody{Candidates: []geminiCandidate{{Content: geminiContent{Role: "model",
		Parts: parts}, FinishReason: finish}},
		Usage: newGeminiUsage(a.usage), Model: a.model, ID: a.id("resp")}
}

func newGeminiPart(p part, text string) (geminiPart, error) {
	if p.kind != partCall {
		return geminiPart{Text: &text, Thought: p.kind == partReasoning}, nil
	}
	args, err := p.object()
	return geminiPart{Call: &geminiCall{ID: p.id, Name: p.name, Args: args}}, err
}

func (gemini) whole(a *answer) (any, error) {
	parts := []geminiPart{}
	for _, p := range a.parts {
		part, err := newGeminiPart(p, p.whole())
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return newGeminiBody(a, parts, a.geminiFinish()), nil
}

type geminiEncoder struct {
	a   *answer
	out *stream
}

func (gemini) encoder(a *answer, out *stream) encoder { return geminiEncoder{a, out} }

// begin sends nothing: this protocol has no preamble.
func (e geminiEncoder) begin() {}

// piece sends a call with its last piece, because the protocol has no partial arguments.
func (e geminiEncoder) piece(p piece) error {
	if p.kind == partCall && !p.last {
		return nil
	}
	part, err := newGeminiPart(p.part, p.text)
	if err != nil {
		return err
	}
	e.out.event("", newGeminiBody(e.a, []geminiPart{part}, ""))
	return nil
}

func (e geminiEncoder) end() {
	empty := ""
	e.out.event("", newGeminiBody(e.a, []geminiPart{{Text: &empty}}, e.a.geminiFinish()))
}

func (e geminiEncoder) fail(f *refusal) { e.out.event("", gemini{}.failure(f, "")) }
