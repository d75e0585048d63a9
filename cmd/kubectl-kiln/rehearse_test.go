package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const rehearsed = `---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: NAME, namespace: shop, uid: u-NAME}
spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}
`

// vms returns VMs of these names.
func vms(names ...string) (text string) {
	for _, name := range names {
		text += strings.ReplaceAll(rehearsed, "NAME", name)
	}
	return text
}

// TestRehearseKiln: the guests that another version of Kiln renders otherwise are found, and no others. The other version is this program behind a script: it
// changes what the program prints, or gives it other VMs.
func TestRehearseKiln(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // scripts run
			t.Fatal(err)
		}
		return path
	}
	script := func(name, body string) string {
		return file(name, "#!/bin/sh\n[ \"$1\" = version ] && echo '{\"version\": \"v9\"}' && exit\n"+strings.ReplaceAll(body, "KILN", "'"+os.Args[0]+"'")+"\n")
	}
	dump := file("dump.yaml", vms("a", "b", "c"))
	refusing := file("refusing.yaml", vms("a")+strings.Replace(vms("b"), "devices: {}", "devices: {disks: [{name: root}]}", 1))
	invisible := script("invisible", `KILN "$@" | sed 's|</name>|</name><title>new</title>|'`)
	for _, test := range []struct {
		why, other string
		dump       string
		status     int
		counts     map[string]int
		words      string
	}{
		{"the same program", os.Args[0], dump, 0, map[string]int{"same": 3}, ""},
		{"another title, which no guest sees", invisible, dump, 0, map[string]int{"same": 3}, ""},
		{"another video adapter of one guest", script("video", `KILN "$@" | sed '/<name>shop_b</s/type=\\"vga\\"/type=\\"cirrus\\"/'`), dump, 4,
			map[string]int{"same": 2, "breaks": 1}, "vga"},
		{"another rule, and a guest is missing", script("rule", "exec KILN render --stage frontend -o json -f '"+refusing+"'"), dump, 4,
			map[string]int{"same": 1, "refused": 1, "unjudged": 1}, "no volume has this name"},
		{"a missing instancetype", invisible, file("lacks.yaml", vms("a")+strings.Replace(vms("b"), "Halted,", "Halted, instancetype: {name: gone},", 1)), 2,
			map[string]int{"same": 1, "unjudged": 1}, "gone"},
		{"lost pins, and a document that is broken", invisible, file("broken.yaml", vms("a")+strings.Replace(vms("b"), "uid: u-b",
			"uid: u-b, annotations: {kilnvm.io/pins: '{\"presets\":[],\"configuration\":\"configuration-gone\"}'}", 1)+"---\nspec: [\n"), 2,
			map[string]int{"same": 1, "unjudged": 1}, "configuration-gone"},
		{"one VM", invisible, file("one.yaml", vms("a")), 0, map[string]int{"same": 1}, ""},
		{"no VM", invisible, file("none.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"), 2, nil, ""},
		{"no such program", filepath.Join(dir, "none"), dump, 2, nil, "none"},
		{"another program", script("other", "echo '[1]'"), dump, 2, nil, "other render"},
		{"a program that fails", script("fails", "echo broken >&2; exit 3"), dump, 2, nil, "broken"},
		{"a program that says nothing", script("silent", ":"), dump, 2, nil, "silent render"},
	} {
		got := run(t, dir, "rehearse", "-f", test.dump, "--with", "kiln="+test.other, "-o", "json")
		var answer struct {
			Counts  map[string]int
			Changes []struct{ Kind, Name string }
		}
		if test.counts != nil {
			if err := json.Unmarshal([]byte(got.out), &answer); err != nil || len(answer.Changes) != 1 || answer.Changes[0].Kind != "Kiln" {
				t.Errorf("%s: %v: %s%s", test.why, err, got.out, got.errOut)
			}
		}
		for verdict, n := range test.counts {
			if answer.Counts[verdict] != n {
				t.Errorf("%s: %v, want %v", test.why, answer.Counts, test.counts)
			}
		}
		if got.status != test.status || !strings.Contains(got.out+got.errOut, test.words) || test.counts == nil && got.out != "" {
			t.Errorf("%s: exit status %d, want %d with '%s': %s%s", test.why, got.status, test.status, test.words, got.out, got.errOut)
		}
	}
	for _, args := range [][]string{
		{"--with", "kiln=" + os.Args[0]}, {"-f", "-", "--with", "kiln=" + os.Args[0]}, {"-f", dump, "--with", "kiln="},
		{"-f", dump, "--with", "kiln=" + os.Args[0], "--with", "kubevirt=v1.9"}, {"-f", dump, "--with", "kiln=" + os.Args[0], "--plan", "plan.json"},
		{"-f", dump, "--with", "kiln=" + os.Args[0], "--state", "state"}, {"-f", "a.tar.gz", "--with", "kiln=" + os.Args[0]},
	} {
		if got := run(t, dir, append([]string{"rehearse"}, args...)...); got.status != 2 || !strings.Contains(got.errOut, "kiln=PROGRAM") {
			t.Errorf("%q: exit status %d: %s", args, got.status, got.errOut)
		}
	}
}
