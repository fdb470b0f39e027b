//go:build unix

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// An agent can replace the files and folders of its program at any time. Reading them must not
// block, and must not leave the folder.
func TestReplacedSessionFiles(t *testing.T) {
	const geminiText = `{"sessionId":"01a1dca2-658f-7e41-975f-e448815575f7","startTime":"2026-11-16T05:00:01.000Z","messages":[` +
		`{"id":"2","timestamp":"2026-11-16T05:00:02.000Z","model":"m","tokens":{"input":500,"output":60,"cached":120}}]}`
	const otherGemini = `{"sessionId":"01a1dca2-658f-7e41-975f-e448815575f7","startTime":"2026-11-16T05:00:01.000Z","messages":[` +
		`{"id":"2","timestamp":"2026-11-16T05:00:02.000Z","model":"m","tokens":{"input":9999,"output":60,"cached":120}}]}`
	for _, program := range []struct {
		format            signalbox.Format
		name, text, other string
	}{
		{signalbox.FormatCodex, "sessions/2026/11/16/rollout-x-" + thread + ".jsonl",
			codexNew + codexFirst, codexNew + codexFirst + codexSecond},
		{signalbox.FormatGemini, "tmp/hash/chats/session-x-01a1dca2.json", geminiText, otherGemini},
	} {
		parts := strings.Split(program.name, "/")
		for level := range len(parts) + 1 {
			replaced := strings.Join(parts[:level], "/") // "" is the state folder itself
			for kind, replace := range map[string]func(name, outside string) error{
				"a pipe": func(name, _ string) error { return syscall.Mkfifo(name, 0o600) },
				"a link": func(name,
					outside string) error {
					return os.Symlink(filepath.Join(outside, replaced), name)
				},
			} {
				for _, found := range []bool{false, true} { // before it is replaced
					t.Run(strings.Join([]string{string(program.format), kind, replaced,
						map[bool]string{false: "new", true: "found"}[found]}, " "),
						func(t *testing.T) {
							dir, outside := filepath.Join(t.TempDir(), "state"), t.TempDir()
							writeState(t, filepath.Join(dir, program.name), program.text)
							writeState(t, filepath.Join(outside, program.name), program.other)
							f := &SessionFiles{Format: program.format, Dir: dir, Private: true,
								Since: started}
							if found {
								if got, ok := f.Read(thread); !ok ||
									got.Usage != usage(500, 120, 60) {
									t.Fatalf("%+v %t", got, ok)
								}
							}
							name := filepath.Join(dir, replaced)
							must.Succeed(t, errors.Join(os.RemoveAll(name),
								replace(name, outside)))
							if got, ok := f.Read(thread); ok && got.Usage != usage(500, 120, 60) {
								t.Errorf("it reads %+v", got)
							}
						})
				}
			}
		}
	}
}

// A line that is too long is skipped, over several reads if it is very long. No part is kept.
func TestLongLineOfASession(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "sessions", "2026", "11", "16", "rollout-x-"+thread+".jsonl")
	long := strings.Replace(codexSecond, `"payload"`, `"padding":"`+
		strings.Repeat("x", maxSessionLine)+`","payload"`, 1)
	writeState(t, name, codexNew+long+codexFirst)
	f := &SessionFiles{Format: signalbox.FormatCodex, Dir: dir, Since: started}
	if got, ok := f.Read(thread); !ok || got.Usage != usage(500, 120, 60) {
		t.Errorf("%+v %t", got, ok)
	}
	size := f.lines.offset + maxSessionFile + maxSessionLine
	if err := os.Truncate(name, size); err != nil { // it grows by a line without an end
		t.Fatal(err)
	}
	before := f.lines.offset
	if f.Read(thread); f.lines.offset != before+maxSessionFile {
		t.Errorf("it read %d bytes at once", f.lines.offset-before)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	must.Succeed(t, err)
	_, err = file.WriteString("\n" + codexSecond)
	must.Succeed(t, errors.Join(err, file.Close()))
	if got, ok := f.Read(thread); !ok || got.Usage != usage(900, 320, 90) {
		t.Errorf("after the line: %+v %t", got, ok)
	}
}
