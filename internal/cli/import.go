package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/catalogsource"
	"github.com/kilnvm/kiln/internal/cli/importreport"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/spf13/cobra"
)

// importRun is a run of 'import'.
type importRun struct {
	cmdutil.Inputs
	catalogsource.Reader
}

// importCommand returns 'import'.
// The exit status is 1 if admission refuses the VM, or if --apply writes nothing because of a conflict, 2 if the domain cannot be read, and 0 otherwise,
// whatever the guest loses: the report says it.
func importCommand(s *cmdutil.Session) *cobra.Command {
	o := &importRun{cmdutil.NewInputs(s), catalogsource.New(s)}
	cmd := &cobra.Command{
		Use:   "import XML|-|libvirt:NAME",
		Short: "Make a VM of a libvirt domain, and keep its hardware",
		Long: "Make a VirtualMachine of a libvirt domain of any program, such as virt-install, and the GuestHardware with which it keeps its\n" +
			"UUID, MACs, models and addresses. The report says what becomes of each element. The VM is halted: fill its claims first.\n" +
			"With -f, another program has made the VM, such as virt-v2v or Forklift: only the GuestHardware of that VM is made.",
		Example: "  kubectl kiln import libvirt:web --report web.html > web.yaml\n" +
			"  kubectl kiln import web.xml --map network=br0=vlan7 --size vda=20Gi --catalog cluster -n shop --apply\n" +
			"  kubectl kiln import web.xml -f forklift-vm.yaml --runtime kubevirt | kubectl create -f -",
		Args: cobra.ExactArgs(1),
	}
	var f importFlags
	flags := cmd.Flags()
	flags.StringVar(&f.Name, "name", "", "name of the VM; default: the name of the domain")
	flags.StringArrayVar(&f.maps, "map", nil,
		"what takes the place of something of the host: network=SOURCE=NAD, network=SOURCE=pod, or claim=DISK=PVC; may be repeated")
	flags.StringArrayVar(&f.sizes, "size", nil, "size of the claim of a disk that is to be made: DISK=QUANTITY, such as vda=20Gi; may be repeated")
	flags.StringVar(&f.StorageClass, "storage-class", "", "StorageClass of the claims; default: the default of the cluster")
	flags.BoolVar(&f.apply, "apply", false, "create the objects in the cluster instead of printing them, after a dry run of all of them")
	flags.StringVar(&f.report, "report", "", "also write the report as an HTML page for the owner of the VM into this file, which must not exist")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.parse(); err != nil {
			return err
		}
		f.Options.Apply, f.Namespace = f.apply, o.Cluster.NamespaceFlag()
		if f.apply {
			if err := o.readCluster(cmd.Context(), &f.Options); err != nil {
				return err
			}
		}
		doc, err := o.readDomain(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if args[0] == "-" && slices.Contains(slices.Concat(o.Files.Names, o.Files.Catalog), "-") {
			return errors.New("the XML and another file are '-': only one of them can be the standard input")
		}
		made, err := o.makeImport(cmd, doc, f.Options)
		if err != nil {
			return o.PrintRefusal(err)
		}
		var written []domainimport.Written
		if f.apply {
			if written, err = o.applyImport(cmd.Context(), made); err != nil {
				return err
			}
		}
		if f.report != "" {
			if err := importreport.WritePage(f.report, made.Report); err != nil {
				return err
			}
		}
		return o.printImport(made, written)
	}
	flags.StringSliceVarP(&o.Files.Names, "filename", "f", nil,
		"file or directory with the VM that another program made of the domain, and with objects to which it refers")
	flags.StringSliceVar(&o.Files.Catalog, "catalog", nil, "give the VM the instancetype and the preference with which it boots the same hardware; "+
		catalogsource.Usage+". With -f: file or directory with further instancetypes, preferences, presets and profiles")
	o.AddConfig(cmd)
	o.AddRegistry(cmd)
	o.AddOutput(cmd, "yaml", "yaml", "json", "table")
	o.Answers(cmd, "Import", domainimport.Answer{})
	return cmd
}

