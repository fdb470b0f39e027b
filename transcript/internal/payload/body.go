package payload

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"signalbox/transcript/internal/lines"
)

const (
	// bodyText is the field of the text before any label. Labels start with a capital, so none can
	// have this name.
	bodyText       = "text"
	bodySubTask    = "SUB-TASK"
	bodyDelegation = "Delegation Prompt"

	maxLabelBytes = 64
	maxLabelWords = 5

	// These limits keep a body of 64 KiB from becoming megabytes of small maps. Labels after
	// maxFields fields are text, and a table with more than maxRows rows is a string. So is a field
	// of more than maxLines lines, because that is everything the agent wrote after the signal
	// rather than a field.
	maxFields = 256
	maxRows   = 256
	maxLines  = 1000
)

// bodyLabels are the labels that agents are asked to use, in the spelling that callers rely on.
var bodyLabels = [...]string{
	"Files Modified", "Tests Written", "Environment Verification Matrix", "Environments Tested",
	"Expert Consultation",
	"Summary",
	"Blocker", "Attempted", "Needed", "Progress", "Blocked By",
	"Issue", "Command", "Output", "Environment",
	"Files Reviewed", "Quality Assessment", "Issues Found", "Required Fixes", "Priority",
	"Requirements Verification", "Failed Criteria", "Passing Criteria", "Pre-existing Failures",
	"Confidence", "Expanded Specification", "Acceptance Criteria", "Technical Approach",
	"Target Files", "Assumptions",
	"Edge Cases", bodySubTask,
	"Issues Fixed", "Verification Results", "Failed Checks",
	"Current Activity", "Blockers", "Estimated Remaining", "Estimated Progress",
	"Target Agent", "Request Type", "Context Snapshot", bodyDelegation, "Gap", "Keywords",
	"Task", "Question", "Context", "Options Considered", "Attempts Made", "What Would Help",
}

// Body parses the block after a line signal into its fields. A value is a string, a []string, a
// []map[string]string for a table or, for SUB-TASK, a []map[string]any. Body returns nil for white
// space. Line ends become "\n"; no other text is lost.
func Body(b []byte) map[string]any {
	text := lines.Valid(b)
	if strings.TrimSpace(text) == "" {
		return nil
	}
	r := bodyReader{root: bodyObject{}}
	r.enter(r.root)
	for line := range strings.Lines(text) {
		r.read(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
	}
	return r.value()
}

type bodyReader struct {
	root     bodyObject
	subTasks []subTask
	// The next line belongs to field, which is a field of object.
	object    bodyObject
	field     *bodyField
	fence     lines.Fence
	delegated bool
	fields    int // the number of labels so far
}

type subTask struct {
	id, title string
	fields    bodyObject
}

func (r *bodyReader) enter(o bodyObject) {
	r.object = o
	r.field = o.field(bodyText)
}

func (r *bodyReader) read(line string) {
	switch {
	case r.trackFence(line):
		r.field.add(line, bodyFenced)
	case r.delegated && isMarker(line, lines.DelegationEnd):
		r.delegated = false
		r.enter(r.object)
	case r.delegated:
		r.field.add(line, bodyPlain)
	case isMarker(line, lines.DelegationStart):
		r.delegated = true
		r.field = r.root.field(bodyDelegation)
		r.field.verbatim = true
	default:
		name, text, ok := bodyLabel(line)
		if !ok || r.fields >= maxFields {
			r.field.add(line, bodyPlain)
			return
		}
		r.begin(name, strings.TrimSpace(text))
	}
}

func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && strings.TrimRight(rest, lines.Space) == ""
}

// trackFence records whether the line opens or closes a fence. It reports whether the line does so
// or is inside one.
func (r *bodyReader) trackFence(text string) bool {
	mark := 0
	for mark < len(text) && text[mark] == ' ' {
		mark++
	}
	if mark == len(text) || text[mark] != '`' && text[mark] != '~' {
		return r.fence.IsOpen()
	}
	line := []byte(text)
	if !r.fence.IsOpen() {
		r.fence, _ = lines.OpenFence(line)
		return r.fence.IsOpen()
	}
	if r.fence.ClosedBy(line) {
		r.fence = lines.Fence{}
	}
	return true
}

func (r *bodyReader) begin(label, text string) {
	r.fields++
	if label == bodySubTask {
		id, title := text, ""
		if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
			id, title = text[:i], strings.TrimSpace(text[i:])
		}
		task := subTask{id: strings.TrimSuffix(id, ":"), title: title, fields: bodyObject{}}
		r.subTasks = append(r.subTasks, task)
		r.enter(task.fields)
		return
	}
	r.field = r.object.field(label)
	if text != "" {
		r.field.add(text, bodyInline)
	}
}

