package beside

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/enforcement"
	v1 "kubevirt.io/api/core/v1"
)

// TestShadow: a VM that KubeVirt takes and Kiln refuses is refused, or stored and started, by flag and label. Where Kiln is absent, it writes nothing about the
// VM, until the namespace is judged.
func TestShadow(t *testing.T) {
	withKiln(t)
	wrong := strings.Replace(manifest("wrong", v1.RunStrategyAlways, ""), "metadata: {}", `metadata: {annotations: {kilnvm.io/numa-cells: "2"}}`, 1)
	t.Cleanup(func() { restartWebhook(t, "") })
	for _, flag := range []string{enforcement.Enforce, enforcement.Warn} {
		restartWebhook(t, flag)
		for _, label := range []string{"", "enabled", "warn", "disabled"} {
			t.Run(flag+"-"+label, func(t *testing.T) {
				s := newSpace(t)
				if label != "" {
					s.label(label)
				}
				refused := label == "enabled" || label == "" && flag == enforcement.Enforce
				absent := label == "disabled"
				var output string
				var err error
				s.eventually("the label counts", func() (bool, any) { // API server and webhook watch namespaces
					_, output, err = s.on.Kubectl(t.Context(), wrong, "create", "-n", s.name, "--dry-run=server", "-f", "-")
					return (err != nil) == refused && strings.Contains(output, "Kiln would refuse this: ") == (!refused && !absent), fmt.Sprint(output, err)
				})
				if refused {
					if !strings.Contains(output, "numa-cells") {
						t.Errorf("refused for another reason: %s", output)
					}
					return
				}
				s.create(wrong)
				s.runs("wrong")
				own := func() (keys []string) {
					for key := range s.machine("wrong").Annotations {
						if strings.HasPrefix(key, "kilnvm.io/") {
							keys = append(keys, key)
						}
					}
					return keys
				}
				if !absent {
					s.eventually("the VM is pinned", func() (bool, any) { return len(own()) > 1, own() })
					return
				}
				if keys := own(); len(keys) > 0 {
					t.Errorf("Kiln writes %v", keys)
				}
				s.label("warn")
				s.eventually("the VM is pinned", func() (bool, any) { return len(own()) > 1, own() })
			})
		}
	}
}

// label sets label kilnvm.io/admission of the namespace.
func (s space) label(value string) {
	s.Helper()
	if _, output, err := s.on.Kubectl(s.Context(), "", "label", "--overwrite", "namespace", s.name, "kilnvm.io/admission="+value); err != nil {
		s.Fatal(output, err)
	}
}

// restartWebhook restarts the webhook with a value of --enforcement.
func restartWebhook(t *testing.T, enforced string) {
	t.Helper()
	shared.Enforcement = enforced
	if err := shared.StopWebhook(); err != nil {
		t.Fatal(err)
	}
	if err := shared.StartWebhook(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}
