package cli

import (
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
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// importRun is a run of 'import'.
type importRun struct {
	cmdutil.Inputs
	catalogsource.Reader
}

// importFlags are the flags of one call. maps and sizes are as the user wrote them.
type importFlags struct {
	domainimport.Options
	maps, sizes []string
	// report is the file of the HTML page; empty for none.
	report string
}

// importCommand returns 'import'.
// The exit status is 1 if admission refuses the VM, 2 if the domain cannot be read, and 0 otherwise, whatever the guest loses: the report says it.
func importCommand(s *cmdutil.Session) *cobra.Command {
	o := &importRun{cmdutil.NewInputs(s), catalogsource.New(s)}
	cmd := &cobra.Command{
		Use:   "import XML|-",
		Short: "Make a VM of a libvirt domain, and keep its hardware",
		Long: "Make a VirtualMachine of the XML of a libvirt domain of any program, such as virt-install, and the GuestHardware with which it\n" +
			"keeps its UUID, MACs, models and the addresses of its devices. The report names each element of the domain: what is kept,\n" +
			"what takes the place of something of the host, and what the guest will miss. The VM is halted: fill its claims first. With -f,\n" +
			"another program has made the VM, such as virt-v2v or Forklift: only the GuestHardware of that VM is printed.",
		Example: "  virsh dumpxml web | kubectl kiln import - --report web.html > web.yaml\n" +
			"  kubectl kiln import web.xml --map network=br0=vlan7 --size vda=20Gi -n shop\n" +
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
	flags.StringVar(&f.report, "report", "", "also write the report as an HTML page for the owner of the VM into this file, which must not exist")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.parse(); err != nil {
			return err
		}
		f.Namespace = o.Cluster.NamespaceFlag()
		doc, err := o.readDomain(args[0])
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
		if f.report != "" {
			if err := importreport.WritePage(f.report, made.Report); err != nil {
				return err
			}
		}
		return o.printImport(made)
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

// parse reads --map and --size, and checks --report before anything is made.
func (f *importFlags) parse() error {
	if _, err := os.Lstat(f.report); f.report != "" && err == nil {
		return importreport.FileExists(f.report)
	}
	f.Networks, f.Claims, f.Sizes = map[string]string{}, map[string]string{}, map[string]resource.Quantity{}
	for _, text := range f.maps {
		kind, rest, _ := strings.Cut(text, "=")
		at := strings.LastIndexByte(rest, '=')
		if at < 1 || at == len(rest)-1 || kind != "network" && kind != "claim" {
			return fmt.Errorf("--map '%s': must be network=SOURCE=NAD, network=SOURCE=pod or claim=DISK=PVC", text)
		}
		from, to := rest[:at], rest[at+1:]
		for part := range strings.SplitSeq(to, "/") {
			if problems := validation.IsDNS1123Subdomain(part); len(problems) > 0 {
				return fmt.Errorf("--map '%s': '%s' is no name of an object: %s", text, to, problems[0])
			}
		}
		if kind == "network" {
			f.Networks[from] = to
		} else {
			f.Claims[from] = to
		}
	}
	for _, text := range f.sizes {
		disk, value, _ := strings.Cut(text, "=")
		size, err := resource.ParseQuantity(value)
		if disk == "" || err != nil || size.Sign() <= 0 {
			return fmt.Errorf("--size '%s': must be DISK=QUANTITY, such as vda=20Gi", text)
		}
		f.Sizes[disk] = size
	}
	return nil
}

// readDomain reads the XML of a domain from a file, or from the standard input if the file is '-'.
func (o *importRun) readDomain(file string) (*imported.Document, error) {
	var raw []byte
	var err error
	if file == "-" {
		raw, err = manifest.ReadBounded(manifest.StandardInput, o.In)
	} else {
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

// printImport prints the objects, and the report on standard error. With -o table it prints only the report, and with -o json both in one document.
func (o *importRun) printImport(made *domainimport.Import) error {
	o.Warn(made.Warnings...)
	switch o.Output {
	case "json":
		answer, err := made.Answer()
		return errors.Join(err, o.Print(answer))
	case "table":
		return importreport.Print(&o.Printer, made.Report)
	}
	objects, err := made.Objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := o.PrintManifest(object, ""); err != nil {
			return err
		}
	}
	out := o.Out
	o.Out = cmdutil.Wrapped(o.ErrOut)
	defer func() { o.Out = out }()
	return importreport.Print(&o.Printer, made.Report)
}
