package beside

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
	v1 "kubevirt.io/api/core/v1"
)

// TestReferencePolicy: KubeVirt's instancetype.referencePolicy is 'expand' or 'expandAll'. VMs are expanded by the revision that they are pinned to, start and
// start again with one VMI each, nobody retries without end, and the revision that VMs share stays.
func TestReferencePolicy(t *testing.T) {
	withKiln(t)
	for _, policy := range []v1.InstancetypeReferencePolicy{v1.Expand, v1.ExpandAll} {
		t.Run(string(policy), func(t *testing.T) {
			if policy == v1.Expand {
				nightly.Only(t) // it expands fewer VMs than 'expandAll'
			}
			referencePolicy(newSpace(t), policy)
		})
	}
}

func referencePolicy(s space, policy v1.InstancetypeReferencePolicy) {
	s.create(small)
	s.create(virtio)
	s.create(sized)
	s.create(strings.Replace(sized, "name: sized", "name: kept", 1))
	s.create(strings.NewReplacer("name: sized", "name: other", "Always", "Halted").Replace(sized))
	was, kept := s.runs("sized"), s.runs("kept")
	revision := s.revision("sized")
	if other := s.revision("other"); other != revision {
		s.Fatalf("the VMs share no revision: %s, %s", revision, other)
	}
	before := s.refusedDeletes()
	s.refer(s.Context(), policy)
	s.Cleanup(func() { s.refer(context.Background(), v1.Reference) })
	s.create(strings.Replace(sized, "name: sized", "name: new", 1))
	s.expanded("new")
	s.must("restart", "sized")
	s.must("start", "other")
	for name, uid := range map[string]string{"sized": string(was.UID), "other": "", "new": ""} {
		if domain := s.runs(name, uid).Spec.Domain; domain.CPU.Sockets != 1 || domain.Devices.Disks[0].Disk.Bus != v1.DiskBusVirtio ||
			domain.Devices.Interfaces[0].Model != "virtio" {
			s.Errorf("%s is not what its instancetype and preference say: %+v", name, domain)
		}
	}
	for _, name := range []string{"sized", "other"} {
		if policy == v1.ExpandAll {
			s.expanded(name)
		} else if s.machine(name).Spec.Instancetype == nil {
			s.Errorf("%s had a revision before, and is expanded", name)
		}
	}
	if refused := s.refusedDeletes() - before; (refused > 0) != (policy == v1.ExpandAll) { // KubeVirt tries once for each VM that it expands
		s.Errorf("KubeVirt was refused %v deletions of revisions", refused)
	}
	s.quiet()
	if is := s.guest("kept"); is.UID != kept.UID {
		s.Error("a guest that nobody restarted is another one")
	}
	if _, err := s.on.Get(s.Context(), s.in("controllerrevision"), revision); err != nil {
		s.Errorf("the revision that a guest is pinned to: %v", err)
	}
	if list, err := s.on.List(s.Context(), s.in("vmi"), ""); err != nil || len(list.Items) != 4 {
		s.Errorf("%d VMIs of 4 VMs, %v", len(list.Items), err)
	}
	s.noFight()
}

// revision waits for the revision of the instancetype that a VM is pinned to and KubeVirt expands.
func (s space) revision(name string) (revision string) {
	s.Helper()
	s.eventually(name+" has a revision", func() (bool, any) {
		vm := s.machine(name)
		if ref := vm.Status.InstancetypeRef; ref != nil && ref.ControllerRevisionRef != nil {
			revision = ref.ControllerRevisionRef.Name
		}
		return revision != "" && vm.Annotations["kilnvm.io/pins"] != "", vm
	})
	return revision
}

// refer sets the policy of the cluster, and waits until Kiln's webhook has it.
func (s space) refer(ctx context.Context, policy v1.InstancetypeReferencePolicy) {
	s.Helper()
	s.ok(s.on.MergePatch(ctx, cluster.In{Namespace: s.on.KubeVirt, Kind: "kubevirt"}, "kubevirt",
		fmt.Sprintf(`{"spec": {"configuration": {"instancetype": {"referencePolicy": %q}}}}`, policy)))
	vm := s.parsed(strings.Replace(sized, "name: sized", "name: tried", 1))
	s.eventually("Kiln's webhook has the policy", func() (bool, any) {
		stored, err := s.on.WouldCreate(ctx, s.in("vm"), vm)
		if err != nil {
			return false, err
		}
		refers := as[v1.VirtualMachine](s, stored).Spec.Instancetype != nil
		return refers == (policy == v1.Reference), stored
	})
}

// expanded waits until a VM has the values of its instancetype and preference in its template.
func (s space) expanded(name string) {
	s.Helper()
	s.eventually(name+" is expanded", func() (bool, any) {
		vm := s.machine(name)
		return vm.Spec.Instancetype == nil && vm.Spec.Preference == nil, vm.Spec
	})
	domain := s.machine(name).Spec.Template.Spec.Domain
	if domain.CPU == nil || domain.CPU.Sockets != 1 || domain.Memory == nil || domain.Memory.Guest.String() != "1Gi" {
		s.Errorf("%s is expanded to %+v", name, domain)
	}
}

// writes are the counters of the API server for requests that write what KubeVirt and Kiln may fight about.
var writes = regexp.MustCompile(`^apiserver_request_total\{.*resource="(controllerrevisions|virtualmachines|virtualmachineinstances)"` +
	`.*verb="(POST|PUT|PATCH|DELETE)".*\} (\S+)$`)

// written are the counts of writes since the API server started, refused ones among them.
func (s space) written() (count float64, all []string) {
	s.Helper()
	out, stderr, err := s.on.Kubectl(s.Context(), "", "get", "--raw", "/metrics")
	if err != nil {
		s.Fatal(err, stderr)
	}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		if found := writes.FindStringSubmatch(lines.Text()); found != nil {
			n, err := strconv.ParseFloat(found[3], 64)
			s.ok(err)
			count += n
			all = append(all, lines.Text())
		}
	}
	return count, all
}

// refusedDeletes is how many deletions of ControllerRevisions were refused since the API server started.
func (s space) refusedDeletes() (count float64) {
	s.Helper()
	_, all := s.written()
	for _, line := range all {
		if strings.Contains(line, `resource="controllerrevisions"`) && strings.Contains(line, `verb="DELETE"`) && !strings.Contains(line, `code="2`) {
			n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			s.ok(err)
			count += n
		}
	}
	return count
}

// quiet waits until nothing is written for some seconds, which never comes if a controller tries again and again.
func (s space) quiet() {
	s.Helper()
	const still = 4 * time.Second
	before, was := s.written()
	began := time.Now()
	for end := began.Add(patience); time.Now().Before(end); {
		time.Sleep(still)
		now, is := s.written()
		if now == before {
			s.Logf("quiet after %s", time.Since(began).Round(time.Second))
			return
		}
		s.Logf("%v writes in %s: %v", now-before, still, slices.DeleteFunc(slices.Clone(is), func(line string) bool { return slices.Contains(was, line) }))
		before, was = now, is
	}
	s.Error("writes do not end")
}
