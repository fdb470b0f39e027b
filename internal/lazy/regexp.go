// Package lazy builds regular expressions when they are first needed. Built before main, a hundred
// of them would cost every command, and every call of an agent, several milliseconds.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles the expression when it is first called and panics if it
// is not valid.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
