package main

import (
	"strconv"
	"strings"
)

// expand appends the template with its placeholders filled in; see phrases.go.
func (g *generator) expand(template string) {
	for {
		i := strings.IndexByte(template, '~')
		if i < 0 || i+1 == len(template) {
			g.put(template)
			return
		}
		g.put(template[:i])
		g.fill(template[i+1])
		template = template[i+2:]
	}
}

func (g *generator) fill(placeholder byte) {
	switch placeholder {
	case 'w':
		g.put(pick(g, words))
	case 'I':
		g.camel()
		g.camel()
	case 'i':
		g.put(pick(g, words))
		g.put("_")
		g.put(pick(g, words))
	case 'f':
		g.put("internal/")
		g.put(pick(g, words))
		g.put("/")
		g.put(pick(g, words))
		g.put(pick(g, extensions))
	case 'n':
		g.buf = strconv.AppendInt(g.buf, int64(1+g.rng.IntN(999)), 10)
	case 'd':
		n := g.rng.IntN(60)
		g.buf = append(g.buf, byte('0'+n/10), byte('0'+n%10))
	case 'h':
		g.hex(8)
	default:
		panic("no such placeholder: " + string(placeholder))
	}
}

func (g *generator) camel() {
	word := pick(g, words)
	g.buf = append(g.buf, word[0]-'a'+'A')
	g.put(word[1:])
}

func (g *generator) hex(digits int) {
	const hex = "0123456789abcdef"
	for bits := g.rng.Uint64(); digits > 0; digits-- {
		g.buf = append(g.buf, hex[bits&15])
		bits >>= 4
	}
}
