package prompt

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

//go:embed advice/*.md
var adviceFiles embed.FS

// The names of the pieces of advice that the model gets between turns. They are also the names of
// their files.
const (
	Continue          = "go_on"
	WithoutCapability = "without_capability"
	NoSubAgent        = "no_sub_agent"
	Delegated         = "delegated"
	OtherStrategy     = "other_strategy"
	Hint              = "hint"
	AskFinal          = "ask_final"
	Acknowledge       = "acknowledge"
	ForceAnswer       = "force_answer"
	RepeatedCall      = "repeated_call"
	RefusedCall       = "refused_call"
)

// Advices returns all names of advice.
func Advices() []string {
	return []string{Continue, WithoutCapability, NoSubAgent, Delegated, OtherStrategy, Hint,
		AskFinal, Acknowledge, ForceAnswer,
		RepeatedCall, RefusedCall}
}

// AdviceData has the values for the template of a piece of advice.
type AdviceData struct {
	// Reason and Detail are those of the decision.
	Reason, Detail string
	// Workaround is the configured workaround for a missing capability.
	Workaround string
	// Text is what a sub-agent found.
	Text string
}

func (s *Set) addAdvice(given map[string]string) error {
	s.advice = map[string]*template.Template{}
	for _, name := range Advices() {
		text, replaced := given[name]
		if !replaced {
			file, err := adviceFiles.ReadFile("advice/" + name + ".md")
			if err != nil {
				return fmt.Errorf("prompt: %w", err)
			}
			text = string(file)
		}
		t, err := template.New(name).Option("missingkey=error").Parse(text)
		if err != nil {
			return fmt.Errorf("prompt: advice %s: %w", name, err)
		}
		s.advice[name] = t
		if out, err := s.Advice(name, AdviceData{}); err != nil {
			return err
		} else if out == "" {
			return fmt.Errorf("prompt: advice %s is empty: write a message to the model", name)
		}
	}
	return nil
}

// Advice returns a piece of advice. The error is about a replaced template, or a name that is not
// in Advices.
func (s *Set) Advice(name string, data AdviceData) (string, error) {
	t := s.advice[name]
	if t == nil {
		return "", fmt.Errorf("prompt: there is no advice %q: use one of %s", name,
			strings.Join(Advices(), ", "))
	}
	data.Detail, data.Workaround = oneLine(data.Detail), oneLine(data.Workaround)
	var out strings.Builder
	if err := t.Execute(&out, data); err != nil {
		return "", fmt.Errorf("prompt: advice %s: %w", name, err)
	}
	return strings.TrimSpace(out.String()), nil
}

func isAdvice(name string) bool { return slices.Contains(Advices(), name) }
