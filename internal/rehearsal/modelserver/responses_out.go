package modelserver

import "fmt"

type responsesBody struct {
	ID                string            `json:"id"`
	Object            string            `json:"object"`
	CreatedAt         int64             `json:"created_at"`
	Status            string            `json:"status"`
	Error             *responsesError   `json:"error"`
	IncompleteDetails *responsesDetails `json:"incomplete_details"`
	Model             string            `json:"model"`
	Output            []responsesItem   `json:"output"`
	ParallelToolCalls bool              `json:"parallel_tool_calls"`
	ToolChoice        string            `json:"tool_choice"`
	Tools             []struct{}        `json:"tools"`
	Usage             *responsesUsage   `json:"usage"`
}

type responsesError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type responsesDetails struct {
	Reason string `json:"reason"`
}

type responsesUsage struct {
	Input     int `json:"input_tokens"`
	InputMore struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output     int `json:"output_tokens"`
	OutputMore struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

type responsesItem struct {
	Type      string           `json:"type"`
	ID        string           `json:"id"`
	Status    string           `json:"status,omitempty"`
	Role      string           `json:"role,omitempty"`
	Content   *[]responsesPart `json:"content,omitempty"`
	Summary   *[]responsesPart `json:"summary,omitempty"`
	CallID    string           `json:"call_id,omitempty"`
	Name      string           `json:"name,omitempty"`
	Arguments *string          `json:"arguments,omitempty"`
}

type responsesPart struct {
	Type        string      `json:"type"`
	Text        string      `json:"text"`
	Annotations *[]struct{} `json:"annotations,omitempty"`
}

func outputText(text string) responsesPart {
	return responsesPart{Type: "output_text", Text: text, Annotations: &[]struct{}{}}
}

func summaryText(text string) responsesPart { return responsesPart{Type: "summary_text", Text: text} }

func newResponsesBody(a *answer, status string) *responsesBody {
	return &responsesBody{ID: a.id("resp"), Object: "response", CreatedAt: a.created,
		Status: status, Model: a.model,
		Output: []responsesItem{}, ParallelToolCalls: true, ToolChoice: "auto", Tools: []struct{}{}}
}

// newResponsesItem returns the item of a part, either complete or as it is announced.
func newResponsesItem(a *answer, index int, done bool) responsesItem {
	p := a.parts[index]
	text, status := "", "in_progress"
	if done {
		text, status = p.whole(), "completed"
	}
	suffix := fmt.Sprintf("_%d", index)
	switch p.kind {
	case partReasoning:
		summary := []responsesPart{}
		if done {
			summary = append(summary, summaryText(text))
		}
		return responsesItem{Type: "reasoning", ID: a.id("rs") + suffix, Summary: &summary}
	case partCall:
		return responsesItem{Type: "function_call", ID: a.id("fc") + suffix, Status: status,
			CallID: p.id, Name: p.name, Arguments: &text}
	}
	content := []responsesPart{}
	if done {
		content = append(content, outputText(text))
	}
	return responsesItem{Type: "message", ID: a.id("msg") + suffix, Status: status,
		Role: "assistant", Content: &content}
}

func finishedResponse(a *answer) *responsesBody {
	body := newResponsesBody(a, "completed")
	switch a.finish {
	case finishLength:
		body.Status, body.IncompleteDetails = "incomplete", &responsesDetails{"max_output_tokens"}
	case finishFilter:
		body.Status, body.IncompleteDetails = "incomplete", &responsesDetails{"content_filter"}
	}
	for i := range a.parts {
		body.Output = append(body.Output, newResponsesItem(a, i, true))
	}
	u := &responsesUsage{Input: a.usage.Input, Output: a.usage.Output, Total: a.usage.Input + a.usage.Output}
	u.InputMore.Cached, u.OutputMore.Reasoning = a.usage.Cached, a.usage.Reasoning
	body.Usage = u
	return body
}

func (responses) whole(a *answer) (any, error) { return finishedResponse(a), nil }

type responsesEvent struct {
	Type         string         `json:"type"`
	Sequence     int            `json:"sequence_number"`
	Response     *responsesBody `json:"response,omitempty"`
	ItemID       string         `json:"item_id,omitempty"`
	OutputIndex  *int           `json:"output_index,omitempty"`
	ContentIndex *int           `json:"content_index,omitempty"`
	SummaryIndex *int           `json:"summary_index,omitempty"`
	Item         *responsesItem `json:"item,omitempty"`
	Part         *responsesPart `json:"part,omitempty"`
	Delta        *string        `json:"delta,omitempty"`
	Text         *string        `json:"text,omitempty"`
	Name         string         `json:"name,omitempty"`
	Arguments    *string        `json:"arguments,omitempty"`
	Logprobs     *[]struct{}    `json:"logprobs,omitempty"`
}

type responsesEncoder struct {
	a        *answer
	out      *stream
	sequence int
}

func (responses) encoder(a *answer,
	out *stream) encoder {
	return &responsesEncoder{a: a, out: out}
}

func (e *responsesEncoder) send(ev responsesEvent) {
	ev.Sequence = e.sequence
	e.sequence++
	e.out.event(ev.Type, ev)
}

func (e *responsesEncoder) begin() {
	e.send(responsesEvent{Type: "response.created", Response: newResponsesBody(e.a, "in_progress")})
	e.send(responsesEvent{Type: "response.in_progress",
		Response: newResponsesBody(e.a, "in_progress")})
}

func (e *responsesEncoder) piece(p piece) error {
	item := newResponsesItem(e.a, p.index, false)
	if p.first {
		e.send(responsesEvent{Type: "response.output_item.added", OutputIndex: &p.index,
			Item: &item})
	}
	whole, zero, none := p.whole(), 0, []struct{}{}
	// the common fields of the part's events
	ev := responsesEvent{ItemID: item.ID, OutputIndex: &p.index}
	switch p.kind {
	case partText:
		ev.ContentIndex = &zero
		e.sendText(p, ev, outputText, "response.content_part", "response.output_text", &none)
	case partReasoning:
		ev.SummaryIndex = &zero
		e.sendText(p, ev, summaryText, "response.reasoning_summary_part",
			"response.reasoning_summary_text", nil)
	case partCall:
		delta, done := ev, ev
		delta.Type, delta.Delta = "response.function_call_arguments.delta", &p.text
		e.send(delta)
		if p.last {
			done.Type, done.Name, done.Arguments = "response.function_call_arguments.done", p.name,
				&whole
			e.send(done)
		}
	}
	if p.last {
		item := newResponsesItem(e.a, p.index, true)
		e.send(responsesEvent{Type: "response.output_item.done", OutputIndex: &p.index,
			Item: &item})
	}
	return nil
}

// sendText sends the events of a text inside its item.
func (e *responsesEncoder) sendText(p piece, ev responsesEvent, part func(string) responsesPart,
	partName, textName string, logprobs *[]struct{}) {
	if p.first {
		added, empty := ev, part("")
		added.Type, added.Part = partName+".added", &empty
		e.send(added)
	}
	delta := ev
	delta.Type, delta.Delta, delta.Logprobs = textName+".delta", &p.text, logprobs
	e.send(delta)
	if p.last {
		whole := p.whole()
		full := part(whole)
		done := ev
		done.Type, done.Text, done.Logprobs = textName+".done", &whole, logprobs
		e.send(done)
		done = ev
		done.Type, done.Part = partName+".done", &full
		e.send(done)
	}
}

func (e *responsesEncoder) end() {
	body := finishedResponse(e.a)
	e.send(responsesEvent{Type: "response." + body.Status, Response: body})
}

func (e *responsesEncoder) fail(f *refusal) {
	body := newResponsesBody(e.a, "failed")
	body.Error = &responsesError{Code: "server_error", Message: f.message}
	if f.code != "" {
		body.Error.Code = f.code
	}
	e.send(responsesEvent{Type: "response.failed", Response: body})
}
