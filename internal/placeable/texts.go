package placeable

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
)

// mostNamed bounds the names in a list. A guest may select hundreds of labels.
const mostNamed = 3

// quote returns a name that a tenant may have written, bounded, on one line and in quotes.
func quote(name string) string { return condition.OneLine(fmt.Sprintf("'%.253s'", name)) }

// listNames joins names, and counts those beyond mostNamed.
func listNames(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		return strings.Join(names[:mostNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// listQuantities returns some resources with their quantities, in the order of their names.
func listQuantities(all corev1.ResourceList, names []corev1.ResourceName) string {
	slices.Sort(names)
	var texts []string
	for _, name := range names {
		quantity := all[name]
		texts = append(texts, fmt.Sprintf("%.253s %s", name, quantity.String()))
	}
	return listNames(texts)
}

// quoteNames returns names in quotes.
func quoteNames(names []string) string {
	var texts []string
	for _, name := range names {
		texts = append(texts, quote(name))
	}
	return listNames(texts)
}
