package portfolio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"signalbox/brief"
	"signalbox/internal/testkit/must"
)

// trouble is a portfolio or a question with a problem.
type trouble struct {
	name string
	// change replaces files of the plain portfolio; spoil makes other changes.
	change string
	spoil  func(t *testing.T, dir string)
	// exit and harvest are the questions; the zero exit asks about SLV.
	exit    ExitQuery
	harvest HarvestQuery
	kind    string
	// says is the expected text. An asterisk matches any text, such as errors that depend on the
	// operating system.
	says string
	// only is the tool that has the problem; empty means both.
	only string
}

func rows(lines string) string { return "-- transactions/more.csv --\n" + header + lines + "\n" }

func longRows(lines string) string {
	return "-- transactions/more.csv --\n" + longHeader + lines + "\n"
}

func configured(text string) string {
	return "-- portfolio.yaml --\n" + text + "\nexit_rules:\n  SLV: {rules: {momentum_exit: {}}}\n"
}

func replaceBy(name string, with func(name string) error) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		name := filepath.Join(dir, name)
		must.Succeed(t, os.RemoveAll(name))
		if err := with(name); errors.Is(err, errors.ErrUnsupported) || runtime.GOOS == "windows" &&
			err != nil {
			t.Skip(err) // links need a privilege there
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func aFolder(name string) error { return os.MkdirAll(name, 0o700) }

func aFile(name string) error { return os.WriteFile(name, []byte("x"), 0o600) }

func aDanglingLink(name string) error {
	return os.Symlink(filepath.Join(filepath.Dir(name), "nowhere"), name)
}

func fileTroubles() []trouble {
	const own = "transactions/more.csv:"
	return []trouble{
		{name: "no folder", spoil: replaceBy(".", func(string) error { return nil }),
			kind: NoPortfolio, says: "there is no portfolio.yaml in *"},
		{name: "no portfolio.yaml",
			spoil: replaceBy("portfolio.yaml", func(string) error { return nil }),
			kind:  NoPortfolio, says: "there is no portfolio.yaml in *"},
		{name: "portfolio.yaml is a folder", spoil: replaceBy("portfolio.yaml", aFolder),
			kind: NoPortfolio, says: "portfolio.yaml in * cannot be read: *"},
		{name: "portfolio.yaml has a typo", change: configured("acounts: []"), kind: BadConfig,
			says: `portfolio.yaml: line 1, column 1: unknown field "acounts"`},
		{name: "portfolio.yaml is no YAML", change: configured("accounts: [{id: brk"),
			kind: BadConfig, says: "portfolio.yaml: line *, column *: *"},
		{name: "portfolio.yaml is binary", change: configured("accounts: \x00\xff"),
			kind: BadConfig, says: "portfolio.yaml: line 1, column *: the file is not UTF-8 text"},
		{name: "as_of of portfolio.yaml is not a date",
			change: configured("as_of: soon\naccounts: [{id: brk}]"), kind: BadConfig,
			says: `portfolio.yaml: line 1, column 8: as_of: "soon" is not a date`},
		{name: "as_of of portfolio.yaml is in the future",
			change: configured("as_of: 2026-07-02\naccounts: [{id: brk}]"), kind: FutureDate,
			says: "as_of in portfolio.yaml: 2026-07-02 is in the future, today is 2026-07-01"},

		{name: "transactions is a file", spoil: replaceBy("transactions", aFile),
			kind: MalformedFile, says: "the folder transactions cannot be read: *"},
		{name: "transactions has a dangling link", spoil: replaceBy("transactions/more.csv",
			aDanglingLink), kind: MalformedFile,
			says: "transactions/more.csv cannot be read: *"},
		{name: "transactions has something else",
			change: "-- transactions/more.csv --\nhello, world\n", kind: MalformedFile, says: own +
				"1:1: *"},
		{name: "transactions has an empty file", change: "-- transactions/more.csv --\n",
			kind: MalformedFile, says: own + "1:1: *"},
		{name: "a row has no date", change: rows("30.06.2026,brk,buy,SLV,1,20,,,"),
			kind: MalformedFile, says: own + `2:1: date: "30.06.2026" is not a date*`},
		{name: "a row has no number", change: rows("2026-01-02,brk,buy,SLV,many,20,,,"),
			kind: MalformedFile, says: own + `2:24: quantity: "many" is not a number*`},
		{name: "two rows are wrong",
			change: rows("2026-01-02,brk,buy,SLV,many,20,,,\n2026-01-02,brk,buy,SLV,2,few,,,"),
			kind:   MalformedFile, says: own + "2:24: * (and 1 more)"},
		{name: "a quantity is negative", change: rows("2026-01-02,brk,buy,SLV,-5,20,,,"),
			kind: MalformedFile, says: own + `2:24: quantity: "-5" is negative*`},
		{name: "an action is unknown", change: rows("2026-01-02,brk,bought,SLV,5,20,,,"),
			kind: MalformedFile, says: own + `2:16: action: "bought" is not known*`},
		{name: "a row is from the future", change: rows("2026-07-02,brk,buy,SLV,5,20,,,"),
			kind: FutureDate, says: own + "2: 2026-07-02 is in the future, today is 2026-07-01"},
		{name: "a row has an unknown account", change: rows("2026-01-02,brkk,buy,SLV,5,20,,,"),
			kind: UnknownAccount, says: own + `2: account "brkk" is not in portfolio.yaml`},
		{name: "a transfer has an unknown account",
			change: longRows("2026-01-02,brk,transfer,SLV,5,,,,,else,,,,"), kind: UnknownAccount,
			says: own + `2: account "else" is not in portfolio.yaml`},
		{name: "a transfer crosses into the ira",
			change: longRows("2026-01-02,brk,transfer,SLV,5,,,,,ira,,,,"), kind: MalformedFile,
			says: own + "2: the transfer moves shares between a taxable account and a retirement account*"},
		{name: "a row has a currency without rate",
			change: rows("2026-01-02,brk,buy,SAP,5,20,,EUR,"), kind: MissingRate,
			says: own + "2: there is no exchange rate of EUR in dollars for 2026-01-02"},
		{name: "a quantity is too large",
			change: rows("2026-01-02,brk,buy,SLV,9999999999999999999,1,,,"), kind: NotComputable,
			says: "the shares of SLV cannot be counted: * more than 19 digits", only: "exits"},
		{name: "an amount is too large",
			change: rows("2026-01-02,brk,buy,SLV,9999999999,9999999999999,,,"), kind: MalformedFile,
			says: own + "2: the amounts of SLV cannot be computed* more than 19 digits"},
		{name: "an amount is too large in dollars",
			change: rows("2026-01-02,brk,buy,SLV,1,9999999999999999999,,EUR,") +
				"-- fx.csv --\ndate,from,to,rate\n2026-01-02,EUR,USD,99\n",
			kind: NotComputable, says: own + "2: an amount in dollars cannot be computed*"},
		{name: "a broker's word is unknown", kind: MalformedFile, says: `transactions/schwab.csv:3:14: action: "Juggle" is not known*`, change: `
-- transactions/schwab.csv --
"Transactions  for account brk as of 03/29/2026 10:11:12 ET"
"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"
"03/28/2026","Juggle","SLV","SILVER","10","$26.00","","$260.00"
`},
		{name: "a broker's account is unknown", kind: UnknownAccount, says: `transactions/schwab.csv:3: account "Individual XXXX-1234" is not in portfolio.yaml`, change: `
-- transactions/schwab.csv --
"Transactions  for account Individual XXXX-1234 as of 03/29/2026 10:11:12 ET"
"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"
"03/28/2026","Buy","SLV","SILVER","10","$26.00","","-$260.00"
`},
		{name: "a broker's file is cut",
			change: "-- transactions/flex.xml --\n<FlexQueryResponse><FlexStatements count=\"1\"><FlexStatement", kind: MalformedFile, says: "transactions/flex.xml:2:1: *"},

		{name: "prices is a file", spoil: replaceBy("prices", aFile), kind: MalformedFile,
			says: "the folder prices cannot be read: *"},
		{name: "prices has a dangling link", spoil: replaceBy("prices/a.csv", aDanglingLink),
			kind: MalformedFile, says: "prices/a.csv cannot be read: *"},
		{name: "a price has no column", change: "-- prices/a.csv --\ndate,close\n2026-01-02,5\n",
			kind: MalformedFile, says: `prices/a.csv:1:1: column "ticker" is missing*`},
		{name: "a price is zero",
			change: "-- prices/a.csv --\ndate,ticker,close\n2026-01-02,SLV,0\n",
			kind:   MalformedFile, says: `prices/a.csv:2:16: close: "0" is not above 0*`},
		{name: "a price is not a number",
			change: "-- prices/a.csv --\ndate,ticker,close\n2026-01-02,SLV,NaN\n",
			kind:   MalformedFile, says: `prices/a.csv:2:16: close: "NaN" is not a number*`},
		{name: "two prices differ",
			change: "-- prices/a.csv --\ndate,ticker,close\n2026-06-30,SLV,11\n",
			kind:   MalformedFile,
			says:   "two files in prices have different prices of SLV on 2026-06-30"},
		{name: "fx.csv is a folder", spoil: replaceBy("fx.csv", aFolder), kind: MalformedFile,
			says: "fx.csv cannot be read: *"},
		{name: "fx.csv has a wrong rate",
			change: "-- fx.csv --\ndate,from,to,rate\n2026-01-02,EUR,USD,-1\n", kind: MalformedFile,
			says: `fx.csv:2:20: rate: "-1" is not above 0*`},
		{name: "fx.csv has wrong currencies",
			change: "-- fx.csv --\ndate,from,to,rate\n2026-01-02,EUR,EUR,1\n", kind: MalformedFile,
			says: "fx.csv:2:12: the rate is not between two currencies*"},
		{name: "fx.csv has a word",
			change: "-- fx.csv --\ndate,from,to,rate\n2026-01-02,EUR,USD,x\n", kind: MalformedFile,
			says: `fx.csv:2:20: rate: "x" is not a number*`},
	}
}

func questionTroubles() []trouble {
	long := strings.Repeat("9", 5000)
	return []trouble{
		{name: "as_of is not a date", exit: ExitQuery{AsOf: "soon"},
			harvest: HarvestQuery{AsOf: "soon"}, kind: BadArgument,
			says: `as_of: "soon" is not a date`},
		{name: "as_of is in the future", exit: ExitQuery{AsOf: "2026-07-02"},
			harvest: HarvestQuery{AsOf: "2026-07-02"}, kind: FutureDate,
			says: "as_of: 2026-07-02 is in the future, today is 2026-07-01"},
		{name: "as_of is long", exit: ExitQuery{AsOf: long}, harvest: HarvestQuery{AsOf: long},
			kind: BadArgument, says: `as_of: "9999*…" is not a date`},
		{name: "unknown account", exit: ExitQuery{AccountID: "else"},
			harvest: HarvestQuery{Account: "else"}, kind: UnknownAccount,
			says: `account "else" is not in the portfolio`},
		{name: "long account", exit: ExitQuery{AccountID: long},
			harvest: HarvestQuery{Account: long}, kind: UnknownAccount,
			says: `account "9999*…" is not in the portfolio`},

		{name: "unknown ticker", exit: ExitQuery{Ticker: "GLD"}, kind: UnknownTicker,
			says: "GLD is not in the portfolio", only: "exits"},
		{name: "hostile ticker", exit: ExitQuery{Ticker: "../../etc/passwd"}, kind: BadArgument,
			says: `ticker "../../ETC/PASSWD" is not valid*`, only: "exits"},
		{name: "long ticker", exit: ExitQuery{Ticker: long}, kind: BadArgument,
			says: "ticker \"999*…\" is not valid*", only: "exits"},
		{name: "ticker with controls", exit: ExitQuery{Ticker: "S\x1b[2J"}, kind: BadArgument,
			says: `ticker "S\x1b[2J" is not valid*`, only: "exits"},
		{name: "no ticker", exit: ExitQuery{Ticker: " "}, kind: BadArgument,
			says: `ticker "" is not valid*`, only: "exits"},
		{name: "not held", change: rows("2026-01-02,brk,sell,SLV,10,20,,,"), kind: NotHeld,
			says: "no account holds SLV*", only: "exits"},
		{name: "not in this account", exit: ExitQuery{AccountID: "ira"}, kind: NotHeld,
			says: "account ira does not hold SLV: name one of brk (10 shares)", only: "exits"},
		{name: "several accounts", change: rows("2026-01-02,ira,buy,SLV,3,20,,,"),
			kind: AccountNeeded,
			says: "2 accounts hold SLV: name one of brk (10 shares), ira (3 shares)",
			only: "exits"},
		{name: "short", change: rows("2026-01-02,brk,sell,SLV,15,20,,,"), kind: ShortPosition,
			says: "account brk is short 5 shares of SLV*", only: "exits"},
		{name: "no exit rules", change: rows("2026-01-02,brk,buy,GLD,15,20,,,"),
			exit: ExitQuery{Ticker: "gld"}, kind: NoExitRules,
			says: "there are no exit rules for GLD", only: "exits"},
		{name: "no rule", change: "-- portfolio.yaml --\naccounts: [{id: brk}]\nexit_rules: {SLV: {}}\n", kind: BadConfig, says: "exit rules of SLV: no exit rules are configured*", only: "exits"},
		{name: "sizing above 1",
			change: "-- portfolio.yaml --\naccounts: [{id: brk}]\nexit_rules: {SLV: {rules: {momentum_exit: {}}, sizing: {max: 1.5}}}\n", kind: BadConfig,
			says: "exit rules of SLV: sizing max 1.5 is not a fraction of a position*",
			only: "exits"},
		{name: "shares are not a number", exit: ExitQuery{Shares: "many"}, kind: BadArgument,
			says: `shares "many" is not a number above 0`, only: "exits"},
		{name: "no shares", exit: ExitQuery{Shares: "0"}, kind: BadArgument,
			says: `shares "0" is not a number above 0`, only: "exits"},
		{name: "negative shares", exit: ExitQuery{Shares: "-5"}, kind: BadArgument,
			says: `shares "-5" is not a number above 0`, only: "exits"},
		{name: "long shares", exit: ExitQuery{Shares: long}, kind: BadArgument,
			says: `shares "9999*…" is not a number above 0`, only: "exits"},
		{name: "more shares than held", exit: ExitQuery{Shares: "11"}, kind: BadArgument,
			says: "shares 11 is more than the 10 shares of SLV in account brk*", only: "exits"},
		{name: "part of a share", exit: ExitQuery{Shares: "1.5"}, kind: BadArgument,
			says: "shares 1.5 is not a whole number*", only: "exits"},

		{name: "min_loss is not a number", harvest: HarvestQuery{MinLoss: "much"},
			kind: BadArgument, says: `min_loss "much" is not an amount of money`, only: "harvest"},
		{name: "min_loss is negative", harvest: HarvestQuery{MinLoss: "-1"}, kind: BadArgument,
			says: `min_loss "-1" is not an amount of money`, only: "harvest"},
		{name: "min_loss is long", harvest: HarvestQuery{MinLoss: long}, kind: BadArgument,
			says: `min_loss "9999*…" is not an amount of money`, only: "harvest"},
		{name: "unknown sort_by", harvest: HarvestQuery{SortBy: "mood"}, kind: BadArgument,
			says: `sort_by "mood" is not known`, only: "harvest"},
		{name: "unknown source", harvest: HarvestQuery{Source: "schwab"}, kind: BadArgument,
			says: `source "schwab" is not among the transactions`, only: "harvest"},
		{name: "source of the ira", change: rows("2026-01-02,ira,buy,GLD,3,20,,,"),
			harvest: HarvestQuery{Source: "more.csv"}, kind: BadArgument,
			says: "source more.csv has no transactions of the taxable accounts in question",
			only: "harvest"},
		{name: "account is not a taxable one", harvest: HarvestQuery{Account: "ira"},
			kind: BadArgument, says: "account ira is not taxable (ira): its losses do not count",
			only: "harvest"},
		{name: "no price", change: rows("2026-01-02,brk,buy,GLD,3,20,,,"), kind: MissingPrice,
			says: "there is no price of GLD on 2026-07-01 or before", only: "harvest"},
		{name: "no price so early", harvest: HarvestQuery{AsOf: "2025-02-01"}, kind: MissingPrice,
			says: "there is no price of SLV on 2025-02-01 or before", only: "harvest"},
		{name: "no price after the split", change: longRows("2026-07-01,brk,split,SLV,,,,,,,2,,,"),
			kind: MissingPrice,
			says: "the last price of SLV is from 2026-06-30, before its split or spin-off on 2026-07-01"},
		{name: "no price after the split but adjusted ones before", kind: MissingPrice,
			says: "the last price of SLV is from 2026-06-30, before its split or spin-off on 2026-07-01",
			change: longRows("2026-07-01,brk,split,SLV,,,,,,,2,,,") +
				"-- prices/2026.csv --\ndate,ticker,close,adjusted\n2026-06-30,SLV,10,5\n"},
		{name: "a price without rate",
			change: "-- prices/2026.csv --\ndate,ticker,close,adjusted,currency\n2026-06-30,SLV,10,,EUR\n", kind: MissingRate,
			says: "there is no exchange rate of EUR in dollars for 2026-06-30", only: "harvest"},
	}
}

// goText matches text of Go and its libraries that users should not see.
var goText = regexp.MustCompile(
	`strconv|%!|\bnil\b|\b0x|<nil>|\*[a-z]+\.|decimal|\bmap\[|panic|open /|stat /|errors\.|fs\.|json:|\[[0-9]+:[0-9]+\]|encoding|parsing`)

// TestTrouble checks that every format reports what is wrong, where, and what to do, and that it
// has no numbers that could be taken for an answer.
func TestTrouble(t *testing.T) {
	for _, tt := range slices.Concat(fileTroubles(), questionTroubles()) {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, plain, tt.change)
			if tt.spoil != nil {
				tt.spoil(t, dir)
			}
			if tt.exit.Ticker == "" {
				tt.exit.Ticker = "slv"
			}
			d := desk(t, dir)
			if tt.only != "harvest" {
				checkTrouble(t, tt, "signal_error", "Exit signal check failed for ",
					func(format string) Answer {
						tt.exit.Format = format
						return d.CheckExitSignals(context.Background(), tt.exit)
					})
			}
			if tt.only != "exits" {
				checkTrouble(t, tt, "harvest_error", "Tax harvest analysis failed: ",
					func(format string) Answer {
						tt.harvest.Format = format
						return d.SuggestTaxLossHarvest(context.Background(), tt.harvest)
					})
			}
		})
	}
}

