package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/text"
)

// logPage shows a transcript: what an agent wrote and did in one turn of a session, or any blob.
// Every byte of it has a permanent address.
type logPage struct {
	// Task, Title and Sessions are those of the task, if the transcript is that of one.
	Task, Title string
	Sessions    []inspect.Session
	// Index and Turn are the session and the turn that are shown; Index is -1 if there is none.
	Index, Turn int
	// Digest is the blob; zero while the turn is running.
	Digest signalbox.Hash
	// Running means that the transcript grows. Outcome is how the turn ended, and Note the text in
	// place of a transcript.
	Running       bool
	Outcome, Note string
	Failure       []string
	Raw           bool
	Size          int64
	// Checked is how much of it was looked at for signals, and Remarks what was found about all of
	// it.
	Checked int64
	Signals int
	Remarks []signalbox.Signal
	// At is the byte that was asked for, -1 if none was. Find is what is looked for, and Missing
	// means that there is no more of it.
	At      int64
	Find    string
	Missing bool
	render.Piece

	path  string     // of the page
	names url.Values // which transcript
}

// address returns the address of the page with other parameters.
func (p *logPage) address(path string, more ...string) string {
	q := url.Values{}
	for name, values := range p.names {
		q[name] = values
	}
	if p.Raw {
		q.Set("raw", "1")
	}
	for i := 0; i < len(more); i += 2 {
		if more[i+1] == "" {
			q.Del(more[i])
		} else {
			q.Set(more[i], more[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// The links of the page.

// Link returns the permanent address of a byte.
func (p *logPage) Link(at int64) string { return p.address(p.path, "at", itoa64(at)) }
func (p *logPage) Earlier() string      { return p.address(p.path, "before", itoa64(p.From)) }
func (p *logPage) Later() string        { return p.address(p.path, "at", itoa64(p.To)) }
func (p *logPage) RawLink(
	at int64) string {
	return p.address(p.path, "raw", "1", "at", itoa64(at))
}
func (p *logPage) Pieces() string { return p.address(p.path + "/piece") }

// Form returns the address of the form for searching, and Hidden its hidden fields.
func (p *logPage) Form() string { return p.path }
func (p *logPage) Hidden() url.Values {
	q := url.Values{"at": {itoa64(p.Here())}}
	for name, values := range p.names {
		q[name] = values
	}
	if p.Raw {
		q.Set("raw", "1")
	}
	return q
}

// Other returns the address of the other form at the same place.
func (p *logPage) Other() string {
	raw := "1"
	if p.Raw {
		raw = ""
	}
	return p.address(p.path, "raw", raw, "at", itoa64(max(p.Here(), 0)))
}

// Next and Previous return the addresses of the next and the previous signal.
func (p *logPage) Next() string { return p.address(p.path, "go", goNext, "at", itoa64(p.Here())) }
func (p *logPage) Previous() string {
	return p.address(p.path, "go", goPrevious, "at", itoa64(p.Here()))
}

// Here returns the byte that was asked for, or the one before the piece: what is looked for is
// after it.
func (p *logPage) Here() int64 {
	if p.At >= 0 {
		return p.At
	}
	return p.From - 1
}

// Length returns the size in words.
func (p *logPage) Length() string {
	switch {
	case p.Size < 10_000:
		return text.Count(int(p.Size), "byte")
	case p.Size < 1_000_000:
		return fmt.Sprintf("%d KB", p.Size/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(p.Size)/1e6)
}

// IsHere reports whether a line has the byte that was asked for.
func (p *logPage) IsHere(l render.Line) bool { return p.At >= l.From && p.At < l.To }

// Starts reports whether a line is the first of its bytes.
func (p *logPage) Starts(i int) bool { return i == 0 || p.Lines[i-1].From != p.Lines[i].From }

// Percent returns how much was looked at for signals.
func (p *logPage) Percent() int64 { return p.Checked * 100 / max(p.Size, 1) }

func itoa64(n int64) string { return strconv.FormatInt(n, 10) }

// What the parameter go asks for: the next or the previous signal or text.
const (
	goNext     = "next"
	goPrevious = "previous"
)

// transcript is an open transcript.
type transcript struct {
	page *logPage
	o    render.TranscriptOptions
	r    io.ReaderAt
	size int64
	// key identifies its bytes, or, while it grows, what they will be.
	key   string
	close func() error
}

// log shows the transcripts of a task.
func (d *Dashboard) log(ctx context.Context, r *http.Request) (view, error) {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return view{}, err
	}
	if seq := r.URL.Query().Get("event"); seq != "" {
		return d.logOfEvent(ctx, w, seq)
	}
	t, err := d.openTask(ctx, r, w)
	if err != nil {
		return view{}, err
	}
	return d.showTranscript(ctx, r, t, "Log of "+w.ID)
}

// blob shows a blob as a transcript.
func (d *Dashboard) blob(ctx context.Context, r *http.Request) (view, error) {
	t, err := d.openDigest(ctx, r)
	if err != nil {
		return view{}, err
	}
	return d.showTranscript(ctx, r, t, "Blob "+r.PathValue("digest")[:12])
}

// logPiece and blobPiece return a piece of a transcript, for the script of the page.
func (d *Dashboard) logPiece(ctx context.Context, r *http.Request) (view, error) {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return view{}, err
	}
	t, err := d.openTask(ctx, r, w)
	if err != nil {
		return view{}, err
	}
	return d.showPiece(ctx, r, t)
}

func (d *Dashboard) blobPiece(ctx context.Context, r *http.Request) (view, error) {
	t, err := d.openDigest(ctx, r)
	if err != nil {
		return view{}, err
	}
	return d.showPiece(ctx, r, t)
}

// openTask opens the transcript of a task that a request names. Without a session it is that of the
// last agent.
func (d *Dashboard) openTask(ctx context.Context, r *http.Request,
	w *rules.Work) (*transcript, error) {
	q := r.URL.Query()
	page := &logPage{Task: w.ID, Title: w.Title, Index: inspect.LastAgentSession(w),
		path: "/work/" + w.ID + "/log", names: url.Values{}, Raw: q.Has("raw")}
	t := &transcript{page: page, close: func() error { return nil }}
	var err error
	if page.Sessions, err = inspect.ReadSessions(ctx, d.box.Journal, w, d.opts.Now()); err != nil {
		return nil, err
	}
	if wanted, err := strconv.Atoi(q.Get("session")); err == nil && wanted >= 0 &&
		wanted < len(page.Sessions) {
		page.Index = wanted
	}
	if page.Index < 0 {
		return t, nil
	}
	page.names.Set("session", itoa(page.Index))
	s := &page.Sessions[page.Index]
	if page.Turn = len(s.Turns) - 1; page.Turn < 0 {
		var said strings.Builder
		err := render.NewLog(&said, d.box, w.ID, render.LogOptions{}).Print(ctx, []int{page.Index})
		page.Note = said.String()
		return t, err
	}
	if wanted, err := strconv.Atoi(q.Get("turn")); err == nil && wanted >= 0 &&
		wanted < len(s.Turns) {
		page.Turn = wanted
	}
	page.names.Set("turn", itoa(page.Turn))
	turn := &s.Turns[page.Turn]
	t.o = render.TranscriptOptions{Format: cmp.Or(turn.Format, signalbox.FormatAuto), Role: s.Role,
		Work: w.ID, Name: w.Name()}
	switch {
	case turn.Ended != nil:
		t.o.Turn, page.Outcome = turn, render.Outcome(turn)
		if _, more, found := strings.Cut(turn.Failure, "\n"); found {
			page.Failure = strings.Split(more, "\n")
		}
		return t, d.openBlob(ctx, t, turn.Output)
	case s.To != nil || page.Turn < len(s.Turns)-1:
		page.Note = "The process of this turn was killed. There is no transcript."
		return t, nil
	}
	page.Running = true
	return t, t.openLive(agent.LiveTranscript(d.box.Dir, s.Session), s.Session+"/"+itoa(page.Turn))
}

// openDigest opens the blob that a request names.
func (d *Dashboard) openDigest(ctx context.Context, r *http.Request) (*transcript, error) {
	var digest signalbox.Hash
	if err := digest.UnmarshalText([]byte(r.PathValue("digest"))); err != nil {
		return nil, notFound("'%.100s' is not the digest of a blob", r.PathValue("digest"))
	}
	page := &logPage{Index: -1, path: "/blob/" + digest.String(), Raw: r.URL.Query().Has("raw")}
	t := &transcript{page: page, o: render.TranscriptOptions{Format: signalbox.FormatAuto},
		close: func() error { return nil }}
	err := d.openBlob(ctx, t, digest)
	if err == nil && page.Note != "" {
		err = notFound("%s", page.Note)
	}
	return t, err
}

// openBlob opens the blob of a transcript. What was redacted is a note.
func (d *Dashboard) openBlob(ctx context.Context, t *transcript, digest signalbox.Hash) error {
	if digest == (signalbox.Hash{}) {
		t.page.Note = "The agent wrote nothing."
		return nil
	}
	blob, err := d.box.OpenBlob(ctx, digest)
	if signalbox.CodeOf(err) == signalbox.CodeNotFound {
		t.page.Note = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	t.page.Digest, t.page.Size = digest, blob.Size()
	t.r, t.size, t.key, t.close = blob, blob.Size(), digest.String(), blob.Close
	return nil
}

// openLive opens the output of a running turn. There is none while signals need a key.
func (t *transcript) openLive(path, key string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.page.Note = "The agent is running. Its output can be read here when its turn ends."
		return nil
	}
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	t.page.Size = info.Size()
	t.r, t.size, t.key, t.close = file, info.Size(), key, file.Close
	return nil
}

// showTranscript shows the page of a transcript, and closes it.
func (d *Dashboard) showTranscript(ctx context.Context, r *http.Request, t *transcript,
	title string) (view, error) {
	defer t.close()
	page, q := t.page, r.URL.Query()
	page.At = byteAt(q.Get("at"))
	if t.r == nil {
		return view{template: "log", title: title, data: page}, nil
	}
	marks, err := d.marks(ctx, t)
	if err != nil {
		return view{}, err
	}
	page.Find = cut(q.Get("find"), maxFind)
	if q.Has("go") {
		to, found, err := t.seek(marks, page.Find, q.Get("go"), page.At)
		if err != nil || found {
			return to, err
		}
		page.Missing = true
	}
	if err := t.fill(marks, q); err != nil {
		return view{}, err
	}
	return view{template: "log", title: title, data: page}, nil
}

// showPiece shows a piece of a transcript, and closes it.
func (d *Dashboard) showPiece(ctx context.Context, r *http.Request, t *transcript) (view, error) {
	defer t.close()
	t.page.At = -1
	if t.r == nil {
		return view{template: "log", part: "piece", data: t.page}, nil
	}
	marks, err := d.marks(ctx, t)
	if err != nil {
		return view{}, err
	}
	return view{template: "log", part: "piece", data: t.page}, t.fill(marks, r.URL.Query())
}

// fill reads the piece that is asked for: at a byte, before one, or the last one.
func (t *transcript) fill(marks []signalbox.Signal, q url.Values) (err error) {
	v := render.NewView(t.r, t.size, marks, t.page.Raw, t.o)
	at, before := byteAt(q.Get("at")), byteAt(q.Get("before"))
	switch {
	case at >= t.size && t.size > 0 && !t.page.Running && t.page.At >= 0:
		t.page.Piece, err = v.Before(t.size)
	case at >= 0:
		t.page.Piece, err = v.After(at)
	case before >= 0:
		t.page.Piece, err = v.Before(before)
	default:
		t.page.Piece, err = v.Before(t.size)
	}
	return err
}

// byteAt returns the position in a parameter, -1 if it has none.
func byteAt(text string) int64 {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return n
	}
	return -1
}

// seek returns the way to the next or the previous signal or text: to its place, or, if looking for
// it takes longer, to the address that continues. It returns false if there is none.
func (t *transcript) seek(marks []signalbox.Signal, text, way string,
	at int64) (view, bool, error) {
	page, back := t.page, way == goPrevious
	if text == "" {
		if hit, found := nextMark(marks, at, back); found {
			return view{redirect: page.Link(hit)}, true, nil
		}
		if !back && page.Checked < t.size { // there may be more
			return t.later(page.address(page.path, "go", way, "at", itoa64(at))), true, nil
		}
		return view{}, false, nil
	}
	hit, next, err := find(t.r, t.size, text, at, back)
	switch {
	case err != nil:
		return view{}, false, err
	case hit >= 0:
		return view{redirect: page.address(page.path, "find", text, "at", itoa64(hit))}, true, nil
	case next >= 0:
		return t.later(page.address(page.path, "find", text, "go", way, "at", itoa64(next))), true,
			nil
	}
	return view{}, false, nil
}

// later returns a page that loads another address at once, so that no request takes long.
func (t *transcript) later(path string) view {
	return view{template: "log", title: "Searching", refresh: path, data: t.page}
}

// nextMark returns the place of the next signal after a position, or the previous one before it.
func nextMark(marks []signalbox.Signal, at int64, back bool) (int64, bool) {
	best := int64(-1)
	for _, m := range marks {
		switch {
		case m.To == 0: // about all of it
		case back && m.From < at && m.From > best, !back && m.From > at &&
			(best < 0 || m.From < best):
			best = m.From
		}
	}
	return best, best >= 0
}

// logOfEvent leads to the bytes that an event is about.
func (d *Dashboard) logOfEvent(ctx context.Context, w *rules.Work, number string) (view, error) {
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || seq == 0 {
		return view{}, notFound("there is no event '%.64s'", number)
	}
	events, err := d.box.Journal.Read(ctx, seq-1, 1)
	if err != nil {
		return view{}, err
	}
	if len(events) == 0 || events[0].Work != w.ID {
		return view{}, notFound("there is no event %d of %s", seq, w.ID)
	}
	e := &events[0]
	sessions, err := inspect.ReadSessions(ctx, d.box.Journal, w, d.opts.Now())
	if err != nil {
		return view{}, err
	}
	for i, s := range slices.Backward(sessions) {
		if s.Session != e.Session || s.Epoch > e.Seq || len(s.Turns) == 0 {
			continue
		}
		turn, said := turnOf(&s, e)
		page := &logPage{path: "/work/" + w.ID + "/log",
			names: url.Values{"session": {itoa(i)}, "turn": {itoa(turn)}}}
		if said == nil {
			return view{redirect: page.address(page.path)}, nil
		}
		return d.signalOf(ctx, w, page, said)
	}
	return view{}, notFound("event %d is not about an agent", seq)
}

// said is a signal as an event names it.
type said struct {
	seq    uint64
	name   string
	offset int64 // -1 if it is not known
	reason signalbox.Reason
}

// turnOf returns the turn of a session that an event is about, and the signal, nil if it is about
// the whole turn.
func turnOf(s *inspect.Session, e *signalbox.Event) (turn int, about *said) {
	var blob signalbox.Hash
	switch e.Type {
	case rules.TypeSignalHeard:
		var b rules.SignalHeard
		json.Unmarshal(e.Data, &b) // an event in an unknown form names no blob
		blob, about = b.Blob, &said{e.Seq, b.Signal, b.Offset, ""}
	case rules.TypeSignalRefused:
		var b rules.SignalRefused
		json.Unmarshal(e.Data, &b)
		blob, about = b.Blob, &said{e.Seq, b.Said, -1, b.Reason}
	case rules.TypeAgentTurnEnded:
		var b rules.AgentTurnEnded
		json.Unmarshal(e.Data, &b)
		blob = b.Output
	}
	for i := range s.Turns {
		if blob != (signalbox.Hash{}) && s.Turns[i].Output == blob {
			return i, about
		}
		if !s.Turns[i].Started.After(e.Time) {
			turn = i
		}
	}
	return turn, about
}

// signalOf leads to a signal in a transcript.
func (d *Dashboard) signalOf(ctx context.Context, w *rules.Work, page *logPage,
	about *said) (view, error) {
	r := &http.Request{URL: &url.URL{RawQuery: page.names.Encode()}}
	t, err := d.openTask(ctx, r, w)
	if err != nil {
		return view{}, err
	}
	defer t.close()
	if t.r == nil {
		return view{redirect: page.address(page.path)}, nil
	}
	marks, err := d.marks(ctx, t)
	if err != nil {
		return view{}, err
	}
	accepted := int64(-1)
	for _, m := range marks {
		switch {
		case m.Name != about.name || m.To == 0:
		case about.offset >= 0 && m.Offset == about.offset, about.offset < 0 &&
			m.Refused == about.reason:
			return view{redirect: t.page.Link(m.From)}, nil
		case m.Refused == "" && accepted < 0:
			accepted = m.From
		}
	}
	if t.page.Checked < t.size {
		return t.later(page.path + "?event=" + strconv.FormatUint(about.seq, 10)), nil
	}
	// refused for a reason that is not in the transcript: its lease had ended, for example
	if about.offset < 0 && accepted >= 0 {
		return view{redirect: t.page.Link(accepted)}, nil
	}
	return view{redirect: page.address(page.path)}, nil
}

// cut returns the start of a text, at most n bytes.
func cut(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }
