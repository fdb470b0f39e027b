package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
)

// measureOne runs in a child process.
func measureOne(name string, n int, profile string) error {
	var f figures
	var err error
	stop := func() {}
	start := func() error {
		if profile == "" {
			return nil
		}
		out, err := os.Create(profile)
		if err != nil {
			return fmt.Errorf("cpu profile: %w", err)
		}
		stop = func() { pprof.StopCPUProfile(); _ = out.Close() }
		return pprof.StartCPUProfile(out)
	}
	if name == importName {
		err = f.imported(n, start)
	} else {
		err = f.shaped(name, n, start)
	}
	stop()
	if err != nil {
		return err
	}
	f.PeakMB = peakMB()
	return json.NewEncoder(os.Stdout).Encode(f)
}

func (f *figures) shaped(name string, n int, start func() error) error {
	for _, s := range shapes() {
		if s.name != name {
			continue
		}
		h := s.write(n)
		if err := f.peer(h.rows); err != nil {
			return err
		}
		if err := start(); err != nil {
			return err
		}
		return f.decide(h)
	}
	return fmt.Errorf("there is no shape %q", name)
}

// peer is the least that any program must do: look at each row once, multiply, and sum by ticker.
func (f *figures) peer(rows []tax.Transaction) error {
	began := time.Now()
	sums := mapOf(rows[0].Price)
	for i := range rows {
		amount, err := rows[i].Quantity.Mul(rows[i].Price)
		if err != nil {
			return fmt.Errorf("peer: %w", err)
		}
		if sums[rows[i].Ticker], err = sums[rows[i].Ticker].Add(amount); err != nil {
			return fmt.Errorf("peer: %w", err)
		}
	}
	f.Peer = time.Since(began)
	return nil
}

// mapOf is an empty map of numbers like this one.
func mapOf[T any](T) map[string]T { return make(map[string]T) }

// decide is what has a goal: lots, harvest and coverage.
func (f *figures) decide(h history) error {
	prices := mapOf(h.rows[0].Price)
	for ticker, cents := range h.cents {
		price := h.rows[0].Price
		set(&price, cents, 2)
		prices[ticker] = price
	}
	runtime.GC() // what made the rows is not to be paid here
	began := time.Now()
	book, err := tax.Build(h.rules, h.rows, h.asOf)
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	f.Build = time.Since(began)
	began = time.Now()
	result, err := tax.Harvest(book, prices, tax.HarvestOptions{})
	if err != nil {
		return fmt.Errorf("harvest: %w", err)
	}
	if _, err := tax.Cover(book, prices, nil); err != nil {
		return fmt.Errorf("cover: %w", err)
	}
	f.Harvest = time.Since(began)
	f.Lots, f.Washes, f.Candidates = len(book.Lots), len(book.WashSales), len(result.Candidates)
	for range book.Sales {
		f.Sales++
	}
	return nil
}

// imported reads a household's rows as a file first.
func (f *figures) imported(n int, start func() error) error {
	h := shapes()[0].write(n)
	if err := f.peer(h.rows); err != nil {
		return err
	}
	text := csvText(h.rows)
	f.TextBytes, h.rows = len(text), nil
	runtime.GC()
	if err := start(); err != nil {
		return err
	}
	began := time.Now()
	imp, err := importer.Read("transactions/all.csv", text, nil)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	f.Read = time.Since(began)
	began = time.Now()
	h.rows = make([]tax.Transaction, len(imp.Rows))
	for i := range imp.Rows {
		r := &imp.Rows[i]
		t := tax.Transaction{Action: r.Action, Account: r.Account, Ticker: r.Ticker, LotID: r.LotID, ToAccount: r.ToAccount, Quantity: r.Quantity,
			Price: r.Price, Fees: r.Fees, Ratio: r.Ratio, DonorBasis: r.DonorBasis, Value: r.Value, Source: r.Source}
		if t.Date, err = tax.ParseDate(r.Date); err != nil {
			return fmt.Errorf("convert: %w", err)
		}
		h.rows[i] = t
	}
	f.Convert = time.Since(began)
	return f.decide(h)
}

func csvText(rows []tax.Transaction) []byte {
	out := []byte("date,account,action,ticker,quantity,price,fees,currency,lot_id,to_account\n")
	for i := range rows {
		t := &rows[i]
		out = fmt.Appendf(out, "%s,%s,%s,%s,%s,%s,%s,USD,%s,%s\n", t.Date, t.Account, t.Action, t.Ticker, t.Quantity, t.Price, t.Fees, t.LotID, t.ToAccount)
	}
	return out
}

// peakMB is the most memory that the process ever had: what the system says, or, where it says nothing, what the
// runtime took.
func peakMB() int {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				if kb, err := strconv.Atoi(strings.Fields(rest)[0]); err == nil {
					return kb / 1000
				}
			}
		}
	}
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64() / 1e6)
}
