package toolbox

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkSearch searches 20,000 files of source, of 5,000 bytes each, in 1,000 folders.
func BenchmarkSearch(b *testing.B) {
	dir := b.TempDir()
	body := strings.Repeat(
		"func (s *Server) handle(ctx context.Context, r *Request) (err error) {\n\treturn s.next(ctx, r)\n}\n\n", 50)
	for i := range 1000 {
		for j := range 20 {
			put(b, dir, fmt.Sprintf("pkg%d/sub%d/file%d.go", i%40, i, j),
				fmt.Sprintf("package p%d\n\n%s// the end of number %d/%d\n", i, body, i, j))
		}
	}
	put(b, dir, ".gitignore", "*.o\n*.log\n/build/\ndist/\n*.tmp\n!keep.tmp\n**/gen/*.go\n")
	tool := SearchCode(dir)
	for name, in := range map[string]args{
		"literal":    {"query": "number 77/7"},
		"capitals":   {"query": "Number 77/7"},
		"regexp":     {"query": `number (77|78)/\d+$`, "regexp": true},
		"any regexp": {"query": `\d{3}/1[0-9]$`, "regexp": true},
		"words":      {"query": "number twenty end"},
		"flood":      {"query": "e"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				ok(b, tool, in)
			}
		})
	}
}
