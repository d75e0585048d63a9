package validate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
)

const running = "status: {created: true}"

func TestChangeWarnings(t *testing.T) {
	for _, c := range []struct {
		why, was, change string
		about            []string
	}{
		{"nothing changes", running, "", nil},
		{"a field that acts at once", running, "spec: {runStrategy: Always}", nil},
		{"memory of a VM that has no guest", "", "spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}", nil},
		{"memory", running, "spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}", []string{": domain.memory"}},
		{"a disk", running, "spec: {template: {spec: {domain: {devices: {disks: [{name: a}]}}}}}", []string{": domain.devices.disks"}},
		{"another instancetype", running, "spec: {instancetype: {name: i}}", []string{": instancetype"}},
		{"another preference", running, "spec: {preference: {name: p}}", []string{": preference"}},
		{"both", running, "spec: {instancetype: {name: i}, preference: {name: p}}", []string{": instancetype, preference"}},
		{"a label", running, "spec: {template: {metadata: {labels: {a: b}}}}", []string{": template metadata"}},
		{"an annotation", running, "spec: {template: {metadata: {annotations: {a: b}}}}", []string{": template metadata"}},
		{"no template any more", running, "spec: {template: null}", nil},
		{"a template at last", "{spec: {template: null}, " + running + "}", "spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}", nil},
	} {
		t.Run(c.why, func(t *testing.T) {
			old, now := object[v1.VirtualMachine](t, legalVM, c.was), object[v1.VirtualMachine](t, legalVM, c.was, c.change)
			warningCase{about: c.about}.check(t, validate.ChangeWarnings(now, old, config.Default().Limits))
		})
	}
	old, now := object[v1.VirtualMachine](t, legalVM, running), object[v1.VirtualMachine](t, legalVM, running, "spec: {instancetype: {name: i}}")
	warningCase{about: []string{"live if possible, else when"}}.check(t, validate.ChangeWarnings(now, old, config.Default().Limits))
	inStages := config.Default().Limits
	staged(&inStages)
	warningCase{about: []string{"effect when the VM is restarted: instancetype"}}.check(t, validate.ChangeWarnings(now, old, inStages))
	if warnings := validate.ChangeWarnings(object[v1.VirtualMachine](t, legalVM, running), nil, config.Default().Limits); len(warnings) > 0 {
		t.Errorf("a VM that is created has no guest that waits: %q", warnings)
	}
}

// TestListed: a list leaves room for the count of what it leaves out.
func TestListed(t *testing.T) {
	const rest = len(" and 99 more")
	fits := strings.Repeat("a", validate.MaxWarning-rest-len("t: b, "))
	for _, c := range []struct {
		why  string
		list []string
		want string
	}{
		{"none", nil, "t: "},
		{"one that is too long is named all the same", []string{"b" + strings.Repeat("a", validate.MaxWarning)}, "t: b" + strings.Repeat("a", validate.MaxWarning)},
		{"two that just fit", []string{"b", fits}, "t: b, " + fits},
		{"two that do not", []string{"b", "a" + fits}, "t: b and 1 more"},
		{"what comes after those that do not fit is counted", []string{"b", "a" + fits, "c"}, "t: b and 2 more"},
	} {
		if got := validate.Listed("t: ", c.list); got != c.want {
			t.Errorf("%s: '%s' instead of '%s'", c.why, got, c.want)
		}
	}
}

// TestChangeWarningsBesideKubeVirt: what KubeVirt plugs in needs no restart, and of what is not known no warning says that it needs one.
func TestChangeWarningsBesideKubeVirt(t *testing.T) {
	const (
		live      = "KubeVirt makes these changes while the guest runs: "
		migrating = "KubeVirt makes these changes while the guest runs, if it can be migrated: "
		open      = "changes take effect live if possible, else when the VM is restarted: "
		waits     = "changes take effect when the VM is restarted: "
		runs      = "{spec: {template: {spec: {domain: {cpu: {sockets: 1}}}}}, " + running + "}"
	)
	for _, c := range []struct {
		why, was, change string
		staged           bool
		want             []string
	}{
		{"nothing", runs, "", false, nil},
		{"sockets", runs, "spec: {template: {spec: {domain: {cpu: {sockets: 2}}}}}", false, []string{migrating + "domain.cpu"}},
		{"sockets in stages", runs, "spec: {template: {spec: {domain: {cpu: {sockets: 2}}}}}", true, []string{waits + "domain.cpu"}},
		{"a node", runs, "spec: {template: {spec: {nodeSelector: {a: b}}}}", false, []string{live + "nodeSelector"}},
		{"a name", runs, "spec: {template: {spec: {hostname: h}}}", false, []string{waits + "hostname"}},
		{"a label", runs, "spec: {template: {metadata: {labels: {a: b}}}}", false, []string{waits + "template metadata"}},
		{"a label and a name", runs, "spec: {template: {metadata: {labels: {a: b}}, spec: {hostname: h}}}", false, []string{waits + "template metadata, hostname"}},
		{"another instancetype", runs, "spec: {instancetype: {name: i}}", false, []string{open + "instancetype"}},
		{"another instancetype in stages", runs, "spec: {instancetype: {name: i}}", true, []string{waits + "instancetype"}},
		{"a VM that waits already", "{spec: {template: {spec: {domain: {cpu: {sockets: 1}}}}}, status: {created: true, conditions: " +
			"[{type: RestartRequired, status: 'True'}]}}", "spec: {template: {spec: {domain: {cpu: {sockets: 2}}, nodeSelector: {a: b}}}}", false,
			[]string{open + "nodeSelector, domain.cpu"}},
		{"a VM that waits no more", "{spec: {template: {spec: {domain: {cpu: {sockets: 1}}}}}, status: {created: true, conditions: " +
			"[{type: RestartRequired, status: 'False'}, {type: Ready, status: 'True'}]}}", "spec: {template: {spec: {hostname: h}}}", false,
			[]string{waits + "hostname"}},
		{"updates of volumes", "{spec: {updateVolumesStrategy: Migration, template: {spec: {volumes: [{name: a, persistentVolumeClaim: {claimName: a}}]}}}, " +
			running + "}", "spec: {template: {spec: {volumes: [{name: a, persistentVolumeClaim: {claimName: b}}]}}}", false, []string{open + "volumes"}},
	} {
		limits := config.Default().Limits
		besideKubeVirt(&limits)
		if c.staged {
			staged(&limits)
		}
		old, now := object[v1.VirtualMachine](t, legalVM, c.was), object[v1.VirtualMachine](t, legalVM, c.was, c.change)
		if diff := cmp.Diff(c.want, validate.ChangeWarnings(now, old, limits)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}
