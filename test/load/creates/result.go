package creates

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Result contains all creates, in the order in which they ended.
type Result struct {
	Creates []Create
	// Took is the time from the first create to the end of the last one.
	Took time.Duration
}

// Summary is a result in figures. Latencies, in milliseconds, are measured on successful creates only.
type Summary struct {
	Created int `json:"created"`
	Failed  int `json:"failed"`
	// PerSecond are the successful creates a second.
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
	Max       float64 `json:"max"`
}

// Failures returns the creates that failed, in the order of the time at which they were due.
func (r Result) Failures() []Create {
	failed := slices.DeleteFunc(slices.Clone(r.Creates), func(c Create) bool { return c.Err == nil })
	slices.SortFunc(failed, func(a, b Create) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Number, b.Number)) })
	return failed
}

// Summary counts the creates and orders their latencies.
func (r Result) Summary() Summary {
	var latencies []time.Duration
	for _, c := range r.Creates {
		if c.Err == nil {
			latencies = append(latencies, c.Latency)
		}
	}
	slices.Sort(latencies)
	s := Summary{Created: len(latencies), Failed: len(r.Creates) - len(latencies)}
	if len(latencies) == 0 {
		return s
	}
	s.PerSecond = float64(len(latencies)) / r.Took.Seconds()
	s.P50, s.P99, s.Max = milliseconds(nearestRank(latencies, 0.5)), milliseconds(nearestRank(latencies, 0.99)), milliseconds(latencies[len(latencies)-1])
	return s
}

// nearestRank returns a quantile by the nearest rank: the smallest latency that at least that share of the latencies does not exceed.
func nearestRank(sorted []time.Duration, share float64) time.Duration {
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
