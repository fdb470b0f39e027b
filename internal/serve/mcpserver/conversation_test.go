package mcpserver

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/internal/portfolio"
	"signalbox/internal/portfolio/example"
	"signalbox/internal/testkit/must"
)

// assistant knows nothing but the descriptions of the tools: it calls the one whose description has
// the most words of a question, and fills in the arguments that the question has.
type assistant struct{ *caller }

var (
	anyWord   = regexp.MustCompile(`[a-z]+`)
	aTicker   = regexp.MustCompile(`\b[A-Z]{2,}\b`)
	aDay      = regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`)
	aYear     = regexp.MustCompile(`\bin (\d{4})\b`)
	anAmount  = regexp.MustCompile(`\$(\d+)`)
	someUnits = regexp.MustCompile(`\b(\d+) shares\b`)
)

// wordsOf returns the words of a text, without the endings of their forms.
func wordsOf(text string) map[string]bool {
	words := make(map[string]bool)
	for _, w := range anyWord.FindAllString(strings.ToLower(text), -1) {
		for _, ending := range []string{"es", "s", "ed", "ing"} {
			if short := strings.TrimSuffix(w, ending); len(short) > 3 {
				w = short
			}
		}
		words[w] = true
	}
	return words
}

// choose returns the tool for a question. A word counts the more, the fewer descriptions have it.
func (a assistant) choose(question string) string {
	descriptions := make(map[string]map[string]bool)
	for name, tool := range a.tools {
		descriptions[name] = wordsOf(tool.Title + " " + tool.Description)
	}
	best, most := "", 0.0
	for _, name := range slices.Sorted(maps.Keys(descriptions)) {
		score := 0.0
		for w := range wordsOf(question) {
			with := 0
			for _, d := range descriptions {
				if d[w] {
					with++
				}
			}
			if descriptions[name][w] {
				score += math.Log(float64(1+len(descriptions)) / float64(with))
			}
		}
		if score > most {
			best, most = name, score
		}
	}
	return best
}

// ask answers a question with one call.
func (a assistant) ask(question string) (tool string, answer *response) {
	tool = a.choose(question)
	in := args{}
	for argument, found := range map[string][]string{
		"ticker": aTicker.FindStringSubmatch(question), "as_of": aDay.FindStringSubmatch(question),
		"year": aYear.FindStringSubmatch(question), "cash": anAmount.FindStringSubmatch(question),
		"shares": someUnits.FindStringSubmatch(question)} {
		if found != nil && a.takes(tool, argument) {
			in[argument] = found[len(found)-1]
			if argument == "year" || argument == "cash" || argument == "shares" {
				in[argument] = number(found[len(found)-1])
			}
		}
	}
	return tool, a.call(tool, in)
}

func number(text string) float64 {
	n := 0.0
	for _, digit := range text {
		n = 10*n + float64(digit-'0')
	}
	return n
}

// TestConversation asks what a person asks about a portfolio. The descriptions lead to the tool,
// and one answer in the format agent has all facts: the caller need not add anything up, or ask
// again.
func TestConversation(t *testing.T) {
	dir := t.TempDir()
	_, err := example.Write(dir)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "positions.csv"),
		[]byte("date,account,ticker,quantity,basis\n2026-06-30,ira,MSFT,1,400\n"), 0o600))
	desk := portfolio.NewDesk(dir, &portfolio.Options{Logs: filepath.Join(t.TempDir(), "logs"),
		Now: func() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }})
	a := assistant{newCaller(t, newServer(t, newBox(t), &Options{Portfolio: desk}))}
	for _, tt := range []struct {
		question, tool string
		facts          []string // of the answer
	}{
		{"Can I sell SLV today?", "simulate_sale", []string{
			"Selling 365 SLV realizes -$1,186.60 short-term and $4,976.00 long-term",
			"costs $737.99 of tax this year", `"wash_sale_disallowed":0`,
			`"clean_date":"2026-06-30"`, "Do not buy SLV before 2026-07-31"}},
		{"Can I sell 273 shares of SLV today?", "simulate_sale", []string{
			"-$115.72 short-term and $4,976.00 long-term, after $108.50 of losses disallowed",
			"clean from 2026-07-11"}},
		{"What would a sale of 50 shares of SLV do to my taxes?", "simulate_sale",
			[]string{"Selling 50 SLV realizes"}},
		{"I need $2000: what would the sale of SLV do?", "simulate_sale",
			[]string{"SLV realizes", `"proceeds":2`}},
		{"What losses did I lose for good?", "suggest_tax_loss_harvest", []string{
			`"permanently_disallowed":225.02`,
			"$225.02 of realized losses permanently disallowed — replaced in an IRA"}},
		{"What must I not buy until when, on 2026-03-10?", "suggest_tax_loss_harvest",
			[]string{"Do not buy INTC before 2026-03-14; DIS before 2026-03-27",
				`"do_not_buy":["INTC before 2026-03-14","DIS before 2026-03-27"]`}},
		{"Which losses are clean today, and how much later?", "suggest_tax_loss_harvest", []string{
			"$2,540.15 is clean today in 13 lots, $1,224.27 more from 2026-07-06",
			`"ticker":"AAPL","total_loss":-1032`, `"clean_today":-1032`}},
		{"What do I lose for good if I sell lots at a loss?", "suggest_tax_loss_harvest", []string{
			"Selling only lot 2026-02-13#1 of MSFT loses $537.56 for good, all candidates $29"}},
		{"What is the worst loss that wash sales disallow, and which reinvestments make more?",
			"suggest_tax_loss_harvest", []string{`"disallowed_alone":537.56`,
				"Turn off reinvestments, or they make wash sales: TLT in joint on 2026-07-05"}},
		{"Check the exit rules: should I exit INTC?", "check_exit_signals",
			[]string{"INTC: EXIT", "sell 52 of 105 shares", `"sell_quantity":52`}},
		{"What did my sales in 2026 realize for Form 8949 and Schedule D?", "realized_gains",
			[]string{"2026: -$19.01 short-term, $1,704.44 long-term in 4 rows of Form 8949"}},
		{"Do the lots agree with the positions of my broker?", "reconcile_positions",
			[]string{"positions agree with the broker's list of 2026-06-30", "MSFT in ira: "}},
	} {
		tool, answer := a.ask(tt.question)
		if tool != tt.tool {
			t.Errorf("%q: the descriptions lead to %s, want %s", tt.question, tool, tt.tool)
			continue
		}
		for _, fact := range tt.facts {
			if !strings.Contains(answer.text, fact) {
				t.Errorf("%q: the answer does not have %q:\n%s", tt.question, fact, answer.text)
			}
		}
	}
}