// makeImport makes a VM of the domain or, with -f, only the record of the VM that another program made of it.
func (o *importRun) makeImport(cmd *cobra.Command, doc *imported.Document, made domainimport.Options) (*domainimport.Import, error) {
	if !o.Files.Named() {
		o.Bench.Quiet = true
		if err := o.readCatalog(cmd.Context(), &made); err != nil {
			return nil, err
		}
		return domainimport.Make(cmd.Context(), &o.Bench, doc, made)
	}
	for _, flag := range []string{"name", "map", "size", "storage-class"} {
		if cmd.Flags().Changed(flag) {
			return nil, fmt.Errorf("--%s is for a VM that is made, and -f has one already", flag)
		}
	}
	all, err := o.ReviewArguments(cmd.Context(), nil)
	if err != nil {
		return nil, err
	}
	found, err := o.BootableGuests(all)
	switch {
	case err != nil:
		return nil, err
	case len(found) != 1:
		return nil, fmt.Errorf("-f must have one VM or VMI for the domain, not %d", len(found))
	}
	return domainimport.MakeRecord(cmd.Context(), &o.Bench, doc, found[0])
}

// readCatalog reads the catalog from which the instancetype and the preference of the VM are chosen; none without --catalog.
func (o *importRun) readCatalog(ctx context.Context, made *domainimport.Options) error {
	switch len(o.Files.Catalog) {
	case 0:
		return nil
	case 1:
	default:
		return fmt.Errorf("--catalog names %d catalogs: a VM can use one", len(o.Files.Catalog))
	}
	read, err := o.ReadCatalog(ctx, o.Files.Catalog[0])
	if err != nil {
		return fmt.Errorf("--catalog: %w", err)
	}
	for _, refused := range read.Refused {
		o.Warn(fmt.Sprintf("%s:%d: left out: %s", refused.File, refused.Line, refused.Message))
	}
	if len(read.Objects) == 0 {
		return fmt.Errorf("--catalog: no instancetype and no preference in %s", read.Source)
	}
	made.Catalog = &read
	made.RefusedByRuntime, err = catalogs.RefusedByRuntime(ctx, &o.Bench, read)
	return err
}

// fromLibvirt begins an argument that names a domain of libvirt itself. A file of this name is './libvirt:NAME'.
const fromLibvirt = "libvirt:"

// environmentURI is the variable with the address of libvirt that virsh and virt-install read, too.
const environmentURI = "LIBVIRT_DEFAULT_URI"

// readDomain reads the XML of a domain from libvirt, from a file, or from the standard input if the file is '-'.
func (o *importRun) readDomain(ctx context.Context, file string) (*imported.Document, error) {
	var raw []byte
	var err error
	name, named := strings.CutPrefix(file, fromLibvirt)
	switch {
	case named:
		var runs bool
		raw, runs, err = domainimport.ReadLibvirt(ctx, cmp.Or(os.Getenv(environmentURI), domainimport.SystemURI), name)
		if runs {
			o.Warn(fmt.Sprintf("domain '%s' runs: shut it down before its disks are copied", name))
		}
	case file == "-":
		raw, err = manifest.ReadBounded(manifest.StandardInput, o.In)
	default:
		raw, err = manifest.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	doc, err := imported.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return doc, nil
}

// printImport prints the objects or, after --apply, what was written, and the report on standard error. With -o table it prints the report, and with -o json
// all in one document.
func (o *importRun) printImport(made *domainimport.Import, written []domainimport.Written) error {
	o.Warn(made.Warnings...)
	switch {
	case o.Output == "json":
		answer, err := made.Answer()
		answer.Written = written
		return errors.Join(err, o.Print(answer))
	case written != nil:
		o.printWritten(written)
	case o.Output == "yaml":
		objects, err := made.Objects()
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := o.PrintManifest(object, ""); err != nil {
				return err
			}
		}
	}
	if o.Output == "yaml" {
		out := o.Out
		o.Out = cmdutil.Wrapped(o.ErrOut)
		defer func() { o.Out = out }()
	}
	return importreport.Print(&o.Printer, made.Report)
}
