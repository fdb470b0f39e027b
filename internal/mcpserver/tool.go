package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/brief"
)

// definition is what a tool says about itself.
type definition struct {
	name, title, description string
	input                    *jsonschema.Schema
	output                   *jsonschema.Schema
	// reads means that the tool changes nothing, destroys that it takes something away, and again that doing it twice is doing it once.
	reads, destroys, again bool
}

func (d definition) tool() *mcp.Tool {
	closed := false
	return &mcp.Tool{
		Name: d.name, Title: d.title, Description: d.description, InputSchema: d.input, OutputSchema: d.output,
		Annotations: &mcp.ToolAnnotations{Title: d.title, ReadOnlyHint: d.reads, DestructiveHint: &d.destroys,
			IdempotentHint: d.again || d.reads, OpenWorldHint: &closed},
	}
}

// head is what all snapshots begin with.
type head struct {
	Status  brief.Status `json:"status"`
	Verdict string       `json:"verdict" jsonschema:"one line: how it is, and what to do next"`
	Problem *string      `json:"problem" jsonschema:"what went wrong, as the name of a flag; null if nothing did"`
}

func (h *head) said() *head { return h }

// flags of a snapshot that only says whether it worked.
func (h *head) flags() []brief.Flag { return nil }

// snapshotOf is a snapshot: it has a head, and tells its flags. What went wrong need not be among them.
type snapshotOf[S any] interface {
	*S
	said() *head
	flags() []brief.Flag
}

// attachment is what does not fit into an answer, and goes to a file. Bytes are written as they are, anything else as JSON.
type attachment struct {
	prefix string
	result any
	// wanted means that the file is what was asked for: without it the call failed.
	wanted bool
}

// maxVerdict keeps a verdict one line of a size that one reads.
const maxVerdict = 400

// add adds a tool whose answers are briefs.
func add[In, S any, P snapshotOf[S]](s *Server, d definition, run func(context.Context, In) (S, *attachment, error)) {
	d.output = outputOf[S]()
	addRaw(s, d, func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, bool, []string) {
		var snapshot S
		var rest *attachment
		in, err := decode[In](arguments)
		if err == nil {
			snapshot, rest, err = run(ctx, in)
		}
		h := P(&snapshot).said()
		h.Status = brief.StatusSuccess
		if err != nil {
			problem, message := explain(err)
			h.Status, h.Problem, h.Verdict = brief.StatusError, &problem, message
		}
		h.Verdict = line(h.Verdict, maxVerdict)
		var saved brief.Saved
		var lost []brief.Flag
		if rest != nil {
			saved, lost = s.files.attach(rest)
		}
		answer := brief.Compose(snapshot, func(s S) S { return s }, func(s S) []brief.Flag { return append(flagsOf[S, P](s), lost...) },
			func(s S) brief.Status { return P(&s).said().Status }, saved)
		text, err := brief.Encode(answer)
		if err != nil { // Compose saw to it that there is a text
			text, _ = brief.Encode(brief.Failed("answer_not_writable", "The answer cannot be written"))
		}
		return text, answer.Status == brief.StatusError, paths(answer.FilePath)
	})
}

func flagsOf[S any, P snapshotOf[S]](snapshot S) []brief.Flag {
	h := P(&snapshot).said()
	flags := P(&snapshot).flags()
	if h.Problem != nil {
		flags = append([]brief.Flag{{Flag: *h.Problem, Severity: brief.Error, Message: h.Verdict}}, flags...)
	}
	return flags
}

func paths(path *string) []string {
	if path == nil {
		return nil
	}
	return []string{*path}
}

// addRaw adds a tool whose handler returns an answer as it is sent, whether it tells of a failure, and the files that it names.
// Arguments that do not fit the schema reach the handler as a *misfit in place of an object: it answers them in its own form.
func addRaw(s *Server, d definition, handle func(context.Context, json.RawMessage) (json.RawMessage, bool, []string)) {
	fits, err := d.input.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		panic(fmt.Sprintf("tool %s: input schema: %v", d.name, err)) // it is written in this package
	}
	s.mcp.AddTool(d.tool(), func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, failed, files := handle(ctx, check(request.Params.Arguments, fits))
		result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, StructuredContent: text, IsError: failed}
		for _, path := range files {
			if link := s.files.link(path); link != nil {
				result.Content = append(result.Content, link)
			}
		}
		return result, nil
	})
}

// misfit is what check returns in place of arguments that do not fit, as JSON: a string that says why.
func misfit(err error) json.RawMessage {
	why, _ := json.Marshal(line(err.Error(), 300))
	return why
}

// check returns the arguments with the defaults of the schema, or a misfit.
func check(arguments json.RawMessage, fits *jsonschema.Resolved) json.RawMessage {
	given, exact := map[string]any{}, map[string]json.RawMessage{}
	if text := bytes.TrimSpace(arguments); len(text) > 0 && string(text) != "null" {
		if err := errors.Join(json.Unmarshal(text, &given), json.Unmarshal(text, &exact)); err != nil {
			return misfit(errors.New("the arguments are no JSON object"))
		}
	}
	if err := fits.ApplyDefaults(&given); err != nil {
		return misfit(err)
	}
	if err := fits.Validate(given); err != nil {
		return misfit(err)
	}
	// Numbers stay as they were written: an amount of money does not become a float on its way.
	for name, value := range given {
		if _, written := exact[name]; !written {
			text, err := json.Marshal(value)
			if err != nil {
				return misfit(err)
			}
			exact[name] = text
		}
	}
	checked, err := json.Marshal(exact)
	if err != nil {
		return misfit(err)
	}
	return checked
}

// decode reads checked arguments.
func decode[In any](checked json.RawMessage) (in In, err error) {
	var why string
	if json.Unmarshal(checked, &why) == nil {
		return in, &argumentError{why}
	}
	decoder := json.NewDecoder(bytes.NewReader(checked))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return in, &argumentError{err.Error()}
	}
	return in, nil
}