func (r *bodyReader) value() map[string]any {
	values := r.root.values()
	if len(r.subTasks) == 0 {
		return values
	}
	tasks := make([]map[string]any, len(r.subTasks))
	for i, t := range r.subTasks {
		tasks[i] = t.fields.values()
		tasks[i]["id"], tasks[i]["title"] = t.id, t.title
	}
	values[bodySubTask] = tasks
	return values
}

type bodyObject map[string]*bodyField

// field returns the field of that name and creates it if necessary. A repeated label continues its
// field.
func (o bodyObject) field(name string) *bodyField {
	f := o[name]
	if f == nil {
		f = &bodyField{verbatim: name == bodyText}
		o[name] = f
	}
	return f
}

func (o bodyObject) values() map[string]any {
	values := make(map[string]any, len(o))
	for name, f := range o {
		value := f.value()
		if name == bodyText && value == "" {
			continue
		}
		values[name] = value
	}
	return values
}

type bodyLineKind uint8

const (
	bodyPlain  bodyLineKind = iota
	bodyInline              // the text after a label's colon, never an item
	bodyFenced              // in a fence, always text
)

type bodyLine struct {
	text string
	kind bodyLineKind
}

type bodyField struct {
	lines []bodyLine
	// verbatim is set for fields that are always strings.
	verbatim bool
}

func (f *bodyField) add(text string, kind bodyLineKind) {
	f.lines = append(f.lines, bodyLine{text, kind})
}

func (f *bodyField) value() any {
	if !f.verbatim && len(f.lines) <= maxLines {
		if rows, ok := bodyTable(f.lines); ok {
			return rows
		}
		if items, ok := bodyList(f.lines); ok {
			return items
		}
	}
	texts := make([]string, len(f.lines))
	for i, l := range f.lines {
		texts[i] = l.text
	}
	return joinTrimmed(texts)
}

// joinTrimmed joins lines without blank lines around them. It keeps the indentation of the first
// line, which matters in code.
func joinTrimmed(lines []string) string {
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	return strings.TrimRightFunc(strings.Join(lines, "\n"), unicode.IsSpace)
}

// bodyLabel parses "Label: text", "**Label:** text" or "**Label**: text".
func bodyLabel(line string) (name, text string, ok bool) {
	const bold = "**"
	rest, marked := strings.CutPrefix(line, bold)
	if !marked && (line == "" || line[0] < 'A') { // a quick check for most lines of code and lists
		return "", "", false
	}
	colon := strings.IndexByte(rest[:min(len(rest), maxLabelBytes+len(bold)+1)], ':')
	if colon < 0 {
		return "", "", false
	}
	name, text = rest[:colon], rest[colon+1:]
	if marked {
		inner, outside := strings.CutSuffix(name, bold)
		after, inside := strings.CutPrefix(text, bold)
		switch {
		case outside:
			name = inner
		case inside:
			text = after
		default:
			return "", "", false
		}
	}
	// Command::new, task := f() and output://x are code.
	if known, ok := knownLabel(name); ok && (text == "" || strings.IndexByte(":=/", text[0]) < 0) {
		return known, text, true
	}
	return name, text, isLabel(name) && (text == "" || text[0] == ' ' || text[0] == '\t')
}

var bodyLabelsFolded = func() map[string]string {
	folded := map[string]string{}
	for _, label := range bodyLabels {
		folded[strings.ToLower(label)] = label
	}
	return folded
}()

// knownLabel returns the documented spelling of a label written in any case.
func knownLabel(name string) (string, bool) {
	var folded [maxLabelBytes]byte
	if len(name) > len(folded) {
		return "", false
	}
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		folded[i] = c
	}
	known, ok := bodyLabelsFolded[string(folded[:len(name)])]
	return known, ok
}

func isLabel(name string) bool {
	if name == "" || name[0] < utf8.RuneSelf && (name[0] < 'A' || name[0] > 'Z') {
		return false
	}
	if len(name) > maxLabelBytes || strings.HasSuffix(name, " ") ||
		len(strings.Fields(name)) > maxLabelWords {
		return false
	}
	for i, c := range name {
		if i == 0 && !unicode.IsUpper(c) {
			return false
		}
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune(" -_/()", c) {
			return false
		}
	}
	return true
}

// bodyList parses lines as a list if there is at least one item. Text before or between items is an
// item of its own. Markdown would add a remark after "- a.go" to that item, which would spoil the
// path.
func bodyList(lines []bodyLine) ([]string, bool) {
	if containsTable(lines) {
		return nil, false
	}
	const inText = -1
	items, found := []string{}, false
	var open []string
	width := inText // or the column at which the text of the open item starts
	begin := func(text string, column int) {
		if item := joinTrimmed(open); item != "" {
			items = append(items, item)
		}
		open, width = append(open[:0], text), column
	}
	for _, l := range lines {
		indent, text := cutIndent(l.text)
		marker := 0
		if l.kind == bodyPlain && (width == inText || indent < width) {
			marker = itemMarker(text)
		}
		switch {
		case marker > 0:
			found = true
			column, item := cutIndent(text[marker:])
			if item == "" || column > 4 {
				column = 1
			}
			begin(item, indent+marker+column)
		case width != inText && indent == 0 && text != "" && l.kind != bodyFenced:
			begin(l.text, inText)
		default:
			open = append(open, dedent(l.text, width))
		}
	}
	begin("", inText)
	return items, found
}

