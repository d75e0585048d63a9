package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Stages of 'expand', in their order. The first is the VM itself, the others are its guest.
const (
	stageAdmitted = "admitted"
	stageDefaults = "defaults"
	stageAll      = "all"
)

var stages = []string{stageAdmitted, admit.FromInstancetype, admit.FromPreference, "presets", stageDefaults, stageAll}

func expandCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "expand (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Print the explicit VirtualMachineInstance that each VM would boot",
		Long: "Print the explicit VirtualMachineInstance that each VM would boot, or what an earlier stage makes of it:\n\n" +
			"  admitted       the VM as the cluster would store it: pinned, or expanded where the policy in --config says so\n" +
			"  instancetype   its guest with the size alone; preference, presets and defaults fill it further\n" +
			"  all            every stage, one document each",
		Example: "  kubectl kiln expand -f vm.yaml --catalog sizes/\n" +
			"  kubectl kiln expand vm/web -n shop --stage all",
	}
	stage := cmd.Flags().String("stage", stageDefaults, "stage to print: "+strings.Join(stages, ", "))
	_ = cmd.RegisterFlagCompletionFunc("stage", cobra.FixedCompletions(stages, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(stages, *stage) {
			return fmt.Errorf("--stage '%s' is not supported, use one of %s", *stage, strings.Join(stages, ", "))
		}
		return o.eachGuest(cmd, args, func(g guest) error { return o.printStages(g, *stage) })
	}
	o.addInputs(cmd)
	o.addOutput(cmd, "yaml", "yaml", "json")
	return cmd
}

func (o *options) printStages(g guest, wanted string) error {
	if wanted == stageDefaults {
		return o.printGuest(g.document, "")
	}
	// Of a preset or a pass of the defaults there are several: the last of a kind is the stage.
	after := map[string][]byte{stageDefaults: g.document}
	var err error
	if g.admit != nil && (wanted == stageAdmitted || wanted == stageAll) {
		if after[stageAdmitted], err = g.admit(); err != nil {
			return err
		}
	}
	vmi := g.sparse.DeepCopy()
	admit.Steps(vmi, g.input, func(origin admit.Origin) {
		if err == nil && origin.Kind != admit.FromDefault {
			after[strings.Replace(origin.Kind, admit.FromPreset, "presets", 1)], err = patched(g.sparse, vmi)
		}
	})
	if err != nil {
		return err
	}
	if after[wanted] == nil && wanted != stageAll {
		return fmt.Errorf("a %s has no stage '%s'", g.GetKind(), wanted)
	}
	for _, stage := range stages[:len(stages)-1] {
		if after[stage] == nil || wanted != stage && wanted != stageAll {
			continue
		}
		if err := o.printGuest(after[stage], g.name()+": "+stage); err != nil {
			return err
		}
	}
	return nil
}

// printGuest prints a VM or VMI from its JSON; title is a comment where the format has them.
func (o *options) printGuest(document []byte, title string) error {
	object := map[string]any{}
	if err := json.Unmarshal(document, &object); err != nil {
		return err
	}
	delete(object, "status") // stage 1 writes none
	if title != "" {
		title = "# " + title + "\n"
	}
	return o.printTitled(object, title)
}

// print writes one object; YAML documents are separated.
func (o *options) print(object any) error { return o.printTitled(object, "") }

func (o *options) printTitled(object any, title string) error {
	if o.output == "json" {
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false) // XML is to be read
		return encoder.Encode(object)
	}
	raw, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "---\n%s%s", title, raw)
	return err
}
