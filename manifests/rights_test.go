package manifests_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kilnvm/kiln/test/cluster"
)

// TestRightsPage: docs/reference/rights.md lists all rights that overlay beside-kubevirt gives to the accounts of webhook and controller, and no others.
func TestRightsPage(t *testing.T) {
	raw, err := os.ReadFile("../docs/reference/rights.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, granted []string
	for _, account := range []string{"kiln-webhook", "kiln-controller"} {
		_, section, found := strings.Cut(string(raw), "\n## Account `"+account+"`\n")
		if !found {
			t.Fatalf("the page has no section about '%s'", account)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for line := range strings.Lines(section) {
			if cells := strings.Split(line, "|"); len(cells) == 7 && strings.Contains(cells[1], "`") {
				for _, right := range listedRights(account, cells[1], cells[2], cells[3]) {
					listed = append(listed, right.String())
				}
			}
		}
	}
	rights, err := cluster.RightsOf(documents(t, kustomized(t, "resources: [%[1]s/overlays/beside-kubevirt]\n")), "kiln-system")
	if err != nil || len(rights) == 0 {
		t.Fatalf("%d rights, %v", len(rights), err)
	}
	for _, right := range rights {
		granted = append(granted, right.String())
	}
	slices.Sort(listed)
	slices.Sort(granted)
	if diff := cmp.Diff(slices.Compact(granted), listed); diff != "" {
		t.Errorf("-granted +listed:\n%s", diff)
	}
}

// listedRights reads a row of the page: the API group, the resources with their names and place, and the verbs. Each may be a list.
func listedRights(account, group, resources, verbs string) (all []cluster.Right) {
	words := func(cell string) []string {
		return strings.Split(strings.ReplaceAll(strings.TrimSpace(cell), "`", ""), ", ")
	}
	resources, own := strings.CutSuffix(strings.TrimSpace(resources), " in `kiln-system`")
	resources, names, _ := strings.Cut(resources, " named ")
	for _, resource := range words(resources) {
		for _, name := range words(names) {
			for _, verb := range words(verbs) {
				right := cluster.Right{Account: account, Verb: verb, Group: words(group)[0], Resource: resource, Name: name}
				if own {
					right.Namespace = "kiln-system"
				}
				if right.Group == "core" {
					right.Group = ""
				}
				all = append(all, right)
			}
		}
	}
	return all
}
