package config

import (
	"path"
	"slices"
	"strings"

	"signalbox/internal/git"
)

// Protects reports whether a path, with slashes and relative to the top of the repository, is
// protected. A pattern that matches a folder protects everything in it. Names that some system
// takes for the same file are the same: see git.FoldName.
func (c *Config) Protects(name string) bool {
	for segment := range strings.SplitSeq(git.FoldPath(name), "/") {
		if segment == boxFolder {
			return true
		}
	}
	return anyPattern(slices.Concat(c.Protected, alwaysProtected), name, within)
}

// ProtectsExisting reports whether a path, as in Protects, is protected if it is on the base.
func (c *Config) ProtectsExisting(name string) bool {
	return anyPattern(c.ProtectedExisting, name, within)
}

// within reports whether a pattern matches a path or a folder that contains it.
func within(pattern, segments []string) bool {
	for i := range segments {
		if matches(pattern, segments[:i+1]) {
			return true
		}
	}
	return false
}

// ProtectsBelow reports whether some path below this one could be protected.
func (c *Config) ProtectsBelow(name string) bool {
	return anyPattern(slices.Concat(c.Protected, alwaysProtected), name, func(pattern,
		segments []string) bool {
		for i, segment := range pattern {
			if i == len(segments) || segment == anyDepth {
				return true
			}
			if ok, err := path.Match(segment, segments[i]); !ok || err != nil {
				return false
			}
		}
		return true // the pattern matches this path, or a folder that contains it
	})
}

// alwaysProtected are the patterns that need not be named: the team's configuration, and the list
// of files to copy into worktrees. A task could also add them.
var alwaysProtected = []string{FileName, ".worktreeinclude"}

// boxFolder is the name of a box, which is protected in every folder: a task could add one with a
// configuration of its own.
const boxFolder = ".signalbox"

// anyPattern reports whether one of the patterns matches a path as they are, or folded.
func anyPattern(patterns []string, name string, match func(pattern, segments []string) bool) bool {
	for _, pattern := range patterns {
		if match(strings.Split(pattern, "/"), strings.Split(name, "/")) ||
			match(strings.Split(git.FoldPath(pattern), "/"),
				strings.Split(git.FoldPath(name), "/")) {
			return true
		}
	}
	return false
}

// anyDepth is the segment of a pattern that matches any number of segments.
const anyDepth = "**"

// matches compares segment by segment. On a mismatch it backtracks to the last ** and lets it match
// one more segment. Earlier ones need no backtracking, because the last one can match everything
// that they could.
func matches(pattern, segments []string) bool {
	var afterAny, resume []string
	inAny := false
	for len(segments) > 0 {
		if len(pattern) > 0 && pattern[0] == anyDepth {
			pattern = pattern[1:]
			afterAny, resume, inAny = pattern, segments, true
			continue
		}
		if len(pattern) > 0 {
			if ok, err := path.Match(pattern[0], segments[0]); ok && err == nil {
				pattern, segments = pattern[1:], segments[1:]
				continue
			}
		}
		if !inAny {
			return false
		}
		resume = resume[1:]
		pattern, segments = afterAny, resume
	}
	for len(pattern) > 0 && pattern[0] == anyDepth {
		pattern = pattern[1:]
	}
	return len(pattern) == 0
}
