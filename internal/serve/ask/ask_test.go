package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/session"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/serve/access"
	"signalbox/internal/testkit/must"
)

// script is a model that greets, and that says one thing and, when the test lets it, another.
const script = `
conversations:
  - turns:
      - {match: {user: hello}, parts: [{text: Hello.}]}
      - {match: {user: slow}, parts: [{pieces: [The beginning, and the end.]}], every: 1s}
`

// stage is a service on a real box with a scripted model.
type stage struct {
	*Service
	t *testing.T
	// waits has an element for each answer of the model that has started. It continues when the
	// test sends one to next; left has an element for each whose client has left instead.
	waits, left chan struct{}
	next        chan struct{}
}

func newStage(t *testing.T, settings string) *stage {
	t.Helper()
	s := &stage{t: t, waits: make(chan struct{}, 10), left: make(chan struct{}, 10),
		next: make(chan struct{})}
	parsed, err := modelserver.ParseScript("model.yaml", []byte(script))
	must.Succeed(t, err)
	handler, err := modelserver.New(parsed,
		&modelserver.Options{Sleep: func(ctx context.Context, _ time.Duration) error {
			s.waits <- struct{}{}
			select {
			case <-s.next:
				return nil
			case <-ctx.Done():
				s.left <- struct{}{}
				return ctx.Err()
			}
		}})
	must.Succeed(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	dir := filepath.Join(t.TempDir(), box.FolderName)
	opts := &box.Options{KeyFile: filepath.Join(filepath.Dir(dir), "box.key")}
	if _, err := box.Init(t.Context(), dir, "ann", opts); err != nil {
		t.Fatal(err)
	}
	settings = strings.ReplaceAll(settings, "MODEL",
		fmt.Sprintf("models: {main: {provider: openai, model: m, base_url: %q, tries: 1}}",
			server.URL+"/v1"))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, config.FileName), []byte(settings),
		0o600))
	b, err := box.Open(t.Context(), dir, opts)
	must.Succeed(t, err)
	t.Cleanup(func() { b.Close() })
	s.Service = New(b, Options{})
	t.Cleanup(s.Close)
	return s
}

// asked is a question that is being answered.
type asked struct {
	session chan string
	chunks  []chunk.Chunk // when ended has the error
	ended   chan error
}

// start asks a question, and returns when the model waits.
func (s *stage) start(ctx context.Context, client, session string) *asked {
	s.t.Helper()
	a := &asked{session: make(chan string, 1), ended: make(chan error, 1)}
	go func() {
		a.ended <- s.Ask(ctx, Question{Client: client, Session: session, Text: "slow",
			Started: func(id string) { a.session <- id }}, func(c chunk.Chunk) error {
			a.chunks = append(a.chunks, c)
			return nil
		})
	}()
	select {
	case <-s.waits:
	case err := <-a.ended:
		s.t.Fatalf("it ended: %v", err)
	}
	return a
}

// reason returns how an answer ended.
func (a *asked) reason(t *testing.T) string {
	t.Helper()
	must.Succeed(t, <-a.ended)
	done, ok := a.chunks[len(a.chunks)-1].(chunk.Done)
	if !ok {
		t.Fatalf("the last chunk is %#v", a.chunks[len(a.chunks)-1])
	}
	return done.Reason
}

// TestFewQuestionsAtOnce asks as many questions as are allowed, each as another client, and then
// one more in both ways.
func TestFewQuestionsAtOnce(t *testing.T) {
	s := newStage(t, "MODEL")
	var all []*asked
	for i := range maxAnswers {
		all = append(all, s.start(t.Context(), fmt.Sprint("client-", i), ""))
	}
	ask := func(client string) error {
		return s.Ask(t.Context(), Question{Client: client, Text: "hello"},
			func(chunk.Chunk) error { return nil })
	}
	if err := ask("client-0"); signalbox.CodeOf(err) != signalbox.CodeConflict {
		t.Errorf("a second question of a client: %v", err)
	}
	if err := ask("other"); access.StatusOf(err) != http.StatusServiceUnavailable {
		t.Errorf("too many questions: %v", err)
	}
	first := <-all[0].session
	if err := s.Ask(t.Context(), Question{Client: "other", Session: first, Text: "hello"},
		nil); err == nil {
		t.Error("a conversation is used twice at once")
	}
	must.Succeed(t, s.Stop(first))
	if got := all[0].reason(t); got != "cancelled" {
		t.Errorf("stopped: %s", got)
	}
	<-s.left // the model need not think any more
	if err := s.Stop(first); signalbox.CodeOf(err) != signalbox.CodeNotFound {
		t.Errorf("stopped again: %v", err)
	}
	if err := s.Stop(""); signalbox.CodeOf(err) != signalbox.CodeNotFound {
		t.Errorf("stopped nothing: %v", err)
	}
	if err := ask("client-0"); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	for range all[1:] {
		s.next <- struct{}{}
	}
	for _, a := range all[1:] {
		if got := a.reason(t); got != "answered" {
			t.Errorf("the others: %s", got)
		}
	}
}

