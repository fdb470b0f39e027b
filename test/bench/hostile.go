package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"signalbox"
	"signalbox/transcript"
)

const (
	hostileSize = 100_000
	goalHostile = 5 * time.Millisecond
	// hostileSamples of each size are taken, each of at least hostileSample, but no more once they took
	// hostileLongest together: a scanner that is not linear should not keep people waiting.
	hostileSamples = 9
	hostileSample  = 2 * time.Millisecond
	hostileLongest = 2 * time.Second
)

// hostileInput is a piece that, repeated, asks for a scanner that looks back or ahead again and again.
type hostileInput struct {
	name  string
	piece string
	// signals tells that the pieces are signals and may be taken.
	signals bool
}

var hostileInputs = []hostileInput{
	{name: "unclosed `<signal type=\"x\">`", piece: `<signal type="x">`},
	{name: "`{` in one line", piece: "{"},
	{name: "`{` lines", piece: "{\n"},
	{name: "`{\"a\":` lines, objects in objects", piece: "{\"a\":\n"},
	{name: "`</signal>` closers", piece: "</signal>"},
	{name: "fence lines", piece: "```\n"},
	{name: "near misses", piece: "**READY_FOR_REVIEW**: t1\nREADY_FOR_REVIEW - t1\nready_for_review: t1\n"},
	{name: "unclosed `stuck` with unclosed fields", piece: `<signal type="stuck"><attempted><blocker>`},
	{name: "closed `stuck` with unclosed fields", signals: true,
		piece: `<signal type="stuck">` + strings.Repeat("<attempted><blocker>", 800) + "</signal>\n"},
}

func (h *hostileInput) text(size int) []byte {
	return []byte(strings.Repeat(h.piece, size/len(h.piece)+1)[:size])
}

func (h *hostileInput) scan(text, buf []byte) error {
	taken := 0
	_, err := listen(bytes.NewReader(text), transcript.FormatPlain, buf, func(signals []signalbox.Signal) {
		for i := range signals {
			if signals[i].Taken() {
				taken++
			}
		}
	})
	if err == nil && taken > 0 && !h.signals {
		err = fmt.Errorf("hostile input, %s: %d signals taken, none planted", h.name, taken)
	}
	return err
}

// time1x2x4x returns the median seconds that one scan of each size takes. The sizes take turns.
func (h *hostileInput) time1x2x4x() (seconds [3]float64, err error) {
	buf := make([]byte, pieceSize)
	var texts [3][]byte
	var samples [3][]float64
	for i := range texts {
		texts[i] = h.text(hostileSize << i)
	}
	for begin := time.Now(); len(samples[0]) < hostileSamples && time.Since(begin) < hostileLongest && err == nil; {
		for i, text := range texts {
			runs, start := 0, time.Now()
			for runs == 0 || time.Since(start) < hostileSample {
				err = errors.Join(err, h.scan(text, buf))
				runs++
			}
			samples[i] = append(samples[i], time.Since(start).Seconds()/float64(runs))
		}
	}
	for i := range seconds {
		seconds[i] = median(samples[i])
	}
	return seconds, err
}

func timeHostile() error {
	var t table
	t.row("input, repeated", "100 KB", "200 KB", "400 KB", "400 KB ÷ 100 KB", "goal at 100 KB")
	var wrong []error
	for _, h := range hostileInputs {
		progress("hostile: %s", h.name)
		s, err := h.time1x2x4x()
		wrong = append(wrong, err)
		goal := verdict(fmt.Sprintf("< %d ms", goalHostile.Milliseconds()), s[0] < goalHostile.Seconds())
		if err != nil {
			goal = "wrong result"
		}
		ms := func(i int) string { return fmt.Sprintf("%.3f ms", s[i]*1000) }
		t.row(h.name, ms(0), ms(1), ms(2), fmt.Sprintf("%.1f", s[2]/s[0]), goal)
	}
	t.print("Hostile input (linear time: 400 KB take 4 times as long)")
	return errors.Join(wrong...)
}
