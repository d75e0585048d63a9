package vmistatus

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestSetCredentials: the condition follows the report of the launcher, whose text may be hostile.
func TestSetCredentials(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{}
	for _, c := range []struct {
		why     string
		result  *v1alpha1.GuestCredentials
		status  corev1.ConditionStatus
		message string
	}{
		{"no attempt", nil, "", ""},
		{"a success", &v1alpha1.GuestCredentials{}, corev1.ConditionTrue, ""},
		{"a failure", &v1alpha1.GuestCredentials{Failure: "SSH keys of user 'a': no\nsuch\x1b[31m user\u202e"}, corev1.ConditionFalse,
			"SSH keys of user 'a': nosuch[31m user"},
		{"a success again", &v1alpha1.GuestCredentials{}, corev1.ConditionTrue, ""},
		{"the end", nil, "", ""},
	} {
		setCredentials(vmi, c.result)
		got := condition.Of(vmi, v1.VirtualMachineInstanceAccessCredentialsSynchronized)
		switch {
		case c.status == "":
			if got != nil {
				t.Errorf("%s: the condition is %+v", c.why, got)
			}
		case got == nil || got.Status != c.status || got.Message != c.message || got.Reason != "":
			t.Errorf("%s: the condition is %+v", c.why, got)
		}
	}
	setCredentials(vmi, &v1alpha1.GuestCredentials{Failure: strings.Repeat("語", 100_000)})
	if got := condition.Of(vmi, v1.VirtualMachineInstanceAccessCredentialsSynchronized); len([]rune(got.Message)) > v1alpha1.LongestCredentialFailure {
		t.Errorf("the message has %d bytes", len(got.Message))
	}
}
