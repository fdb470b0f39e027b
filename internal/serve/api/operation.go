package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/transfer"
)

// Prefix is the path of the API. It changes when the API changes incompatibly.
const Prefix = "/api/v1"

const (
	// maxBody is the largest request body. An exit signal with notes fits.
	maxBody = 1 << 20
	// bodyTimeout is how long a client may take to send a body.
	bodyTimeout = 30 * time.Second
)

// operation is one operation of the API: what the document says about it, who may call it, and how
// it is carried out.
type operation struct {
	method string
	// path is a pattern of [http.ServeMux] below Prefix. A task is named T1, or PLAN/T1 with the
	// slash escaped.
	path string
	// name identifies the operation in the document, and in generated clients.
	name, summary string
	// group is the heading under which the document lists it.
	group string
	scope access.Scope
	// ofSession means that the token of the session named in the path is enough.
	ofSession bool
	// heavy means that it may take much time or memory, so only a few run at once.
	heavy bool

	// input and output are the types of the input and of the answer. An output of nil means that
	// the answer is not JSON, but has the content type in media.
	input, output reflect.Type
	media         string
	serve         func(w http.ResponseWriter, r *http.Request, caller access.Caller) error
}

func (o *operation) writes() bool { return o.method != http.MethodGet }

// needs returns the scope that a request needs.
func (o *operation) needs(r *http.Request) access.Scope {
	if o.ofSession {
		return access.Session(r.PathValue("session"))
	}
	return o.scope
}

// call is a request to an operation.
type call struct {
	ctx    context.Context
	caller access.Caller
}

// add adds an operation that answers in JSON. Fields of In with the tag path or query are read from
// the URL; the others are the body.
func add[In, Out any](a *API, o operation, do func(c call, in In) (Out, error)) {
	o.input, o.output, o.media = reflect.TypeFor[In](), reflect.TypeFor[Out](), mediaJSON
	o.serve = func(w http.ResponseWriter, r *http.Request, caller access.Caller) error {
		var in In
		if err := decode(w, r, &in, o.writes()); err != nil {
			return err
		}
		out, err := do(call{r.Context(), caller}, in)
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, out)
	}
	a.operations = append(a.operations, o)
}

// addRaw adds an operation that writes its own answer.
func addRaw[In any](a *API, o operation, do func(c call, in In, w http.ResponseWriter,
	r *http.Request) error) {
	o.input = reflect.TypeFor[In]()
	o.serve = func(w http.ResponseWriter, r *http.Request, caller access.Caller) error {
		var in In
		if err := decode(w, r, &in, o.writes()); err != nil {
			return err
		}
		return do(call{r.Context(), caller}, in, w, r)
	}
	a.operations = append(a.operations, o)
}

const mediaJSON = "application/json"

// Names of the struct tags that say where a field is.
const (
	inPath  = "path"
	inQuery = "query"
)

// usage returns an error about the arguments of a request.
func usage(format string, args ...any) error {
	return signalbox.CodeUsage.Errorf("see "+Prefix+"/openapi.json", format, args...)
}

// decode fills in the input of an operation from a request.
func decode(w http.ResponseWriter, r *http.Request, in any, writes bool) error {
	if writes {
		if err := decodeBody(w, r, in); err != nil {
			return err
		}
	}
	known := map[string]bool{}
	value := reflect.ValueOf(in).Elem()
	for i := range value.NumField() {
		field := value.Type().Field(i)
		text, name := "", field.Tag.Get(inPath)
		if name != "" {
			text = r.PathValue(name)
		} else if name = field.Tag.Get(inQuery); name != "" {
			known[name] = true
			text = r.URL.Query().Get(name)
		}
		if text == "" {
			continue
		}
		if err := setField(value.Field(i), text); err != nil {
			return usage("invalid %s '%.64s': %w", name, text, err)
		}
	}
	for name := range r.URL.Query() {
		if !known[name] {
			return usage("unknown parameter '%.64s'", name)
		}
	}
	return nil
}

// decodeBody reads a JSON object. Unknown fields are errors, so that a misspelt one is noticed.
func decodeBody(w http.ResponseWriter, r *http.Request, in any) error {
	deadlines := http.NewResponseController(w)
	// if that is not supported, the server's own limits apply
	deadlines.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		// otherwise, it would cancel the request while that is carried out
		deadlines.SetReadDeadline(time.Time{})
	} else {
		transfer.DropBody(w, r)
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &access.DeniedError{Status: http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("the request is too large: %d bytes is the limit", maxBody)}
	}
	if err != nil {
		return &access.DeniedError{Status: http.StatusRequestTimeout,
			Message: "the request is incomplete or too slow"}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if media, _, _ := strings.Cut(r.Header.Get("Content-Type"),
		";"); strings.TrimSpace(media) != mediaJSON {
		return &access.DeniedError{Status: http.StatusUnsupportedMediaType,
			Message: "send the body with Content-Type: " + mediaJSON}
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(in); err != nil {
		return usage("the body is not valid: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return usage("the body has something after the JSON object")
	}
	return nil
}

// setField sets a field from text.
func setField(field reflect.Value, text string) error {
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("it is true or false")
		}
		field.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return errors.New("it is a whole number")
		}
		field.SetInt(n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return errors.New("it is a whole number")
		}
		field.SetUint(n)
	default:
		// a test calls every operation
		return fmt.Errorf("fields of kind %s are not supported", field.Kind())
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	writeEncoded(w, status, data)
	return nil
}

// writeEncoded answers with JSON.
func writeEncoded(w http.ResponseWriter, status int, data []byte) {
	w.Header().Set("Content-Type", mediaJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(status)
	out := transfer.NewWriter(w) // a client that has left cannot be told of an error
	out.Write(data)
	out.Write([]byte("\n"))
}
