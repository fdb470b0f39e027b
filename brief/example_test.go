package brief_test

import (
	"errors"
	"fmt"

	"signalbox/brief"
)

// disks is the result of a tool, with all that the tool found out.
type disks struct {
	Status brief.Status `json:"status"`
	Usage  []usage      `json:"usage"`
}

type usage struct {
	Disk    string `json:"disk"`
	Percent int    `json:"percent"`
}

// diskSnapshot is what a decision needs of it.
type diskSnapshot struct {
	Status  brief.Status `json:"status"`
	Verdict string       `json:"verdict"`
	Full    []string     `json:"full"`
}

func diskTool() brief.Tool[disks, diskSnapshot] {
	return brief.Tool[disks, diskSnapshot]{
		Snapshot: func(d disks) diskSnapshot {
			s := diskSnapshot{Status: d.Status, Full: []string{}}
			for _, u := range d.Usage {
				if u.Percent >= 90 {
					s.Full = append(s.Full, u.Disk)
				}
			}
			s.Verdict = fmt.Sprintf("%d of %d disks almost full", len(s.Full), len(d.Usage))
			return s
		},
		Flags: func(s diskSnapshot) []brief.Flag {
			if len(s.Full) == 0 {
				return nil
			}
			return []brief.Flag{{Flag: "disk_full", Severity: brief.Warning,
				Message: "Free space on " + s.Full[0]}}
		},
		Status: func(s diskSnapshot) brief.Status { return s.Status },
	}
}

// Answers an agent: the snapshot, and the flags derived from it.
func ExampleTool_Answer() {
	result := disks{Status: brief.StatusSuccess, Usage: []usage{{"sda", 97}, {"sdb", 12}}}
	answer, err := diskTool().Answer(result, brief.FormatAgent, brief.Saved{})
	fmt.Println(string(answer), err)
	answer, err = diskTool().Answer(result, brief.FormatFull, brief.Saved{})
	fmt.Println(string(answer), err)
	// Output:
	// {"status":"success","format":"agent","snapshot":{"status":"success","verdict":"1 of 2 disks almost full","full":["sda"]},"flags":[{"flag":"disk_full","severity":"warning","message":"Free space on sda"}],"file_path":null} <nil>
	// {"status":"success","usage":[{"disk":"sda","percent":97},{"disk":"sdb","percent":12}],"flags":[{"flag":"disk_full","severity":"warning","message":"Free space on sda"}]} <nil>
}

// Saves the full result; if that fails, the answer contains the reason.
func ExampleSave() {
	result := disks{Status: brief.StatusSuccess, Usage: []usage{{"sda", 12}}}
	saved := brief.Save(result, "disks.json",
		func(string, []byte) (string, error) { return "", errors.New("no space left on device") })
	answer, err := diskTool().Answer(result, brief.FormatAgent, saved)
	fmt.Println(string(answer), err)
	// Output:
	// {"status":"success","format":"agent","snapshot":{"status":"success","verdict":"0 of 1 disks almost full","full":[]},"flags":[{"flag":"file_not_saved","severity":"error","message":"The full result could not be saved: no space left on device"}],"file_path":null} <nil>
}

// Answers when there is no result at all.
func ExampleFailed() {
	answer, err := brief.Encode(brief.Failed("no_disks", "The disks cannot be read"))
	fmt.Println(string(answer), err)
	// Output:
	// {"status":"error","format":"agent","snapshot":{"status":"error","verdict":"The disks cannot be read"},"flags":[{"flag":"no_disks","severity":"error","message":"The disks cannot be read"}],"file_path":null} <nil>
}
