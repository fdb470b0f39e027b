package main

import (
	"strconv"

	"signalbox"
)

var lineSignals = signalbox.LineSignals()

var turnSignals = []struct{ name, fields string }{
	{signalbox.NameNeedTurn,
		"<reason>the ~w is not read yet</reason><expected_turns>2</expected_turns>"},
	{signalbox.NameContextSufficient,
		"<sources_found>4</sources_found><source_types>[\"~w\", \"~w\"]</source_types>"},
	{signalbox.NameStuck,
		"<attempted>[\"~w\", \"~w\"]</attempted><blocker>no access to the ~w</blocker>"},
	{signalbox.NamePartialAnswer, "<missing>the ~w of the ~w</missing>"},
}

var exitPhases = []string{"IMPLEMENTATION", "CI_PENDING", "REVIEW"}

// plant writes a block of the agent with one signal: of ten, eight are line signals with a body,
// one is an exit signal and one a turn signal.
func (g *generator) plant() {
	p := planted{offset: g.written}
	switch n := len(g.planted) % 10; n {
	case 4:
		p.dialect, p.name = signalbox.DialectExit, signalbox.NameExit
		g.exitSignal()
	case 8:
		signal := pick(g, turnSignals)
		p.dialect, p.name = signalbox.DialectTurn, signal.name
		g.paragraph(2)
		g.put("<signal type=\"" + signal.name + "\">\n<confidence>0.8</confidence>\n")
		g.line(signal.fields)
		g.put("</signal>\n")
	default:
		signal := pick(g, lineSignals)
		p.dialect, p.name = signalbox.DialectLine, signal.Name
		p.task = g.lineSignal(signal)
		g.body()
	}
	g.planted = append(g.planted, p)
}

func (g *generator) lineSignal(signal signalbox.LineSignal) (task string) {
	g.paragraph(1)
	g.put(signal.Text)
	if signal.Argument != signalbox.NoArgument {
		task = strconv.Itoa(len(g.planted)) + "-" + pick(g, words)
		g.put(": ")
		g.put(task)
	}
	g.put("\n\n")
	return task
}

func (g *generator) body() {
	g.put("Files Modified:\n")
	for range 3 {
		g.line("- ~f: ~w and ~w")
	}
	g.line("\nSummary: the ~w now waits for the ~w, and ~n tests cover it")
	g.line("\nVerification Results:\n\n| check | result |\n|---|---|\n| ~w | passed |\n| ~w | passed |\n")
}

func (g *generator) exitSignal() {
	g.paragraph(1)
	phase := pick(g, exitPhases)
	g.line(`{
  "protocol": "apm2_agent_exit",
  "version": "1.0.0",
  "phase_completed": "` + phase + `",
  "exit_reason": "completed",
  "notes": "the ~w is done, ~n tests pass"
}`)
}
