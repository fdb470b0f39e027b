package tax

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"
	"pgregory.net/rapid"
)

// share is one share. The model follows each of them on its own, in whole dollars, with no other structure than lists:
// it is slow and short, and agrees with the package or one of them is wrong.
type share struct {
	account, ticker string
	row             int
	date, hold      Date
	basis           int64
	sold            Date // zero while it is held
	used            bool
}

type loss struct {
	share  *share
	row    int
	amount int64
}

type model struct {
	rules  Rules
	txs    []Transaction
	shares []*share
	lines  []string
}

func (m *model) account(id string) Account {
	i := slices.IndexFunc(m.rules.Accounts, func(a Account) bool { return a.ID == id })
	return m.rules.Accounts[i]
}

func whole(d decimal.Decimal) int64 {
	n, _, _ := d.Int64(0)
	return n
}

func (m *model) run(asOf Date) string {
	for i, t := range m.txs { // every share there will ever be
		if t.Action == Buy && t.Date <= asOf {
			for range whole(t.Quantity) {
				m.shares = append(m.shares, &share{account: t.Account, ticker: t.Ticker, row: i, date: t.Date, hold: t.Date + 1, basis: whole(t.Price)})
			}
		}
	}
	slices.SortStableFunc(m.shares, func(a, b *share) int { return cmp.Or(cmp.Compare(a.date, b.date), cmp.Compare(a.row, b.row)) })
	for today := Date(1); today <= asOf; today++ {
		var losses []loss
		for i, t := range m.txs {
			if t.Date == today && t.Action == Sell {
				losses = append(losses, m.sell(i, t)...)
			}
		}
		slices.SortStableFunc(losses, func(a, b loss) int {
			return cmp.Or(cmp.Compare(a.share.date, b.share.date), cmp.Compare(a.share.row, b.share.row))
		})
		for _, l := range losses {
			m.match(l, today)
		}
	}
	for _, s := range m.shares {
		if s.sold == 0 {
			m.lines = append(m.lines, fmt.Sprintf("open %s %s %s %s %d", s.account, s.ticker, s.date, s.hold, s.basis))
		}
	}
	return summary(m.lines)
}

func (m *model) sell(row int, t Transaction) (losses []loss) {
	price := whole(t.Price)
	for range whole(t.Quantity) {
		var held []*share
		for _, s := range m.shares {
			if s.sold == 0 && s.account == t.Account && s.ticker == t.Ticker && s.date <= t.Date {
				held = append(held, s)
			}
		}
		if len(held) == 0 {
			m.lines = append(m.lines, fmt.Sprintf("gap %d", row))
			continue
		}
		s := slices.MinFunc(held, func(a, b *share) int { return m.order(a, b, t, price) })
		s.sold = t.Date
		m.lines = append(m.lines, fmt.Sprintf("gain %d %s %t %d", row, s.date, t.Date >= LongTermFrom(s.hold), price-s.basis))
		if price < s.basis && m.account(t.Account).Kind != IRA {
			losses = append(losses, loss{s, row, s.basis - price})
		}
	}
	return losses
}

func (m *model) order(a, b *share, t Transaction, price int64) int {
	older := cmp.Or(cmp.Compare(a.date, b.date), cmp.Compare(a.row, b.row))
	dearer := cmp.Or(cmp.Compare(b.basis, a.basis), older)
	switch m.account(t.Account).Method {
	case LIFO:
		return -older
	case HIFO:
		return dearer
	case MinTax:
		class := func(s *share) int {
			long := t.Date >= LongTermFrom(s.hold)
			switch {
			case s.basis > price && !long:
				return 0
			case s.basis > price:
				return 1
			case long:
				return 2
			}
			return 3
		}
		return cmp.Or(cmp.Compare(class(a), class(b)), dearer)
	}
	return older
}

func (m *model) match(l loss, today Date) {
	same := func(a, b string) bool { return a == b || a != "X" && b != "X" }
	for _, s := range m.shares {
		near := s.date >= today-30 && s.date <= today+30
		gone := s.date <= today && s.sold != 0
		if s.used || !near || gone || s.row == l.share.row || !same(s.ticker, l.share.ticker) {
			continue
		}
		s.used = true
		if m.account(s.account).Kind == IRA {
			m.lines = append(m.lines, fmt.Sprintf("lost %d %d", l.row, l.amount))
		} else {
			m.lines = append(m.lines, fmt.Sprintf("moved %d %d to %d", l.row, l.amount, s.row))
			s.basis += l.amount
			s.hold -= today - l.share.hold + 1
		}
		return
	}
}

