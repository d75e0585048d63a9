package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/filters/imagetag"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// writeManifests writes each overlay as one file, with the version of the image: 'kubectl apply --server-side -f install-rotation.yaml'.
func (r release) writeManifests(context.Context) error {
	overlays, err := os.ReadDir(filepath.Join(r.from.Module, "manifests", "overlays"))
	if err != nil {
		return err
	}
	for _, overlay := range overlays {
		dir := filepath.Join(r.from.Module, "manifests", "overlays", overlay.Name())
		whole, err := isInstallation(dir)
		if err != nil {
			return err
		}
		if !whole {
			continue
		}
		text, err := r.renderOverlay(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if err := os.WriteFile(filepath.Join(r.out, "install-"+overlay.Name()+".yaml"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// isInstallation reports whether the kustomization of a folder is an installation, not a Component that changes one.
func isInstallation(dir string) (bool, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		return false, err
	}
	var head types.TypeMeta
	err = yaml.Unmarshal(raw, &head)
	return head.Kind == types.KustomizationKind, err
}

// renderOverlay returns the objects of an overlay with the tags of the images, in kubectl's order: namespaces and definitions come first.
func (r release) renderOverlay(dir string) ([]byte, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	objects, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	for _, image := range []string{"kiln", "kiln-launcher"} {
		if err := objects.ApplyFilter(imagetag.LegacyFilter{ImageTag: r.imageTag(image)}); err != nil {
			return nil, err
		}
	}
	launcher := imagetag.Filter{ImageTag: r.imageTag("kiln-launcher"), FsSlice: types.FsSlice{launcherImage}}
	if err := objects.ApplyFilter(launcher); err != nil {
		return nil, err
	}
	return objects.AsYaml()
}

// imageTag says what replaces the name of an image: the tag of the release, and its registry.
func (r release) imageTag(name string) types.Image {
	image := types.Image{Name: name, NewTag: r.from.Version}
	if r.registry != "" {
		image.NewName = r.registry + "/" + name
	}
	return image
}

// launcherImage is the path of the environment variables. The controller gets the image of the pods of guests by one of them.
var launcherImage = types.FieldSpec{Path: "spec/template/spec/containers/env/value"}
