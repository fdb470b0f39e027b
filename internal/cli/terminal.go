package cli

import (
	"cmp"
	"io"
	"io/fs"
	"os"

	"signalbox/internal/run/inspect/render"
	"signalbox/internal/show"
)

// IsTerminal reports whether a stream is a character device other than the null device. That is
// close enough to a terminal, needs no system call per platform, and only affects output for
// people.
func IsTerminal(stream any) bool {
	f, ok := stream.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// HasInput reports whether a file or pipe certainly has something to read. It does not block.
func HasInput(stream io.Reader) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return false
	case info.Mode().IsRegular():
		at, err := f.Seek(0, io.SeekCurrent)
		return err == nil && at < info.Size()
	}
	return info.Mode()&fs.ModeNamedPipe != 0 && isReadable(f)
}

// Colors reports whether to use colours on a stream.
func (p *Program) Colors(stream io.Writer) bool {
	return IsTerminal(stream) && p.Getenv("NO_COLOR") == ""
}

// WidthOf returns the number of columns of a terminal, 0 for other streams.
func WidthOf(stream io.Writer) int {
	columns, _ := SizeOf(stream)
	return columns
}

// SizeOf returns the size of a terminal, 0 for other streams.
func SizeOf(stream io.Writer) (columns, rows int) {
	if f, ok := stream.(*os.File); ok && IsTerminal(f) {
		return terminalSize(f)
	}
	return 0, 0
}

// unknownWidth is the number of columns that is assumed for a terminal whose width is not known.
const unknownWidth = 80

// RenderOptions describes standard output.
func (p *Program) RenderOptions() (o render.Options) {
	if IsTerminal(p.Stdout) {
		columns, rows := SizeOf(p.Stdout)
		o.Width, o.Height = cmp.Or(columns, unknownWidth), cmp.Or(rows, unknownHeight)
	}
	if p.Colors(p.Stdout) {
		o.Paint = show.AnyBackground()
	}
	return o
}

// unknownHeight is the number of lines that is assumed for a terminal whose height is not known.
const unknownHeight = 24
