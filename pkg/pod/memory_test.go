package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// overheadOfBase is the overhead in MiB of a guest of 512 MiB with two vCPUs: 240 for the processes, 1 for page tables, 16 + 8 for threads, 32 for video.
const overheadOfBase = 240 + 1 + 16 + 8 + 32

func TestMemory(t *testing.T) {
	const dedicated = "cpu: {dedicatedCpuPlacement: true}"
	for _, test := range []struct {
		why, spec string
		with      func(*Input)
		// request and limit are in MiB, without the overhead of base; -1 stands for none. more is the rest of the overhead.
		request, limit, more int64
	}{
		{"the guest's", "", nil, 512, -1, 0},
		{"a request", "domain: {resources: {requests: {memory: 256Mi}}}", nil, 256, -1, 0},
		{"a greater request has page tables too", "domain: {resources: {requests: {memory: 1536Mi}}}", nil, 1536, -1, 2},
		{"a limit is the request", "domain: {resources: {limits: {memory: 1536Mi}}}", nil, 1536, 1536, 2},
		{"a limit of 0 does not count", "domain: {resources: {limits: {memory: '0'}}}", nil, 512, -1, 0},
		{"both", "domain: {resources: {requests: {memory: 512Mi}, limits: {memory: 1Gi}}}", nil, 512, 1024, 0},
		{"without the overhead in the request", "domain: {resources: {overcommitGuestOverhead: true, limits: {memory: 512Mi}}}", nil, 512 - overheadOfBase, 512, 0},
		{"a quota", "", quota, 512, 2*512 + overheadOfBase, 0},
		{"a quota, and a limit", "domain: {resources: {limits: {memory: 512Mi}}}", quota, 512, 512, 0},
		{"overcommit", "", func(in *Input) { in.MemoryOvercommit = 200 }, 256, -1, 0},
		{"overcommit, and a request", "domain: {resources: {requests: {memory: 512Mi}}}", func(in *Input) { in.MemoryOvercommit = 200 }, 512, -1, 0},
		{"dedicated CPUs", "domain: {" + dedicated + "}", nil, 512, 512, 100},
		{"dedicated CPUs have all of their memory", "domain: {" + dedicated + ", resources: {overcommitGuestOverhead: true}}",
			func(in *Input) { in.MemoryOvercommit = 200 }, 512, 512, 100},
		{"Guaranteed by the VMI", "domain: {resources: {requests: {cpu: '1', memory: 512Mi}, limits: {cpu: '1', memory: 512Mi}}}", nil, 512, 512, 100},
		{"Guaranteed by its limits", "domain: {resources: {requests: {cpu: '1'}, limits: {cpu: '1', memory: 512Mi}}}", nil, 512, 512, 100},
		{"huge pages", "domain: {memory: {hugepages: {pageSize: 2Mi}}}", nil, 0, -1, 0},
		{"huge pages, and memory besides", "domain: {memory: {hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 1536Mi}, limits: {memory: 2Gi}}}", nil,
			1024, 1536, 2},
		{"huge pages leave only the overhead", "domain: {memory: {hugepages: {pageSize: 2Mi}}, resources: {overcommitGuestOverhead: true}}", nil, 0, -1, 0},
		{"huge pages and dedicated CPUs", "domain: {memory: {hugepages: {pageSize: 2Mi}}, " + dedicated + "}", nil, 0, 0, 100},
		{"what is asked for", "domain: {memory: {reservedOverhead: {addedOverhead: 70Mi}}}", nil, 512, -1, 70},
		{"no screen", "domain: {devices: {autoattachGraphicsDevice: false}}", nil, 512, -1, -32},
		{"a TPM", "domain: {devices: {tpm: {}}}", nil, 512, -1, 53},
		{"a TPM that is off", "domain: {devices: {tpm: {enabled: false}}}", nil, 512, -1, 0},
		{"arm64", "architecture: arm64", nil, 512, -1, 128},
		{"IO threads", "domain: {devices: {disks: [{name: a, dedicatedIOThread: true}, {name: b, dedicatedIOThread: true}, {name: c}]}}", nil, 512, -1, 8},
		{"a pool", "domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 4}}", nil, 512, -1, 24},
		{"devices", "domain: {devices: {hostDevices: [{name: a, deviceName: x.y/z}]}}", locking, 512, -1, 1024},
		{"SEV", "domain: {launchSecurity: {snp: {}}}", locking, 512, -1, 256},
		{"one command", "livenessProbe: {exec: {command: [a]}}", nil, 512, -1, 110},
		{"two commands", "livenessProbe: {exec: {command: [a]}}, readinessProbe: {guestAgentPing: {}}", nil, 512, -1, 120},
		{"all ports", onPodNetwork(", masquerade: {}"), nil, 512, -1, 250},
		{"some ports", onPodNetwork(", masquerade: {}, ports: [{port: 80}]"), nil, 512, -1, 0},
		{"a range of ports", onPodNetwork(", masquerade: {}, portRanges: [{startPort: 1, endPort: 2}]"), nil, 512, -1, 0},
		{"no ports of NAT", onPodNetwork(", masquerade: {}"), slirp, 512, -1, 0},
		{"twice the overhead", "", func(in *Input) { in.OverheadRatio = 2 }, 512, -1, overheadOfBase},
		{"never less", "", func(in *Input) { in.OverheadRatio = 0.5 }, 512, -1, 0},
	} {
		t.Run(test.why, func(t *testing.T) {
			in := input(t, test.spec)
			if test.with != nil {
				test.with(&in)
			}
			r := container(t, in).Resources
			request, limit := r.Requests[corev1.ResourceMemory], r.Limits[corev1.ResourceMemory]
			overhead := (overheadOfBase + test.more) * mebibyte
			if want := test.request*mebibyte + overhead; request.Value() != want {
				t.Errorf("request of %d, want %d: %d MiB more", request.Value(), want, (request.Value()-want)/mebibyte)
			}
			if want := test.limit*mebibyte + overhead; test.limit >= 0 && limit.Value() != want || test.limit < 0 && !limit.IsZero() {
				t.Errorf("limit of %d, want %d: %d MiB more", limit.Value(), want, (limit.Value()-want)/mebibyte)
			}
		})
	}
}

func TestHugePages(t *testing.T) {
	for _, test := range []struct{ why, spec, name, want string }{
		{"as the node calls them", "domain: {memory: {guest: 2Gi, hugepages: {pageSize: 1024Mi}}}", "hugepages-1Gi", "2Gi"},
		{"the guest's memory, whatever is requested", "domain: {memory: {guest: 2Gi, hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 1Gi}}}",
			"hugepages-2Mi", "2Gi"},
	} {
		c := container(t, input(t, test.spec))
		name := corev1.ResourceName(test.name)
		if request, limit := amount(c.Resources.Requests, name), amount(c.Resources.Limits, name); request != test.want || limit != test.want {
			t.Errorf("%s: %s of %s, want %s", test.why, request, limit, test.want)
		}
		if at := c.VolumeMounts[2]; at.MountPath != HugePages {
			t.Errorf("mounted at %s", at.MountPath)
		}
	}
}
