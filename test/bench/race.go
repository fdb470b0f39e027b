package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// racer is one of several ways to do some work. It does the same amount in each run.
type racer struct {
	name    string
	amount  int // of work in one run, in bytes or events
	run     func() error
	seconds []float64 // of each round
	err     error     // the first that run returned
}

// race runs the racers in turn, so that noise affects all alike. Each round starts with another
// racer, so that none always runs after the same one. It returns the errors of all racers.
func race(title string, rounds int, racers ...*racer) error {
	for round := range rounds {
		progress("%s: round %d of %d", title, round+1, rounds)
		for i := range racers {
			r := racers[(round+i)%len(racers)]
			runtime.GC()
			start := time.Now()
			err := r.run()
			r.seconds = append(r.seconds, time.Since(start).Seconds())
			if err != nil && r.err == nil {
				r.err = fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	var errs []error
	for _, r := range racers {
		errs = append(errs, r.err)
	}
	return errors.Join(errs...)
}

// times returns how many times as fast as other r is. It is the median of the ratios of all rounds,
// because both met the same noise in a round.
func (r *racer) times(other *racer) float64 {
	ratios := make([]float64, len(r.seconds))
	for i, seconds := range r.seconds {
		ratios[i] = (float64(r.amount) / seconds) / (float64(other.amount) / other.seconds[i])
	}
	return median(ratios)
}

// speed returns the median speed in units per second.
func (r *racer) speed(unit float64) float64 { return float64(r.amount) / unit / median(r.seconds) }

// cells returns the racer's name, its speed in units per second, and the range of its speeds.
func (r *racer) cells(unit float64) []string {
	amount := float64(r.amount) / unit
	return []string{r.name, fmt.Sprintf("%.0f", r.speed(unit)),
		fmt.Sprintf("%.0f–%.0f", amount/slices.Max(r.seconds), amount/slices.Min(r.seconds))}
}

// percentile returns the smallest sample that is not exceeded by the given percentage of all
// samples.
func percentile(samples []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
