package profile

import (
	"sync"

	v1 "kubevirt.io/api/core/v1"
)

// donors are what the VMs of the trials set themselves, in turns. Each is filled in as another profile would be: it sets nothing that the judged
// one sets. Together they have what the rules ask for beside a field: TestDonorsAreLegal, TestPartsOfLegalGuestsAreLegal.
var donors = sync.OnceValue(func() []*Profile {
	return given(
		`{"domain": {"memory": {"guest": "2Gi"}}}`,
		// Dedicated CPUs with huge pages, as NUMA nodes of the host, for a real-time guest.
		`{"domain": {"cpu": {"cores": 2, "dedicatedCpuPlacement": true, "numa": {"guestMappingPassthrough": {}}},
		"memory": {"guest": "4Gi", "hugepages": {"pageSize": "2Mi"}}, "ioThreads": {"supplementalPoolThreadCount": 1}}}`,
		// Secure Boot needs SMM, and some features of Hyper-V each other.
		`{"domain": {"memory": {"guest": "2Gi"}, "firmware": {"bootloader": {"efi": {"secureBoot": true}}}, "features": {"smm": {"enabled": true},
		"hyperv": {"vpindex": {"enabled": true}, "synic": {"enabled": true}, "synictimer": {"enabled": true}, "reset": {"enabled": true}}},
		"cpu": {"features": [{"name": "vmx", "policy": "require"}]}}}`,
		// Memory encryption needs EFI without Secure Boot, and no SMM; attestation a guest that waits for its secrets.
		`{"startStrategy": "Paused", "domain": {"memory": {"guest": "2Gi"}, "features": {"smm": {"enabled": false}},
		"firmware": {"bootloader": {"efi": {"secureBoot": false, "persistent": false}}}}}`,
		// A kernel of its own, BIOS and a serial console; requests and limits that are equal.
		`{"domain": {"cpu": {"cores": 2, "dedicatedCpuPlacement": true}, "memory": {"guest": "4Gi", "hugepages": {"pageSize": "1Gi"}},
		"firmware": {"bootloader": {"bios": {}}, "kernelBoot": {"container": {"image": "trial:1", "kernelPath": "/vmlinuz"}}},
		"devices": {"autoattachSerialConsole": true, "autoattachGraphicsDevice": true}}}`,
		`{"dnsConfig": {"nameservers": ["192.0.2.1"]}, "domain": {"cpu": {"sockets": 1, "maxSockets": 8}, "memory": {"guest": "2Gi"},
		"features": {"acpi": {"enabled": true}}}}`)
})

// given returns profiles with these templates, in JSON.
func given(specs ...string) (all []*Profile) {
	for _, spec := range specs {
		p, err := Read("", []byte(`{"apiVersion": "kilnvm.io/v1alpha1", "kind": "ClusterGuestProfile", "metadata": {"name": "trial"},
			"spec": {"template": {"spec": `+spec+`}}}`))
		if err != nil {
			panic(err) // a text of this file: TestDonorsAreLegal reads it too
		}
		all = append(all, p)
	}
	return all
}

// into fills what a profile itself sets, without what it extends.
func (p *Profile) into(vmi *v1.VirtualMachineInstance) {
	plan := Plan{settings: merge([]layer{{Source{Profile: p}, p.settings}}).settings}
	plan.Fill(vmi, Observer{})
}
