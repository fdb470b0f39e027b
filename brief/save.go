package brief

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Saver writes a file called name to a folder of its choice and returns the absolute path. When it
// returns, the file must be complete and durable. It must not replace an existing file.
type Saver func(name string, data []byte) (path string, err error)

// Saved is the result of saving the full result. The zero value means that no file was requested.
type Saved struct {
	Path string
	Err  error
	// Required means that the answer is of no use without the file, so that its status is error if
	// the file was not written.
	Required bool
}

// status returns the status of the whole answer. A file that could not be written does not change
// it, unless it is required.
func (s Saved) status(of Status) Status {
	if s.Err != nil && s.Required {
		return StatusError
	}
	return of
}

// Save writes the full result as indented JSON. Call it before formatting the answer, which
// contains the path.
func Save(result any, name string, save Saver) Saved {
	if save == nil {
		return Saved{Err: errors.New("no folder is configured")}
	}
	compact, err := Encode(result)
	if err != nil {
		return Saved{Err: err}
	}
	var data bytes.Buffer
	if err := json.Indent(&data, compact, "", "  "); err != nil {
		return Saved{Err: err}
	}
	data.WriteByte('\n')
	path, err := save(name, data.Bytes())
	switch {
	case err != nil:
		return Saved{Err: err}
	case !filepath.IsAbs(path):
		return Saved{Err: fmt.Errorf("the path %q is not absolute", path)}
	}
	return Saved{Path: path}
}

// requested reports whether the caller wanted a file, even if it could not be written.
func (s Saved) requested() bool { return s.Path != "" || s.Err != nil }

func (s Saved) filePath() *string {
	if s.Path == "" || s.Err != nil {
		return nil
	}
	return &s.Path
}

// maxReason keeps the message of a flag short, whatever the operating system reports.
const maxReason = 120

func (s Saved) flags() []Flag {
	if s.Err == nil {
		return nil
	}
	reason := s.Err.Error()
	// Do not disclose the folder.
	if pathError, ok := errors.AsType[*fs.PathError](s.Err); ok {
		reason = pathError.Err.Error()
	}
	reason, _, _ = strings.Cut(reason, "\n")
	return []Flag{{
		Flag: "file_not_saved", Severity: Error,
		Message: "The full result could not be saved: " + cut(reason, maxReason),
	}}
}

// FileName returns <prefix>_<subject>_<yyyymmdd_hhmmss>-<random>.json, without the subject if that
// is empty. The time is formatted in its own location. The prefix and random have 1 to 32 letters,
// digits and '_'; random distinguishes two answers of the same second. The subject, such as a
// ticker, has 1 to 21 of A-Z, 0-9, '.', '^', '=' and '-'.
func FileName(prefix, subject string, at time.Time, random string) (string, error) {
	for _, part := range []struct{ what, text string }{{"prefix", prefix}, {"random part", random}} {
		if !isWord(part.text) {
			return "", fmt.Errorf("file name: invalid %s %q: use 1 to 32 letters, digits and '_'",
				part.what, cut(part.text, 40))
		}
	}
	if year := at.Year(); year < 0 || year > 9999 {
		return "", fmt.Errorf("file name: the year %d has more than four digits: check the clock",
			year)
	}
	name := prefix
	if subject != "" {
		if len(subject) > maxSubject || strings.ContainsFunc(subject, notInSubject) {
			return "", fmt.Errorf(
				"file name: invalid subject %q: use 1 to 21 of A-Z, 0-9, '.', '^', '=' and '-'",
				cut(subject, 40))
		}
		name += "_" + subject
	}
	return name + "_" + at.Format("20060102_150405") + "-" + random + ".json", nil
}

// maxSubject is the length of the symbol of an option.
const maxSubject = 21

func notInSubject(r rune) bool {
	return !(r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".^=-", r))
}

func isWord(text string) bool {
	for _, b := range []byte(text) {
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
		if !letter && !(b >= '0' && b <= '9') && b != '_' {
			return false
		}
	}
	return len(text) >= 1 && len(text) <= 32
}
