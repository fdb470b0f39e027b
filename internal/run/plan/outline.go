package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

// outline is the structure of a plan: its tasks with the texts of their sections.
type outline struct {
	*document
	id     string // from the heading of the plan, "" if it has none
	name   string
	nameAt int // the line of the name, 0 if it has none
	// The introduction is from introStart, after the name, to introEnd, where the first phase or
	// task starts.
	introStart, introEnd int
	// review is that of all tasks that do not say, and reviewStart and reviewEnd are where that is
	// said. It is not part of the introduction: agents do not do better work if they know who will
	// not look at it.
	review                 rules.Review
	reviewStart, reviewEnd int
	tasks                  []rawTask
	faults                 []Fault

	// The levels of the first phase and the first task. Zero means none yet.
	phaseLevel, taskLevel         int
	firstPhaseLine, firstTaskLine int
	// phase is the phase of the next task. inTask and inPhase report what the current text belongs
	// to.
	phase           string
	inTask, inPhase bool
	// stray is the last heading that is neither a phase nor a task nor inside a task. nil means
	// none, or one that was reported.
	stray *ast.Heading
	// numbered are the headings that look like tasks if they have the level of the tasks.
	numbered []*ast.Heading
	marks    []mark
}

// rawTask is a task whose sections are not parsed yet.
type rawTask struct {
	id, title, phase string
	line             int
	sections         []section
}

// section is a labelled part of a task. The text before the first label has no label.
type section struct {
	label
	line     int
	text     string // without the label
	textLine int    // the line where the text begins
	whole    string // with the label, verbatim
}

// mark is an offset in the source at which a section ends, and possibly another begins.
type mark struct {
	start  int
	task   *rawTask // a task's heading
	label  *label
	indent int // of the label's list item
	after  int // offset of the text after a heading or a rule
	// rule marks a thematic break. inside marks one in the middle of a section, which does not end
	// it.
	rule, inside bool
}

func readOutline(md markdown, source []byte) *outline {
	o := &outline{document: md.read(source)}
	for n := o.root.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			o.heading(n)
		case *ast.List:
			o.list(n)
		case *ast.Paragraph:
			for _, l := range o.labels(n) {
				o.addLabel(mark{start: l.start, label: &l})
			}
		case *ast.Blockquote:
			for _, m := range o.labelsAfter(n, maxMarkers, nil) {
				o.addLabel(m)
			}
		case *ast.ThematicBreak:
			o.marks = append(o.marks, mark{start: o.lineStart(n.Pos()), rule: true,
				after: o.lineEnd(n.Pos())})
		case *ast.FencedCodeBlock, *ast.HTMLBlock:
			o.checkClosed(n)
		}
	}
	o.checkNumbered()
	o.cutSections()
	return o
}

func (o *outline) fault(offset int, hint, format string, args ...any) {
	o.faults = append(o.faults, Fault{o.line(offset), fmt.Sprintf(format, args...), hint})
}

// keyword removes the first word of a heading if it is the given one.
func keyword(heading, word string) (rest string, ok bool) {
	if len(heading) < len(word) || !strings.EqualFold(heading[:len(word)], word) {
		return "", false
	}
	rest = heading[len(word):]
	return strings.TrimSpace(rest), rest == "" || rest[0] == ' ' || rest[0] == ':'
}

// phaseOf returns the phase that a heading begins.
func phaseOf(heading string) (phase string, ok bool) {
	rest, ok := keyword(heading, "phase")
	if !ok {
		return "", false
	}
	number, name, named := strings.Cut(rest, ":")
	number, name = strings.TrimSpace(number), strings.TrimSpace(name)
	digits := number != "" && strings.Trim(number, "0123456789.") == ""
	switch {
	case named && number != "" && !strings.Contains(number, " "):
		return strings.TrimSuffix(number+": "+name, ": "), true
	case digits:
		return number, true
	}
	return "", false
}

func (o *outline) heading(n *ast.Heading) {
	plain := o.plain(n)
	o.stray = nil
	if rest, ok := keyword(plain, "task"); ok {
		o.task(n, rest)
		return
	}
	rest, ok := keyword(plain, "phase")
	if phase, whole := phaseOf(plain); whole {
		o.beginPhase(n, phase)
		return
	} else if ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		o.fault(n.Pos(), `write the heading as "### Phase 1: name"`,
			"the phase %s has no colon after its number", quote(rest))
		return
	}
	if id, title, ok := likelyTask(plain); ok {
		o.misspelledTask(n, id, title)
		return
	}
	if _, _, ok := numberedLikeTask(plain); ok {
		o.numbered = append(o.numbered, n)
	}
	if o.name == "" && n.Level <= 2 {
		o.id, o.name = planHeading(plain)
		o.nameAt = o.line(n.Pos())
		if o.taskLevel == 0 && o.phaseLevel == 0 {
			o.introStart = o.headingEnd(n)
		}
	}
	if o.inTask && n.Level > o.taskLevel {
		o.headingInTask(n, plain)
		return
	}
	if o.phaseLevel == 0 || n.Level <= o.phaseLevel {
		o.phase = ""
	}
	o.endTask(n)
	o.stray = n
}

