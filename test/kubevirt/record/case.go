//go:build kubevirt

package main

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// Case is one request, and what the cluster has. A case has a VM or a VMI.
type Case struct {
	ID     string `json:"id"`
	Config string `json:"config"`
	// Kind is 'vm' or 'vmi' for cases that are mutated. The other cases are validated.
	Kind      string `json:"kind"`
	User      string `json:"user"`
	Operation string `json:"operation"`
	Namespace string `json:"namespace"`

	VM, VMI, Old json.RawMessage

	Instancetypes []unstructured.Unstructured       `json:"instancetypes"`
	Preferences   []unstructured.Unstructured       `json:"preferences"`
	Objects       []unstructured.Unstructured       `json:"objects"`
	Presets       []v1.VirtualMachineInstancePreset `json:"presets"`
}

// Answer is what the webhook said of a case.
type Answer struct {
	ID string `json:"id"`
	// Pruned are the fields that this version does not know. Its API server drops them before any webhook sees the object.
	Pruned []string `json:"pruned,omitempty"`
	// Varies means that two requests were answered differently, because KubeVirt walked a map: the case says nothing.
	Varies bool   `json:"varies,omitempty"`
	Expect Expect `json:"expect"`
}

// Expect is an answer as test/conformance reads it.
type Expect struct {
	Allowed bool   `json:"allowed"`
	Code    int32  `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Stage of a refusal: 'schema', 'decode' or 'semantic'.
	Stage  string  `json:"stage,omitempty"`
	Causes []Cause `json:"causes,omitempty"`
	// More is the number of causes that KubeVirt left out: it serves ten at most, and counts causes that it reports twice.
	More     int      `json:"more,omitempty"`
	Message  string   `json:"message,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Object is the mutated object.
	Object json.RawMessage `json:"object,omitempty"`
	// Panic is the text of a panic: net/http would drop the connection, and the API server would get no answer.
	Panic string `json:"panic,omitempty"`
}

// Cause is one cause of a refusal.
type Cause struct {
	Type    metav1.CauseType `json:"type"`
	Field   string           `json:"field"`
	Message string           `json:"message"`
}
