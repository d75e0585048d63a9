package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/pipeline"
	v1 "kubevirt.io/api/core/v1"
)

// stageOne resolves references and runs stage 1, as the webhook does.
type stageOne struct {
	resolver resolve.Resolver
	cluster  config.Cluster
}

// vm judges a VM and leaves the guest that it would boot. The sparse VMI is what its controller would create.
func (s stageOne) vm(ctx context.Context, vm *v1.VirtualMachine, g *guest) (*v1.VirtualMachineInstance, error) {
	answer, err := s.resolver.VM(ctx, vm, nil)
	if err != nil {
		return nil, err
	}
	in, err := s.input(ctx, vm.Namespace, answer.Set)
	if err != nil {
		return nil, err
	}
	g.explicit, g.verdict = pipeline.ExplicitVM(vm, nil, in)
	g.verdict.Warnings = append(answer.Warnings, g.verdict.Warnings...)
	if vm.Spec.Template == nil {
		return nil, nil
	}
	return pipeline.Instance(vm), nil
}

// vmi makes a VMI explicit and judges it.
func (s stageOne) vmi(ctx context.Context, vmi *v1.VirtualMachineInstance, g *guest) error {
	answer, err := s.resolver.VMI(ctx, vmi)
	if err != nil {
		return err
	}
	in, err := s.input(ctx, vmi.Namespace, answer.Set)
	if err != nil {
		return err
	}
	g.explicit, g.verdict = pipeline.ExplicitVMI(vmi, in)
	g.verdict.Warnings = append(answer.Warnings, g.verdict.Warnings...)
	if g.verdict.Allowed() {
		judged := pipeline.JudgeVMI(g.explicit, in)
		g.verdict.Errors = judged.Errors
		g.verdict.Warnings = append(g.verdict.Warnings, judged.Warnings...)
	}
	return nil
}

func (s stageOne) input(ctx context.Context, namespace string, set instancetype.Set) (pipeline.Input, error) {
	presets, err := s.resolver.Presets(ctx, namespace)
	return pipeline.Input{Set: set, Presets: presets, Cluster: s.cluster}, err
}

// configuration is the cluster's, from --config: a KubeVirt object, or the content of its spec.configuration.
func (o *options) configuration() (config.Cluster, error) {
	if o.config == "" {
		return config.Default(), nil
	}
	raw, err := os.ReadFile(o.config)
	if err != nil {
		return config.Cluster{}, err
	}
	cluster, warnings, err := resolve.Config(raw)
	for _, warning := range warnings {
		fmt.Fprintf(o.ErrOut, "Warning: %s: %s\n", o.config, warning)
	}
	if err != nil {
		return config.Cluster{}, fmt.Errorf("%s: %w", o.config, err)
	}
	return cluster, nil
}
