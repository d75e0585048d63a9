package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Audit annotations go into the audit event of a request, which the API server keeps in memory until it writes it. It puts the name of the webhook
// and a slash before each key, so that NAME/KEY of a policy becomes NAME_KEY: no name of a policy has an underscore.
const (
	// maxAuditValue bounds one value in bytes. A longer value is left out and not cut, because the list of violations is JSON. Policies write shorter values,
	// unless a message consists of characters that JSON escapes.
	maxAuditValue = 64 << 10
	// maxAudit bounds the keys and values of one response in bytes.
	maxAudit = 256 << 10
	// auditDropped is the key of the annotation with the number of annotations that were left out.
	auditDropped = "dropped_annotations"
)

// auditAnnotations returns the annotations that fit into a response, in the order of their keys. It leaves out a key that is not a valid name of at most 63
// characters: the API server would drop and log it.
func auditAnnotations(all map[string]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	kept, size, dropped := map[string]string{}, 0, 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value, key := all[key], strings.ReplaceAll(key, "/", "_")
		if len(value) > maxAuditValue || size+len(key)+len(value) > maxAudit || len(validation.IsQualifiedName(key)) > 0 {
			dropped++
			continue
		}
		size += len(key) + len(value)
		kept[key] = value
	}
	if dropped > 0 {
		kept[auditDropped] = fmt.Sprint(dropped)
	}
	return kept
}
