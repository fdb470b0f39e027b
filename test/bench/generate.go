package main

import (
	"bytes"
	"math/rand/v2"
	"strconv"

	"signalbox"
)

// source is who wrote a block of the transcript.
type source int

const (
	fromAgent source = iota
	fromTool
	fromUser
)

// block is a piece of the transcript from one source. It ends with a line end.
type block struct {
	source source
	text   []byte
}

// planted is a signal that a scanner of the transcript must find.
type planted struct {
	dialect signalbox.Dialect
	name    string
	task    string
	// offset of its block in the plain transcript.
	offset int64
}

// Distances between planted signals, in bytes.
const (
	never int64 = 0
	// rare is typical of a session of several hours.
	rare int64 = 2_000_000
	// often is typical of many short sessions in one file. A body has up to 64 KiB, so a quarter of
	// the text is in bodies.
	often int64 = 250_000
)

// maxPlanted keeps the numbers of signals and diagnostics below the thousand that a scanner stores.
const maxPlanted = 800

// generator generates a transcript of about size bytes, block by block, always the same for the
// same seed. It has only one block in memory, so that the memory of a scanner can be measured at
// the same time.
type generator struct {
	rng              *rand.Rand
	buf              []byte
	scratch          []byte
	size             int64
	written          int64
	last             source
	planted          []planted
	every, nextPlant int64
}

func newGenerator(seed uint64, size, every int64) *generator {
	if every != never {
		every = max(every, size/maxPlanted)
	}
	return &generator{
		rng: rand.New(rand.NewPCG(seed, 19)), size: size, last: fromTool,
		every: every, nextPlant: every / 2,
	}
}

// next returns the next block, valid until the following call, and false after the last.
func (g *generator) next() (block, bool) {
	if g.written >= g.size {
		return block{}, false
	}
	g.buf = g.buf[:0]
	switch {
	case g.every != never && g.written >= g.nextPlant:
		g.nextPlant += g.every
		g.last = fromAgent
		g.plant()
	case g.last == fromAgent:
		g.last = fromTool
		g.toolBlock()
	case g.oneIn(30):
		g.last = fromUser
		g.line(pick(g, requests))
	default:
		g.last = fromAgent
		g.agentBlock()
	}
	g.written += int64(len(g.buf))
	return block{g.last, g.buf}, true
}

func (g *generator) agentBlock() {
	for end := 400 + g.rng.IntN(2400); len(g.buf) < end; {
		switch n := g.rng.IntN(10); {
		case n < 6:
			g.paragraph(1 + g.rng.IntN(5))
		case n < 8:
			g.list()
		case n < 9:
			g.put("## ")
			g.line(pick(g, headings))
			g.put("\n")
		default:
			g.fencedCode()
		}
	}
}

func (g *generator) toolBlock() {
	start, end := len(g.buf), len(g.buf)+300+g.rng.IntN(1+g.rng.IntN(9000))
	kind := g.rng.IntN(20)
	for number := 1; len(g.buf) < end; {
		switch {
		case kind < 3:
			number = g.numberedCode(number)
		case kind < 5:
			g.code(pick(g, languages))
		case kind < 10:
			g.line(pick(g, logLines))
		case kind < 13:
			g.line(pick(g, testLines))
		case kind < 15:
			g.line(pick(g, jsonLines))
		case kind < 18:
			g.diff(len(g.buf) == start)
		default:
			g.line(pick(g, grepLines))
		}
	}
}

func (g *generator) paragraph(n int) {
	for i := range n {
		if i > 0 {
			g.put(" ")
		}
		g.expand(pick(g, sentences))
	}
	g.put("\n\n")
}

func (g *generator) list() {
	numbered := g.oneIn(3)
	for i := range 2 + g.rng.IntN(6) {
		if numbered {
			g.buf = strconv.AppendInt(g.buf, int64(i+1), 10)
			g.put(". ")
		} else {
			g.put("- ")
		}
		g.line(pick(g, items))
	}
	g.put("\n")
}

func (g *generator) fencedCode() {
	language := pick(g, languages)
	g.put("```")
	g.put(language.name)
	g.put("\n")
	g.code(language)
	g.put("```\n\n")
}

func (g *generator) code(l language) {
	g.expand(pick(g, l.pieces))
	g.put("\n")
}

// numberedCode writes code with line numbers, as tools that read files print it.
func (g *generator) numberedCode(number int) int {
	for line := range bytes.Lines(g.piece()) {
		g.buf = append(g.buf, "      "[:max(0, 6-len(strconv.Itoa(number)))]...)
		g.buf = strconv.AppendInt(g.buf, int64(number), 10)
		g.put("\t")
		g.buf = append(g.buf, line...)
		number++
	}
	return number
}

func (g *generator) diff(first bool) {
	if first || g.oneIn(4) {
		g.line("diff --git a/~f b/~f\nindex ~h..~h 100644\n--- a/~f\n+++ b/~f")
	}
	g.line("@@ -~n,~d +~n,~d @@ ~i")
	for line := range bytes.Lines(g.piece()) {
		g.buf = append(g.buf, "  +-"[g.rng.IntN(4)])
		g.buf = append(g.buf, line...)
	}
}

// piece expands one piece of code into scratch.
func (g *generator) piece() []byte {
	start := len(g.buf)
	g.code(pick(g, languages))
	g.scratch = append(g.scratch[:0], g.buf[start:]...)
	g.buf = g.buf[:start]
	return g.scratch
}

func (g *generator) line(template string) {
	g.expand(template)
	g.put("\n")
}

func (g *generator) put(s string) { g.buf = append(g.buf, s...) }

func (g *generator) oneIn(n int) bool { return g.rng.IntN(n) == 0 }

func pick[T any](g *generator, from []T) T { return from[g.rng.IntN(len(from))] }
