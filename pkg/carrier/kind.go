// Package carrier reads the templates of VMs and VMIs in objects of other kinds, such as VirtualMachinePools: the VM that the owner of the kind would make of a
// template, and the path of the template. It judges nothing.
package carrier

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/pool"
)

// Kind is a kind of objects that have templates of VMs or VMIs.
type Kind struct {
	schema.GroupKind
	// Path leads to the template, which has metadata and spec. A name with the suffix [*] is a list, each of whose elements has a template.
	Path string
	// Makes is the kind of the objects that are made of the template.
	Makes v1alpha1.GuestPolicyResource
	// parameters means that the object has the list spec.parameters, and the template refers to them.
	parameters bool
	// owns means that the carrier owns what is made of it.
	owns bool
	// name returns the name of what is made of a carrier, from its name and the metadata of the template.
	name func(carrier string, template metav1.ObjectMeta) string
}

// GroupOfMachines is the API group of the provider for KubeVirt of Cluster API.
const GroupOfMachines = "infrastructure.cluster.x-k8s.io"

// GroupOfTemplates is the API group of KubeVirt's VirtualMachineTemplates (module kubevirt.io/virt-template-api).
const GroupOfTemplates = "template.kubevirt.io"

// Builtin are the kinds that Kiln knows.
var Builtin = []Kind{
	{
		GroupKind: schema.GroupKind{Group: pool.GroupName, Kind: "VirtualMachinePool"}, Path: "spec.virtualMachineTemplate",
		Makes: v1alpha1.PolicyVirtualMachines, owns: true,
		// pkg/virt-controller/watch/pool/pool.go: generateVMName. The names of the template do not count.
		name: func(carrier string, _ metav1.ObjectMeta) string { return carrier + "-0" },
	},
	{
		GroupKind: v1.VirtualMachineInstanceReplicaSetGroupVersionKind.GroupKind(), Path: "spec.template",
		Makes: v1alpha1.PolicyVirtualMachineInstances, owns: true,
		// pkg/virt-controller/watch/replicaset/replicaset.go: getVirtualMachineBaseName, which becomes the generateName.
		name: func(carrier string, template metav1.ObjectMeta) string {
			return cmp.Or(template.Name, template.GenerateName, carrier) + generated
		},
	},
	{
		GroupKind: schema.GroupKind{Group: GroupOfTemplates, Kind: "VirtualMachineTemplate"}, Path: "spec.virtualMachine",
		Makes: v1alpha1.PolicyVirtualMachines, parameters: true, name: ownOrCarrier,
	},
	{
		GroupKind: schema.GroupKind{Group: GroupOfMachines, Kind: "KubevirtMachineTemplate"}, Path: "spec.template.spec.virtualMachineTemplate",
		Makes: v1alpha1.PolicyVirtualMachines,
		// Cluster API names the machines by their owner, which the template does not know.
		name: func(carrier string, _ metav1.ObjectMeta) string { return carrier + "-" + generated },
	},
	{
		GroupKind: schema.GroupKind{Group: GroupOfMachines, Kind: "KubevirtMachine"}, Path: "spec.virtualMachineTemplate",
		Makes: v1alpha1.PolicyVirtualMachines,
		// pkg/kubevirt/utils.go: newVirtualMachineFromKubevirtMachine
		name: func(carrier string, _ metav1.ObjectMeta) string { return carrier },
	},
}

// generated stands for the characters that an API server generates.
const generated = "xxxxx"

// ownOrCarrier names a VM as its template says, and otherwise like its carrier.
func ownOrCarrier(carrier string, template metav1.ObjectMeta) string {
	name := cmp.Or(template.Name, carrier)
	if template.Name == "" && template.GenerateName != "" {
		name = template.GenerateName + generated
	}
	return name
}

// Find returns the kind of a group and a name; nil if objects of that kind are not known to have templates. more are the kinds of the administrator.
func Find(of schema.GroupKind, more []Kind) *Kind {
	all := slices.Concat(Builtin, more)
	if at := slices.IndexFunc(all, func(k Kind) bool { return k.GroupKind == of }); at >= 0 {
		return &all[at]
	}
	return nil
}

var (
	// kindOfFlag is KIND.GROUP=RESOURCE:PATH.
	kindOfFlag = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]*)\.([a-z0-9][a-z0-9.-]*)=([a-z]+):(\S+)$`)
	// pathOfFlag is a path below spec. It has no index, because each element of a list is judged.
	pathOfFlag = regexp.MustCompile(`^spec(\.[A-Za-z_][A-Za-z0-9_-]*(\[\*\])?)+$`)
)

// FlagUsage is the help of a flag whose values ParseKinds reads.
const FlagUsage = "kind of objects with templates of VMs or VMIs, besides the kinds that Kiln knows: KIND.GROUP=RESOURCE:PATH, with RESOURCE " +
	"virtualmachines or virtualmachineinstances, such as Stack.example.org=virtualmachines:spec.machines[*].template; may be repeated"

// longestPath bounds the path of a kind of the administrator in bytes.
const longestPath = 256

// ParseKinds reads kinds of the administrator, each as KIND.GROUP=RESOURCE:PATH. RESOURCE is virtualmachines or virtualmachineinstances.
func ParseKinds(texts []string) (kinds []Kind, err error) {
	for _, text := range texts {
		parts := kindOfFlag.FindStringSubmatch(text)
		if parts == nil {
			return nil, fmt.Errorf("the carrier '%s' must be KIND.GROUP=RESOURCE:PATH, such as Stack.example.org=virtualmachines:spec.machines[*].template", text)
		}
		kind := Kind{
			GroupKind: schema.GroupKind{Group: parts[2], Kind: parts[1]}, Makes: v1alpha1.GuestPolicyResource(parts[3]), Path: parts[4], name: ownOrCarrier,
		}
		switch {
		case kind.Makes != v1alpha1.PolicyVirtualMachines && kind.Makes != v1alpha1.PolicyVirtualMachineInstances:
			return nil, fmt.Errorf("the carrier '%s' makes '%s', must be %s or %s", text, kind.Makes, v1alpha1.PolicyVirtualMachines,
				v1alpha1.PolicyVirtualMachineInstances)
		case len(kind.Path) > longestPath || !pathOfFlag.MatchString(kind.Path):
			return nil, fmt.Errorf("the carrier '%s' has the path '%s', must be a path below spec, such as spec.template or spec.machines[*].template",
				text, kind.Path)
		case Find(kind.GroupKind, kinds) != nil:
			return nil, fmt.Errorf("the carrier '%s' names a kind that is known already", text)
		case ownedByOthers(kind.GroupKind):
			return nil, fmt.Errorf("the carrier '%s' names a kind that Kiln judges by itself", text)
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// ownedByOthers reports whether webhooks of Kiln judge a kind by its own rules.
func ownedByOthers(of schema.GroupKind) bool {
	return of.Group == v1.GroupVersion.Group && !strings.HasSuffix(of.Kind, "ReplicaSet") || of.Group == v1alpha1.GroupVersion.Group
}
