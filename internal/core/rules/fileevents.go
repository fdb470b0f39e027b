package rules

// The types of events about files that several tasks change.
const (
	TypeFilesLocked  = "FilesLocked"
	TypeLocksYielded = "LocksYielded"
	TypeFileWaited   = "FileWaited"
	TypeOverlapNoted = "OverlapNoted"
)

// FilesLocked locks files of a shared workspace for a task.
type FilesLocked struct {
	Files []string `json:"files"`
}

func (FilesLocked) eventType() string { return TypeFilesLocked }

// LocksYielded releases all files that a task has locked.
type LocksYielded struct {
	Reason string `json:"reason,omitempty"`
}

func (LocksYielded) eventType() string { return TypeLocksYielded }

// FileWaited records that a task asked for a file that another task has locked.
type FileWaited struct {
	File   string `json:"file"`
	Holder string `json:"holder"`
	Count  int    `json:"count"`
}

func (FileWaited) eventType() string { return TypeFileWaited }

// OverlapNoted records that two tasks, each in its own workspace, change the same file.
type OverlapNoted struct {
	File string `json:"file"`
	With string `json:"with"`
}

func (OverlapNoted) eventType() string { return TypeOverlapNoted }
