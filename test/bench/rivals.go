package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"signalbox"
)

// regexpPart is how much of the transcript Go's regexp reads: all of it would take minutes.
const regexpPart = 10 * megabyte

// patterns returns the regular expressions that define the line signals.
func patterns() []string {
	var all []string
	for _, s := range signalbox.LineSignals() {
		if s.Argument == signalbox.NoArgument {
			all = append(all, "^"+s.Text+"$")
		} else {
			all = append(all, "^"+s.Text+`:\s*(\S+)`)
		}
	}
	return all
}

func newRipgrep(m transcriptFile) *contestant {
	path, err := exec.LookPath("rg")
	if err != nil {
		return nil
	}
	args := []string{"--no-config", "--no-filename", "--count-matches"}
	for _, p := range patterns() {
		args = append(args, "-e", p)
	}
	args = append(args, m.path)
	want := countLineSignals(m.planted, m.size)
	return newContestant("ripgrep "+ripgrepVersion(path), m.size, func() error {
		out, err := exec.Command(path, args...).Output()
		if err != nil {
			return err
		}
		return checkCount(strings.TrimSpace(string(out)), want)
	})
}

func ripgrepVersion(path string) string {
	out, err := exec.Command(path, "--version").Output()
	if fields := strings.Fields(string(out)); err == nil && len(fields) > 1 {
		return fields[1]
	}
	return ""
}

func countLineSignals(all []planted, before int64) int {
	n := 0
	for _, p := range all {
		if p.dialect == signalbox.DialectLine && p.offset < before {
			n++
		}
	}
	return n
}

func checkCount(found string, want int) error {
	if found != strconv.Itoa(want) {
		return fmt.Errorf("found %s line signals, planted %d", found, want)
	}
	return nil
}

// newRegexps returns two contestants: one searches for the patterns one after the other, the other
// for all in one.
func newRegexps(m transcriptFile) ([]*contestant, error) {
	part, err := m.head(regexpPart)
	if err != nil {
		return nil, err
	}
	want := countLineSignals(m.planted, int64(len(part)))
	search := func(name string, all ...string) *contestant {
		var compiled []*regexp.Regexp
		for _, p := range all {
			compiled = append(compiled, regexp.MustCompile("(?m)"+p))
		}
		name = fmt.Sprintf("Go regexp, %s (first %.1f MB)", name, float64(len(part))/megabyte)
		return newContestant(name, int64(len(part)), func() error {
			found := 0
			for _, re := range compiled {
				found += len(re.FindAllIndex(part, -1))
			}
			return checkCount(strconv.Itoa(found), want)
		})
	}
	return []*contestant{
		search("nineteen patterns in turn", patterns()...),
		search("nineteen patterns as one", strings.Join(patterns(), "|")),
	}, nil
}

// head reads the first bytes of the file, up to a block with a signal, so that no signal is cut in
// two.
func (m *transcriptFile) head(limit int64) ([]byte, error) {
	end := m.size
	if end > limit {
		for _, p := range m.planted {
			if p.offset <= limit {
				end = p.offset
			}
		}
	}
	f, err := os.Open(m.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	part := make([]byte, end)
	_, err = io.ReadFull(f, part)
	return part, err
}

func (m *transcriptFile) countLines() (int, error) {
	f, err := os.Open(m.path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, pieceSize)
	lines := 0
	for {
		n, err := f.Read(buf)
		for rest := buf[:n]; ; lines++ {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			rest = rest[i+1:]
		}
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
