package api

import (
	"io"
	"net/http"
	"slices"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/workspace"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/transfer"
)

type diffInput struct {
	Task    string `path:"task" json:"-" jsonschema:"the task: its id, or PLAN/ID if several plans have it"`
	Working bool   `query:"working" json:"-" jsonschema:"what the agent has changed in its working copy and not saved yet"`
}

type logInput struct {
	Task    string `path:"task" json:"-" jsonschema:"the task: its id, or PLAN/ID if several plans have it"`
	Session string `query:"session" json:"-" jsonschema:"the session; the default is the last one of an agent"`
	All     bool   `query:"all" json:"-" jsonschema:"all sessions, oldest first"`
}

// addTexts adds the operations that answer with text.
func (a *API) addTexts() {
	const group = "inspect"
	addRaw(a, operation{method: http.MethodGet, path: "/work/{task}/diff", name: "getDiff",
		group: group, scope: access.Read, heavy: true, media: mediaText,
		summary: "Returns what would be merged, or was merged, as a unified diff."},
		func(c call, in diffInput, w http.ResponseWriter, _ *http.Request) error {
			work, err := a.find(c, in.Task)
			if err != nil {
				return err
			}
			d, err := inspect.OpenDiff(c.ctx, a.box, a.opts.Root, work, in.Working)
			if err != nil {
				return err
			}
			defer d.Close()
			return d.Print(c.ctx, textWriter(w), workspace.DiffOptions{})
		})
	addRaw(a, operation{method: http.MethodGet, path: "/work/{task}/log", name: "getLog",
		group: group, scope: access.Read, heavy: true, media: mediaText,
		summary: "Returns what the agents of a task wrote and did, for people to read. The exact bytes are blobs, which the sessions of getWork name."},
		func(c call, in logInput, w http.ResponseWriter, _ *http.Request) error {
			work, err := a.find(c, in.Task)
			if err != nil {
				return err
			}
			sessions, err := in.sessions(work)
			if err != nil {
				return err
			}
			return render.NewLog(textWriter(w), a.box, work.ID, render.LogOptions{}).Print(c.ctx,
				sessions)
		})
}

// sessions returns the indexes of the sessions that a caller asks for.
func (in *logInput) sessions(w *rules.Work) (indexes []int, err error) {
	tenures := w.Tenures()
	switch {
	case in.All:
		for i := range tenures {
			indexes = append(indexes, i)
		}
		return indexes, nil
	case in.Session != "":
		i := slices.IndexFunc(tenures, func(t rules.Tenure) bool { return t.Session == in.Session })
		if i < 0 {
			return nil, notFound("%s had no session '%.64s'", w.ID, in.Session)
		}
		return []int{i}, nil
	}
	last := inspect.LastAgentSession(w)
	if last < 0 {
		return nil, notFound("no agent has worked on %s yet", w.ID)
	}
	return []int{last}, nil
}

// textWriter returns a writer that sets the type of the answer with the first byte, so that an
// error before it can still be a problem.
func textWriter(w http.ResponseWriter) io.Writer {
	return &lateHeader{w: w, out: transfer.NewWriter(w)}
}

type lateHeader struct {
	w     http.ResponseWriter
	out   *transfer.Writer
	began bool
}

func (l *lateHeader) Write(p []byte) (int, error) {
	if !l.began {
		l.w.Header().Set("Content-Type", mediaText)
		l.began = true
	}
	return l.out.Write(p)
}

func notFound(format string, args ...any) error {
	return signalbox.CodeNotFound.Errorf("", format, args...)
}
