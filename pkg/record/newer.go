package record

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// DescribeNewer says that a record has a higher schemaVersion than this version of Kiln knows, and which of its fields a boot does not reproduce. It is empty
// for other records and nil. The names of the fields are hostile input; the text has at most a few hundred bytes.
func DescribeNewer(r *Record) string {
	if r == nil || r.SchemaVersion <= v1alpha1.HardwareRecordVersion {
		return ""
	}
	text := fmt.Sprintf("the hardware record has schemaVersion %d, and this version of Kiln knows %d", r.SchemaVersion, v1alpha1.HardwareRecordVersion)
	if len(r.Unknown) == 0 {
		return text
	}
	names := sortedKeys(r.Unknown)
	var listed []string
	for _, name := range names[:min(len(names), mostFindings)] {
		listed = append(listed, "'"+printable(name, longestValue)+"'")
	}
	if more := len(names) - len(listed); more > 0 {
		listed = append(listed, fmt.Sprintf("%d more", more))
	}
	return text + ": it keeps, and does not reproduce, " + strings.Join(listed, ", ")
}
