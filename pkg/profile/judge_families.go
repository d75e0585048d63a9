package profile

import (
	"sync"

	v1 "kubevirt.io/api/core/v1"
)

// plain is what any VM may set itself. It is filled in as a profile of a lower priority would be: it sets nothing that the judged profile sets.
var plain = sync.OnceValue(func() *Profile {
	return profileOfSpec(`{"dnsConfig": {"nameservers": ["192.0.2.1"]}, "domain": {"memory": {"guest": "2Gi"}, "features": {"acpi": {"enabled": true}},
		"devices": {"autoattachSerialConsole": true, "autoattachGraphicsDevice": true}}}`)
})

// families are what a VM sets besides in the trial of a family of rules, by the area of the rules. Disks and networks have their choices in addCompanions.
var families = sync.OnceValue(func() map[string]*Profile {
	// Enlightenments of Hyper-V need each other, Secure Boot needs SMM, and arguments need a kernel.
	guest := profileOfSpec(`{"domain": {"cpu": {"features": [{"name": "vmx", "policy": "require"}]},
		"features": {"smm": {"enabled": true}, "hyperv": {"vpindex": {"enabled": true}, "synic": {"enabled": true}, "synictimer": {"enabled": true},
		"reset": {"enabled": true}}},
		"firmware": {"kernelBoot": {"container": {"image": "trial:1", "kernelPath": "/vmlinuz"}}}}}`)
	return map[string]*Profile{
		"cpu": profileOfSpec(`{"domain": {"cpu": {"cores": 2, "dedicatedCpuPlacement": true},
			"memory": {"guest": "4Gi", "hugepages": {"pageSize": "2Mi"}}}}`),
		"disks": plain(), "features": guest, "firmware": guest, "networks": plain(),
		// Memory encryption needs EFI without Secure Boot, and no SMM; attestation a guest that waits for its secrets.
		"security": profileOfSpec(`{"startStrategy": "Paused", "domain": {"features": {"smm": {"enabled": false}},
			"firmware": {"bootloader": {"efi": {"secureBoot": false, "persistent": false}}}}}`),
	}
})

// profileOfSpec returns a profile with a template in JSON.
func profileOfSpec(spec string) *Profile {
	p, err := Read("", []byte(`{"apiVersion": "kilnvm.io/v1alpha1", "kind": "ClusterGuestProfile", "metadata": {"name": "trial"},
		"spec": {"template": {"spec": `+spec+`}}}`))
	if err != nil {
		panic(err) // a text of this file: TestFamiliesAreLegal reads it too
	}
	return p
}

// fillOwnSettings fills what a profile itself sets, without what it extends.
func (p *Profile) fillOwnSettings(vmi *v1.VirtualMachineInstance) {
	plan := Plan{settings: mergeLayers([]layer{{Source{Profile: p}, p.settings}}).settings}
	plan.Fill(vmi, Observer{})
}