// TestLeavingEndsTheWork leaves while the model thinks. The answer can be resumed, and the
// conversation is continued by another question.
func TestLeavingEndsTheWork(t *testing.T) {
	s := newStage(t, "MODEL")
	ctx, leave := context.WithCancel(t.Context())
	a := s.start(ctx, "ann", "")
	leave()
	<-s.left
	<-a.ended
	id := <-a.session
	c, err := s.Read(id)
	if err != nil || len(c.Questions) != 1 || !c.Resumable {
		t.Fatalf("%+v, %v", c, err)
	}
	resumed := make(chan error, 1)
	var chunks []chunk.Chunk
	go func() {
		resumed <- s.Ask(t.Context(), Question{Client: "ann", Session: id},
			func(c chunk.Chunk) error {
				chunks = append(chunks, c)
				return nil
			})
	}()
	<-s.waits
	s.next <- struct{}{}
	must.Succeed(t, <-resumed)
	if done := chunks[len(chunks)-1].(chunk.Done); done.Answer != "The beginningand the end." ||
		done.Session != id {
		t.Errorf("resumed: %+v", done)
	}
	must.Succeed(t, s.Ask(t.Context(), Question{Client: "ann", Session: id, Text: " hello\n"},
		func(chunk.Chunk) error { return nil }))
	c, err = s.Read(id)
	if err != nil || len(c.Questions) != 2 || c.Resumable || c.Questions[1].Text != "hello" ||
		c.Questions[1].Done.Answer != "Hello." {
		t.Errorf("%+v, %v", c, err)
	}
	if all, err := s.Conversations(); err != nil || len(all) != 1 || all[0].ID != id ||
		all[0].Questions != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestClientThatFailsEndsTheWork cannot write a chunk.
func TestClientThatFailsEndsTheWork(t *testing.T) {
	s := newStage(t, "MODEL")
	gone := errors.New("gone")
	if err := s.Ask(t.Context(), Question{Client: "ann", Text: "slow"},
		func(chunk.Chunk) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

// TestTimeLimit checks that every question has a limit.
func TestTimeLimit(t *testing.T) {
	for settings, want := range map[string]time.Duration{"MODEL": defaultTime,
		"MODEL\noracle: {limits: {time: 30m}}":          30 * time.Minute,
		"MODEL\noracle: {limits: {time: 1m, turns: 3}}": time.Minute} {
		s := newStage(t, settings)
		o, err := s.oracle(t.Context(), &Question{Client: "ann", Text: "hello"})
		must.Succeed(t, err)
		if o.Limit.Time != want {
			t.Errorf("%s: %s, want %s", settings, o.Limit.Time, want)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefusals asks what cannot be asked. Nothing is recorded.
func TestRefusals(t *testing.T) {
	untrusted := &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New("not trusted"),
		Hint: "signalbox trust"}
	for name, test := range map[string]struct {
		settings string
		config   error
		q        Question
		code     signalbox.Code
		want     string
		hint     string
	}{
		"no model": {"", nil, Question{Text: "hello"}, signalbox.CodeFailed,
			"no model is configured", "models:"},
		"not trusted": {"MODEL", untrusted, Question{Text: "hello"}, signalbox.CodeFailed,
			"not trusted", "signalbox trust"},
		"no question": {"MODEL", nil, Question{Text: " \n"}, signalbox.CodeUsage,
			"there is no question", ""},
		"too long": {"MODEL", nil, Question{Text: strings.Repeat("x", oracle.MaxQuestion+1)},
			signalbox.CodeUsage, "longer than", ""},
		"no session": {"MODEL", nil, Question{Session: "O-1", Text: "hello"},
			signalbox.CodeNotFound, "no conversation 'O-1'", ""},
		"other folder": {"MODEL", nil, Question{Session: "../oracle", Text: "hello"},
			signalbox.CodeNotFound, "no conversation", ""},
		"the folder": {"MODEL", nil, Question{Session: ".", Text: "hello"},
			signalbox.CodeNotFound, "no conversation", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, test.settings)
			if test.config != nil {
				s.opts.Config = func(context.Context) (*config.Config,
					error) {
					return nil, test.config
				}
			}
			test.q.Started = func(string) { t.Error("it started") }
			err := s.Ask(t.Context(), test.q, func(chunk.Chunk) error { return nil })
			if signalbox.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.want) ||
				!strings.Contains(signalbox.HintOf(err), test.hint) {
				t.Errorf("%v (%s)", err, signalbox.HintOf(err))
			}
			if found, err := filepath.Glob(filepath.Join(s.folder, "*")); err != nil ||
				len(found) > 0 {
				t.Errorf("recorded: %v, %v", found, err)
			}
			_, err = s.Read(cmp.Or(test.q.Session, ".."))
			if signalbox.CodeOf(err) != signalbox.CodeNotFound {
				t.Errorf("read: %v", err)
			}
		})
	}
}

// TestSetupNotesComeFirst asks with a server that does not start: the answer begins with a warning.
func TestSetupNotesComeFirst(t *testing.T) {
	s := newStage(t, "MODEL\noracle: {servers: {gone: {command: [no-such-program-anywhere]}}}")
	var first chunk.Chunk
	err := s.Ask(t.Context(), Question{Client: "ann", Text: "hello, where is the code?"},
		func(c chunk.Chunk) error {
			if first == nil {
				first = c
			}
			return nil
		})
	if note, ok := first.(chunk.System); err != nil || !ok || note.Name != chunk.SetupNote ||
		note.Level != chunk.Warning || !strings.Contains(note.Text, "gone") {
		t.Errorf("%#v, %v", first, err)
	}
}

// TestDamagedConversation refuses to continue a conversation whose record was changed.
func TestDamagedConversation(t *testing.T) {
	s := newStage(t, "MODEL")
	id := ""
	ask := func(session string) error {
		return s.Ask(t.Context(), Question{Client: "ann", Session: session, Text: "hello",
			Started: func(started string) { id = started }}, func(chunk.Chunk) error { return nil })
	}
	must.Succeed(t, ask(""))
	name := filepath.Join(s.folder, id, session.RecordName)
	text, err := os.ReadFile(name)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(name, []byte(strings.Replace(string(text), "Hello.", "Hallo.", 1)),
		0o600))
	if err := ask(id); !errors.Is(err, session.ErrDamaged) || signalbox.HintOf(err) == "" {
		t.Errorf("continued: %v", err)
	}
	if _, err := s.Read(id); !errors.Is(err, session.ErrDamaged) {
		t.Errorf("read: %v", err)
	}
}

// TestOnlyConversationsOfTheBox names a record elsewhere, in all ways that a path has.
func TestOnlyConversationsOfTheBox(t *testing.T) {
	s := newStage(t, "MODEL")
	id := ""
	must.Succeed(t, s.Ask(t.Context(),
		Question{Client: "ann", Text: "hello", Started: func(started string) { id = started }},
		func(chunk.Chunk) error { return nil }))
	elsewhere := filepath.Join(s.box.Dir, "elsewhere")
	must.Succeed(t, os.CopyFS(elsewhere, os.DirFS(filepath.Join(s.folder, id))))
	for _, name := range []string{"../elsewhere", elsewhere, id + "/../../elsewhere", "./" + id,
		id + "/"} {
		if _, err := s.Read(name); signalbox.CodeOf(err) != signalbox.CodeNotFound {
			t.Errorf("read %s: %v", name, err)
		}
		if err := s.Ask(t.Context(), Question{Client: "ann", Session: name, Text: "hello"},
			func(chunk.Chunk) error { return nil }); signalbox.CodeOf(
			err) != signalbox.CodeNotFound {
			t.Errorf("asked in %s: %v", name, err)
		}
	}
}
