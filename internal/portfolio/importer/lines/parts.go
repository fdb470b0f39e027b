package lines

import (
	"bytes"
	"iter"
	"runtime"
	"sync"
)

// Part is a piece of a text that begins and ends with whole records.
type Part struct {
	Text []byte
	// Line is the number of its first line.
	Line int
}

// Parts cuts a text, whose first line has the given number, into parts of about size bytes. A part ends at a line end
// with an even number of quotes before it. In CSV without a fault that is the end of a record; so if every part can be
// read without a fault, together they are what the text as a whole is, and if one cannot, the text cannot either.
func Parts(text []byte, line, size int) iter.Seq[Part] {
	return func(yield func(Part) bool) {
		for len(text) > 0 {
			end, quotes := 0, 0
			for step := min(size, len(text)); ; step = 0 {
				from := end
				end += step
				if i := bytes.IndexByte(text[end:], '\n'); i >= 0 {
					end += i + 1
				} else {
					end = len(text)
				}
				quotes += bytes.Count(text[from:end], []byte{'"'})
				if quotes%2 == 0 || end == len(text) {
					break
				}
			}
			part := text[:end]
			if !yield(Part{part, line}) {
				return
			}
			line += bytes.Count(part, []byte{'\n'})
			text = text[end:]
		}
	}
}

// InOrder works on parts, as many at a time as there are cores, and gives the results to take in the order of the parts
// until it returns false. Work also gets a result that was taken, to use its memory again, or the zero value. It is
// called concurrently, take is not; neither is after InOrder has returned.
func InOrder[T any](parts iter.Seq[Part], work func(Part, T) T, take func(T) bool) {
	var running sync.WaitGroup
	defer running.Wait()
	cores := runtime.GOMAXPROCS(0)
	results, used := make(chan chan T, cores), make(chan T, cores+2)
	stop := make(chan struct{})
	defer close(stop)
	running.Go(func() {
		defer close(results)
		for part := range parts {
			result := make(chan T, 1)
			select {
			case results <- result:
			case <-stop:
				return
			}
			running.Go(func() {
				var again T
				select {
				case again = <-used:
				default:
				}
				result <- work(part, again)
			})
		}
	})
	for result := range results {
		r := <-result
		if !take(r) {
			return
		}
		select {
		case used <- r:
		default:
		}
	}
}
