package plan

import (
	_ "embed"
	"strings"

	"signalbox"
)

//go:embed skeleton.md
var skeleton string

// Skeleton returns a plan that explains itself, with a title. The error says that the title would
// not be the name of the plan.
func Skeleton(title string) ([]byte, error) {
	text := []byte(strings.Replace(skeleton, "TITLE", Escape(title), 1))
	if err := CheckTitle(text, title); err != nil {
		return nil, err
	}
	return text, nil
}

// CheckTitle reports that a title that was written into a plan is not its name, because it has a
// meaning of its own or is not one line.
func CheckTitle(text []byte, title string) error {
	p, err := Parse("plan.md", text, nil)
	if err == nil && p.Name == strings.Join(strings.Fields(title), " ") && p.ID == "" {
		return nil
	}
	return signalbox.CodeUsage.Errorf(
		"use one line of plain text that does not begin with Task, Phase or Plan",
		"%s cannot be the title of a plan", quote(title))
}

// Escape returns text on one line that Markdown shows as it is.
func Escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_{}[]<>#&~|!", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
