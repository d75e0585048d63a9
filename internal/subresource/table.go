package subresource

import (
	"cmp"
	"slices"
)

// Row is a subresource of KubeVirt's API, and whether Kiln serves it.
type Row struct {
	// Resource is virtualmachines or virtualmachineinstances; empty for a path that is not a subresource.
	Resource, Name string
	// Verb is the HTTP method.
	Verb   string
	Served bool
	// Doc says what the subresource does, or why it is not served.
	Doc string
}

// Table returns all subresources, the served ones first.
func Table() (rows []Row) {
	for _, r := range allRoutes() {
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
