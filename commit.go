package signalbox

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckCommit returns nil if id is the full id of a git commit: 40 or 64 lower-case hexadecimal
// digits. Machines pass ids that other machines wrote into the ledger to git, which would take
// other text for an option, a refspec or an expression.
func CheckCommit(id string) error {
	if (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == "" {
		return nil
	}
	return fmt.Errorf("%s is not the full id of a commit", quoteSome(id))
}

// CheckBranch returns nil if name can be the name of a git branch. It follows git check-ref-format,
// and also refuses a name that begins with '-', which git takes for an option, one that git takes
// for another name of the current branch, and one that is not UTF-8.
func CheckBranch(name string) error {
	wrong := name == "HEAD" || name == "@" || strings.HasPrefix(name, "-") ||
		strings.HasSuffix(name, ".") || strings.Contains(name, "..") ||
		strings.Contains(name, "@{") ||
		strings.ContainsAny(name, " ~^:?*[\\\x7f") ||
		strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) ||
		!utf8.ValidString(name)
	for part := range strings.SplitSeq(name, "/") {
		wrong = wrong || part == "" || strings.HasPrefix(part, ".") ||
			strings.HasSuffix(part, ".lock")
	}
	if wrong {
		return fmt.Errorf("%s is not the name of a branch", quoteSome(name))
	}
	return nil
}

// quoteSome quotes the beginning of a text that may be long.
func quoteSome(text string) string {
	const some = 100
	if len(text) > some {
		return fmt.Sprintf("%q…", text[:some])
	}
	return fmt.Sprintf("%q", text)
}
