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
	// maxAuditValue bounds one value in bytes. A longer one is left out, not cut: the list of violations is JSON. Policies write shorter ones, unless a
	// message is made of characters that JSON escapes.
	maxAuditValue = 64 << 10
	// maxAudit bounds the keys and values of one response in bytes.
	maxAudit = 256 << 10
	// auditDropped is the key of the annotation that counts those which were left out.
	auditDropped = "dropped_annotations"
)

// auditAnnotations returns the annotations that fit into a response, in the order of their keys. The API server drops and
// logs a key that is no name of at most 63 characters; such a key is left out here.
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
