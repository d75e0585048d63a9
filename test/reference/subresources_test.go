package reference

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/subresource"
	"github.com/kilnvm/kiln/test/golden"
)

const subresourcesHeading = `# Subresources

The tables list every subresource of KubeVirt 1.9, below '/apis/subresources.kubevirt.io/v1' and 'v1alpha3'. 'make golden' writes this page from the
routes of 'internal/subresource'. [subresources.md](../how-to/subresources.md) explains the subresources, and who may call them.
`

// TestReferenceOfSubresources writes the page about subresources.
func TestReferenceOfSubresources(t *testing.T) {
	var page strings.Builder
	page.WriteString(subresourcesHeading)
	for _, part := range []struct {
		title, column string
		served        bool
	}{{"Served", "what it does", true}, {"Not served: 501", "why", false}} {
		fmt.Fprintf(&page, "\n## %s\n\n| resource | subresource | verb | %s |\n|---|---|---|---|\n", part.title, part.column)
		for _, row := range subresource.Table() {
			if row.Served == part.served {
				fmt.Fprintf(&page, "| %s | `%s` | %s | %s |\n", cmp.Or(row.Resource, "-"), row.Name, row.Verb, row.Doc)
			}
		}
	}
	golden.Compare(t, "../../docs/reference/subresources.md", page.String())
}
