package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console"
	"signalbox/internal/oracle/session"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/ask"
	"signalbox/internal/text"
)

const (
	// maxConversations is how many conversations the page lists.
	maxConversations = 20
	// maxConversation is how much of a conversation is shown, in bytes: its last questions.
	maxConversation = 1 << 20
	// maxFirst is how much of the first question of a conversation the list shows, in characters.
	maxFirst = 160
	// maxResult is how much of the result of a tool is shown, in bytes.
	maxResult = 16 << 10
)

// oraclePage is what the pages of the oracle show. What was said in conversations is only for those
// who may ask.
type oraclePage struct {
	// Problem is why nothing can be asked.
	Problem *problem
	MayAsk  bool
	// Session is the conversation that is continued, "" for a new one.
	Session   string
	Questions []question
	// Earlier is how many questions are left out before them.
	Earlier   int
	Resumable bool
	// Conversations are the last ones, and More is how many there are besides them.
	Conversations []conversation
	More          int
	MaxQuestion   int
}

// question is a question with its answer: as text, and as the chunks from which the script makes
// something better.
type question struct {
	Text, Transcript, Chunks string
}

// conversation is a line in the list of conversations.
type conversation struct {
	ID, First, Ended string
	Questions        int
	At               time.Time
	// Damaged means that it cannot be read.
	Damaged bool
}

// oracleReady reports whether the navigation leads to the oracle.
func (d *Dashboard) oracleReady() bool { return d.opts.Oracle != nil && d.opts.Oracle.Configured() }

// newOraclePage returns what both pages show.
func (d *Dashboard) newOraclePage(ctx context.Context, r *http.Request) *oraclePage {
	p := &oraclePage{MaxQuestion: oracle.MaxQuestion}
	_, denied := d.guard.Check(r, access.Operate, false)
	p.MayAsk = denied == nil
	err := error(errNoOracle)
	if d.opts.Oracle != nil {
		err = d.opts.Oracle.Check(ctx)
	}
	if err != nil {
		p.Problem = &problem{err.Error(), signalbox.HintOf(err)}
	}
	return p
}

var errNoOracle = signalbox.CodeFailed.Errorf("", "this server does not answer questions")

// oracle shows the field for a question, and the conversations.
func (d *Dashboard) oracle(ctx context.Context, r *http.Request) (view, error) {
	p := d.newOraclePage(ctx, r)
	if p.MayAsk && d.opts.Oracle != nil {
		all, err := d.opts.Oracle.Conversations()
		if err != nil {
			return view{}, err
		}
		for _, s := range all[:min(len(all), maxConversations)] {
			p.Conversations = append(p.Conversations, newConversation(s))
		}
		p.More = len(all) - len(p.Conversations)
	}
	return view{template: "oracle", title: "Oracle", data: p}, nil
}

func newConversation(s session.Summary) conversation {
	c := conversation{ID: s.ID, First: text.Shorten(s.First, maxFirst), Questions: s.Questions,
		At: s.At, Ended: cmp.Or(s.Reason, "unfinished"), Damaged: s.Damaged || s.Problem != ""}
	switch {
	case s.Damaged:
		c.Ended = "damaged"
	case s.Problem != "":
		c.Ended = "unreadable"
	}
	return c
}

// conversation shows a conversation, which can be continued.
func (d *Dashboard) conversation(ctx context.Context, r *http.Request) (view, error) {
	if d.opts.Oracle == nil {
		return view{}, errNoOracle
	}
	p := d.newOraclePage(ctx, r)
	p.Session = r.PathValue("session")
	c, err := d.opts.Oracle.Read(p.Session)
	if err != nil {
		return view{}, err
	}
	p.Resumable = c.Resumable
	return view{template: "oracle", title: "Oracle", data: p}, p.show(c.Questions)
}

// show adds the last questions of a conversation, as many as a page can have, and at least one.
func (p *oraclePage) show(all []console.Question) error {
	size := 0
	for _, asked := range slices.Backward(all) {
		q, err := newQuestion(asked)
		if err != nil {
			return err
		}
		if size += len(q.Text) + len(q.Chunks) + len(q.Transcript); size > maxConversation &&
			len(p.Questions) > 0 {
			break
		}
		p.Questions = append(p.Questions, q)
	}
	slices.Reverse(p.Questions)
	p.Earlier = len(all) - len(p.Questions)
	return nil
}

func newQuestion(asked console.Question) (question, error) {
	q := question{Text: asked.Text}
	var transcript, lines strings.Builder
	if err := console.Transcript(&transcript, []console.Question{asked}, nil); err != nil {
		return q, err
	}
	for _, c := range asked.All() {
		if result, ok := c.(chunk.ToolResult); ok && len(result.Text) > maxResult {
			result.Text = text.Truncate(result.Text, maxResult) + "…"
			c = result
		}
		line, err := chunk.Line(c)
		if err != nil {
			return q, err
		}
		lines.Write(line)
	}
	q.Transcript, q.Chunks = transcript.String(), lines.String()
	return q, nil
}

// ask answers a question of a browser without scripting: the form leads to the page of the
// conversation when all of the answer is there.
func (d *Dashboard) ask(r *http.Request, caller access.Caller) error {
	if d.opts.Oracle == nil {
		return errNoOracle
	}
	asked := ask.Question{Client: caller.Name, Session: r.PostForm.Get("session"), Text: posted(r, "question"),
		Started: func(session string) { r.PostForm.Set("back", "/oracle/"+session) }}
	if resumes := r.PostForm.Get("resume") != ""; (asked.Text == "") != resumes {
		return usage("there is no question")
	}
	return d.opts.Oracle.Ask(r.Context(), asked, func(chunk.Chunk) error { return nil })
}
