package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// racer does the same amount of work in each run.
type racer struct {
	name    string
	amount  int // of work in one run, in whatever the race is about
	run     func() error
	seconds []float64 // of each round
}

// race lets the racers run in turn. Who begins changes from round to round, so that nobody always runs in
// another's wake.
func race(title string, rounds int, racers ...*racer) error {
	for round := range rounds {
		progress("%s: round %d of %d", title, round+1, rounds)
		for i := range racers {
			r := racers[(round+i)%len(racers)]
			runtime.GC()
			start := time.Now()
			err := r.run()
			r.seconds = append(r.seconds, time.Since(start).Seconds())
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	return nil
}

// times returns how many times as fast as another it is: the median of the rounds, since the two of one round met
// the same noise.
func (r *racer) times(other *racer) float64 {
	ratios := make([]float64, len(r.seconds))
	for i, seconds := range r.seconds {
		ratios[i] = (float64(r.amount) / seconds) / (float64(other.amount) / other.seconds[i])
	}
	return median(ratios)
}

// cells are the racer's name, speed and spread of speeds, in so many units.
func (r *racer) cells(unit float64) []string {
	amount := float64(r.amount) / unit
	return []string{r.name, fmt.Sprintf("%.0f", amount/median(r.seconds)),
		fmt.Sprintf("%.0f–%.0f", amount/slices.Max(r.seconds), amount/slices.Min(r.seconds))}
}

// percentile returns the smallest sample that so many hundredths of all do not exceed.
func percentile(samples []time.Duration, hundredths int) time.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[max(0, (len(sorted)*hundredths+99)/100-1)]
}
