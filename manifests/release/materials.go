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

// materials writes what the programs consist of, as CycloneDX: the modules that the Go toolchain noted in each. There is neither a serial number nor a
// time, which would differ from run to run.
func (r release) materials(context.Context) (err error) {
	modules := map[string]cyclonedx.Component{}
	uses := map[string]map[string]bool{}
	for _, t := range r.targets {
		for _, program := range t.programs {
			if uses[program] == nil {
				uses[program] = map[string]bool{}
			}
			if err := r.read(program, t, func(m cyclonedx.Component) { modules[m.BOMRef], uses[program][m.BOMRef] = m, true }); err != nil {
				return err
			}
		}
	}
	file, err := os.Create(filepath.Join(r.out, "kiln.cdx.json"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(r.document(modules, uses))
}

// read tells each module of a program.
func (r release) read(program string, t target, tell func(cyclonedx.Component)) error {
	name := program
	if t.platform.OS == "windows" {
		name += ".exe"
	}
	build, err := buildinfo.ReadFile(filepath.Join(r.built(t.platform), name))
	if err != nil {
		return err
	}
	tell(module("stdlib", strings.TrimPrefix(build.GoVersion, "go")))
	for _, m := range build.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		tell(module(m.Path, m.Version))
	}
	return nil
}

// module returns a module of Go as a component. Its package URL is that of github.com/package-url/purl-spec for Go.
func module(path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}

// document returns the programs, their modules, and which program has which.
func (r release) document(modules map[string]cyclonedx.Component, uses map[string]map[string]bool) *cyclonedx.BOM {
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
