package cmdutil

import (
	"fmt"
	"slices"
)

// Reasons collects why objects or files have no verdict. The zero value is ready to use.
type Reasons struct {
	first  map[string]string // by reason: the first object or file that has it
	others map[string]int    // by reason: how many more have it
}

// Add adds that what has no verdict because of reason.
func (r *Reasons) Add(what, reason string) {
	if r.first == nil {
		r.first, r.others = map[string]string{}, map[string]int{}
	}
	if _, known := r.first[reason]; known {
		r.others[reason]++
		return
	}
	r.first[reason] = what
}

// Lines returns one line for each reason, sorted, because thousands of VMs may have the same reason: 'vm/a and 41 more: its namespace cannot be read'.
func (r *Reasons) Lines() (lines []string) {
	for reason, what := range r.first {
		if n := r.others[reason]; n > 0 {
			what += fmt.Sprintf(" and %d more", n)
		}
		lines = append(lines, what+": "+reason)
	}
	slices.Sort(lines)
	return lines
}
