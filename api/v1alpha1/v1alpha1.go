// Package v1alpha1 contains Kiln's own kinds, such as HostProfile, GuestProfile and GuestPolicy, and every annotation, label, condition type and reason of
// kilnvm.io.
// +kubebuilder:object:generate=true
// +groupName=kilnvm.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CommandLineVersion is the apiVersion of the documents that programs print with -o json. No API server serves their kinds.
const CommandLineVersion = "cli.kilnvm.io/v1alpha1"

var (
	// GroupVersion of the kinds.
	GroupVersion = schema.GroupVersion{Group: "kilnvm.io", Version: "v1alpha1"}
	// SchemeBuilder registers the kinds.
	SchemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(GroupVersion, &HostProfile{}, &HostProfileList{}, &GuestHardware{}, &GuestHardwareList{},
			&GuestPod{}, &GuestPodList{},
			&GuestProfile{}, &GuestProfileList{}, &ClusterGuestProfile{}, &ClusterGuestProfileList{}, &GuestPolicy{}, &GuestPolicyList{},
			&GuestPolicyException{}, &GuestPolicyExceptionList{},
			&FrontendProfile{}, &FrontendProfileList{})
		metav1.AddToGroupVersion(scheme, GroupVersion)
		return nil
	})
	// AddToScheme adds the kinds to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)
