package rules

import (
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

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

func (b FilesLocked) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		for _, file := range b.Files {
			if owner, held := s.locks[file]; held && owner != w.ID {
				return fmt.Sprintf("%s has %q", owner, file)
			}
		}
		return ""
	})
}

func (b FilesLocked) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Locks = lockOrder(append(slices.Clone(t.Locks), b.Files...))
	})
}

// LocksYielded releases all files that a task has locked.
type LocksYielded struct {
	Reason string `json:"reason,omitempty"`
}

func (b LocksYielded) apply(s *State, e *signalbox.Event) {
	w, _ := s.Work(e.Work)
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Locks, t.Context = nil, strings.TrimPrefix(t.Context+"\n"+b.Reason, "\n")
	})
	s.grantFiles(w.Task.Locks)
}

func (b LocksYielded) describe(*Describer, *signalbox.Event) (text, detail string) {
	return "released its files", b.Reason
}

// FileWaited records that a task asked for a file that another task has locked.
type FileWaited struct {
	File   string `json:"file"`
	Holder string `json:"holder"`
	Count  int    `json:"count"`
}

func (b FileWaited) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Counts.FileWaits = b.Count })
}

func (b FileWaited) describe(*Describer, *signalbox.Event) (text, detail string) {
	return fmt.Sprintf("waiting for %s, which %s is using", b.File, b.Holder), ""
}

// OverlapNoted records that two tasks, each in its own workspace, change the same file.
type OverlapNoted struct {
	File string `json:"file"`
	With string `json:"with"`
}

func (b OverlapNoted) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Overlaps = appendUnique(t.Overlaps, b.note()) })
}

func (b OverlapNoted) describe(*Describer, *signalbox.Event) (text, detail string) {
	if b.With == "" {
		return "", ""
	}
	return fmt.Sprintf("changes %s, and so does %s", b.File, b.With), ""
}
