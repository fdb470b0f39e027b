package history

import (
	"slices"
	"sort"
)

// minSamples is how many completed tasks a range needs.
const minSamples = 5

// Estimates is what the next task will take, from the completed ones.
type Estimates struct {
	// Cost is in millionths of a dollar, and Work in seconds during which somebody worked on the
	// task: without waits.
	Cost Estimate `json:"cost_micros"`
	Work Estimate `json:"work_seconds"`
}

// Estimate is a range in which most completed tasks are.
type Estimate struct {
	// Tasks is the number of completed tasks whose amount is known. With fewer than Needs there is
	// no range.
	Tasks int `json:"tasks"`
	Needs int `json:"needs"`
	// Low and High are the range: all but the lowest and the highest tenth of the tasks.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Tried is for how many of these tasks there would have been a range from the tasks before, and
	// Right how many of them were in it.
	Tried int `json:"tried"`
	Right int `json:"right"`
}

// Known reports whether there is a range.
func (e Estimate) Known() bool { return e.Tasks >= e.Needs }

func estimate(tasks []sample) Estimates {
	var costs, times []float64
	for _, t := range tasks {
		if times = append(times, t.seconds); t.costKnown {
			costs = append(costs, float64(t.cost))
		}
	}
	return Estimates{Cost: estimateFrom(costs), Work: estimateFrom(times)}
}

// estimateFrom walks through the amounts in the order in which the tasks were completed: the range
// from those before each one either has it or not.
func estimateFrom(amounts []float64) Estimate {
	e := Estimate{Needs: minSamples}
	var before []float64 // sorted
	for _, amount := range amounts {
		if low, high, ok := middle(before); ok {
			if e.Tried++; low <= amount && amount <= high {
				e.Right++
			}
		}
		before = slices.Insert(before, sort.SearchFloat64s(before, amount), amount)
	}
	e.Tasks = len(before)
	e.Low, e.High, _ = middle(before)
	return e
}

// middle returns the range of sorted amounts without the lowest and the highest tenth.
func middle(sorted []float64) (low, high float64, ok bool) {
	n := len(sorted)
	if n < minSamples {
		return 0, 0, false
	}
	return sorted[n/10], sorted[n-1-n/10], true
}
