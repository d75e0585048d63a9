package validate

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: names of objects in volumes, volumes[].containerDisk.image, volumes[].sysprep, volumes[].downwardAPI.
// KubeVirt and, in a VMI, the API server accept what this file refuses. The API server then refuses the VMI's pod, or the pod waits for an object that nobody
// can create.

var volumeReferenceRules = []guestRule{
	{volumeReferences, []Rule{
		{Name: "disks/volume-object", KubeVirt: KubeVirtRefusesSome},
		{Name: "disks/volume-object-name", KubeVirt: KubeVirtAdmits},
		{Name: "disks/sysprep-source", KubeVirt: KubeVirtRefusesSome},
		{Name: "disks/container-disk-image", KubeVirt: KubeVirtAdmits},
	}},
	{downwardAPIs, []Rule{
		{Name: "disks/downward-api", KubeVirt: KubeVirtAdmits},
	}},
}

// eachReference visits the objects that a volume names: the name, whether another rule judges a name that is empty, and the field below the volume.
func eachReference(v *v1.Volume, visit func(name string, judged bool, field ...string)) {
	if s := v.PersistentVolumeClaim; s != nil {
		visit(s.ClaimName, false, "persistentVolumeClaim", "claimName")
	}
	if s := v.Ephemeral; s != nil && s.PersistentVolumeClaim != nil {
		visit(s.PersistentVolumeClaim.ClaimName, false, "ephemeral", "persistentVolumeClaim", "claimName")
	}
	if s := v.MemoryDump; s != nil {
		visit(s.ClaimName, false, "memoryDump", "claimName")
	}
	if s := v.DataVolume; s != nil {
		visit(s.Name, true, "dataVolume", "name")
	}
	if s := v.ConfigMap; s != nil {
		visit(s.Name, true, "configMap", "name")
	}
	if s := v.Secret; s != nil {
		visit(s.SecretName, true, "secret", "secretName")
	}
	if s := v.ServiceAccount; s != nil {
		visit(s.ServiceAccountName, true, "serviceAccount", "serviceAccountName")
	}
	if s := v.Sysprep; s != nil && s.ConfigMap != nil {
		visit(s.ConfigMap.Name, false, "sysprep", "configMap", "name")
	}
	if s := v.Sysprep; s != nil && s.Secret != nil {
		visit(s.Secret.Name, false, "sysprep", "secret", "name")
	}
	if source, user, network := cloudInitOf(v); source != "" {
		empty := !user.isGiven() && !network.isGiven() // which disks/cloudinit-empty refuses
		for _, data := range []cloudInit{user, network} {
			if data.secret != nil {
				visit(data.secret.Name, empty, source, data.secretField, "name")
			}
		}
	}
}

// volumeReferences judges the names of objects.
func volumeReferences(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		at := func(names ...string) *field.Path { return below(path.Child("volumes"), i, names...) }
		eachReference(v, func(name string, judged bool, names ...string) {
			if name == "" && !judged {
				errs = append(errs, field.Required(at(names...), "name the object that the volume refers to").WithOrigin("disks/volume-object"))
			} else if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
				errs = append(errs, named(at(names...), name, validation.IsDNS1123Subdomain).WithOrigin("disks/volume-object-name")...)
			}
		})
		if s := v.Sysprep; s != nil && s.ConfigMap == nil && s.Secret == nil {
			errs = append(errs, field.Required(at("sysprep"), "give configMap or secret").WithOrigin("disks/sysprep-source"))
		}
		if v.ContainerDisk != nil && v.ContainerDisk.Image == "" {
			errs = append(errs, field.Required(at("containerDisk", "image"), "name the image that has the disk").WithOrigin("disks/container-disk-image"))
		}
	}
	return errs
}

// downwardFields are the fields of a pod that a downwardAPI volume can have. Labels and annotations can have a key in addition.
// downwardResources are the resources of a container.
// Source: validVolumeDownwardAPIFieldPathExpressions, validContainerResourceFieldPathExpressions and validateContainerResourceDivisor of Kubernetes.
var (
	downwardFields    = []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"}
	downwardResources = []string{"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage"}
)

// downwardAPIs judges the items of downwardAPI volumes as Kubernetes judges the items in a pod.
func downwardAPIs(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Volumes {
		if source := spec.Volumes[i].DownwardAPI; source != nil {
			for k := range source.Fields {
				errs = append(errs, downwardItem(&source.Fields[k], below(path.Child("volumes"), i, "downwardAPI", "fields").Index(k))...)
			}
		}
	}
	return errs.WithOrigin("disks/downward-api")
}

// downwardItem judges one file: its path, its mode, and its one source.
func downwardItem(item *corev1.DownwardAPIVolumeFile, at *field.Path) (errs field.ErrorList) {
	switch {
	case item.Path == "":
		errs = append(errs, field.Required(at.Child("path"), "name the file"))
	case strings.HasPrefix(item.Path, "/") || strings.HasPrefix(item.Path, "..") || slices.Contains(strings.Split(item.Path, "/"), ".."):
		errs = append(errs, field.Invalid(at.Child("path"), item.Path, "must be a relative path without '..'"))
	}
	if mode := item.Mode; mode != nil && (*mode < 0 || *mode > 0o777) {
		errs = append(errs, field.Invalid(at.Child("mode"), *mode, "must be from 0 to 0777"))
	}
	switch {
	case item.FieldRef == nil && item.ResourceFieldRef == nil:
		errs = append(errs, field.Required(at.Child("fieldRef"), "give fieldRef or resourceFieldRef"))
	case item.FieldRef != nil && item.ResourceFieldRef != nil:
		errs = append(errs, field.Forbidden(at.Child("resourceFieldRef"), "cannot be combined with fieldRef: remove one of them"))
	case item.FieldRef != nil:
		errs = append(errs, downwardField(item.FieldRef.FieldPath, at.Child("fieldRef", "fieldPath"))...)
	default:
		ref, at := item.ResourceFieldRef, at.Child("resourceFieldRef")
		if ref.ContainerName == "" {
			errs = append(errs, field.Required(at.Child("containerName"), "name the container of the pod"))
		}
		errs = append(errs, supported(at.Child("resource"), ref.Resource, downwardResources...)...)
		if divisors := divisorsOf(ref.Resource); !ref.Divisor.IsZero() {
			errs = append(errs, supported(at.Child("divisor"), ref.Divisor.String(), divisors...)...)
		}
	}
	return errs
}

// divisorsOf returns the units in which a resource can be written.
func divisorsOf(resource string) []string {
	if strings.HasSuffix(resource, ".cpu") {
		return []string{"1m", "1"}
	}
	return []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
}

// downwardField judges a field of the pod: metadata.labels['KEY'] has the key of a label.
func downwardField(given string, at *field.Path) field.ErrorList {
	name, key, subscript := strings.Cut(given, "['")
	if !subscript {
		return supported(at, given, downwardFields...)
	}
	if key, closed := strings.CutSuffix(key, "']"); closed && (name == "metadata.labels" || name == "metadata.annotations") {
		return named(at, key, validation.IsQualifiedName)
	}
	return field.ErrorList{field.Invalid(at, given, "only metadata.labels['KEY'] and metadata.annotations['KEY'] have a key")}
}
