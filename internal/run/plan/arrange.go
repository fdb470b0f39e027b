package plan

// Arrangement is where the tasks of a plan are in its picture, for programs that draw it
// themselves.
type Arrangement struct {
	Width, Height int
	// Boxes are the tasks in the order of the plan, each BoxWidth by BoxHeight.
	Boxes []Box
	Lines []Line
}

// The size of a box, in pixels.
const (
	BoxWidth  = boxWidth
	BoxHeight = boxHeight
)

// Box is the place of a task: that of its left upper corner.
type Box struct{ X, Y int }

// Line is a line from a task to one that waits for it. From and To are their numbers, and Path is
// its SVG path data.
type Line struct {
	From, To int
	Path     string
}

// Arrange returns where the tasks are in the picture that SVG returns, without its title and
// legend.
func (p *Plan) Arrange() Arrangement {
	l := newLayout(p.network())
	a := Arrangement{Width: 2*margin + max(len(l.layers)*(boxWidth+layerGap)-layerGap, 0),
		Height: int(l.height) + 2*margin}
	for i := range l.cells {
		l.cells[i].y = float64(int(l.cells[i].y) + margin)
	}
	for i := range p.Tasks {
		a.Boxes = append(a.Boxes, Box{int(l.cells[i].x()), int(l.cells[i].y)})
	}
	for _, line := range l.lines {
		a.Lines = append(a.Lines, Line{line[0], line[len(line)-1], l.curve(line)})
	}
	return a
}
