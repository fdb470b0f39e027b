package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/brief"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/serve/mcpserver/schema"
)

// definition is what a tool says about itself.
type definition struct {
	name, title, description string
	input                    *jsonschema.Schema
	output                   *jsonschema.Schema
	// reads means that the tool changes nothing, destroys that it takes something away, and again that doing it twice is doing it once.
	reads, destroys, again bool
	// aliases are other names of arguments, which are taken as well.
	aliases map[string]string
}

func (d definition) tool() *mcp.Tool {
	closed := false
	hints := &mcp.ToolAnnotations{ReadOnlyHint: d.reads, IdempotentHint: d.again || d.reads, OpenWorldHint: &closed}
	if !d.reads { // else it means nothing
		hints.DestructiveHint = &d.destroys
	}
	return &mcp.Tool{Name: d.name, Title: d.title, Description: d.description, InputSchema: d.input, OutputSchema: d.output, Annotations: hints}
}

// head is what all snapshots begin with.
type head struct {
	Status  brief.Status `json:"status"`
	Verdict string       `json:"verdict"`
	Problem *string      `json:"problem"`
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

const (
	// maxVerdict keeps a verdict one line of a size that one reads.
	maxVerdict = 400
	// maxText is the size of the largest answer that is sent as text too. A longer one is structured content and in a file, and the text
	// says so: an agent should not read it twice.
	maxText = 8 << 10
)

// reply is an answer as it is sent.
type reply struct {
	text    json.RawMessage
	failed  bool
	file    string // that the answer names; "" if none
	verdict func() string
}

// add adds a tool whose answers are briefs.
func add[In, S any, P snapshotOf[S]](s *Server, d definition, run func(context.Context, In) (S, *files.Rest, error)) {
	d.output = schema.Brief[S]()
	addRaw(s, d, func(ctx context.Context, arguments json.RawMessage, err error) reply {
		var snapshot S
		var rest *files.Rest
		var in In
		if err == nil {
			in, err = schema.Decode[In](arguments)
		}
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
			saved, lost = s.files.Attach(*rest)
		}
		answer := brief.Compose(snapshot, func(s S) S { return s }, func(s S) []brief.Flag { return append(flagsOf[S, P](s), lost...) },
			func(s S) brief.Status { return P(&s).said().Status }, saved)
		text, err := brief.Encode(answer)
		if err != nil { // Compose saw to it that there is a text
			text, _ = brief.Encode(brief.Failed("answer_not_writable", "The answer cannot be written"))
		}
		told := reply{text: text, failed: answer.Status == brief.StatusError, verdict: func() string { return h.Verdict }}
		if answer.FilePath != nil {
			told.file = *answer.FilePath
		}
		return told
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

// addRaw adds a tool that answers in its own form, also where the arguments do not fit: then it is told the error in their place.
func addRaw(s *Server, d definition, handle func(context.Context, json.RawMessage, error) reply) {
	arguments, err := schema.NewArguments(d.input, d.aliases)
	if err != nil {
		panic(fmt.Sprintf("tool %s: input schema: %v", d.name, err)) // it is written in this package
	}
	s.mcp.AddTool(d.tool(), func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		checked, err := arguments.Check(request.Params.Arguments)
		told := handle(withConnection(ctx, request.Session), checked, err)
		result := &mcp.CallToolResult{StructuredContent: told.text, IsError: told.failed}
		text, link := s.content(d.name, told)
		result.Content = append(result.Content, &mcp.TextContent{Text: text})
		if link != nil {
			result.Content = append(result.Content, link)
		}
		return result, nil
	})
}

// content is the text of an answer and the link to its file. A long answer is cut down to its verdict only if a file has the rest, because
// there are clients that show no structured content to the agent.
func (s *Server) content(tool string, told reply) (string, mcp.Content) {
	long := len(told.text) > maxText
	if long && told.file == "" {
		told.file = s.files.Save(files.Rest{Prefix: tool, Result: []byte(told.text)}).Path
	}
	var link mcp.Content
	if told.file != "" {
		link = s.files.Link(told.file)
	}
	if !long || link == nil {
		return string(told.text), link
	}
	return fmt.Sprintf("%s. This is the verdict of an answer of %d KB: the rest is in the structured content, and in the file %s, which resources/read gives too",
		line(told.verdict(), maxVerdict), (len(told.text)+1023)>>10, told.file), link
}
