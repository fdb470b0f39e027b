package render

import (
	"testing"

	"signalbox/internal/core/rules"
)

func TestAnswered(t *testing.T) {
	for _, test := range []struct {
		answer rules.Answer
		want   string
	}{
		{rules.Answer{Work: "T2"}, "answered Q-1; T2 continues"},
		{rules.Answer{}, "answered Q-1; the run continues"},
		{rules.Answer{Role: "developer", Paused: true},
			"answered Q-1; the role developer is paused"},
		{rules.Answer{Work: "B-1", Understood: "running the checks again"},
			"answered Q-1; running the checks again"},
	} {
		if got := Answered("Q-1", test.answer); got != test.want {
			t.Errorf("%+v: %q, want %q", test.answer, got, test.want)
		}
	}
}
