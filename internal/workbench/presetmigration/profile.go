package presetmigration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/preset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// profileOf makes the profile of a preset. If an API server or Kiln would refuse the preset or the profile, the result has Causes and no Profile.
func profileOf(ctx context.Context, b *workbench.Bench, r workbench.Reviewed, wanted Options) (Preset, error) {
	done := Preset{key: client.ObjectKeyFromObject(r), LeftOut: []string{}, Warnings: []string{}, Causes: r.Judgement().Causes}
	done.Preset = done.key.String()
	// KubeVirt accepts presets without a domain, which Kiln refuses. Such a preset fills nothing.
	done.Causes = slices.DeleteFunc(done.Causes, func(c workbench.Cause) bool {
		return c.Field == "spec.domain" && c.Type == string(field.ErrorTypeRequired)
	})
	if len(done.Causes) > 0 {
		return done, nil
	}
	var p v1.VirtualMachineInstancePreset
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object.Object, &p); err != nil {
		return done, fmt.Errorf("%s: %w", r.Name(), err)
	}
	// The schema accepts any operator of a selector, and a preset with an invalid selector refuses every VMI of the namespace.
	if _, err := metav1.LabelSelectorAsSelector(&p.Spec.Selector); err != nil {
		done.Causes = append(done.Causes, workbench.Cause{Type: string(field.ErrorTypeInvalid), Field: "spec.selector", Message: err.Error()})
		return done, nil
	}
	domain, uncovered := preset.Covered(&p)
	for _, s := range uncovered {
		done.LeftOut = append(done.LeftOut, s.Field+": "+s.Reason+", so no VMI gets it from this preset")
	}
	if domain != nil && domain.Firmware != nil && !wanted.Firmware {
		domain.Firmware = nil
		done.LeftOut = append(done.LeftOut, "spec.domain.firmware: presets fill it only in VMIs without a VM, and a profile would fill it in VMs, too")
	}
	content, err := domainOf(domain)
	if err != nil || len(content) == 0 {
		return done, err
	}
	done.Profile, err = profileManifest(&p, content)
	if err != nil {
		return done, err
	}
	if err := warnIfReplaced(ctx, r.Inputs.Reader, &done); err != nil {
		return done, err
	}
	err = judgeProfile(ctx, b, r, &done)
	return done, err
}

// judgeProfile judges the profile of a migrated preset. If it would be refused, judgeProfile adds Causes and removes the profile.
func judgeProfile(ctx context.Context, b *workbench.Bench, r workbench.Reviewed, done *Preset) error {
	profile := manifest.Object{Unstructured: &unstructured.Unstructured{Object: done.Profile}}
	judged, err := b.Review(ctx, manifest.Inputs{Named: []manifest.Object{profile}, Reader: r.Inputs.Reader, OfCluster: r.Inputs.OfCluster}, nil)
	if err != nil {
		return err
	}
	for _, one := range judged.Objects {
		if one.Fault != nil {
			return one.Fault
		}
		done.Causes = append(done.Causes, one.Judgement().Causes...)
	}
	if len(done.Causes) > 0 {
		done.Profile = nil
	}
	return nil
}

// warnIfReplaced adds a warning if a profile of this name with another spec exists, because the manifest would replace it.
func warnIfReplaced(ctx context.Context, reader client.Reader, done *Preset) error {
	var now v1alpha1.GuestProfile
	err := reader.Get(ctx, done.key, &now)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil
	}
	var planned v1alpha1.GuestProfile
	if err = errors.Join(err, runtime.DefaultUnstructuredConverter.FromUnstructured(done.Profile, &planned)); err != nil {
		return err
	}
	before, err := specText(now.Spec)
	if err != nil {
		return err
	}
	after, err := specText(planned.Spec)
	if err == nil && before != after {
		done.Warnings = append(done.Warnings, "there is a GuestProfile of this name with another spec: this one would replace it")
	}
	return err
}

// specText returns the JSON of a spec with sorted keys.
func specText(spec v1alpha1.GuestProfileSpec) (string, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		return "", err
	}
	raw, err = json.Marshal(content)
	return string(raw), err
}

// domainOf converts a domain to JSON, without the empty objects that Go's encoder writes. It returns nil for nil.
func domainOf(domain *v1.DomainSpec) (map[string]any, error) {
	if domain == nil {
		return nil, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(domain)
	features, _ := content["features"].(map[string]any)
	for key, of := range map[string]map[string]any{"devices": content, "resources": content, "acpi": features} {
		if inner, is := of[key].(map[string]any); is && len(inner) == 0 {
			delete(of, key)
		}
	}
	return content, err
}

// profileManifest returns the GuestProfile that replaces a preset. It allows exclusion and has no priority, as presets.
func profileManifest(p *v1.VirtualMachineInstancePreset, domain map[string]any) (map[string]any, error) {
	selector, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.Spec.Selector)
	if err != nil {
		return nil, err
	}
	manifest := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindGuestProfile,
		"metadata": map[string]any{"name": p.Name, "namespace": p.Namespace},
		"spec": map[string]any{
			"selector": selector, "allowExclusion": true, "priority": int64(0),
			"template": map[string]any{"spec": map[string]any{"domain": domain}},
		},
	}
	// Decode it from JSON, so that numbers have the types of a decoder.
	raw, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	err = object.UnmarshalJSON(raw)
	return object.Object, err
}
