package create

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// This file sets spec.dataVolumeTemplates, and adds a volume for each template. The controller, Kiln's or KubeVirt's, makes a DataVolume of each template,
// and CDI fills it. The VM owns the DataVolume: both are deleted together.

// importType is one type of --volume-import.
type importType struct {
	// required and optional are its parameters besides type, name, size and bootorder.
	required, optional []string
	// sized: a size is required, because CDI cannot learn it from the source.
	sized bool
	spec  func(parameters) (cdi.DataVolumeSpec, error)
}

// importTypes are virtctl's types. CDI documents their parameters.
var importTypes = map[string]importType{
	// An empty disk.
	"blank": {sized: true, spec: func(parameters) (cdi.DataVolumeSpec, error) {
		return specFromSource(cdi.DataVolumeSource{Blank: &cdi.DataVolumeBlankImage{}})
	}},
	// An object of Google Cloud Storage.
	"gcs": {[]string{"url"}, []string{"secretref"}, true, func(p parameters) (cdi.DataVolumeSpec, error) {
		return specFromSource(cdi.DataVolumeSource{GCS: &cdi.DataVolumeSourceGCS{URL: p.values["url"], SecretRef: p.values["secretref"]}})
	}},
	// A file of a web server. The headers of secretextraheaders remain in a Secret.
	"http": {[]string{"url"}, []string{"secretref", "certconfigmap", "extraheaders", "secretextraheaders"}, true, func(p parameters) (cdi.DataVolumeSpec, error) {
		return specFromSource(cdi.DataVolumeSource{HTTP: &cdi.DataVolumeSourceHTTP{URL: p.values["url"], SecretRef: p.values["secretref"],
			CertConfigMap: p.values["certconfigmap"], ExtraHeaders: p.listValue("extraheaders"), SecretExtraHeaders: p.listValue("secretextraheaders")}})
	}},
	// A disk of oVirt.
	"imageio": {[]string{"url", "diskid"}, []string{"secretref", "certconfigmap"}, true, func(p parameters) (cdi.DataVolumeSpec, error) {
		return specFromSource(cdi.DataVolumeSource{Imageio: &cdi.DataVolumeSourceImageIO{URL: p.values["url"], DiskID: p.values["diskid"],
			SecretRef: p.values["secretref"], CertConfigMap: p.values["certconfigmap"]}})
	}},
	// An object of Amazon S3, or of a server that speaks its protocol.
	"s3": {[]string{"url"}, []string{"secretref", "certconfigmap"}, true, func(p parameters) (cdi.DataVolumeSpec, error) {
		return specFromSource(cdi.DataVolumeSource{S3: &cdi.DataVolumeSourceS3{URL: p.values["url"], SecretRef: p.values["secretref"],
			CertConfigMap: p.values["certconfigmap"]}})
	}},
	// A disk of VMware. initimageurl is an image with VMware's Virtual Disk Development Kit.
	"vddk": {[]string{"url", "uuid", "thumbprint", "secretref", "backingfile"}, []string{"initimageurl"}, true, func(p parameters) (cdi.DataVolumeSpec, error) {
		return specFromSource(cdi.DataVolumeSource{VDDK: &cdi.DataVolumeSourceVDDK{URL: p.values["url"], UUID: p.values["uuid"], Thumbprint: p.values["thumbprint"],
			SecretRef: p.values["secretref"], BackingFile: p.values["backingfile"], InitImageURL: p.values["initimageurl"]}})
	}},
	"registry": {nil, []string{"url", "imagestream", "pullmethod", "secretref", "certconfigmap"}, true, fromRegistry},
	// A copy of a claim, which may be in another namespace if the user may copy claims from it.
	"pvc": {[]string{"src"}, nil, false, func(p parameters) (cdi.DataVolumeSpec, error) {
		namespace, name, err := p.namespacedName()
		if err != nil {
			return cdi.DataVolumeSpec{}, err
		}
		return specFromSource(cdi.DataVolumeSource{PVC: &cdi.DataVolumeSourcePVC{Namespace: namespace, Name: name}})
	}},
	// A copy of a VolumeSnapshot.
	"snapshot": {[]string{"src"}, nil, false, func(p parameters) (cdi.DataVolumeSpec, error) {
		namespace, name, err := p.namespacedName()
		if err != nil {
			return cdi.DataVolumeSpec{}, err
		}
		return specFromSource(cdi.DataVolumeSource{Snapshot: &cdi.DataVolumeSourceSnapshot{Namespace: namespace, Name: name}})
	}},
	// A copy of the volume that a DataSource refers to, such as the newest image of an operating system.
	"ds": {[]string{"src"}, nil, false, fromDataSource},
}

// specFromSource returns the spec of a source. Its error is always nil: the signature is the signature of importType.spec.
func specFromSource(source cdi.DataVolumeSource) (cdi.DataVolumeSpec, error) {
	return cdi.DataVolumeSpec{Source: &source}, nil
}

