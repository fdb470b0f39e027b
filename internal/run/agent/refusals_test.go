package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
)

// These lines are from version 1.18 of opencode.
const (
	logCreated = `timestamp=%s level=INFO run=aa message="creating instance" directory=%s` + "\n"
	logStream  = `timestamp=%s level=INFO run=aa message=stream providerID=p modelID=m session.id=ses_1 small=%t agent=build mode=primary` + "\n"
	logError   = `timestamp=%s level=ERROR run=aa message="stream error" providerID=p modelID=m session.id=ses_1 small=%t agent=build mode=primary error.error="AI_APICallError: Rate limit \"x\" reached"` + "\n"
)

// after returns a time of a log, in seconds after the start of the program.
func after(seconds int) string {
	return started.Add(time.Duration(seconds) * time.Second).Format("2006-01-02T15:04:05.000Z")
}

func TestRefusals(t *testing.T) {
	const folder = "/work/a b"
	created := fmt.Sprintf(logCreated, after(1), fmt.Sprintf("%q", folder))
	stream := func(at int) string { return fmt.Sprintf(logStream, after(at), false) }
	refused := func(at int) string { return fmt.Sprintf(logError, after(at), false) }
	for _, tt := range []struct {
		name, text string
		private    bool
		heard      int
		since      int // 0 if it does not wait
	}{
		{"refused again and again", created + stream(2) + refused(3) + stream(5) + refused(6), true, 0, 3},
		{"no folder is needed in a home of its own", refused(3), true, 0, 3},
		{"but in that of others", refused(3), false, 0, 0},
		{"in this folder", created + refused(3), false, 0, 3},
		{"a request is on its way", created + refused(3) + stream(5), true, 0, 0},
		{"it was heard of since", refused(3), true, 4, 0},
		{"heard of between two", refused(3) + refused(6), true, 4, 6},
		{"before it was started", refused(-1), true, -9, 0},
		{"about the title", fmt.Sprintf(logError, after(3), true), true, 0, 0},
		{"an incomplete line", refused(3)[:150], true, 0, 0},
		{"not a log", "=\n\"=\"\nx y=z\n{\n" + strings.Repeat("x", maxSessionLine+1) + "\n", true, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			r := &Refusals{Dir: filepath.Join(home, "share", "opencode"), Workspace: folder,
				Since: started}
			if tt.private {
				r.Home = home
			}
			name := filepath.Join(r.Dir, "log", "opencode.log")
			heard := started.Add(time.Duration(tt.heard) * time.Second)
			for _, text := range []string{"", tt.text[:len(tt.text)/2], tt.text} { // while it is written
				writeState(t, name, text)
				r.Read(heard)
			}
			message, since, ok := r.Read(heard)
			if ok != (tt.since > 0) || ok && (!since.Equal(started.Add(time.Duration(tt.since)*time.Second)) ||
				message != `AI_APICallError: Rate limit "x" reached`) {
				t.Errorf("%q %v %t", message, since, ok)
			}
		})
	}
}

// A program can make a link that leads out of its home folder, but files outside are not read.
func TestRefusalsElsewhere(t *testing.T) {
	home, outside := t.TempDir(), t.TempDir()
	writeState(t, filepath.Join(outside, "opencode", "log", "opencode.log"),
		fmt.Sprintf(logError, after(3), false))
	must.Succeed(t, os.Symlink(outside, filepath.Join(home, "share")))
	r := &Refusals{Dir: filepath.Join(home, "share", "opencode"), Home: home, Since: started}
	if message, _, ok := r.Read(started); ok {
		t.Errorf("read %q", message)
	}
}

func FuzzLogFields(f *testing.F) {
	f.Add(fmt.Sprintf(logError, after(3), false))
	f.Add(`a="b c" d= e`)
	f.Fuzz(func(t *testing.T, line string) {
		for key, value := range logFields(line) {
			if key == "" || len(key)+len(value) > 4*len(line) {
				t.Errorf("%q is %q in %q", key, value, line)
			}
		}
	})
}