// planHeading splits the heading of a plan, "Plan ID: name", into id and name. Any other heading is
// a name without an id.
func planHeading(heading string) (id, name string) {
	if rest, ok := keyword(heading, "plan"); ok {
		if id, name, ok := strings.Cut(rest, ":"); ok &&
			signalbox.CheckID(strings.TrimSpace(id)) == nil && strings.TrimSpace(name) != "" {
			return strings.TrimSpace(id), strings.TrimSpace(name)
		}
	}
	return "", heading
}

// headingInTask reports a heading inside a task that is a label. Other headings are part of a
// section.
func (o *outline) headingInTask(n *ast.Heading, plain string) {
	for _, l := range o.labels(n) {
		if l.known != "" {
			o.fault(n.Pos(), "put an empty line before the line of dashes under it",
				"the label %s is a heading here", quote(l.written))
			return
		}
	}
	if known := knownLabel(strings.TrimSuffix(plain, ":")); known != "" {
		o.fault(n.Pos(), `write "**`+known+`**:" instead of a heading`,
			"the label %s is a heading here", quote(plain))
	}
}

// endTask ends the current task, if any, at a heading that is not part of it.
func (o *outline) endTask(n *ast.Heading) {
	for _, l := range o.labels(n) {
		if l.known != "" && o.inTask {
			o.fault(n.Pos(), "put an empty line before the line of dashes under it",
				"the label %s is a heading here", quote(l.written))
		}
	}
	o.marks = append(o.marks, mark{start: o.lineStart(n.Pos())})
	o.inTask, o.inPhase = false, false
}

func (o *outline) beginPhase(n *ast.Heading, phase string) {
	switch {
	case o.phaseLevel == 0:
		o.endIntroduction(n)
		o.phaseLevel, o.firstPhaseLine = n.Level, o.line(n.Pos())
		if o.taskLevel > 0 && n.Level >= o.taskLevel {
			o.fault(n.Pos(), fmt.Sprintf(`write "%s Phase %s"`, hashes(o.taskLevel-1),
				text.Printable(phase)),
				"the heading of the phase is not above the tasks, which have level %d", o.taskLevel)
		}
	case n.Level != o.phaseLevel:
		o.fault(n.Pos(), fmt.Sprintf(`write "%s Phase %s"`, hashes(o.phaseLevel),
			text.Printable(phase)),
			"the heading of the phase has level %d, but the first phase on line %d has level %d",
			n.Level, o.firstPhaseLine, o.phaseLevel)
	}
	o.marks = append(o.marks, mark{start: o.lineStart(n.Pos())})
	o.phase, o.inTask, o.inPhase = phase, false, true
}

func hashes(level int) string { return strings.Repeat("#", max(1, level)) }

func (o *outline) task(n *ast.Heading, rest string) {
	level := 4
	if o.taskLevel > 0 {
		level = o.taskLevel
	}
	form := fmt.Sprintf(`write "%s Task ID: title", or do not begin the heading with Task`,
		hashes(level))
	before, title, colon := strings.Cut(rest, ":")
	t := &rawTask{id: strings.TrimSpace(before), title: strings.TrimSpace(title), phase: o.phase,
		line: o.line(n.Pos())}
	switch {
	case !colon:
		o.fault(n.Pos(), form, "the heading of the task has no colon after its id")
	case t.id == "":
		o.fault(n.Pos(), form, "the heading of the task has no id")
	case t.title == "":
		o.fault(n.Pos(), form, "task %s has no title", quote(t.id))
	}
	switch {
	case o.taskLevel == 0:
		o.endIntroduction(n)
		o.taskLevel, o.firstTaskLine = n.Level, t.line
		if o.phaseLevel > 0 && n.Level <= o.phaseLevel {
			o.fault(n.Pos(), fmt.Sprintf(`write "%s Task ID: title"`, hashes(o.phaseLevel+1)),
				"the heading of the task is not below the phase on line %d, which has level %d",
				o.firstPhaseLine, o.phaseLevel)
		}
	case n.Level != o.taskLevel:
		o.fault(n.Pos(), fmt.Sprintf(`write "%s Task ID: title"; tasks cannot be nested`,
			hashes(o.taskLevel)),
			"the heading of the task has level %d, but the first task on line %d has level %d",
			n.Level, o.firstTaskLine, o.taskLevel)
	}
	o.marks = append(o.marks, mark{start: o.lineStart(n.Pos()), task: t, after: o.headingEnd(n)})
	o.inTask, o.inPhase = true, false
}

