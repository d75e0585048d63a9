package profile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// read reads a profile as YAML of its spec.
func read(t testing.TB, name, spec string) *Profile {
	t.Helper()
	return readKind(t, "GuestProfile", name, spec)
}

func readKind(t testing.TB, kind, name, spec string) *Profile {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte("{apiVersion: kilnvm.io/v1alpha1, kind: " + kind + ", metadata: {name: " + name + "}, spec: " + spec + "}"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Read("", raw)
	if err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return p
}

func vmiOf(t testing.TB, text string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	if err := yaml.UnmarshalStrict([]byte(text), vmi); err != nil {
		t.Fatal(err)
	}
	return vmi
}

// TestFill: one profile that selects all fills one VMI.
func TestFill(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ why, vmi, template, want string }{
		{"a field", `{}`, `{domain: {cpu: {model: Haswell}}}`, `{domain: {cpu: {model: Haswell}}}`},
		{"a field inside of an object of the user", `{domain: {cpu: {cores: 2}}}`, `{domain: {cpu: {model: Haswell}}}`, `{domain: {cpu: {cores: 2,
			model: Haswell}}}`},
		{"a field that is set", `{domain: {cpu: {model: Penryn}}}`, `{domain: {cpu: {model: Haswell}}}`, `{domain: {cpu: {model: Penryn}}}`},
		{"false behind a pointer is set", `{domain: {devices: {autoattachMemBalloon: false}}}`, `{domain: {devices: {autoattachMemBalloon: true}}}`,
			`{domain: {devices: {autoattachMemBalloon: false}}}`},
		{"a profile's false behind a pointer is a value", `{}`, `{domain: {devices: {autoattachMemBalloon: false}}}`,
			`{domain: {devices: {autoattachMemBalloon: false}}}`},
		{"an empty object is a value", `{}`, `{domain: {devices: {rng: {}}}}`, `{domain: {devices: {rng: {}}}}`},
		{"an empty object of the user has room", `{domain: {devices: {tpm: {}}}}`, `{domain: {devices: {tpm: {persistent: true}}}}`,
			`{domain: {devices: {tpm: {persistent: true}}}}`},
		{"an empty object of the user is on", `{domain: {devices: {tpm: {}}, clock: {timer: {rtc: {}}}}}`,
			`{domain: {devices: {tpm: {enabled: false}}, clock: {timer: {rtc: {tickPolicy: catchup, present: false}}}}}`,
			`{domain: {devices: {tpm: {}}, clock: {timer: {rtc: {tickPolicy: catchup}}}}}`},
		{"an object of the profile is off", `{}`, `{domain: {devices: {tpm: {enabled: false}}, clock: {timer: {rtc: {tickPolicy: catchup, present: false,
			track: guest}}}}}`,
			`{domain: {devices: {tpm: {enabled: false}}, clock: {timer: {rtc: {tickPolicy: catchup, present: false, track: guest}}}}}`},
		{"memory that follows from a request", `{domain: {resources: {requests: {memory: 8Gi}}}}`, `{domain: {memory: {guest: 2Gi, hugepages: {pageSize: 2Mi}}}}`,
			`{domain: {resources: {requests: {memory: 8Gi}}, memory: {hugepages: {pageSize: 2Mi}}}}`},
		{"empty memory beside a request", `{domain: {resources: {requests: {memory: 8Gi}}}}`, `{domain: {memory: {}}}`,
			`{domain: {resources: {requests: {memory: 8Gi}}}}`},
		{"empty memory", `{}`, `{domain: {memory: {}}}`, `{domain: {memory: {}}}`},
		{"a request beside memory of the profile", `{}`, `{domain: {memory: {guest: 2Gi}, resources: {requests: {memory: 1Gi}}}}`,
			`{domain: {memory: {guest: 2Gi}, resources: {requests: {memory: 1Gi}}}}`},
		{"counts of vCPUs belong together", `{domain: {cpu: {cores: 2}}}`, `{domain: {cpu: {sockets: 4, model: Haswell}}}`, `{domain: {cpu: {cores: 2,
			model: Haswell}}}`},
		{"keys of a map", `{nodeSelector: {zone: a}}`, `{nodeSelector: {zone: b, disk: ssd}}`, `{nodeSelector: {zone: a, disk: ssd}}`},
		{"quantities by key", `{domain: {resources: {requests: {memory: 1Gi}}}}`, `{domain: {resources: {requests: {memory: 2Gi, cpu: 100m}}}}`,
			`{domain: {resources: {requests: {memory: 1Gi, cpu: 100m}}}}`},
		{"elements with names", `{domain: {devices: {disks: [{name: a, cache: none}]}}}`, `{domain: {devices: {disks: [{name: b, lun: {}}, {name: a,
			cache: writeback, io: native}]}}}`,
			`{domain: {devices: {disks: [{name: a, cache: none, io: native}, {name: b, lun: {}}]}}}`},
		{"a name that the API inlines", `{}`, `{volumes: [{name: a, configMap: {name: c, optional: true}}]}`,
			`{volumes: [{name: a, configMap: {name: c, optional: true}}]}`},
		{"beside a name that the API inlines", `{volumes: [{name: a, configMap: {name: d}}]}`, `{volumes: [{name: a, configMap: {name: c, optional: true}}]}`,
			`{volumes: [{name: a, configMap: {name: d, optional: true}}]}`},
		{"another kind of disk", `{domain: {devices: {disks: [{name: a, cdrom: {bus: sata}}]}}}`, `{domain: {devices: {disks: [{name: a, disk: {bus: virtio},
			cache: none}]}}}`,
			`{domain: {devices: {disks: [{name: a, cdrom: {bus: sata}, cache: none}]}}}`},
		{"inside of the kind that the user picked", `{volumes: [{name: a, containerDisk: {image: i}}]}`, `{volumes: [{name: a, containerDisk: {image: j,
			imagePullPolicy: Always}}]}`,
			`{volumes: [{name: a, containerDisk: {image: i, imagePullPolicy: Always}}]}`},
		{"another volume source", `{volumes: [{name: a, containerDisk: {image: i}}]}`, `{volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}`, `{volumes: [{name: a,
			containerDisk: {image: i}}]}`},
		{"a binding plugin and a binding", `{domain: {devices: {interfaces: [{name: a, binding: {name: p}}]}}}`, `{domain: {devices: {interfaces: [{name: a,
			masquerade: {}, model: e1000}]}}}`,
			`{domain: {devices: {interfaces: [{name: a, binding: {name: p}, model: e1000}]}}}`},
		{"a block size is a whole", `{domain: {devices: {disks: [{name: a, blockSize: {custom: {logical: 512, physical: 512}}}]}}}`,
			`{domain: {devices: {disks: [{name: a, blockSize: {custom: {logical: 4096, physical: 4096, discardGranularity: 1}, matchVolume: {enabled: false}}}]}}}`,
			`{domain: {devices: {disks: [{name: a, blockSize: {custom: {logical: 512, physical: 512}}}]}}}`},
		{"another clock offset", `{domain: {clock: {utc: {}}}}`, `{domain: {clock: {timezone: Europe/Vienna, timer: {hpet: {}}}}}`, `{domain: {clock: {utc: {},
			timer: {hpet: {}}}}}`},
		{"a list without names", `{tolerations: [{key: a}]}`, `{tolerations: [{key: b}]}`, `{tolerations: [{key: a}]}`},
		{"a list without names that the VMI lacks", `{}`, `{tolerations: [{key: b, tolerationSeconds: 3}]}`, `{tolerations: [{key: b, tolerationSeconds: 3}]}`},
		{"a selector is a whole", `{topologySpreadConstraints: [{topologyKey: k, whenUnsatisfiable: DoNotSchedule, maxSkew: 1,
			labelSelector: {matchLabels: {a: b}}}]}`,
			`{topologySpreadConstraints: [{topologyKey: k, whenUnsatisfiable: DoNotSchedule, maxSkew: 2, minDomains: 3, labelSelector: {matchLabels: {c: d}}},
				{topologyKey: k, whenUnsatisfiable: ScheduleAnyway, maxSkew: 4}]}`,
			`{topologySpreadConstraints: [{topologyKey: k, whenUnsatisfiable: DoNotSchedule, maxSkew: 1, minDomains: 3, labelSelector: {matchLabels: {a: b}}},
				{topologyKey: k, whenUnsatisfiable: ScheduleAnyway, maxSkew: 4}]}`},
	} {
		vmi, want := vmiOf(t, "{spec: "+test.vmi+"}"), vmiOf(t, "{spec: "+test.want+"}")
		if errs := Fill([]*Profile{read(t, "p", "{selector: {}, template: {spec: "+test.template+"}}")}, vmi, Observer{}); len(errs) > 0 {
			t.Errorf("%s: %v", test.why, errs)
		}
		if !equality.Semantic.DeepEqual(vmi, want) {
			t.Errorf("%s: (-want +got)\n%s", test.why, cmp.Diff(want, vmi))
		}
	}
}