// itemMarker returns the length of the bullet or number that starts an item, or 0.
func itemMarker(text string) int {
	n := 0
	switch {
	case text == "":
		return 0
	case strings.IndexByte("-*+", text[0]) >= 0:
		n = 1
	default:
		const maxDigits = 9
		for n < len(text) && n <= maxDigits && '0' <= text[n] && text[n] <= '9' {
			n++
		}
		if n == 0 || n > maxDigits || n == len(text) || text[n] != '.' && text[n] != ')' {
			return 0
		}
		n++
	}
	if n < len(text) && text[n] != ' ' && text[n] != '\t' {
		return 0
	}
	return n
}

const tabStop = 4

// cutIndent splits a line into the columns of its indentation and its text.
func cutIndent(line string) (columns int, text string) {
	for i := range len(line) {
		switch line[i] {
		case ' ':
			columns++
		case '\t':
			columns += tabStop - columns%tabStop
		default:
			return columns, line[i:]
		}
	}
	return columns, ""
}

// dedent removes at most width columns of indentation.
func dedent(line string, width int) string {
	columns, text := cutIndent(line)
	if width <= 0 || columns == 0 {
		return line
	}
	return strings.Repeat(" ", max(0, columns-width)) + text
}

// hasCells reports whether the line may be a row of a table.
func (l bodyLine) hasCells() bool {
	_, text := cutIndent(l.text)
	return l.kind != bodyFenced && strings.Contains(text, "|") &&
		(l.kind == bodyInline || itemMarker(text) == 0)
}

// bodyTable parses lines as a pipe table if they are nothing else.
func bodyTable(lines []bodyLine) ([]map[string]string, bool) {
	var rows []string
	framed := true
	for _, l := range lines {
		row := strings.TrimSpace(l.text)
		if row == "" {
			continue
		}
		if !l.hasCells() {
			return nil, false
		}
		framed = framed && len(row) > 1 && row[0] == '|' && row[len(row)-1] == '|'
		rows = append(rows, row)
	}
	if len(rows) < 2 || len(rows) > maxRows {
		return nil, false
	}
	header, data := splitRow(rows[0]), rows[1:]
	if isSeparator(rows[1]) {
		data = rows[2:]
	} else if !framed {
		return nil, false
	}
	table := make([]map[string]string, len(data))
	for i, row := range data {
		table[i] = tableRow(header, splitRow(row))
	}
	return table, true
}

// tableRow returns a row as a map. No cell is lost: one beyond the header, or under a repeated
// name, is appended to the previous value. Missing cells are absent, so that a wide header does not
// make every short row large.
func tableRow(header, cells []string) map[string]string {
	parts := make(map[string][]string, len(cells))
	for i, cell := range cells {
		name := header[min(i, len(header)-1)]
		if cell != "" || parts[name] == nil {
			parts[name] = append(parts[name], cell)
		}
	}
	row := make(map[string]string, len(parts))
	for name, p := range parts {
		if len(p) > 1 && p[0] == "" {
			p = p[1:]
		}
		row[name] = strings.Join(p, " | ")
	}
	return row
}

func splitRow(row string) []string {
	row = strings.TrimPrefix(row, "|")
	var cells []string
	var cell strings.Builder
	for i := 0; i < len(row); i++ {
		switch {
		case row[i] == '\\' && i+1 < len(row) && row[i+1] == '|':
			i++
			cell.WriteByte('|')
		case row[i] == '|':
			cells = append(cells, strings.TrimSpace(cell.String()))
			cell.Reset()
		default:
			cell.WriteByte(row[i])
		}
	}
	if last := strings.TrimSpace(cell.String()); last != "" || len(cells) == 0 {
		cells = append(cells, last)
	}
	return cells
}

// isSeparator reports whether the row separates the header of a table from its data.
func isSeparator(row string) bool {
	for _, cell := range splitRow(row) {
		dashes := strings.TrimSuffix(strings.TrimPrefix(cell, ":"), ":")
		if dashes == "" || strings.Trim(dashes, "-") != "" {
			return false
		}
	}
	return true
}

// containsTable reports whether the lines contain a table. An indented table is part of an item.
func containsTable(lines []bodyLine) bool {
	for i := 1; i < len(lines); i++ {
		row := lines[i]
		if lines[i-1].hasCells() && row.hasCells() && !strings.HasPrefix(row.text, " ") &&
			isSeparator(strings.TrimSpace(row.text)) {
			return true
		}
	}
	return false
}
