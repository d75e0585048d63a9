package guestdiff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/test/reviewed"
)

const frontendProfiles = `apiVersion: kilnvm.io/v1alpha1
kind: FrontendProfile
metadata: {name: v2}
spec: {smbios: {manufacturer: Second}, freePorts: 2}
---
apiVersion: kilnvm.io/v1alpha1
kind: FrontendProfile
metadata: {name: v10}
spec: {smbios: {manufacturer: Tenth}}
`

// TestFrontendProfilesOfFiles: render, diff and explain go by the highest version among the files, as a VM that is created would.
func TestFrontendProfilesOfFiles(t *testing.T) {
	t.Parallel()
	without := reviewed.Guest(t, &workbench.Bench{}, reviewed.Load(t, plain))
	with := reviewed.Guest(t, &workbench.Bench{}, reviewed.Load(t, plain, frontendProfiles))
	var bench workbench.Bench
	for _, c := range []struct {
		guest workbench.Reviewed
		want  string
	}{{without, "KubeVirt"}, {with, "Tenth"}} {
		rendered, err := bench.Render(t.Context(), c.guest, workbench.Rendering{Stage: workbench.StageFrontend})
		if err != nil {
			t.Fatal(err)
		}
		if text := rendered.Documents[0].XML; !strings.Contains(text, `<entry name="manufacturer">`+c.want+"</entry>") {
			t.Errorf("no manufacturer '%s' in\n%s", c.want, text)
		}
	}
	if diff := cmp.Diff(&workbench.Frontend{Version: "v10", Origin: "configuration"}, with.Frontend()); diff != "" || without.Frontend() != nil {
		t.Errorf("(-want +got):\n%s, without profiles %v", diff, without.Frontend())
	}
	compared, err := Compare(t.Context(), &bench, Side{Reviewed: without}, Side{Reviewed: with, Afresh: true})
	if err != nil || !strings.Contains(compared.Domain, "Tenth") || len(compared.Changes) == 0 {
		t.Errorf("%v, %+v", err, compared.Changes)
	}
	kept, err := Compare(t.Context(), &bench, Side{Reviewed: without}, Side{Reviewed: with})
	if err != nil || len(kept.Changes) > 0 {
		t.Errorf("%v: a guest that has booted keeps its hardware: %+v", err, kept.Changes)
	}
}

// TestFrontendProfilesAreJudged: as an API server would, also the rule about the name, which is CEL there.
func TestFrontendProfilesAreJudged(t *testing.T) {
	t.Parallel()
	for object, path := range map[string]string{
		"metadata: {name: v1}\nspec: {}":                                    "",
		"metadata: {name: latest}\nspec: {}":                                "metadata.name",
		"metadata: {name: v1}\nspec: {freePorts: 129}":                      "spec.freePorts",
		"metadata: {name: v1}\nspec: {usb: {model: uhci}}":                  "spec.usb.model",
		"metadata: {name: v1}\nspec: {smbios: {family: \"a\\x01\"}}":        "spec.smbios.family",
		"metadata: {name: v1}\nspec: {video: {arm64: vga}}":                 "spec.video.arm64",
		"metadata: {name: v1}\nspec: {smbios: {manufacturers: a}}":          "spec.smbios.manufacturers",
		"metadata: {name: v1, namespace: team}\nspec: {smbios: {sku: '' }}": "spec.smbios.sku",
	} {
		all, err := (&workbench.Bench{}).Review(t.Context(), reviewed.Load(t, "apiVersion: kilnvm.io/v1alpha1\nkind: FrontendProfile\n"+object+"\n"), nil)
		if err != nil || len(all.Objects) != 1 || all.Objects[0].Fault != nil {
			t.Fatalf("%s: %v, %+v", object, err, all)
		}
		got := ""
		for _, mistake := range all.Objects[0].Verdict.Errors {
			got += mistake.Field
		}
		if got != path {
			t.Errorf("%s: %v, want '%s'", object, all.Objects[0].Verdict.Errors, path)
		}
	}
}
