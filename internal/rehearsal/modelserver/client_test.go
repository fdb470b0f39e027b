package modelserver

// readWhole decodes an answer that was not streamed, as a client of the protocol would.
func readWhole(t tb, protocol, body string) content {
	t.Helper()
	j := parseJSON(t, body)
	var c content
	switch protocol {
	case "chat":
		m := j.at("choices", 0, "message")
		c.Text, c.Reasoning = m.at("content").str(), m.at("reasoning_content").str()
		for _, call := range m.at("tool_calls").list() {
			c.Calls = append(c.Calls,
				MadeCall{call.at("id").str(), call.at("function", "name").str(),
					call.at("function", "arguments").str()})
		}
		c.Finish = j.at("choices", 0, "finish_reason").str()
		c.Input, c.Output = j.at("usage", "prompt_tokens").num(),
			j.at("usage", "completion_tokens").num()
	case "responses":
		readResponse(&c, j)
	case "messages":
		for _, b := range j.at("content").list() {
			c.Text += b.at("text").str()
			c.Reasoning += b.at("thinking").str()
			if b.at("type").str() == "tool_use" {
				c.Calls = append(c.Calls, MadeCall{b.at("id").str(), b.at("name").str(),
					b.at("input").raw()})
			}
		}
		c.Finish = j.at("stop_reason").str()
		c.Input, c.Output = j.at("usage", "input_tokens").num(),
			j.at("usage", "output_tokens").num()
	case "gemini":
		readCandidate(&c, j)
	}
	return c
}

func readResponse(c *content, j anyJSON) {
	for _, item := range j.at("output").list() {
		switch item.at("type").str() {
		case "message":
			c.Text += item.at("content", 0, "text").str()
		case "reasoning":
			c.Reasoning += item.at("summary", 0, "text").str()
		case "function_call":
			c.Calls = append(c.Calls, MadeCall{item.at("call_id").str(), item.at("name").str(),
				item.at("arguments").str()})
		}
	}
	c.Finish = j.at("status").str() + j.at("incomplete_details", "reason").str()
	c.Input, c.Output = j.at("usage", "input_tokens").num(), j.at("usage", "output_tokens").num()
}

func readCandidate(c *content, j anyJSON) {
	for _, p := range j.at("candidates", 0, "content", "parts").list() {
		if p.at("thought").v == true {
			c.Reasoning += p.at("text").str()
		} else {
			c.Text += p.at("text").str()
		}
		if p.has("functionCall") {
			c.Calls = append(c.Calls, MadeCall{p.at("functionCall", "id").str(),
				p.at("functionCall", "name").str(), p.at("functionCall", "args").raw()})
		}
	}
	c.Finish = j.at("candidates", 0, "finishReason").str()
	c.Input, c.Output = j.at("usageMetadata", "promptTokenCount").num(),
		j.at("usageMetadata", "candidatesTokenCount").num()
}

// readStream decodes a stream, using only its deltas.
func readStream(t tb, protocol, body string) content {
	t.Helper()
	var c content
	events := parseSSE(t, body)
	for i, e := range events {
		if e.data == "[DONE]" {
			if protocol != "chat" || i != len(events)-1 {
				t.Fatalf("[DONE] at %d of %d", i, len(events))
			}
			continue
		}
		j := parseJSON(t, e.data)
		switch protocol {
		case "chat":
			chatChunk(&c, j)
		case "responses":
			responsesDelta(t, &c, e, i, j)
		case "messages":
			messagesDeltaEvent(t, &c, e, j)
		case "gemini":
			readCandidate(&c, j)
		}
	}
	return c
}

func chatChunk(c *content, j anyJSON) {
	d := j.at("choices", 0, "delta")
	c.Text += d.at("content").str()
	c.Reasoning += d.at("reasoning_content").str()
	for _, call := range d.at("tool_calls").list() {
		n := call.at("index").num()
		if n == len(c.Calls) {
			c.Calls = append(c.Calls, MadeCall{})
		}
		c.Calls[n].ID += call.at("id").str()
		c.Calls[n].Name += call.at("function", "name").str()
		c.Calls[n].Arguments += call.at("function", "arguments").str()
	}
	c.Finish += j.at("choices", 0, "finish_reason").str()
	if j.has("usage") {
		c.Input, c.Output = j.at("usage", "prompt_tokens").num(),
			j.at("usage", "completion_tokens").num()
	}
}

func responsesDelta(t tb, c *content, e sse, i int, j anyJSON) {
	if j.at("type").str() != e.name || j.at("sequence_number").num() != i {
		t.Fatalf("event %d is %s: %s", i, e.name, e.data)
	}
	switch e.name {
	case "response.output_text.delta":
		c.Text += j.at("delta").str()
	case "response.reasoning_summary_text.delta":
		c.Reasoning += j.at("delta").str()
	case "response.output_item.added":
		if item := j.at("item"); item.at("type").str() == "function_call" {
			c.Calls = append(c.Calls,
				MadeCall{ID: item.at("call_id").str(), Name: item.at("name").str()})
		}
	case "response.function_call_arguments.delta":
		c.Calls[len(c.Calls)-1].Arguments += j.at("delta").str()
	case "response.completed", "response.incomplete":
		var end content
		readResponse(&end, j.at("response"))
		if end.Text != c.Text || end.Reasoning != c.Reasoning {
			t.Fatalf("the deltas give %+v, the end %+v", *c, end)
		}
		c.Finish, c.Input, c.Output = end.Finish, end.Input, end.Output
	}
}

func messagesDeltaEvent(t tb, c *content, e sse, j anyJSON) {
	if j.at("type").str() != e.name {
		t.Fatalf("event %s: %s", e.name, e.data)
	}
	switch e.name {
	case "message_start":
		c.Input = j.at("message", "usage", "input_tokens").num()
	case "content_block_start":
		if b := j.at("content_block"); b.at("type").str() == "tool_use" {
			c.Calls = append(c.Calls, MadeCall{ID: b.at("id").str(), Name: b.at("name").str()})
		}
	case "content_block_delta":
		c.Text += j.at("delta", "text").str()
		c.Reasoning += j.at("delta", "thinking").str()
		if j.at("delta").has("partial_json") {
			c.Calls[len(c.Calls)-1].Arguments += j.at("delta", "partial_json").str()
		}
	case "message_delta":
		c.Finish, c.Output = j.at("delta", "stop_reason").str(),
			j.at("usage", "output_tokens").num()
	}
}
