package importer

import (
	"maps"
	"slices"
	"strings"

	"github.com/govalues/decimal"
)

// readActivity reads an activity statement of Interactive Brokers in CSV. It has several tables:
// the first column of a record names its table, the second is Header or Data. Trades and corporate
// actions are read as those of a Flex query.
func (in *input) readActivity(t *table) {
	heads := make(map[string]map[string]int)
	splits, other := make(map[string]bool), make(map[string]bool)
	account, trades := "", false
	var items []flexItem // orders, and the lots that they closed
	var closed []int     // the index of such lots
	var order *flexItem  // the last order
	for more := true; more; more = t.next() {
		if len(t.fields) < 3 {
			continue
		}
		name := t.fields[0]
		switch strings.ToLower(t.fields[1]) {
		case "header":
			heads[name] = columnIndexes(t.fields)
			trades = trades || name == "Trades"
			continue
		case "data":
		default:
			continue // a sum
		}
		t.head = heads[name]
		switch {
		case name == "Account Information":
			if len(t.fields) > 3 && strings.EqualFold(t.fields[2], "Account") {
				account = t.fields[3]
			}
		case name == "Trades" && t.head != nil:
			f := t.activityItem("Trade", account)
			switch kind := strings.ToLower(t.get("datadiscriminator")); {
			case kind == "order":
				rows := len(in.imp.Rows)
				in.activityTrade(t, f)
				in.addSale(f, len(items), rows)
				items, order = append(items, f), &f
			case kind == "closedlot" && order != nil && order.get("symbol") == f.get("symbol"):
				f.attr["openDateTime"] = f.attr["dateTime"]
				f.attr["dateTime"], f.attr["buySell"] = order.get("dateTime"), order.get("buySell")
				closed, items = append(closed, len(items)), append(items, f)
			case (kind == "trade" || kind == "washsale") && order != nil:
				in.skip(f.at.line, t.text(), whyRepeats, false)
			default:
				in.addFault(t.at("datadiscriminator"),
					"DataDiscriminator: %q is not known, expected Order; remove a cancelled trade together with its original",
					t.get("datadiscriminator"))
			}
		case name == "Corporate Actions" && t.head != nil:
			if t.get("quantity") != "" { // not a sum
				in.activityCorporate(t, account, splits)
			}
		case name == "Dividends" && strings.Contains(strings.ToLower(t.text()), "return of capital"):
			in.skip(t.line(), t.text(), whyCapital, true)
		case name == "Transfers" || name == "Trade Transfers" || name == "Grant Activity":
			moved := t.head != nil && nonZero(t.get("qty", "quantity"))
			in.skip(t.line(), t.text(), map[bool]string{true: whyTransfer, false: whyCash}[moved],
				moved)
		default:
			other[name] = true
		}
	}
	in.closeLots(items, closed)
	if !trades {
		in.addFault(position{1, 1}, "the statement has no table Trades: export an activity statement in English with trades")
	}
	if len(other) > 0 {
		in.note("these parts of the statement have no transactions and were ignored: %s",
			strings.Join(slices.Sorted(maps.Keys(other)), ", "))
	}
}

// activityItem returns a record as an element of a Flex query.
func (t *table) activityItem(name, account string) flexItem {
	category := map[string]string{"stocks": "STK", "equity and index options": "OPT",
		"mutual funds": "FUND", "forex": "CASH"}[strings.ToLower(t.get("asset category"))]
	if category == "" {
		category = oneLine(t.get("asset category")) + "?" // no lots are kept for it
	}
	if own := t.get("account"); own != "" {
		account = own
	}
	return flexItem{name: name, at: t.at(), attr: map[string]string{"accountId": account,
		"assetCategory": category, "currency": t.get("currency"), "symbol": t.get("symbol"),
		"dateTime": t.get("date/time"), "reportDate": t.get("report date"),
		"quantity": t.get("quantity"), "notes": t.get("code"),
		"fifoPnlRealized": t.get("realized p/l"),
		"description":     t.get("description")}}
}

// activityTrade reads an order. Its proceeds show the size of an option contract.
func (in *input) activityTrade(t *table, f flexItem) {
	f.attr["tradePrice"], f.attr["ibCommission"] = t.get("t. price"), t.get("comm/fee")
	if f.attr["ibCommission"] == "" {
		f.attr["ibCommission"] = t.get("comm in usd")
	}
	f.attr["buySell"] = "BUY"
	if strings.HasPrefix(f.get("quantity"), "-") {
		f.attr["buySell"] = "SELL"
	}
	for _, code := range strings.FieldsFunc(f.get("notes"), isCodeSeparator) {
		if code == "Ca" {
			in.addFault(t.at("code"), "code: the trade was cancelled: remove it together with its original")
			return
		}
	}
	before := in.faultCount()
	c := &calc{}
	gross := c.mul(in.flexNumber(f, "quantity").Decimal, in.flexNumber(f, "tradePrice").Decimal).Abs()
	proceeds := t.number("proceeds")
	if in.faultCount() > before {
		return
	}
	if f.get("assetCategory") == "OPT" {
		gross = c.mul(gross, decimal.Hundred)
	}
	off := c.sub(gross, proceeds.Abs()).Abs()
	if slack := c.add(c.mul(gross, decimal.MustNew(1, 3)), decimal.MustNew(5, 2)); c.err != nil ||
		proceeds.present && off.Cmp(slack) > 0 && f.get("assetCategory") != "CASH" {
		in.addFault(t.at("proceeds"), "proceeds: %s is not quantity × price, which is %s: if a contract is not for 100 shares, write the row in signalbox CSV",
			proceeds, gross)
		return
	}
	in.flexTrade(f)
}

func isCodeSeparator(r rune) bool { return r == ';' || r == ',' || r == ' ' }

// activityCorporate reads a corporate action, whose symbol is in its description.
func (in *input) activityCorporate(t *table, account string, splits map[string]bool) {
	f := t.activityItem("CorporateAction", account)
	f.attr["symbol"], _, _ = strings.Cut(f.get("description"), "(")
	if i := strings.LastIndex(f.get("description"), "("); i >= 0 {
		f.attr["symbol"], _, _ = strings.Cut(f.get("description")[i+1:], ",")
	}
	if slices.Contains(strings.FieldsFunc(f.get("notes"), isCodeSeparator), "Ca") {
		in.addFault(t.at("code"), "code: the action was cancelled: remove it together with its original")
		return
	}
	in.flexCorporate(&f, splits)
}
