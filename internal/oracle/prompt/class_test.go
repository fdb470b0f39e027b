package prompt_test

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"signalbox/internal/oracle/prompt"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

func newSet(t rapid.TB, opts *prompt.Options) *prompt.Set {
	t.Helper()
	s, err := prompt.New(opts)
	must.Succeed(t, err)
	return s
}

func TestClassify(t *testing.T) {
	s := newSet(t, nil)
	for question, want := range map[string]prompt.Class{
		"What does the auth function do?":             prompt.Code,
		"Where is the bug in parser.go?":              prompt.Code,
		"fix the bug in the parser":                   prompt.Code,
		"Thanks! Now where is the caller of Strip?":   prompt.Code,
		"ERKLÄRE DIE FUNKTION":                        prompt.Code,
		"What do the notes say about onboarding?":     prompt.Documentation,
		"is this documented in the README":            prompt.Documentation,
		"Compare both approaches":                     prompt.Research,
		"which of my holdings can I harvest for tax?": prompt.Research,
		"What about the third quarter?":               prompt.Research,
		"thanks, what about the third quarter?":       prompt.Research,
		"Почему небо голубое?":                        prompt.Research,
		"zebra":                                       prompt.Research,
		"":                                            prompt.Research,
		"  ?! ":                                       prompt.Research,
		"deploy the new version":                      prompt.Action,
		"thanks! run":                                 prompt.Action,
		"yes, do it":                                  prompt.Action,
		"thanks":                                      prompt.Conversational,
		"Thanks!":                                     prompt.Conversational,
		"THANK YOU so much for your help :-)":         prompt.Conversational,
		"thanks, Bob":                                 prompt.Conversational,
		"How are you?":                                prompt.Conversational,
		"who are you":                                 prompt.Conversational,
		"Hi":                                          prompt.Conversational,
		"Спасибо!":                                    prompt.Conversational,
		"ΕΥΧΑΡΙΣΤΏ":                                   prompt.Conversational,
		"thanks to Bob we shipped ahead of schedule":  prompt.Research,
		// Parts of words do not match.
		"this":              prompt.Research, // hi
		"a capital prefix":  prompt.Research, // api, fix
		"contested threads": prompt.Research, // test, read
		"notable docks":     prompt.Research, // note, doc
		"thanksgiving":      prompt.Research, // thanks
		"okra":              prompt.Research, // ok
		"rerun_all":         prompt.Research, // run
	} {
		if got := s.Classify(question); got != want {
			t.Errorf("%q is %s, want %s", question, got, want)
		}
	}
}

func TestWordsMatchWhole(t *testing.T) {
	s := newSet(t, &prompt.Options{Words: "code 1 cat\naction 2 cat nap\ndocumentation 3 nap\naction 1 naïve\ndocumentation 1 one\nconversational 1 so\n"})
	for question, want := range map[string]prompt.Class{
		"category": prompt.Research, "concat": prompt.Research, "cats": prompt.Research,
		"cat_flap": prompt.Research, "cat2": prompt.Research,
		"cat": prompt.Code, "CAT!": prompt.Code, "(cat)": prompt.Code,
		"the cat's tail": prompt.Code, "a-cat-b": prompt.Code, "日 cat、": prompt.Code,
		"cat nap": prompt.Action, "cat, nap": prompt.Action, "cat naps": prompt.Code,
		"nap cat": prompt.Documentation, "cat\u0301": prompt.Research,
		"NAÏVE": prompt.Action, "na": prompt.Research,
		"one cat":         prompt.Code,           // the same weight: the order of the classes
		"one one one cat": prompt.Code,           // each word once
		"one cat cat nap": prompt.Action,         // 1, 1, 2
		"ſo":              prompt.Conversational, // the long s is an s
	} {
		if got := s.Classify(question); got != want {
			t.Errorf("%q is %s, want %s", question, got, want)
		}
	}
}

func TestClassifyDoesNotDependOnCaseOrSpacing(t *testing.T) {
	s := newSet(t, nil)
	property.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"thanks", "code", "cat", "run", "notes",
			"how", "are", "you", "σίσυφος", "ありがとう", "danke", "schön", "x"}), 0, 8).Draw(t, "words")
		class := s.Classify(strings.Join(parts, " "))
		if got := s.Classify(strings.ToUpper(strings.Join(parts, ",\n\t—"))); got != class {
			t.Errorf("%q is %s, in upper case %s", parts, class, got)
		}
		if got := s.Classify(strings.Join(parts, "zz ") + "zz"); len(parts) > 0 &&
			got != prompt.Research {
			t.Errorf("%q with zz at the end of each word is %s", parts, got)
		}
	})
}

func FuzzClassify(f *testing.F) {
	s := newSet(f, nil)
	f.Add("thanks \xff code\u0301")
	f.Fuzz(func(t *testing.T, question string) {
		class := s.Classify(question)
		if again := s.Classify(" " + question + "!"); again != class {
			t.Errorf("%q is %s, then %s", question, class, again)
		}
		if strings.IndexFunc(question, unicode.IsLetter) < 0 && class != prompt.Research {
			t.Errorf("%q has no word and is %s", question, class)
		}
	})
}

func TestBadWordTables(t *testing.T) {
	for table, want := range map[string]string{
		"# remark\n\ncode 1":     "prompt: words, line 3: write a class, a weight and a word",
		"coding 1 x":             `prompt: words, line 1: unknown class "coding": the classes are [code action`,
		"code 0 x":               `prompt: words, line 1: weight "0" is not a number from 1 to 9`,
		"code 10 x":              `prompt: words, line 1: weight "10" is not a number from 1 to 9`,
		"code one x":             `prompt: words, line 1: weight "one" is not a number from 1 to 9`,
		"code 1 --":              `prompt: words, line 1: "--" is not a word`,
		"code 1 X\nresearch 2 x": `prompt: words, line 2: duplicate "X"`,
	} {
		if _, err := prompt.New(&prompt.Options{Words: table}); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", table, err, want)
		}
	}
}
