package crew

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

// What a running agent writes is in a file that others can follow, unless its signals have a key.
// The file is gone when the turn is over.
func TestLiveTranscript(t *testing.T) {
	for name, settings := range map[string]string{"plain": "", "keyed": "keyed: true\n"} {
		t.Run(name, func(t *testing.T) {
			var s *stage
			var mu sync.Mutex
			read, missing := "", 0
			s = set(t, scene{plan: task("T1"), settings: settings,
				script: "on developer *:\n    say I read the plan.\n    signal READY_FOR_REVIEW: {task}\n",
				// it is called when the text is in the file
				options: Options{Live: func(a agent.Activity) {
					mu.Lock()
					defer mu.Unlock()
					text, err := os.ReadFile(agent.LiveTranscript(s.box.Dir, a.Session))
					if errors.Is(err, fs.ErrNotExist) {
						missing++
					}
					if a.Role == signalbox.RoleDeveloper {
						read += string(text)
					}
				}}})
			s.run()
			s.wantCompleted("T1")
			if keyed := settings != ""; keyed && (read != "" || missing == 0) {
				t.Errorf("an agent with a key can be followed: %q", read)
			} else if !keyed && (!strings.Contains(read, "I read the plan.\n") || missing > 0) {
				t.Errorf("followed %q, %d times in vain", read, missing)
			}
			left, err := filepath.Glob(filepath.Join(s.box.Dir, contain.TempFolder, "*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// The file of a crew that was killed is removed with its other temporary files.
func TestLiveTranscriptOfAKilledCrew(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	c := &Crew{box: s.box}
	name := agent.LiveTranscript(s.box.Dir, "w-0123456789ab.3")
	file, err := createTranscript(name, false)
	must.Succeed(t, err)
	file.Close()
	must.Succeed(t, c.removeTemps("w-0123456789ab"))
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
