package config

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FrontendProfiles are the administrator's versions of the FrontendDefaults. The API server judges them by the schema of their kind. This file has the same
// rules for profiles in files, in pinned revisions and from an API server with an older schema. TestFrontendProfileBounds compares both.

// maxFreePorts leaves a guest's devices more than 90 of the root ports for which q35 and virt have slots, and leaves 100 bus numbers for the expander buses of
// host devices by NUMA node.
const maxFreePorts = 128

// longestDMI is the limit of SMBIOS 2.6 (DSP0134, section 6.1.3). Later versions raised the limit, but old guests have it.
const longestDMI = 64

var (
	// frontendName is the form of the name of a FrontendProfile.
	frontendName = regexp.MustCompile(`^v[1-9][0-9]{0,8}$`)
	// dmiForm is the form of a DMI string: SMBIOS has ASCII, and dmidecode and Windows cut off spaces at the ends.
	dmiForm = regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`)

	// The models of each architecture. The tests of pkg/domain/frontend render each model.
	videosAMD64 = []string{"bochs", "cirrus", "ramfb", "vga", "virtio"}
	videosARM64 = []string{"ramfb", "virtio"}
	usbModels   = []string{"qemu-xhci", "nec-xhci"}
)

// FrontendInForce returns the valid profile with the highest version; nil without a valid profile. The name of a profile is its version, so that versions are
// unique in a cluster. In files the first profile of a version counts.
func FrontendInForce(all []v1alpha1.FrontendProfile) (highest *v1alpha1.FrontendProfile) {
	best := 0
	for i := range all {
		if version := frontendVersionOf(all[i].Name); version > best && len(InvalidFrontend(&all[i].Spec, nil)) == 0 {
			highest, best = &all[i], version
		}
	}
	return highest
}

// frontendVersionOf returns the version in the name of a FrontendProfile, 0 for a name of another form.
func frontendVersionOf(name string) int {
	if !frontendName.MatchString(name) {
		return 0
	}
	version, _ := strconv.Atoi(name[1:]) // of at most nine digits
	return version
}

// WithFrontendProfiles returns the configuration with the profile in force in its defaults, to which VMs are pinned. Values that the profile leaves out are
// filled, because a VM must not change when KubeVirt's smbios changes.
func (c Cluster) WithFrontendProfiles(all []v1alpha1.FrontendProfile) Cluster {
	c.Defaults.Frontend = nil
	if profile := FrontendInForce(all); profile != nil {
		c.Defaults.Frontend = c.Frontend.complete(profile)
	}
	return c
}

// FrontendDefaults returns the values with which stage 2 renders a VM that is pinned to the configuration.
func (c Cluster) FrontendDefaults() FrontendDefaults { return c.Frontend.With(c.Defaults.Frontend) }

// With returns the defaults with the values of a pinned FrontendProfile, which may be nil. A value that the profile does not have stays the default.
func (d FrontendDefaults) With(pinned *v1alpha1.Frontend) FrontendDefaults {
	if pinned == nil {
		return d
	}
	d.Version = pinned.Version
	if s := pinned.SMBIOS; s != nil {
		d.SMBIOS = SMBIOS{Manufacturer: s.Manufacturer, Product: s.Product, Family: s.Family, Version: s.Version, SKU: s.SKU}
	}
	if v := pinned.Video; v != nil {
		d.Video = maps.Clone(d.Video)
		d.Video["amd64"], d.Video["arm64"] = cmp.Or(v.AMD64, d.Video["amd64"]), cmp.Or(v.ARM64, d.Video["arm64"])
		d.EFIVideo = cmp.Or(v.AMD64EFI, d.EFIVideo)
	}
	if pinned.FreePorts != nil {
		d.FreePorts = int(*pinned.FreePorts)
	}
	if pinned.USB != nil {
		d.USBModel = cmp.Or(pinned.USB.Model, d.USBModel)
	}
	if b := pinned.Balloon; b != nil && b.DeflateOnOOM != nil {
		d.DeflateOnOOM = *b.DeflateOnOOM
	}
	if pinned.GenerationID != nil {
		d.GenerationID = *pinned.GenerationID
	}
	return d
}

// complete returns a profile with every value. If a string in KubeVirt's smbios is not a legal DMI string, KubeVirt's default replaces it.
func (d FrontendDefaults) complete(profile *v1alpha1.FrontendProfile) *v1alpha1.Frontend {
	p := profile.Spec.DeepCopy()
	s, v, u, b := orNew(p.SMBIOS), orNew(p.Video), orNew(p.USB), orNew(p.Balloon)
	standard := Default().Frontend.SMBIOS
	for _, text := range []struct {
		own                *string
		configured, absent string
	}{
		{&s.Manufacturer, d.SMBIOS.Manufacturer, standard.Manufacturer}, {&s.Product, d.SMBIOS.Product, standard.Product},
		{&s.Family, d.SMBIOS.Family, standard.Family}, {&s.Version, d.SMBIOS.Version, ""}, {&s.SKU, d.SMBIOS.SKU, ""},
	} {
		if *text.own == "" && invalidDMI(text.configured, nil) == nil {
			*text.own = text.configured
		}
		*text.own = cmp.Or(*text.own, text.absent)
	}
	v.AMD64, v.AMD64EFI, v.ARM64 = cmp.Or(v.AMD64, d.Video["amd64"]), cmp.Or(v.AMD64EFI, d.EFIVideo), cmp.Or(v.ARM64, d.Video["arm64"])
	u.Model = cmp.Or(u.Model, d.USBModel, usbModels[0])
	b.DeflateOnOOM = cmp.Or(b.DeflateOnOOM, new(d.DeflateOnOOM))
	return &v1alpha1.Frontend{Version: profile.Name, FrontendProfileSpec: v1alpha1.FrontendProfileSpec{
		SMBIOS: s, Video: v, FreePorts: cmp.Or(p.FreePorts, new(int32(d.FreePorts))), USB: u, Balloon: b,
		GenerationID: cmp.Or(p.GenerationID, new(d.GenerationID)),
	}}
}

func orNew[T any](value *T) *T { return cmp.Or(value, new(T)) }

// InvalidFrontendName returns an error if the name of a FrontendProfile is not a version such as v1.
func InvalidFrontendName(name string, path *field.Path) *field.Error {
	if frontendName.MatchString(name) {
		return nil
	}
	return field.Invalid(path, name, "must be v1 to v999999999")
}

// InvalidFrontend returns errors about the fields of a FrontendProfile that cannot be used.
func InvalidFrontend(spec *v1alpha1.FrontendProfileSpec, path *field.Path) (errs field.ErrorList) {
	add := func(err *field.Error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if s := spec.SMBIOS; s != nil {
		at := path.Child("smbios")
		add(invalidDMI(s.Manufacturer, at.Child("manufacturer")))
		add(invalidDMI(s.Product, at.Child("product")))
		add(invalidDMI(s.Version, at.Child("version")))
		add(invalidDMI(s.SKU, at.Child("sku")))
		add(invalidDMI(s.Family, at.Child("family")))
	}
	if v := spec.Video; v != nil {
		at := path.Child("video")
		add(unknownModel(v.AMD64, videosAMD64, at.Child("amd64")))
		add(unknownModel(v.AMD64EFI, videosAMD64, at.Child("amd64EFI")))
		add(unknownModel(v.ARM64, videosARM64, at.Child("arm64")))
	}
	if n := spec.FreePorts; n != nil && (*n < 0 || *n > maxFreePorts) {
		add(field.Invalid(path.Child("freePorts"), *n, "must be from 0 to 128"))
	}
	if spec.USB != nil {
		add(unknownModel(spec.USB.Model, usbModels, path.Child("usb", "model")))
	}
	return errs
}

func invalidDMI(text string, path *field.Path) *field.Error {
	if text == "" || len(text) <= longestDMI && dmiForm.MatchString(text) {
		return nil
	}
	return field.Invalid(path, text, "must have at most 64 printable characters of ASCII, without a space at either end")
}

func unknownModel(model string, known []string, path *field.Path) *field.Error {
	if model == "" || slices.Contains(known, model) {
		return nil
	}
	return field.NotSupported(path, model, known)
}
