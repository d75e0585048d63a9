package catalogcmd

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/catalog"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestCutTag has references with ports, tags and digests.
func TestCutTag(t *testing.T) {
	for reference, want := range map[string][2]string{
		"oci://a.example:5000/b:1.0.0":              {"oci://a.example:5000/b", "1.0.0"},
		"oci://a.example:5000/b":                    {"oci://a.example:5000/b", ""},
		"oci://a.example/b@sha256:abc":              {"oci://a.example/b", ""},
		"oci://a.example:5000/b:1.0.0@sha256:abcde": {"oci://a.example:5000/b:1.0.0", ""},
	} {
		if repository, tag, _ := cutTag(reference); repository != want[0] || tag != want[1] {
			t.Errorf("%s: %q, %q", reference, repository, tag)
		}
	}
}

// TestUsagesAreAStrangers: an object that VMs use and that is gone has the name that a tenant wrote.
func TestUsagesAreAStrangers(t *testing.T) {
	t.Parallel()
	const hostile = "fake\x1b[2J\r\t\n\u202e\u009b"
	used := revision.Usage{Namespace: hostile, Revision: hostile, Kind: hostile, Name: hostile, State: revision.Missing, VMs: []string{hostile}}
	usage := catalogs.Usage{Key: catalog.Key{Kind: hostile, Name: hostile}, Revisions: []revision.Usage{used},
		Unpinned: []string{hostile}, Removal: hostile, Edit: hostile}
	for lines, print := range map[int]func(*usageRun) error{
		2: func(o *usageRun) error { return o.printCatalogUsages([]catalogs.Usage{usage}) },
		5: func(o *usageRun) error { return o.printCatalogUsage([]catalogs.Usage{usage}) },
	} {
		streams, _, out, _ := genericclioptions.NewTestIOStreams()
		o := &usageRun{newCatalogOptions(&cmdutil.Session{IOStreams: streams})}
		err := print(o)
		text := out.String()
		if err != nil || strings.ContainsAny(text, "\x1b\r\t\u202e\u009b") || strings.Count(text, "\n") != lines || !strings.Contains(text, "fake") {
			t.Errorf("%v: %d lines, want %d: %q", err, strings.Count(text, "\n"), lines, text)
		}
	}
}
