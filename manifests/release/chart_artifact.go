package main

import (
	"bytes"
	"context"
	"path/filepath"
	"time"

	"github.com/kilnvm/kiln/manifests/images/archive"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"sigs.k8s.io/yaml"
)

// Helm's media types: https://helm.sh/docs/topics/registries#helm-chart-manifest
const (
	chartConfigType = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// writeChartArtifact writes the chart as 'helm push' would push it, as an OCI archive, so that its digest is known before anybody pushes it. Its tag is the
// version of the chart, because Helm finds a version by that tag.
func (r release) writeChartArtifact(ctx context.Context, packed, metadata []byte) error {
	config, err := yaml.YAMLToJSON(metadata)
	if err != nil {
		return err
	}
	folder := filepath.Join(r.work, "chart")
	layout, err := oci.NewWithContext(ctx, folder)
	if err != nil {
		return err
	}
	configBlob, layer := content.NewDescriptorFromBytes(chartConfigType, config), content.NewDescriptorFromBytes(chartLayerType, packed)
	for _, blob := range []struct {
		descriptor ocispec.Descriptor
		raw        []byte
	}{{configBlob, config}, {layer, packed}} {
		if err := layout.Push(ctx, blob.descriptor, bytes.NewReader(blob.raw)); err != nil {
			return err
		}
	}
	number := semanticVersion(r.from.Version)
	annotations := map[string]string{
		ocispec.AnnotationTitle: "kiln", ocispec.AnnotationVersion: number, ocispec.AnnotationLicenses: "Apache-2.0",
		ocispec.AnnotationCreated: time.Unix(max(r.from.Time.Unix(), 0), 0).UTC().Format(time.RFC3339), // without it, oras would write the current time
	}
	if r.from.Revision != "" {
		annotations[ocispec.AnnotationRevision] = r.from.Revision
	}
	manifest, err := oras.PackManifest(ctx, layout, oras.PackManifestVersion1_1, "",
		oras.PackManifestOptions{ConfigDescriptor: &configBlob, Layers: []ocispec.Descriptor{layer}, ManifestAnnotations: annotations})
	if err != nil {
		return err
	}
	if err := layout.Tag(ctx, manifest, number); err != nil {
		return err
	}
	return archive.PackFolder(folder, filepath.Join(r.out, "kiln-chart.tar"))
}
