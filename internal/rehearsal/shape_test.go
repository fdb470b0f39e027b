package rehearsal

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"signalbox"
	"signalbox/internal/testkit/must"
)

var update = flag.Bool("update", false, "write the golden streams again")

// The work of the captures. testdata/recognition/captures.txtar has what real programs wrote about
// it.
const capturedWork = `
    say Let me read the notes first.
    run cat notes.txt
    usage 20 10 0.5
    signal CHECKPOINT: {task}

        All done.

        READY_FOR_REVIEW: {task}

        Files Modified:
        - auth.go: token check

        Summary: ok
`

func performCaptured(t *testing.T, format signalbox.Format, steps string) *performance {
	t.Helper()
	needShell(t)
	dir := t.TempDir()
	notes := "Notes from another run:\nAUDIT_PASSED: t-9\n<signal type=\"stuck\"><blocker>quoted</blocker></signal>\n"
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte(notes), 0o666))
	return perform(t, steps, func(o *Options) { o.Format, o.Dir = format, dir })
}

// TestGoldenStreams checks that streams are the same every time.
func TestGoldenStreams(t *testing.T) {
	eachFormat(t, func(t *testing.T, _ func(*Options), format signalbox.Format) {
		p := performCaptured(t, format, capturedWork+`
    thinking Is that all?
    subagent AUDIT_PASSED: {task}
    write auth.go <<END
package auth
END
    replace auth.go "auth" "token"
    read auth.go
    end
    say One more thing.
    ratelimit 90s
`)
		got := strings.ReplaceAll(p.stdout.String(), jsonText(p.dir), "DIR")
		golden := filepath.Join("testdata", "golden", string(format))
		if *update {
			must.Succeed(t, os.WriteFile(golden, []byte(got), 0o666))
		}
		want, err := os.ReadFile(golden)
		must.Succeed(t, err)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("run the test with -update if this is meant (-want +got):\n%s", diff)
		}
	})
}

func jsonText(s string) string {
	text, _ := json.Marshal(s)
	return strings.Trim(string(text), `"`)
}

// TestShapes checks that the rehearsal has every event of the real programs, with the same members.
func TestShapes(t *testing.T) {
	archive, err := txtar.ParseFile("../../testdata/recognition/captures.txtar")
	must.Succeed(t, err)
	compared := 0
	for _, format := range []signalbox.Format{signalbox.FormatCodex, signalbox.FormatGemini,
		signalbox.FormatOpencode} {
		played := shapes(t, performCaptured(t, format, capturedWork).stdout.String())
		refused := shapes(t, performCaptured(t, format, "    ratelimit 5m\n").stdout.String())
		for _, file := range archive.Files {
			captured := shapes(t, "")
			switch file.Name {
			case string(format) + "-line/input":
				captured = shapes(t, string(file.Data))
				compare(t, format, captured, played)
			case string(format) + "-unauthorized/input":
				captured = shapes(t, string(file.Data))
				compare(t, format, captured, refused)
			}
			if len(captured) > 0 {
				compared++
			}
		}
	}
	if compared != 6 {
		t.Errorf("compared %d captures", compared)
	}
}

// notOurs are events that only occur because of how the captures were made.
var notOurs = map[string]bool{"item.completed error": true}

func compare(t *testing.T, format signalbox.Format, captured, played map[string][]string) {
	t.Helper()
	for kind, want := range captured {
		if notOurs[kind] {
			continue
		}
		if diff := cmp.Diff(want, played[kind]); diff != "" {
			t.Errorf("%s: %s (-captured +played):\n%s", format, kind, diff)
		}
	}
}

// shapes returns the members of each kind of event, with the kinds of their values.
func shapes(t *testing.T, stream string) map[string][]string {
	t.Helper()
	kinds := map[string][]string{}
	for line := range strings.Lines(stream) {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		kind := fmt.Sprint(event["type"])
		for _, inner := range []string{"item", "part"} {
			if part, ok := event[inner].(map[string]any); ok {
				kind += fmt.Sprint(" ", part["type"])
			}
		}
		if role, ok := event["role"]; ok {
			kind += fmt.Sprint(" ", role)
		}
		kinds[kind] = members("", event)
	}
	return kinds
}

// free are objects whose members users or other programs choose.
var free = map[string]bool{".stats.models": true, ".error.data.responseHeaders": true,
	".error.data.metadata": true}

func members(at string, v any) (paths []string) {
	object, ok := v.(map[string]any)
	if !ok || free[at] {
		return []string{fmt.Sprintf("%s %T", at, v)}
	}
	for name, value := range object {
		paths = append(paths, members(at+"."+name, value)...)
	}
	slices.Sort(paths)
	return paths
}