// checkTrouble asks a tool in every format.
func checkTrouble(t *testing.T, tt trouble, flag, begins string, ask func(format string) Answer) {
	t.Helper()
	for _, format := range brief.Formats() {
		response := ask(string(format))
		o := decode(t, response.JSON)
		if response.Status != brief.StatusError || o["status"] != "error" ||
			response.FilePath != "" {
			t.Fatalf("%s: status %s, file %q: %s", format, response.Status, response.FilePath,
				response.JSON)
		}
		problem := response.Problem
		if problem == nil || problem.Kind != tt.kind || problem.Hint == "" ||
			!like(problem.Text, tt.says) {
			t.Fatalf("%s: problem %+v, want %s: %s", format, problem, tt.kind, tt.says)
		}
		if found := goText.FindString(problem.Text + problem.Hint); found != "" {
			t.Errorf("%s says %q: %s (%s)", format, found, problem.Text, problem.Hint)
		}
		if n := number(o); n != "" {
			t.Errorf("the failed %s has a number, %s", format, n)
		}
		switch format {
		case brief.FormatSummary, brief.FormatFull:
			if o["error"] != problem.Text || o["error_kind"] != problem.Kind ||
				o["error_hint"] != problem.Hint {
				t.Errorf("%s says %v, %v, %v", format, o["error"], o["error_kind"], o["error_hint"])
			}
			continue
		case brief.FormatReport:
			if text := fmt.Sprint(o["report"]); !strings.Contains(text, begins) {
				t.Errorf("the report does not say that it failed: %s", text)
			}
			continue
		}
		a := agent(t, response)
		if want := []string{"error " + flag, "error " + tt.kind}; !slices.Equal(a.names(), want) {
			t.Errorf("flags %v, want %v", a.names(), want)
		}
		if !strings.HasPrefix(a.verdict(), begins) || !like(a.verdict(), "*"+tt.says) {
			t.Errorf("verdict %q, want %q", a.verdict(), tt.says)
		}
		if len(a.Flags) > 1 && a.Flags[1].Message != problem.Hint {
			t.Errorf("the flag says %q, not the hint %q", a.Flags[1].Message, problem.Hint)
		}
	}
}

