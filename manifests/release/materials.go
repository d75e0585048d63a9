package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeMaterials writes a bill of materials in CycloneDX: the modules that the Go toolchain recorded in each program. It contains neither a serial number nor a
// time, so that each run writes the same bytes.
func (r release) writeMaterials(context.Context) (err error) {
	modules := map[string]cyclonedx.Component{}
	uses := map[string]map[string]bool{}
	for _, t := range r.targets {
		for _, program := range t.programs {
			if uses[program] == nil {
				uses[program] = map[string]bool{}
			}
			if err := r.visitModules(program, t, func(m cyclonedx.Component) { modules[m.BOMRef], uses[program][m.BOMRef] = m, true }); err != nil {
				return err
			}
		}
	}
	file, err := os.Create(filepath.Join(r.out, "kiln.cdx.json"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(r.materialsDocument(modules, uses))
}

// visitModules calls visit for each module of a program.
func (r release) visitModules(program string, t target, visit func(cyclonedx.Component)) error {
	name := program
	if t.platform.OS == "windows" {
		name += ".exe"
	}
	build, err := buildinfo.ReadFile(filepath.Join(r.programsFolder(t.platform), name))
	if err != nil {
		return err
	}
	visit(moduleComponent("stdlib", strings.TrimPrefix(build.GoVersion, "go")))
	for _, m := range build.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		visit(moduleComponent(m.Path, m.Version))
	}
	return nil
}

// moduleComponent returns a Go module as a component. github.com/package-url/purl-spec defines its package URL.
func moduleComponent(path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}

// materialsDocument returns the bill of materials: the programs, the modules, and the modules of each program.
func (r release) materialsDocument(modules map[string]cyclonedx.Component, uses map[string]map[string]bool) *cyclonedx.BOM {
	application := func(name string) cyclonedx.Component {
		return cyclonedx.Component{
			BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: r.from.Version,
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		}
	}
	whole := application("kiln")
	names := slices.Sorted(maps.Keys(uses))
	components := make([]cyclonedx.Component, 0, len(names)+len(modules))
	dependencies := []cyclonedx.Dependency{{Ref: whole.BOMRef, Dependencies: &names}}
	for _, name := range names {
		components = append(components, application(name))
		of := slices.Sorted(maps.Keys(uses[name]))
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: name, Dependencies: &of})
	}
	for _, url := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[url])
	}
	document := cyclonedx.NewBOM()
	document.Metadata = &cyclonedx.Metadata{Component: &whole}
	document.Components, document.Dependencies = &components, &dependencies
	return document
}
