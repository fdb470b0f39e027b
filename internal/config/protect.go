package config

import (
	"path"
	"strings"
)

// Protects reports whether a path, with slashes and relative to the top of the repository, is protected.
func (c *Config) Protects(name string) bool {
	segments := strings.Split(name, "/")
	for _, pattern := range c.Protected {
		if matches(strings.Split(pattern, "/"), segments) {
			return true
		}
	}
	return false
}

// anyDepth is the segment of a pattern that matches any number of segments.
const anyDepth = "**"

// matches compares segment by segment. On a mismatch it backtracks to the last ** and lets it match one more segment. Earlier
// ones need no backtracking, because the last one can match everything that they could.
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
