package markdown

import (
	"slices"
	"strings"

	extast "github.com/yuin/goldmark/extension/ast"
)

const (
	// minColumn is the width of a column below which a table is shown as a list of its rows.
	minColumn = 6
	// maxColumns limits the columns of a table.
	maxColumns = 32
)

// table renders a table with columns that fit the width. Cells are wrapped.
func (d *document) table(t *extast.Table, width int) []string {
	rows := d.cells(t)
	if len(rows) == 0 || len(rows[0]) == 0 {
		return nil
	}
	count := len(rows[0])
	natural := make([]int, count)
	for _, row := range rows {
		for i, cell := range row {
			for _, line := range wrap(cell, 1<<16) {
				natural[i] = max(natural[i], lineWidth(line))
			}
		}
	}
	const gap = " │ "
	room := width - columns(gap)*(count-1)
	if count > maxColumns || room < count*minColumn && room < sum(natural) {
		return d.records(rows, width)
	}
	widths := fit(natural, room)
	var lines []string
	for r, row := range rows {
		lines = append(lines,
			d.tableRow(row, widths, t.Alignments, d.theme.render1(gap, style{faint: true}))...)
		if r == 0 {
			var rule []string
			for _, w := range widths {
				rule = append(rule, strings.Repeat("─", w))
			}
			lines = append(lines, d.theme.render1(strings.Join(rule, "─┼─"), style{faint: true}))
		}
	}
	return lines
}

// cells returns the cells of all rows; the first row is the header. All rows have the same length.
func (d *document) cells(t *extast.Table) [][][]span {
	var rows [][][]span
	for r := t.FirstChild(); r != nil; r = r.NextSibling() {
		base := style{bold: r.Kind() == extast.KindTableHeader}
		var row [][]span
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			row = append(row, d.inline(c, base, nil))
		}
		if len(rows) > 0 {
			for len(row) < len(rows[0]) {
				row = append(row, nil)
			}
			row = row[:len(rows[0])]
		}
		rows = append(rows, row)
	}
	return rows
}

// tableRow renders a row, whose cells may have several lines.
func (d *document) tableRow(row [][]span, widths []int, alignments []extast.Alignment,
	gap string) []string {
	cells := make([][][]span, len(row))
	height := 1
	for i, cell := range row {
		cells[i] = wrap(cell, widths[i])
		height = max(height, len(cells[i]))
	}
	var lines []string
	for y := range height {
		var b strings.Builder
		for i, cell := range cells {
			if i > 0 {
				b.WriteString(gap)
			}
			text, free := "", widths[i]
			if y < len(cell) {
				text, free = d.theme.line(cell[y]), max(widths[i]-lineWidth(cell[y]), 0)
			}
			left := 0
			if i < len(alignments) {
				switch alignments[i] {
				case extast.AlignRight:
					left = free
				case extast.AlignCenter:
					left = free / 2
				}
			}
			b.WriteString(strings.Repeat(" ", left) + text)
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", free-left))
			}
		}
		lines = append(lines, b.String())
	}
	return lines
}

// records renders a table that is too wide as a list: for each row its cells, with the titles of
// their columns.
func (d *document) records(rows [][][]span, width int) []string {
	var lines []string
	for r, row := range rows[1:] {
		if r > 0 {
			lines = append(lines, "")
		}
		for i, cell := range row {
			title := rows[0][i]
			if len(title) > 0 {
				title = append(slices.Clone(title), span{": ", style{bold: true}})
			}
			lines = append(lines,
				d.theme.lines(wrap(append(slices.Clone(title), cell...), width))...)
		}
	}
	if len(rows) == 1 {
		for _, title := range rows[0] {
			lines = append(lines, d.theme.lines(wrap(title, width))...)
		}
	}
	return lines
}

// fit returns widths of columns that together have at most the given room: the widest columns
// become narrower.
func fit(natural []int, room int) []int {
	widths := slices.Clone(natural)
	for i := range widths {
		widths[i] = max(widths[i], 1)
	}
	if sum(widths) <= room {
		return widths
	}
	limit := 1
	for sum(limited(widths, limit+1)) <= room {
		limit++
	}
	fitted := limited(widths, limit)
	left := room - sum(fitted)
	for i := range fitted {
		if left > 0 && widths[i] > fitted[i] {
			fitted[i]++
			left--
		}
	}
	return fitted
}

func limited(widths []int, limit int) []int {
	all := slices.Clone(widths)
	for i := range all {
		all[i] = min(all[i], limit)
	}
	return all
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}

func lineWidth(line []span) int {
	total := 0
	for _, s := range line {
		total += columns(s.text)
	}
	return total
}
