//go:build kubevirt

// Command objects prints what virt-operator v1.9.0 installs, by virt-operator's own code: an object a line, as JSON, in the order in which they can be created.
// virt-operator's own webhooks, ServiceMonitors and objects of OpenShift are left out. Of workloads it prints virt-controller's Deployment alone, since tests
// start the programs. With -workloads it prints virt-api and virt-handler too, with the Services, Secrets and ConfigMaps that their pods need, and their
// PriorityClass, which comes with virt-operator's own manifest. The authority of the certificates is then wherever virt-operator writes it.
// Building it takes a minute after virt-api: the tag keeps it out of what every test builds.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/log"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/install"
	"kubevirt.io/kubevirt/pkg/virt-operator/util"
)

// version is the version of the module. virt-operator takes a tag of images that is a version for its own.
const version = "v1.9.0"

func main() {
	namespace := flag.String("namespace", "kubevirt", "namespace of KubeVirt")
	workloads := flag.Bool("workloads", false, "print all that pods of virt-api, virt-controller and virt-handler need")
	flag.Parse()
	log.InitializeLogging("objects")
	log.Log.SetIOWriter(io.Discard)
	if err := writeObjects(os.Stdout, *namespace, *workloads); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// writeObjects writes the objects of a KubeVirt in a namespace.
func writeObjects(out io.Writer, namespace string, workloads bool) error {
	object := &v1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kubevirt"}}
	object.Spec.ImageRegistry, object.Spec.ImageTag = "registry.example/kubevirt", version
	object.Spec.Configuration.DeveloperConfiguration = &v1.DeveloperConfiguration{
		DisabledFeatureGates: []string{"Template"}, // a program of its own
		FeatureGates:         []string{"Plugins"},  // which adds policies
	}
	strategy, err := install.GenerateCurrentInstallStrategy(util.GetTargetConfigFromKV(object), "", namespace)
	if err != nil {
		return err
	}
	definition, err := components.NewKubeVirtCrd() // virt-operator does not install its own
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	if err := lines.Encode(definition); err != nil {
		return err
	}
	printed := []func() error{
		printEach(lines, strategy.CRDs()), printEach(lines, strategy.ServiceAccounts()), printEach(lines, strategy.ClusterRoles()),
		printEach(lines, strategy.ClusterRoleBindings()), printEach(lines, strategy.Roles()), printEach(lines, strategy.RoleBindings()),
		printPolicies(lines, strategy), printBindings(lines, strategy),
	}
	if workloads {
		if err := certify(strategy); err != nil {
			return err
		}
		printed = append(printed, printEach(lines, []any{components.NewKubeVirtPriorityClassCR()}), printConfigMaps(lines, strategy),
			printEach(lines, strategy.CertificateSecrets()), printEach(lines, strategy.Services()),
			printEach(lines, strategy.ApiDeployments()), printEach(lines, strategy.DaemonSets()))
	}
	printed = append(printed, printEach(lines, strategy.ControllerDeployments()), printEach(lines, always(strategy)),
		printEach(lines, ofVirtAPI(strategy)), printEach(lines, strategy.APIServices()))
	for _, print := range printed {
		if err := print(); err != nil {
			return err
		}
	}
	return nil
}

// always returns the mutating webhooks that virt-operator registers whatever gates are on: the gate ContainerPathVolumes is off.
func always(strategy *install.Strategy) (some []*admissionv1.MutatingWebhookConfiguration) {
	for _, object := range strategy.MutatingWebhookConfigurations() {
		if object.Name != components.VirtLauncherPodMutatingWebhookName {
			some = append(some, object)
		}
	}
	return some
}

// ofVirtAPI returns the validating webhooks that virt-api serves.
func ofVirtAPI(strategy *install.Strategy) (some []*admissionv1.ValidatingWebhookConfiguration) {
	for _, object := range strategy.ValidatingWebhookConfigurations() {
		if object.Name == components.VirtAPIValidatingWebhookName {
			some = append(some, object)
		}
	}
	return some
}

// printPolicies prints the policies, whose version in KubeVirt's code lacks the group.
func printPolicies(lines *json.Encoder, strategy *install.Strategy) func() error {
	for _, policy := range strategy.ValidatingAdmissionPolicies() {
		policy.APIVersion = admissionv1.SchemeGroupVersion.String()
	}
	return printEach(lines, strategy.ValidatingAdmissionPolicies())
}

// printBindings prints the bindings of the policies.
func printBindings(lines *json.Encoder, strategy *install.Strategy) func() error {
	for _, binding := range strategy.ValidatingAdmissionPolicyBindings() {
		binding.APIVersion = admissionv1.SchemeGroupVersion.String()
	}
	return printEach(lines, strategy.ValidatingAdmissionPolicyBindings())
}

// printEach prints all objects of a list.
func printEach[T any](lines *json.Encoder, objects []T) func() error {
	return func() error {
		for _, object := range objects {
			if err := lines.Encode(object); err != nil {
				return err
			}
		}
		return nil
	}
}
