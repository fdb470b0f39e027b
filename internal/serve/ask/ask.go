// Package ask answers questions to the oracle for the clients of a server, as signalbox oracle does
// for the user of a terminal: with the oracle of the configuration, and with the conversations of
// the box, which both can continue.
//
// A question costs money and runs tools, so each client has one at a time, the server answers few
// at once, and each has a time limit. The work on a question ends when the client leaves, when it
// is stopped, or when the server ends. It can be resumed then.
package ask

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/durable"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/setup"
	"signalbox/internal/process"
	"signalbox/internal/serve/access"
	"signalbox/internal/tree/turnlog"
)

const (
	// maxAnswers is how many questions are answered at the same time.
	maxAnswers = 4
	// defaultTime is the time limit of a question if the configuration has none: the person who
	// asked may be away.
	defaultTime = 10 * time.Minute
)

// Options configures a Service.
type Options struct {
	// Config returns the configuration for a question, or an error if there is none that may be
	// used. Nil means that of the box, which must be trusted then.
	Config func(context.Context) (*config.Config, error)
	// Lookup looks up environment variables, as os.LookupEnv does. Nil means that none is set.
	Lookup func(string) (string, bool)
	// Version is the version of this program, for MCP servers.
	Version string
}

// Service answers questions. It is safe for concurrent use.
type Service struct {
	box    *box.Box
	folder string // of the conversations
	opts   Options

	mu      sync.Mutex
	answers map[string]*answer // by client; guarded by mu
	working sync.WaitGroup
}

// answer is a question that is being answered.
type answer struct {
	session string // guarded by Service.mu
	stop    context.CancelFunc
}

// New returns a Service for an open box, which must stay open until Close has returned.
func New(b *box.Box, opts Options) *Service {
	if opts.Config == nil {
		opts.Config = func(context.Context) (*config.Config, error) { return b.Config, nil }
	}
	if opts.Lookup == nil {
		opts.Lookup = func(string) (string, bool) { return "", false }
	}
	return &Service{box: b, folder: filepath.Join(b.Dir, session.FolderName), opts: opts,
		answers: map[string]*answer{}}
}

// Close waits until no question is being answered. The contexts of the questions must be done.
func (s *Service) Close() { s.working.Wait() }

// Configured reports whether the configuration with which the box was opened has a model for the
// oracle.
func (s *Service) Configured() bool {
	_, _, err := s.box.Config.OracleModel("")
	return err == nil
}

// Check returns why no question can be asked, as far as the configuration says. The error has a
// hint.
func (s *Service) Check(ctx context.Context) error {
	c, err := s.opts.Config(ctx)
	if err == nil {
		_, _, err = c.OracleModel("")
	}
	return unavailable(err)
}

// Question is what a client asks.
type Question struct {
	// Client is the name of the client, which is also the actor on the ledger.
	Client string
	// Session is the conversation to continue; "" starts a new one.
	Session string
	// Text is the question; "" resumes the last answer of the session.
	Text string
	// Started is called with the session before the first chunk, and not at all if Ask fails before
	// that. Nil means no call.
	Started func(session string)
}

// Ask answers a question and passes its chunks to emit, up to Done. It returns an error if the
// question cannot be asked, or the error of emit; other failures are chunks. What signalbox oracle
// prints as warnings comes first, as chunks with the name chunk.SetupNote.
func (s *Service) Ask(ctx context.Context, q Question, emit oracle.Emit) (err error) {
	if q.Text, err = checkQuestion(q.Text); err != nil {
		return err
	}
	if q.Text == "" && q.Session == "" {
		return signalbox.CodeUsage.Errorf(
			"write a question, or name a conversation whose last answer is resumed",
			"there is no question")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a := &answer{stop: stop}
	if err := s.enter(q.Client, a); err != nil {
		return err
	}
	defer s.leave(q.Client)
	record, err := s.open(q.Session)
	if err != nil {
		return err
	}
	defer record.CloseAndPrune()
	if q.Text == "" && session.Last(record.Entries()).Number == 0 {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: oracle.ErrNoQuestion,
			Hint: "ask a question"}
	}
	o, err := s.oracle(ctx, &q)
	if err != nil {
		return unavailable(err)
	}
	defer o.Close()
	s.mu.Lock()
	a.session = record.ID
	s.mu.Unlock()
	if q.Started != nil {
		q.Started(record.ID)
	}
	for _, note := range o.Notes {
		if err := emit(chunk.System{Name: chunk.SetupNote, Level: chunk.Warning,
			Text: note}); err != nil {
			return err
		}
	}
	if q.Text != "" {
		_, err = o.Ask(ctx, record, q.Text, emit)
	} else {
		_, err = o.Resume(ctx, record, emit)
	}
	return err
}