// number finds a number in a failed answer. The shares of the position are allowed, because they
// may be part of the problem.
func number(value any) string {
	switch v := value.(type) {
	case float64:
		if v != 0 {
			return fmt.Sprint(v)
		}
	case object:
		for key, member := range v {
			if n := number(member); n != "" && key != "shares" && key != "held" {
				return key + ": " + n
			}
		}
	case []any:
		for _, member := range v {
			if n := number(member); n != "" {
				return n
			}
		}
	}
	return ""
}

// like reports whether text matches a pattern in which * matches anything.
func like(text, pattern string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^(?s:" + strings.Join(parts, ".*") + ")$").MatchString(text)
}

// TestFailedSnapshotHasTheSameKeys checks that a failed snapshot has all fields of a successful
// one that are always there.
func TestFailedSnapshotHasTheSameKeys(t *testing.T) {
	good, bad := desk(t, folder(t, plain)), desk(t, t.TempDir())
	sameKeys(t, askHarvest(t, good, HarvestQuery{}), askHarvest(t, bad, HarvestQuery{}))
	sameKeys(t, askExits(t, good, ExitQuery{Ticker: "SLV"}),
		askExits(t, bad, ExitQuery{Ticker: "SLV"}))
	sameKeys(t, askExits(t, good, ExitQuery{Ticker: "SLV"}),
		askExits(t, good, ExitQuery{Ticker: "/"}))
	for _, format := range []string{"xml", "", "AGENT"} {
		for _, output := range []string{"printer", "inline"} {
			if format == "" && output == "inline" {
				continue
			}
			name := fmt.Sprintf("format %q, output %q", format, output)
			exits := good.CheckExitSignals(context.Background(),
				ExitQuery{Ticker: "SLV", Format: format, Output: output})
			harvest := good.SuggestTaxLossHarvest(context.Background(),
				HarvestQuery{Format: format, Output: output})
			sameKeys(t, askExits(t, good, ExitQuery{Ticker: "SLV"}),
				badForm(t, name, exits, "signal_error"))
			sameKeys(t, askHarvest(t, good, HarvestQuery{}),
				badForm(t, name, harvest, "harvest_error"))
		}
	}
}