// headingEnd returns the offset of the line after a heading.
func (o *outline) headingEnd(n *ast.Heading) int {
	last := n.Pos()
	if lines := n.Lines(); lines.Len() > 0 {
		last = lines.At(lines.Len() - 1).Start
	}
	after := o.lineEnd(last)
	if o.source[n.Pos()] != '#' {
		after = o.lineEnd(after) // a heading with an underline
	}
	return after
}

// endIntroduction ends the introduction at the first phase or task.
func (o *outline) endIntroduction(n *ast.Heading) {
	if o.phaseLevel == 0 && o.taskLevel == 0 {
		o.introEnd = o.lineStart(n.Pos())
	}
}

// introduction returns the text before the first phase or task, cut after a line if it is too long.
func (o *outline) introduction() string {
	if o.introEnd <= o.introStart {
		return ""
	}
	source := o.source[o.introStart:o.introEnd]
	if from, to := o.reviewStart-o.introStart, o.reviewEnd-o.introStart; from >= 0 && to > from &&
		to <= len(source) {
		source = slices.Concat(source[:from], source[to:])
	}
	intro := string(bytes.TrimSpace(source))
	if len(intro) > maxIntroduction {
		intro = intro[:maxIntroduction-len("…")]
		if line := strings.LastIndexByte(intro, '\n'); line >= 0 {
			intro = intro[:line+1]
		}
		intro = strings.ToValidUTF8(intro, "") + "…"
	}
	return intro
}

// list handles a list. It is a list of sections if each item begins with a label and at least one
// label is known; otherwise it is part of a section.
func (o *outline) list(n *ast.List) {
	hidden := o.document.heading(n, func(plain string) bool {
		_, task := keyword(plain, "task")
		_, phase := phaseOf(plain)
		return task || phase
	})
	if hidden != nil {
		o.fault(hidden.Pos(), "begin the heading at the start of its line",
			"the heading %s is inside a list", quote(o.plain(hidden)))
	}
	if !o.inTask && !o.inPhase && o.stray == nil {
		return
	}
	var marks []mark
	known, others := (*label)(nil), false
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		offset := item.(*ast.ListItem).Offset
		l := o.itemLabel(item)
		marks = append(marks, o.labelsAfter(item, offset, l)...)
		if l == nil {
			others = true
			continue
		}
		if known == nil && (l.known != "" || l.fault != nil) {
			known = l
		}
		marks = append(marks, mark{start: o.lineStart(item.Pos()), label: l, indent: offset})
	}
	if known != nil && others {
		o.fault(known.start,
			"put the label in its own paragraph; if it is not a label, put another word before it",
			"the label %s is in a list with other text", quote(known.written))
	}
	if known == nil || others {
		marks = slices.DeleteFunc(marks, func(m mark) bool { return m.indent > 0 })
	}
	slices.SortFunc(marks, func(a, b mark) int { return a.start - b.start })
	for _, m := range marks {
		o.addLabel(m)
	}
}

// itemLabel returns the label at the start of a list item, or nil.
func (o *outline) itemLabel(item ast.Node) *label {
	block := item.FirstChild()
	if block == nil || block.Kind() != ast.KindTextBlock && block.Kind() != ast.KindParagraph {
		return nil
	}
	found := o.labels(block)
	if len(found) == 0 || found[0].start != block.FirstChild().Pos() {
		return nil
	}
	return &found[0]
}

// labelsAfter returns the labels on lines that are part of a list item or a quote only because no
// empty line precedes them (lazy continuation lines). They are less indented than the item, and the
// author meant them as labels. Known labels that are really inside an item are faults.
func (o *outline) labelsAfter(container ast.Node, indent int, first *label) []mark {
	var marks []mark
	_ = ast.Walk(container, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || n.Kind() != ast.KindTextBlock && n.Kind() != ast.KindParagraph {
			return ast.WalkContinue, nil
		}
		for _, l := range o.labels(n) {
			before := string(o.source[o.lineStart(l.start):l.start])
			switch {
			case strings.TrimLeft(before, " ") == "" && len(before) < indent:
				marks = append(marks, mark{start: l.start, label: &l})
			case first != nil && l.start == first.start,
				strings.Contains(before, ">"): // the label of the item, or quoted
			case l.known != "" && o.inTask && container.Kind() == ast.KindListItem:
				o.fault(l.start, "put the label in its own paragraph; if it is not a label, put another word before it",
					"the label %s is inside a list item", quote(l.written))
			}
		}
		return ast.WalkSkipChildren, nil
	})
	return marks
}