// checkQuestion returns a question without blanks around it.
func checkQuestion(text string) (string, error) {
	text = strings.TrimSpace(text)
	if len(text) > oracle.MaxQuestion {
		return "", signalbox.CodeUsage.Errorf(
			"put the text into a file of the project and ask about the file",
			"the question is longer than %d bytes", oracle.MaxQuestion)
	}
	return text, nil
}

// enter registers a question of a client, unless that would be too many.
func (s *Service) enter(client string, a *answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.answers[client] != nil:
		return signalbox.CodeConflict.Errorf("wait until it has ended, or stop it",
			"another question of yours is being answered")
	case len(s.answers) >= maxAnswers:
		return &access.DeniedError{Status: http.StatusServiceUnavailable,
			Message: fmt.Sprintf("%d questions are being answered: try again later", maxAnswers)}
	}
	s.answers[client] = a
	s.working.Add(1)
	return nil
}

func (s *Service) leave(client string) {
	s.mu.Lock()
	delete(s.answers, client)
	s.mu.Unlock()
	s.working.Done()
}

// oracle opens the oracle for a question.
func (s *Service) oracle(ctx context.Context, q *Question) (*setup.Setup, error) {
	if err := process.Conceal(); err != nil { // the keys of models, from tools
		return nil, err
	}
	c, err := s.opts.Config(ctx)
	if err != nil {
		return nil, err
	}
	limits := config.OracleLimits{}
	if c.Oracle.Limits.Time == 0 {
		limits.Time = defaultTime
	}
	return setup.Open(ctx, c, &setup.Options{Box: s.box.Dir, Lookup: s.opts.Lookup,
		Version: s.opts.Version, Record: turnlog.ToWithoutText(s.box.Engine, q.Client),
		Project: filepath.Dir(s.box.Dir), Logs: filepath.Join(s.box.Dir, "logs"), Limits: limits,
		Question: q.Text})
}

// unavailable returns an error of the configuration as one that is not the fault of the request.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: signalbox.HintOf(err)}
}

// open opens a conversation, or a new one if id is "".
func (s *Service) open(id string) (*session.Session, error) {
	if id == "" {
		if err := durable.MakeFolder(s.folder); err != nil {
			return nil, err
		}
		return session.Create(s.folder, box.NewID("O"))
	}
	folder, err := s.find(id)
	if err != nil {
		return nil, err
	}
	record, err := session.Open(folder)
	if errors.Is(err, session.ErrInUse) {
		err = &signalbox.Error{Code: signalbox.CodeConflict, Err: err,
			Hint: "wait until it has ended, or start another conversation"}
	}
	return record, damaged(err)
}

// find returns the folder of a conversation.
func (s *Service) find(id string) (string, error) {
	folder := filepath.Join(s.folder, id)
	if signalbox.CheckID(id) == nil {
		if _, err := os.Stat(filepath.Join(folder, session.RecordName)); err == nil {
			return folder, nil
		}
	}
	return "", signalbox.CodeNotFound.Errorf("", "there is no conversation '%.64s'", id)
}

func damaged(err error) error {
	if errors.Is(err, session.ErrDamaged) {
		err = &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "continue another conversation, or start a new one"}
	}
	return err
}

// Stop ends the work on the question that is being answered in a conversation. Its chunks then end
// as usual.
func (s *Service) Stop(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.answers {
		if a.session == id {
			a.stop()
			return nil
		}
	}
	return signalbox.CodeNotFound.Errorf("",
		"no question is being answered in the conversation '%.64s'", id)
}

// Conversations returns the conversations of the box, newest first.
func (s *Service) Conversations() ([]session.Summary, error) { return session.List(s.folder) }

// Conversation is a recorded conversation.
type Conversation struct {
	Questions []console.Question
	// Resumable means that the last answer can be resumed.
	Resumable bool
}

// Read returns a conversation. If its last question is being answered, that has no end yet.
func (s *Service) Read(id string) (*Conversation, error) {
	folder, err := s.find(id)
	if err != nil {
		return nil, err
	}
	entries, err := session.Read(folder)
	if err != nil {
		return nil, damaged(err)
	}
	return &Conversation{Questions: console.Questions(entries),
		Resumable: oracle.CanResume(session.Last(entries))}, nil
}