func sameKeys(t *testing.T, good, bad agentAnswer) {
	t.Helper()
	if good.Status != "success" || bad.Status != "error" {
		t.Errorf("statuses %s and %s", good.Status, bad.Status)
	}
	_, harvest := good.Snapshot["candidate_count"]
	for key := range good.Snapshot {
		_, there := bad.Snapshot[key]
		// Other keys of a harvest are left out if they are zero or empty.
		if optional := harvest && !slices.Contains(harvestKeys(), key); !there && !optional {
			t.Errorf("the failed snapshot has no %s", key)
		}
	}
	if !harvest && len(good.Snapshot) != len(bad.Snapshot) {
		t.Errorf("%d and %d keys", len(good.Snapshot), len(bad.Snapshot))
	}
}

// harvestKeys are the keys that every snapshot of a harvest has.
func harvestKeys() []string {
	return []string{"candidate_count", "data_coverage_pct", "long_term_loss", "positions_analyzed",
		"positions_with_lots", "short_term_loss", "status", "top_candidates",
		"total_harvestable_loss", "verdict", "wash_sale_ticker_count", "wash_sale_tickers"}
}

// badForm checks that a question with an unknown format is answered in the format agent.
func badForm(t *testing.T, name string, response Answer, flag string) agentAnswer {
	t.Helper()
	a := agent(t, response)
	if want := []string{"error " + flag, "error " + BadArgument}; !slices.Equal(a.names(), want) ||
		response.Problem == nil || response.Problem.Kind != BadArgument {
		t.Errorf("%s: flags %v, want %v, problem %+v", name, a.names(), want, response.Problem)
	}
	return a
}
