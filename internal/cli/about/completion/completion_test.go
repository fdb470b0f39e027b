package completion

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

type grammar struct {
	Paint struct {
		Wall   string   `arg:"" help:"The wall."`
		Colour string   `enum:"red,green" default:"red" help:"The colour."`
		Tags   []string `help:"Labels."`
	} `cmd:"" help:"Paint a wall."`
}

func TestCandidates(t *testing.T) {
	app, err := kong.New(&grammar{}, kong.Name("tool"))
	must.Succeed(t, err)
	var asked []string
	values := func(command *kong.Node, v *kong.Value, word string) []Candidate {
		asked = append(asked, command.Name+" "+v.Name+" "+word)
		return []Candidate{{"north", "cold"}, {"nowhere", ""}, {"south", "warm"}, {"", "nothing"}}
	}
	for _, tt := range []struct {
		words string
		want  []Candidate
		asked string
	}{
		{"p", []Candidate{{"paint", "Paint a wall."}}, ""},
		{"paint no", []Candidate{{"north", "cold"}, {"nowhere", ""}}, "paint wall no"},
		{"paint north s", nil, ""},
		{"paint --tags no", []Candidate{{"north", "cold"}, {"nowhere", ""}}, "paint tags no"},
		{"paint --tags = ", []Candidate{{"north", "cold"}, {"nowhere", ""}, {"south", "warm"}},
			"paint tags "},
		{"paint --tags =", []Candidate{{"north", "cold"}, {"nowhere", ""}, {"south", "warm"}},
			"paint tags "},
		{"paint --tags north,x,s", []Candidate{{"north,x,south", "warm"}}, "paint tags s"},
		{"paint --tags=north,s", []Candidate{{"--tags=north,south", "warm"}}, "paint tags s"},
		{"paint --colour r", []Candidate{{"red", ""}}, "paint colour r"},
		{"paint north,s", nil, "paint wall north,s"}, // an argument is not a list
	} {
		asked = nil
		got := Candidates(app.Model.Node, values, strings.Split(tt.words, " "))
		if diff := cmp.Diff(tt.want, got); diff != "" || strings.Join(asked, ";") != tt.asked {
			t.Errorf("%s: asked for %q (-want +got):\n%s", tt.words, asked, diff)
		}
	}
	if got := Candidates(app.Model.Node, nil, []string{"paint", "n"}); got != nil {
		t.Errorf("without values: %v", got)
	}
}
