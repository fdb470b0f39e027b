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

// definition describes a tool.
type definition struct {
	name, title, description string
	input                    *jsonschema.Schema
	output                   *jsonschema.Schema
	// The hints of MCP: the tool changes nothing, it ends or removes something, and a second call
	// with the same arguments changes nothing.
	readOnly, destructive, idempotent bool
	// aliases maps alternative argument names to argument names.
	aliases map[string]string
}

func (d definition) tool() *mcp.Tool {
	openWorld := false
	hints := &mcp.ToolAnnotations{ReadOnlyHint: d.readOnly, IdempotentHint: d.idempotent ||
		d.readOnly, OpenWorldHint: &openWorld}
	if !d.readOnly { // otherwise the hint has no meaning
		hints.DestructiveHint = &d.destructive
	}
	return &mcp.Tool{Name: d.name, Title: d.title, Description: d.description, InputSchema: d.input,
		OutputSchema: d.output, Annotations: hints}
}

// head has the fields that all snapshots begin with.
type head struct {
	Status  brief.Status `json:"status"`
	Verdict string       `json:"verdict"`
	Problem *string      `json:"problem"`

	// attachment is the rest of the answer, which is written to a file; nil if there is none.
	attachment *files.Attachment
}

func (h *head) header() *head { return h }

// flags is the default for snapshots without flags of their own.
func (h *head) flags() []brief.Flag { return nil }

// snapshotPointer is implemented by pointers to snapshots. flags need not include the flag of an
// error.
type snapshotPointer[S any] interface {
	*S
	header() *head
	flags() []brief.Flag
}

const (
	// maxVerdict is the maximum length of a verdict in characters.
	maxVerdict = 400
	// maxText is the maximum size of an answer that is also sent as text. A longer one is sent only
	// as structured content and in a file, so that an agent does not read it twice.
	maxText = 8 << 10
)

// reply is an answer to a call.
type reply struct {
	text    json.RawMessage
	failed  bool
	file    string // path of the file of the answer; "" if there is none
	verdict func() string
}

// add adds a tool whose answers are briefs.
func add[In, S any, P snapshotPointer[S]](s *Server, d definition,
	run func(context.Context, In) (S, error)) {
	d.output = schema.Brief[S]()
	addRaw(s, d, func(ctx context.Context, arguments json.RawMessage, err error) reply {
		var snapshot S
		var in In
		if err == nil {
			in, err = schema.Decode[In](arguments)
		}
		if err == nil {
			snapshot, err = run(ctx, in)
		}
		h := P(&snapshot).header()
		h.Status = brief.StatusSuccess
		if err != nil {
			problem, message := explain(err)
			h.Status, h.Problem, h.Verdict = brief.StatusError, &problem, message
		}
		h.Verdict = oneLine(h.Verdict, maxVerdict)
		var saved brief.Saved
		var lost []brief.Flag // about a file that could not be saved
		if h.attachment != nil {
			saved, lost = s.files.Attach(*h.attachment)
		}
		answer := brief.Compose(snapshot, func(s S) S { return s },
			func(s S) []brief.Flag { return append(flagsOf[S, P](s), lost...) },
			func(s S) brief.Status { return P(&s).header().Status }, saved)
		text, err := brief.Encode(answer)
		if err != nil { // cannot happen: Compose ensures that it can be encoded
			text, _ = brief.Encode(brief.Failed("answer_not_writable",
				"The answer cannot be encoded"))
		}
		r := reply{text: text, failed: answer.Status == brief.StatusError, verdict: func() string { return h.Verdict }}
		if answer.FilePath != nil {
			r.file = *answer.FilePath
		}
		return r
	})
}

func flagsOf[S any, P snapshotPointer[S]](snapshot S) []brief.Flag {
	h := P(&snapshot).header()
	flags := P(&snapshot).flags()
	if h.Problem != nil {
		flags = append([]brief.Flag{{Flag: *h.Problem, Severity: brief.Error, Message: h.Verdict}},
			flags...)
	}
	return flags
}

// addRaw adds a tool that formats its own answers. handle gets the checked arguments, or the error
// if they are not valid.
func addRaw(s *Server, d definition, handle func(context.Context, json.RawMessage, error) reply) {
	arguments, err := schema.NewArguments(d.input, d.aliases)
	if err != nil {
		panic(fmt.Sprintf("tool %s: input schema: %v", d.name, err)) // a bug in this package
	}
	s.mcp.AddTool(d.tool(),
		func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			checked, err := arguments.Check(request.Params.Arguments)
			if err != nil {
				checked = request.Params.Arguments // so that the answer can name what was given
			}
			client, unknown := s.clientOf(request)
			if unknown != nil {
				err = unknown
			}
			r := handle(withConnection(withClient(ctx, client), request.Session), checked, err)
			result := &mcp.CallToolResult{StructuredContent: r.text, IsError: r.failed}
			text, link := s.content(d.name, r)
			result.Content = append(result.Content, &mcp.TextContent{Text: text})
			if link != nil {
				result.Content = append(result.Content, link)
			}
			return result, nil
		})
}

// content returns the text of an answer and a link to its file. The text of a long answer is only
// its verdict, if a file has the rest: some clients do not show structured content to the agent.
func (s *Server) content(tool string, r reply) (string, mcp.Content) {
	long := len(r.text) > maxText
	if long && r.file == "" {
		r.file = s.files.Save(files.Attachment{Prefix: tool, Result: []byte(r.text)}).Path
	}
	var link mcp.Content
	if r.file != "" {
		link = s.files.Link(r.file)
	}
	if !long || link == nil {
		return string(r.text), link
	}
	return fmt.Sprintf("%s. This is only the verdict. The whole answer (%d KB) is in the structured content and in the file %s, which resources/read returns",
		oneLine(r.verdict(), maxVerdict), (len(r.text)+1023)>>10, r.file), link
}