// summary counts equal lines.
func summary(lines []string) string {
	slices.Sort(lines)
	var s strings.Builder
	for i := 0; i < len(lines); {
		j := i
		for j < len(lines) && lines[j] == lines[i] {
			j++
		}
		fmt.Fprintf(&s, "%d× %s\n", j-i, lines[i])
		i = j
	}
	return s.String()
}

// spelled writes a book as the model does, share by share, but for what was moved: that shows in the lots and later
// gains, and as a sum here.
func spelled(t *rapid.T, b *Book) string {
	var lines []string
	each := func(qty, total decimal.Decimal, f func(amount int64)) {
		n := whole(qty)
		if n == 0 || whole(total)%n != 0 {
			t.Fatalf("%s for %s shares", total, qty)
		}
		for range n {
			f(whole(total) / n)
		}
	}
	for _, l := range b.Lots {
		each(l.Quantity, l.Basis, func(basis int64) {
			lines = append(lines, fmt.Sprintf("open %s %s %s %s %d", l.Account, l.Ticker, l.LotDate, l.HoldingStart, basis))
		})
	}
	for _, s := range salesOf(b) {
		each(s.Quantity, s.Gain, func(gain int64) {
			lines = append(lines, fmt.Sprintf("gain %d %s %t %d", s.Row, s.LotDate, s.LongTerm, gain))
		})
	}
	for _, g := range b.Incomplete {
		for range whole(g.Quantity) {
			lines = append(lines, fmt.Sprintf("gap %d", g.Row))
		}
	}
	for _, w := range b.WashSales {
		lines = append(lines, fmt.Sprintf("wash %d %s %s lost %s", w.row, w.DisallowedShares, w.DisallowedLoss, w.PermanentLoss))
	}
	return summary(lines)
}

// summed replaces the model's single matches by sums, as spelled has them.
func summed(lines []string) []string {
	type sum struct{ shares, loss, lost int64 }
	sums := make(map[int]*sum)
	var kept []string
	for _, line := range lines {
		var row int
		var amount int64
		if n, _ := fmt.Sscanf(line, "moved %d %d", &row, &amount); n != 2 {
			if n, _ := fmt.Sscanf(line, "lost %d %d", &row, &amount); n != 2 {
				kept = append(kept, line)
				continue
			}
		}
		if sums[row] == nil {
			sums[row] = &sum{}
		}
		s := sums[row]
		s.shares, s.loss = s.shares+1, s.loss+amount
		if strings.HasPrefix(line, "lost") {
			s.lost += amount
		}
	}
	for row, s := range sums {
		kept = append(kept, fmt.Sprintf("wash %d %d %d lost %d", row, s.shares, s.loss, s.lost))
	}
	return kept
}

func drawHistory(t *rapid.T) (Rules, []Transaction, Date) {
	method := rapid.SampledFrom([]Method{FIFO, LIFO, HIFO, MinTax, Specific}).Draw(t, "method")
	rules := Rules{Accounts: []Account{{ID: "brk", Method: method}, {ID: "two"}, {ID: "ira", Kind: IRA}}, Identical: [][]string{{"VOO", "IVV"}}}
	span := rapid.SampledFrom([]int{5, 40, 120, 900}).Draw(t, "span")
	n := rapid.IntRange(1, 25).Draw(t, "rows")
	txs := make([]Transaction, n)
	for i := range txs {
		txs[i] = Transaction{
			Date:     Date(rapid.IntRange(1, span).Draw(t, "day")),
			Account:  rapid.SampledFrom([]string{"brk", "brk", "two", "ira"}).Draw(t, "account"),
			Action:   rapid.SampledFrom([]Action{Buy, Sell}).Draw(t, "action"),
			Ticker:   rapid.SampledFrom([]string{"X", "VOO", "IVV", "VOO"}).Draw(t, "ticker"),
			Quantity: decimal.MustNew(rapid.Int64Range(1, 12).Draw(t, "quantity"), 0),
			Price:    decimal.MustNew(rapid.Int64Range(1, 30).Draw(t, "price"), 0),
		}
	}
	return rules, txs, Date(span)
}

// TestBookIsTheModels compares random histories with the model: every method, losses, chains, groups and an IRA.
func TestBookIsTheModels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, txs, asOf := drawHistory(t)
		b, err := Build(rules, txs, asOf)
		if err != nil {
			t.Fatal(err)
		}
		m := &model{rules: rules, txs: txs}
		m.run(asOf)
		if diff := gocmp.Diff(summary(summed(m.lines)), spelled(t, b)); diff != "" {
			t.Fatalf("model -, book +\n%s", diff)
		}
	})
}