// namespacedName returns the namespace and the name of a source. CDI has no default for the namespace.
func (p parameters) namespacedName() (namespace, name string, err error) {
	namespace, name, err = splitPrefix(p.values["src"])
	switch {
	case err != nil:
		return "", "", flagError(p.flag, "src: %w", err)
	case namespace == "":
		return "", "", flagError(p.flag, "src '%s' must have its namespace: write NAMESPACE/%s", name, name)
	}
	return namespace, name, nil
}

// fromRegistry is virtctl's withVolumeSourceRegistry. An imagestream is OpenShift's name of an image.
func fromRegistry(p parameters) (spec cdi.DataVolumeSpec, err error) {
	if (p.values["url"] == "") == (p.values["imagestream"] == "") {
		return spec, flagError(p.flag, "either url or imagestream must be given")
	}
	source := &cdi.DataVolumeSourceRegistry{
		URL: p.optionalValue("url"), ImageStream: p.optionalValue("imagestream"),
		SecretRef: p.optionalValue("secretref"), CertConfigMap: p.optionalValue("certconfigmap"),
	}
	if method := cdi.RegistryPullMethod(p.values["pullmethod"]); method != "" {
		if method != cdi.RegistryPullPod && method != cdi.RegistryPullNode {
			return spec, flagError(p.flag, "pullmethod '%s' must be '%s' or '%s'", method, cdi.RegistryPullPod, cdi.RegistryPullNode)
		}
		source.PullMethod = &method
	}
	return specFromSource(cdi.DataVolumeSource{Registry: source})
}

// fromDataSource is virtctl's withVolumeSourceRefDataSource. Without a namespace, CDI uses the VM's namespace.
func fromDataSource(p parameters) (cdi.DataVolumeSpec, error) {
	namespace, name, err := splitPrefix(p.values["src"])
	if err != nil {
		return cdi.DataVolumeSpec{}, flagError(p.flag, "src: %w", err)
	}
	ref := &cdi.DataVolumeSourceRef{Kind: "DataSource", Name: name}
	if namespace != "" {
		ref.Namespace = &namespace
	}
	return cdi.DataVolumeSpec{SourceRef: ref}, nil
}

// addImports adds the data volumes. Virtctl inserts each volume of a deprecated flag before all others, so these volumes are in reverse order.
func (b *vmBuilder) addImports() error {
	all := slices.Clone(b.VolumeImport)
	for _, old := range []struct {
		flag, kind string
		volumes    []string
	}{{"volume-datasource", "ds", b.VolumeDatasource}, {"volume-clone-pvc", "pvc", b.VolumeClonePVC}, {"volume-blank", "blank", b.VolumeBlank}} {
		if len(old.volumes) > 0 {
			b.warnings = append(b.warnings, fmt.Sprintf("--%s is deprecated: use --volume-import type:%s,...", old.flag, old.kind))
		}
		for _, volume := range old.volumes {
			all = slices.Insert(all, 0, "type:"+old.kind+","+volume)
		}
	}
	for i, text := range all {
		if err := b.importVolume(i, text); err != nil {
			return err
		}
	}
	return nil
}

const importFlag = "volume-import"

// importVolume is virtctl's withImportedVolume. The type determines which other parameters are allowed.
func (b *vmBuilder) importVolume(i int, text string) error {
	kind := ""
	for part := range strings.SplitSeq(text, ",") {
		if name, value, _ := strings.Cut(part, ":"); name == "type" {
			kind = value
		}
	}
	source, known := importTypes[kind]
	if !known {
		return flagError(importFlag, "type '%s' must be '%s'", kind, strings.Join(slices.Sorted(maps.Keys(importTypes)), "', '"))
	}
	p, err := parseParameters(importFlag, text, slices.Concat([]string{"type", "name", "size", "bootorder"}, source.required, source.optional)...)
	if err == nil {
		err = p.requireAll(source.required...)
	}
	if err != nil {
		return err
	}
	spec, err := source.spec(p)
	if err != nil {
		return err
	}
	size, err := p.sizeValue()
	if err == nil && size == nil && source.sized {
		err = flagError(importFlag, "type '%s' needs a size, such as size:50Gi", kind)
	}
	if err != nil {
		return err
	}
	// spec.storage, not spec.pvc: CDI completes access modes and volume mode from the StorageProfile of the storage class.
	spec.Storage = &cdi.StorageSpec{}
	if size != nil {
		spec.Storage.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *size}
	}
	name := p.values["name"]
	if name == "" { // it is the name of an object: the name of the VM makes it unique in the namespace
		name = fmt.Sprintf("%s-import-%d", b.Name, i)
	}
	b.vm.Spec.DataVolumeTemplates = append(b.vm.Spec.DataVolumeTemplates, v1.DataVolumeTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	return b.addVolume(p, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: name}}})
}
