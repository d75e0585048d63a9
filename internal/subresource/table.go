package subresource

import (
	"cmp"
	"slices"
)

// Row is a subresource of KubeVirt's API, and whether it is served.
type Row struct {
	// Resource is virtualmachines or virtualmachineinstances; empty for what is no subresource.
	Resource, Name string
	// Verb is that of HTTP.
	Verb   string
	Served bool
	// Doc says what it does, or why it is not served.
	Doc string
}

// Table lists all of them, those that are served first.
func Table() (rows []Row) {
	for _, r := range routes() {
		rows = append(rows, Row{Resource: r.resource, Name: r.name, Verb: r.verb, Served: r.unserved == "", Doc: cmp.Or(r.unserved, r.doc)})
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		switch {
		case a.Served == b.Served:
			return 0
		case a.Served:
			return -1
		}
		return 1
	})
	return rows
}
