package plan

import (
	"testing"

	"signalbox/internal/testkit/must"
)

// TestSections checks that the sections of a task are a plan again, with the same task.
func TestSections(t *testing.T) {
	const source = `#### Task T1: count
**Work**: Write ` + "`count.sh`" + `.

It counts lines:

` + "```sh\n\t./count.sh FILE\n```" + `

**Acceptance Criteria**

- [ ] it prints a number
  and a line end
- [ ] it fails without a file

**Required Reading**

- docs/count.md

**Target Files**

- count.sh

**Environments**: linux, darwin

**Blocked By**: T2

**Risks**: files with NUL bytes

#### Task T2: prepare
**Work**: nothing
**Acceptance Criteria**
- [ ] it is done
`
	options := &Options{}
	parsed, err := Parse("plan.md", []byte(source), options)
	must.Succeed(t, err)
	first, second := parsed.Tasks[0], parsed.Tasks[1]
	again, err := Parse("plan.md", []byte("#### Task T1: count\n"+first.Sections()+
		"\n\n#### Task T2: prepare\n"+second.Sections()+"\n"), options)
	if err != nil {
		t.Fatalf("%v\n%s", err, first.Sections())
	}
	for i, task := range again.Tasks {
		if want, got := parsed.Tasks[i].Sections(), task.Sections(); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	}
	for _, part := range []string{first.Work, first.Notes} {
		if part == "" {
			t.Errorf("the plan was not read: %+v", first)
		}
	}
	if len(first.Criteria) != 2 || len(first.Reading) != 1 || len(first.Files) != 1 ||
		len(first.Environments) != 2 || len(first.BlockedBy) != 1 {
		t.Errorf("the plan was not read: %+v", first)
	}
}
