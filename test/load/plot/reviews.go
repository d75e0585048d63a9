package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"golang.org/x/perf/benchfmt"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// review is a benchmark of test/bench that has the metric x-limit.
type review struct{ name, title, short string }

var reviews = []review{
	{"MutateVMI", "mutation of a VMI", "VMI mutate"},
	{"VM/mutate", "mutation of a VM", "VM mutate"},
	{"ValidateVMI", "validation of a VMI", "VMI validate"},
	{"VM/validate", "validation of a VM", "VM validate"},
	{"Render", "rendering of a domain", "render"},
}

var sizes = []string{"mid", "large"}

// Benchmarks are the results of 'make bench': for each benchmark and metric one value a run.
type Benchmarks map[string]map[string][]float64

var processors = regexp.MustCompile(`-[0-9]+$`)

// readBenchmarks reads the output of 'go test -bench'. A file that is absent has no benchmarks.
func readBenchmarks(path string) (Benchmarks, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := Benchmarks{}
	reader := benchfmt.NewReader(file, path)
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		name := processors.ReplaceAllString(string(result.Name.Full()), "")
		if all[name] == nil {
			all[name] = map[string][]float64{}
		}
		for _, value := range result.Values {
			all[name][value.Unit] = append(all[name][value.Unit], value.Value)
		}
	}
	return all, reader.Err()
}

// medianOf returns the median of a metric, 0 without values.
func (b Benchmarks) medianOf(name, unit string) float64 {
	return medianOfValues(b[name][unit])
}

// reviewTable has the time of each benchmark as a multiple of its limit, and what many policies and profiles add.
func reviewTable(all Benchmarks) string {
	if len(all) == 0 {
		return unmeasured
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| times its limit, median of %d runs | mid | large |\n|---|---|---|\n", len(all[reviews[0].name+"/"+sizes[0]]["x-limit"]))
	for _, r := range reviews {
		fmt.Fprintf(&b, "| %s | %.2f | %.2f |\n", r.title, all.medianOf(r.name+"/"+sizes[0], "x-limit"), all.medianOf(r.name+"/"+sizes[1], "x-limit"))
	}
	fmt.Fprintf(&b, "\n50 policies and 50 profiles that all match a mid VM add %.2f ms to its mutation and %.2f ms to its validation (goal: 1.0).\n",
		all.medianOf("PoliciesAndProfiles/mutate/both", "ms-more"), all.medianOf("PoliciesAndProfiles/validate/both", "ms-more"))
	return b.String() + "\n![Time of each benchmark as a multiple of its limit](performance/reviews.svg)\n"
}

// drawReviews draws the ratios of both sizes.
func drawReviews(results Results, path string) error {
	all := results.Reviews
	if len(all) == 0 {
		return nil
	}
	p := newPlot("Time beside the limit of the same run", "times the limit")
	var titles []string
	ratios := make([]plotter.Values, len(sizes))
	for _, r := range reviews {
		titles = append(titles, r.short)
		for i, size := range sizes {
			ratios[i] = append(ratios[i], all.medianOf(r.name+"/"+size, "x-limit"))
		}
	}
	err := addBars(p, group{sizes[0], ratios[0], -vg.Points(barWidth / 2), blue}, group{sizes[1], ratios[1], vg.Points(barWidth / 2), orange})
	if err != nil {
		return err
	}
	return nameBars(p, titles, path)
}
