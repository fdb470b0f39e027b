package fault

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"signalbox/internal/core/rules"
	"signalbox/internal/rehearsal"
)

// TestDemoPlan carries out the plan of signalbox demo with the ledger in each kind of database. The
// short form leaves out a cluster of one node: it has one of three.
func TestDemoPlan(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		if b.name == "nats" && !isFull() {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			testDemoPlan(t, b)
		})
	}
}

func testDemoPlan(t *testing.T, on backend) {
	dir := t.TempDir()
	check(t, rehearsal.Demo(dir))
	text := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		check(t, err)
		return string(text)
	}
	files := map[string]string{}
	check(t, fs.WalkDir(os.DirFS(filepath.Join(dir, "calc")), ".",
		func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				files[name] = text(filepath.Join("calc", name))
			}
			return err
		}))
	f := newFixture(t, scenario{files: files, plan: text("plan.md"), script: text("agents.script"),
		on: on})
	f.write(t, f.file("signalbox.yaml"), f.site.settings+rehearsal.DemoConfig(dir,
		os.Getenv(binaryVariable), 0))
	run := f.startRun(t)
	question := run.await(0, "the question", ofType(rules.TypeQuestionAsked, ""))
	f.must(t, "answer", data[rules.QuestionAsked](question).Question, "two decimals")
	run.end(0)
	events := f.mustVerify(t)
	f.verifyCommand(t, 0)
	f.checkClean(t)
	f.checkNoProcesses(t)
	merges := f.checkBase(t)
	for i := 1; i <= 6; i++ {
		if task := fmt.Sprintf("T%d", i); merges[task] != 1 ||
			len(all[rules.Merged](events, rules.TypeMerged, task)) != 1 {
			t.Errorf("%s was merged %d times", task, merges[task])
		}
	}
}