func (o *outline) addLabel(m mark) {
	switch {
	case o.inTask:
		o.marks = append(o.marks, m)
		if m.label.fault != nil {
			o.faults = append(o.faults, *m.label.fault)
		}
	case o.inPhase && m.label.known != "":
		o.fault(m.label.start, "move it below the heading of each task that it applies to",
			"the label %s is under a phase, where it has no effect", quote(m.label.written))
	case m.label.known == labelReview:
		o.planReview(m.label)
	case o.stray != nil && (m.label.known == labelWork || m.label.known == labelCriteria):
		id, title := splitHeading(o.plain(o.stray))
		o.misspelledTask(o.stray, id, title)
	}
}

// planReview reads the review of all tasks, which is said before the first one.
func (o *outline) planReview(l *label) {
	end := o.lineEnd(l.content)
	written := string(o.source[l.content:max(l.content, end)])
	review, ok := parseReview(written)
	switch {
	case o.taskLevel > 0 || o.phaseLevel > 0:
		o.fault(l.start, "move it below the heading of a task, or above the first phase and task",
			"the label %s has no effect here", quote(l.written))
	case o.reviewEnd > 0:
		o.fault(l.start, "keep one of them", "the label %s is used twice, first on line %d",
			quote(l.written), o.line(o.reviewStart))
	case !ok:
		o.fault(l.start, ReviewHint, "%s is not a review", quote(strings.TrimSpace(written)))
	default:
		o.review, o.reviewStart, o.reviewEnd = review, o.lineStart(l.start), end
	}
}

// checkClosed reports a code block or comment without an end, because it would hide the tasks after
// it.
func (o *outline) checkClosed(n ast.Node) {
	if n.NextSibling() != nil {
		return
	}
	end := o.lineEnd(n.Pos())
	if lines := n.Lines(); lines.Len() > 0 {
		end = lines.At(lines.Len() - 1).Stop
	}
	switch n := n.(type) {
	case *ast.FencedCodeBlock:
		if strings.TrimSpace(string(o.source[end:])) == "" {
			o.fault(n.Pos(), "end it with a line of the same marks",
				"the code block is never closed")
		}
	case *ast.HTMLBlock:
		comment := strings.HasPrefix(string(o.source[n.Pos():]), "<!--")
		if comment && !strings.Contains(string(o.source[n.Pos():]), "-->") {
			o.fault(n.Pos(), `end it with "-->"`, "the comment is never closed")
		}
	}
}

// dropRules removes the rules inside sections: a rule ends a section only if no text follows before
// the next mark.
func (o *outline) dropRules() {
	end := len(o.source)
	for i := len(o.marks) - 1; i >= 0; i-- {
		m := &o.marks[i]
		if m.rule && bytes.IndexFunc(o.source[m.after:end],
			func(r rune) bool { return !unicode.IsSpace(r) }) >= 0 {
			m.inside = true
			continue
		}
		end = m.start
	}
	o.marks = slices.DeleteFunc(o.marks, func(m mark) bool { return m.inside })
}

// cutSections takes the text of each section from the source.
func (o *outline) cutSections() {
	o.dropRules()
	var task *rawTask
	for i, m := range o.marks {
		end := len(o.source)
		if i+1 < len(o.marks) {
			end = o.marks[i+1].start
		}
		switch {
		case m.task != nil:
			if task != nil {
				o.tasks = append(o.tasks, *task)
			}
			task = m.task
			o.addSection(task, section{line: task.line}, mark{start: m.after}, m.after, end)
		case task == nil:
		case m.label != nil:
			o.addSection(task, section{label: *m.label, line: o.line(m.label.start)}, m,
				m.label.content, end)
		case !m.rule: // a heading above the task
			o.tasks = append(o.tasks, *task)
			task = nil
		}
	}
	if task != nil {
		o.tasks = append(o.tasks, *task)
	}
}

func (o *outline) addSection(task *rawTask, s section, m mark, content, end int) {
	raw := dedent(string(o.source[content:max(content, end)]), m.indent)
	dropped := 0
	s.text, dropped = trim(raw)
	s.textLine = s.line + dropped
	if s.written == "" {
		s.textLine = o.line(min(content, len(o.source)-1)) + dropped
		if s.text == "" {
			return
		}
	}
	s.whole, _ = trim(dedent(string(o.source[s.start:max(content, end)]), m.indent))
	if s.written == "" {
		s.whole = s.text
	}
	task.sections = append(task.sections, s)
}
