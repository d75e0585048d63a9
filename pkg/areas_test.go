package pkg_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// areas are the file names shared by all engine packages: 'ls pkg/*/cpu.go pkg/*/*/cpu.go' is the answer to "what do we
// do about CPUs?".
var areas = strings.Fields("machine cpu memory resources firmware disks networks hostdevices devices features clock iothreads security placement")

// subjects are further files of an engine package, each with its reason.
var subjects = map[string]string{
	"pkg/admit/paths":              "where errors of a VM are, and whom they blame (design: real paths)",
	"pkg/admit/instance":           "the sparse VMI of a VM",
	"pkg/admit/steps":              "the one list of what makes a guest explicit",
	"pkg/admit/provenance":         "where each field of a guest came from (design)",
	"pkg/patch/anchors":            "what of a path the raw object holds",
	"pkg/patch/shapes":             "what the writer must know of the API's types",
	"pkg/policy/types":             "the types of CEL of the API's Go types",
	"pkg/policy/environment":       "what an expression may name",
	"pkg/policy/form":              "what must be right before an expression is compiled",
	"pkg/policy/compile":           "the expressions of a policy, compiled",
	"pkg/policy/cost":              "what an expression may cost, estimated when it is written",
	"pkg/policy/depth":             "how deep an expression may be nested",
	"pkg/policy/guard":             "what Kubernetes' limits of a call do not bound",
	"pkg/policy/judge":             "the judgement on one object",
	"pkg/policy/values":            "what an expression reads",
	"pkg/policy/message":           "what the owner of an object reads",
	"pkg/profile/read":             "a stored profile, read as hostile input",
	"pkg/profile/judge":            "what a profile would make of VMIs, asked when it is written",
	"pkg/profile/settings":         "a template as a list of fields",
	"pkg/profile/shapes":           "what must be known of the API's types: fields that exclude each other, names of elements",
	"pkg/profile/metadata":         "which labels and annotations a profile may fill",
	"pkg/profile/extend":           "what profiles extend",
	"pkg/profile/merge":            "which of several profiles decides a field, and where two disagree",
	"pkg/profile/fill":             "what is put into a VMI",
	"pkg/snapshot/check":           "what users write of snapshots, restores and clones",
	"pkg/snapshot/needs":           "what a VM refers to",
	"pkg/snapshot/judge":           "whether all of that is there, and what is left out (design)",
	"pkg/snapshot/restore":         "the VM and its hardware after a restore",
	"pkg/snapshot/patches":         "patches of restores, read as hostile input",
	"pkg/snapshot/volumes":         "claims of snapshots and restores, by KubeVirt's names",
	"pkg/snapshot/clone":           "the patches of a clone",
	"pkg/record/parse":             "a stored record, read as hostile input",
	"pkg/record/compare":           "the difference of two records",
	"pkg/record/part":              "what a record or a domain consists of besides devices",
	"pkg/record/verdict":           "what a difference means for a guest",
	"pkg/record/telling":           "which differences are worth a line, and which only follow",
	"pkg/render/capture":           "a running domain back into a record (design)",
	"pkg/render/kubevirt":          "what a guest that KubeVirt runs is to find again",
	"pkg/render/facts":             "what a launcher reports of its host, read as hostile input",
	"pkg/render/live":              "what of a running guest's hardware may change, read as hostile input",
	"pkg/pod/paths":                "where the launcher finds what its pod has",
	"pkg/pod/references":           "which objects of the namespace kubelet must find",
	"pkg/pod/effects":              "which fields a pod cannot serve: the rows of all areas, and their judge",
	"pkg/render/documents":         "the documents besides the domain, in libvirt's order",
	"pkg/domain/backend/facts":     "what stage 3 is told of the host and of this start",
	"pkg/domain/backend/profile":   "the administrator's policy: which profiles count, and how they are merged",
	"pkg/instancetype/snapshot":    "content-addressed revisions",
	"pkg/instancetype/requirement": "what a preference demands",
	"pkg/instancetype/kinds":       "the words by which a matcher names a kind",
	"pkg/instancetype/lifecycle":   "whether new VMs may use an instancetype or preference",
	"pkg/catalog/lint":             "what is wrong with a catalog (design)",
	"pkg/catalog/diff":             "what the next version of a catalog means for VMs (design)",
	"pkg/catalog/boot":             "whether a VM boots with an instancetype and a preference: the engine's own answer",
	"pkg/catalog/index":            "what a catalog offers, for people and programs (design)",
	"pkg/validate/vm":              "what only a VirtualMachine has",
	"pkg/validate/rules":           "what is known about each rule, and all of them in one list",
	"pkg/validate/catalog":         "instancetypes, preferences and presets",
	"pkg/validate/counts":          "how many parts an object may have, asked before it is decoded",
	"pkg/validate/embedded":        "metadata in the place of a VM where no schema judges it",
	"pkg/validate/updates":         "what may change in an object that exists, and who may change it",
	"pkg/validate/timezones":       "the names of the IANA time zone database",
	"pkg/validate/warnings":        "what is legal and yet not meant",
	"pkg/validate/kubevirt":        "what Kiln's launcher alone serves, where KubeVirt runs guests",
	"pkg/internal/filled/find":     "who filled a field, for errors",
	"pkg/domain/abi/walk":          "every device of a domain, in one order",
	"pkg/domain/abi/canon":         "the text that comparisons and digests read",
	"pkg/domain/abi/freeze":        "a domain's record",
	"pkg/domain/abi/project":       "what a guest sees of a domain",
	"pkg/domain/abi/changes":       "the difference of two, in words",
	"pkg/address/numbers":          "positions on a bus",
	"pkg/address/pcie":             "root bus and root ports",
}

func TestFilesAreAreas(t *testing.T) {
	for _, p := range list(t, "./pkg/...") {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		if pkg == "pkg/config" {
			continue // configuration has its own subjects
		}
		for _, file := range p.GoFiles {
			name := strings.TrimSuffix(file, ".go")
			if name == filepath.Base(pkg) || slices.Contains(areas, name) || subjects[pkg+"/"+name] != "" || part(pkg, name) {
				continue
			}
			t.Errorf("%s/%s is neither an area nor the package's own file: %s", pkg, file, strings.Join(areas, " "))
		}
	}
}

// part tells whether a file is part of an area or subject that was split, e.g. disks_blockio.
func part(pkg, name string) bool {
	whole, _, found := strings.Cut(name, "_")
	return found && (slices.Contains(areas, whole) || subjects[pkg+"/"+whole] != "")
}
