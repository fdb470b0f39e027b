package transcript_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

func FuzzParseExit(f *testing.F) {
	for _, c := range seedExits {
		f.Add([]byte(c.json))
	}
	if corpus, _ := filepath.Glob("testdata/fuzz/FuzzParseExit/*"); len(corpus) == 0 {
		f.Fatal("no corpus under testdata/fuzz/FuzzParseExit")
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := transcript.ParseExit(data)
		if err != nil {
			checkExitRefusal(t, data, err)
		} else {
			checkExitAccepted(t, data, got)
		}
		if len(data) > transcript.MaxExitBytes || loneSurrogateWritten(data) {
			return // encoding/json accepts both
		}
		invalidJSON := err != nil && strings.HasPrefix(err.Error(), "invalid JSON: ")
		if reference := exitShape(data); invalidJSON != (reference != nil) {
			t.Errorf("%q: %v, but encoding/json: %v", data, err, reference)
		}
	})
}

func checkExitAccepted(t *testing.T, data []byte, got *signalbox.ExitSignal) {
	if err := got.Validate(); err != nil {
		t.Errorf("%q is accepted, yet %v", data, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var want signalbox.ExitSignal
	if err := decoder.Decode(&want); err != nil {
		t.Fatalf("%q is accepted, but encoding/json: %v", data, err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("%q (-encoding/json +got):\n%s", data, diff)
	}
	marshalled, err := json.Marshal(got)
	must.Succeed(t, err)
	if len(marshalled) > transcript.MaxExitBytes {
		return // encoding/json escapes characters that HTML treats specially
	}
	again, err := transcript.ParseExit(marshalled)
	if err != nil {
		t.Fatalf("%q is accepted, but not as %q: %v", data, marshalled, err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("%q written again (-first +second):\n%s", data, diff)
	}
}

var exitPosition = regexp.MustCompile(` at line (\d+) column (\d+)$`)

// checkExitRefusal checks that the error is printable and points into the data.
func checkExitRefusal(t *testing.T, data []byte, err error) {
	var refused *signalbox.ExitSignalError
	if !errors.As(err, &refused) {
		t.Fatalf("%q: %T, want an ExitSignalError", data, err)
	}
	text := err.Error()
	if unprintable := func(r rune) bool { return !strconv.IsPrint(r) }; strings.ContainsFunc(text,
		unprintable) || len(text) > 1024 {
		t.Errorf("%q: not fit to be shown: %q", data, text)
	}
	if !strings.HasPrefix(text, "invalid JSON: ") {
		return
	}
	position := exitPosition.FindStringSubmatch(text)
	if position == nil {
		t.Fatalf("%q: no line and column: %s", data, text)
	}
	line, _ := strconv.Atoi(position[1])
	column, _ := strconv.Atoi(position[2])
	lines := bytes.SplitAfter(data, []byte("\n"))
	if line < 1 || line > len(lines) || column < 1 || column > len(lines[line-1])+1 {
		t.Errorf("%q: outside the data: %s", data, text)
	}
}

// exitShape checks the JSON with the tokens of encoding/json.
func exitShape(data []byte) error {
	if !utf8.Valid(data) || !json.Valid(data) {
		return errors.New("not JSON")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("not an object: %v", err)
	}
	required := []string{"protocol", "version", "phase_completed", "exit_reason"}
	known := append(required, "pr_url", "evidence_bundle_ref", "notes")
	seen := map[string]any{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		name := key.(string)
		if _, twice := seen[name]; twice || !slices.Contains(known, name) {
			return fmt.Errorf("unknown or twice: %q", name)
		}
		value, err := decoder.Token()
		if err != nil {
			return err
		}
		_, text := value.(string)
		if !text && (value != nil || slices.Contains(required, name)) {
			return fmt.Errorf("%s is not a string", name)
		}
		seen[name] = value
	}
	for _, name := range required {
		if _, ok := seen[name]; !ok {
			return fmt.Errorf("no %s", name)
		}
	}
	if _, err := decoder.Token(); err != nil && err != io.EOF {
		return err
	}
	if !slices.Contains(signalbox.Phases(), signalbox.Phase(seen["phase_completed"].(string))) ||
		!slices.Contains(signalbox.ExitReasons(),
			signalbox.ExitReason(seen["exit_reason"].(string))) {
		return errors.New("unknown variant")
	}
	return nil
}

// loneSurrogateWritten reports whether data may have a lone surrogate, which encoding/json
// replaces. It also returns true for pairs.
func loneSurrogateWritten(data []byte) bool {
	return bytes.Contains(bytes.ToLower(data), []byte(`\ud`))
}
