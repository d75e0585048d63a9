package vm

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

func TestNUMANodes(t *testing.T) {
	for _, test := range []struct {
		text string
		want uint
		ok   bool
	}{
		{"", 0, true},
		{"1", 1, true},
		{"64", 64, true},
		{"0", 0, false},
		{"65", 0, false},
		{"-1", 0, false},
		{"two", 0, false},
		{"02", 0, false}, // one number has one spelling, so that equal VMIs have equal records
		{"+2", 0, false},
		{"2 ", 0, false},
		{"18446744073709551617", 0, false},
	} {
		vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationNUMACells: test.text}}}
		if got, ok := NUMANodes(vmi); got != test.want || ok != test.ok {
			t.Errorf("annotation '%s': got %d, %t", test.text, got, ok)
		}
	}
	if got, ok := NUMANodes(&v1.VirtualMachineInstance{}); got != 0 || !ok {
		t.Errorf("no annotation: got %d, %t", got, ok)
	}
}
