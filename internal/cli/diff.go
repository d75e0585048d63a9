package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// difference is what 'diff -o json' prints.
type difference struct {
	Before string `json:"before"`
	After  string `json:"after"`
	// Verdict is what the change means for a guest that has run as Before.
	Verdict record.Verdict  `json:"verdict"`
	Changes []record.Change `json:"changes"`
	// Digests of the guest's hardware.
	BeforeDigest string `json:"beforeDigest"`
	AfterDigest  string `json:"afterDigest"`
	// Spec and Domain are unified diffs of the explicit spec and of the complete libvirt domain.
	Spec   string `json:"spec"`
	Domain string `json:"domain"`
}

func diffCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A [B]",
		Short: "Judge what a change means for the hardware that a guest sees",
		Long: "Judge what a change from A to B means for the hardware that a guest sees: it is compatible, or needs a restart, or\n" +
			"breaks the guest's hardware. A and B are files with one VM or VMI, or objects of the cluster, such as vm/web. B is\n" +
			"taken for the next version of A: it keeps A's identity, pins and recorded addresses. With A alone, --host twice\n" +
			"compares two hosts; vm/NAME without them shows what 'kilnvm.io/hardware: latest' would change.\n\n" +
			"The exit status is 0 if the change is compatible, 3 if it needs a restart, 4 if it breaks the guest's hardware, and 1\n" +
			"if A or B is rejected.",
		Example: "  kubectl kiln diff vm/web new.yaml\n" +
			"  kubectl kiln diff vm.yaml --host old-host.yaml --host new-host.yaml --domain",
		Args: cobra.RangeArgs(1, 2),
	}
	var hosts []string
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "YAML file with a host's capabilities; given twice, those of A and of B")
	o.addProfiles(cmd)
	domain := cmd.Flags().Bool("domain", false, "show how the complete libvirt domain changes, backends included")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := o.difference(cmd.Context(), args, hosts)
		if err != nil {
			return err
		}
		return o.printDifference(d, *domain)
	}
	o.addContext(cmd)
	o.addOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

// difference renders both sides. The second one boots with the record of the first.
func (o *options) difference(ctx context.Context, args, hosts []string) (difference, error) {
	switch len(hosts) {
	case 0:
		hosts = []string{"", ""}
	case 1:
		hosts = []string{hosts[0], hosts[0]}
	case 2:
	default:
		return difference{}, errors.New("give --host once, or once for each side")
	}
	if err := o.settle(ctx, args); err != nil {
		return difference{}, err
	}
	before, err := o.one(ctx, args[0], nil)
	if err != nil {
		return difference{}, err
	}
	after, afresh := before, hosts[0] == hosts[1]
	switch {
	case len(args) == 2:
		afresh = false
		after, err = o.one(ctx, args[1], &before)
	case afresh && before.frozen == nil:
		err = fmt.Errorf("%s has no recorded hardware: give what to compare it with, or --host twice", before.name())
	}
	if err != nil {
		return difference{}, err
	}
	return o.contrast(side{guest: before, host: hosts[0]}, side{guest: after, host: hosts[1], afresh: afresh})
}

// side is one side of a comparison: a guest on a host.
type side struct {
	guest
	host string
	// afresh derives the hardware anew, but for the guest's identity.
	afresh   bool
	rendered render.Result
}

// contrast renders both sides. The second one boots with the record of the first.
func (o *options) contrast(before, after side) (difference, error) {
	var err error
	if before.rendered, err = o.booted(before, before.frozen); err != nil {
		return difference{}, err
	}
	frozen := &before.rendered.Record
	after.explicit = successor(after.explicit, before.explicit)
	identity.Recall(after.explicit, frozen)
	if after.afresh || after.explicit.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		frozen = nil
	}
	if after.rendered, err = o.booted(after, frozen); err != nil {
		return difference{}, err
	}
	d := difference{
		Before: before.label(), BeforeDigest: before.rendered.Record.Digest, After: after.label(), AfterDigest: after.rendered.Record.Digest,
		Changes: append([]record.Change{}, abi.Compare(before.rendered.Frontend, after.rendered.Frontend)...),
	}
	d.Verdict = record.Judge(d.Changes)
	return d, d.texts(before, after)
}

// successor is a guest as the next version of another one, which has the same disks.
func successor(next, before *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	vmi := next.DeepCopy()
	vmi.UID = before.UID
	metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, v1alpha1.AnnotationGeneration, before.Annotations[v1alpha1.AnnotationGeneration])
	return vmi
}

// booted is a guest with its documents, or the causes why it has none.
func (o *options) booted(s side, frozen *record.Record) (render.Result, error) {
	rendered, errs, err := o.boot(s.guest, placing{host: s.host}, frozen)
	if err == nil && len(errs) > 0 {
		s.verdict = admit.Verdict{Errors: errs} // its warnings have been told
		err = o.refuse(s.guest, s.host)
	}
	return rendered, err
}

// texts are the specs and domains of both sides, compared line by line.
func (d *difference) texts(before, after side) error {
	var specs, domains [2][]byte
	for i, s := range []side{before, after} {
		// Through JSON, as the object would be stored: empty structs of Go types are nobody's fields.
		var object struct {
			Spec map[string]any `json:"spec"`
		}
		if err := json.Unmarshal(s.document, &object); err != nil {
			return err
		}
		var err error
		if specs[i], err = yaml.Marshal(object); err != nil {
			return err
		}
		xml, err := s.rendered.Documents.Domain.Marshal()
		if err != nil {
			return err
		}
		domains[i] = []byte(xml + "\n")
	}
	d.Spec = unified(d.Before, specs[0], d.After, specs[1])
	d.Domain = unified(d.Before, domains[0], d.After, domains[1])
	return nil
}

func unified(before string, old []byte, after string, new []byte) string {
	text := string(diff.Diff(before, old, after, new))
	_, text, _ = strings.Cut(text, "\n") // the command line that the library puts first
	return text
}

func (s side) label() string {
	text := s.name()
	if s.file != "" {
		text += " of " + s.file
	}
	if s.host != "" {
		text += " on " + filepath.Base(s.host)
	}
	return text
}

func (o *options) printDifference(d difference, domain bool) error {
	if o.output != "text" {
		if err := o.print(d); err != nil {
			return err
		}
	} else {
		d.write(o.Out)
		if domain {
			fmt.Fprint(o.Out, d.Domain)
		}
	}
	return map[record.Verdict]error{record.NeedsRestart: ErrNeedsRestart, record.Breaks: ErrBreaks}[d.Verdict]
}

// write is the difference for people, without the domain.
func (d difference) write(out io.Writer) {
	fmt.Fprintf(out, "%s\n", d.Verdict)
	for _, change := range d.Changes {
		mark := ""
		if change.Verdict == record.Breaks {
			mark = "   <- breaks"
		}
		fmt.Fprintf(out, "  %s%s\n", change.Text, mark)
	}
	fmt.Fprint(out, d.Spec)
}
