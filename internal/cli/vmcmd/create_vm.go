package vmcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/catalogsource"
	"github.com/kilnvm/kiln/internal/create"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// vmFlags has the flags of 'create vm'. create.VM has the flags that need no conversion.
// inferInstancetype and inferPreference are true by default; create.VM gets them only if the user gave the flag. source is the value of --filename.
type vmFlags struct {
	create.VM
	inferInstancetype, inferPreference bool
	passwordFile, fit, source          string
	*manifestFlags
}

// createVMCommand returns 'create vm'. Its flags are virtctl's, except --fit, --filename and --apply. As in virtctl, two groups of flags exclude each other;
// --fit is in the group of --instancetype, because it chooses the instancetype. The default of --infer-instancetype excludes nothing, because cobra only checks
// whether a flag was given.
func createVMCommand(s *cmdutil.Session) *cobra.Command {
	o := newCreateRun(s)
	f := &vmFlags{}
	cmd := &cobra.Command{
		Use:   "vm",
		Short: "Create the manifest of a VM",
		Long: "Create the manifest of a VM. Volumes boot in this order, unless bootorder says otherwise: containerdisks, PVCs, imports.\n" +
			"Values of volumes are NAME:VALUE, with commas between them. If the first volume allows it, instancetype and preference are\n" +
			"inferred from it. With -f the VM is judged with that catalog, as admission would, before it is printed.",
		Example: "  kubectl kiln create vm --name web --instancetype u1.small --preference fedora --volume-import type:ds,src:images/fedora\n" +
			"  kubectl kiln create vm --fit cpu=4,memory=8Gi --volume-containerdisk src:registry.example/disks/fedora --user me --ssh-key \"$(cat key.pub)\"\n" +
			"  kubectl kiln create vm --memory 1Gi --volume-pvc src:disk --apply -n shop",
		Args: cobra.NoArgs,
	}
	f.manifestFlags = o.addManifestFlags(cmd)
	flags := cmd.Flags()
	flags.SortFlags = false
	f.addMachine(flags)
	f.addVolumes(flags)
	f.addGuest(flags)
	o.AddRegistry(cmd)
	cmd.MarkFlagsMutuallyExclusive("fit", "memory", "instancetype", "infer-instancetype", "infer-instancetype-from")
	cmd.MarkFlagsMutuallyExclusive("preference", "infer-preference", "infer-preference-from")
	cmdutil.CompleteValues(cmd, "run-strategy", "Always", "Manual", "Halted", "Once", "RerunOnFailure")
	s.CompleteObjects(cmd, "instancetype", instancetype.Kinds)
	s.CompleteObjects(cmd, "preference", instancetype.PreferenceKinds)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return o.createVM(cmd, f) }
	return cmd
}

// addMachine adds the flags of run strategy, memory, instancetype and preference, with virtctl's defaults. The help shows all flags in the order in which they
// are added.
func (f *vmFlags) addMachine(flags *pflag.FlagSet) {
	flags.StringVar(&f.RunStrategy, "run-strategy", "Always", "runStrategy: Always, Manual, Halted, Once or RerunOnFailure")
	flags.Int64Var(&f.TerminationGracePeriod, "termination-grace-period", 180, "terminationGracePeriodSeconds")
	flags.StringVar(&f.Memory, "memory", "", "memory of a VM without instancetype; default 512Mi")
	flags.StringVar(&f.Instancetype.Name, "instancetype", "", "instancetype as NAME or KIND/NAME")
	flags.StringVar(&f.fit, "fit", "", "choose the smallest instancetype that fits cpu=N,memory=QUANTITY,gpus=N and the preference")
	flags.StringVarP(&f.source, "filename", "f", catalogsource.Cluster, catalogsource.Usage)
	flags.BoolVar(&f.inferInstancetype, "infer-instancetype", true, "infer the instancetype from the first volume that boots, and fail if that is not possible")
	flags.StringVar(&f.Instancetype.From, "infer-instancetype-from", "", "volume to infer the instancetype from")
	flags.StringVar(&f.Preference.Name, "preference", "", "preference as NAME or KIND/NAME")
	flags.BoolVar(&f.inferPreference, "infer-preference", true, "infer the preference from the first volume that boots, and fail if that is not possible")
	flags.StringVar(&f.Preference.From, "infer-preference-from", "", "volume to infer the preference from")
}

// addVolumes adds the flags of volumes. They are arrays, not slices, because a comma separates the parts of one value.
// The last three are deprecated in virtctl, too. Build warns about them.
func (f *vmFlags) addVolumes(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.VolumeContainerdisk, "volume-containerdisk", nil, "containerdisk: src, name, bootorder")
	flags.StringArrayVar(&f.VolumePVC, "volume-pvc", nil, "PVC of the VM's namespace: src, name, bootorder")
	flags.StringArrayVar(&f.VolumeImport, "volume-import", nil,
		"data volume: type, size, name, bootorder, and src for type ds, pvc or snapshot; url and CDI's other names for gcs, http, imageio, registry,\n"+
			"s3 or vddk; nothing else for blank")
	flags.StringVar(&f.VolumeSysprep, "volume-sysprep", "", "sysprep volume: src, type (configmap or secret)")
	flags.StringArrayVar(&f.VolumeDatasource, "volume-datasource", nil, "deprecated: --volume-import type:ds")
	flags.StringArrayVar(&f.VolumeClonePVC, "volume-clone-pvc", nil, "deprecated: --volume-import type:pvc")
	flags.StringArrayVar(&f.VolumeBlank, "volume-blank", nil, "deprecated: --volume-import type:blank")
}

// addGuest adds the flags of cloud-init and of access credentials. The password is read from a file, because others could read a flag in the list of processes.
func (f *vmFlags) addGuest(flags *pflag.FlagSet) {
	flags.StringVar(&f.User, "user", "", "user of cloud-init")
	flags.StringVar(&f.passwordFile, "password-file", "", "file with the password of cloud-init's user; the VM contains the password")
	flags.StringSliceVar(&f.SSHKeys, "ssh-key", nil, "SSH public key of cloud-init's user; may be given several times")
	flags.BoolVar(&f.GAManageSSH, "ga-manage-ssh", false, "let the guest agent write SSH keys, which SELinux forbids otherwise")
	flags.StringArrayVar(&f.AccessCred, "access-cred", nil, "access credential: src (a Secret), type (ssh or password), method (ga, nocloud or configdrive), user")
	flags.StringVar(&f.CloudInit, "cloud-init", "nocloud", "data source of cloud-init: nocloud, configdrive or none")
	flags.StringVar(&f.CloudInitUserData, "cloud-init-user-data", "", "user data of cloud-init in base64")
	flags.StringVar(&f.CloudInitNetwork, "cloud-init-network-data", "", "network data of cloud-init in base64")
}

// createVM makes the manifest, judges it if the user named a catalog, and prints or applies it. Without --fit and -f it reads no catalog, and needs no
// cluster. It warns about deprecated flags, flags without effect, and a password in the VM. A VM that is refused is
// neither printed nor applied.
func (o *createRun) createVM(cmd *cobra.Command, f *vmFlags) error {
	flags := cmd.Flags()
	f.Name, f.Namespace = f.nameOrRandom("vm"), o.namespaceFlag()
	f.GAManageSSHGiven, f.CloudInitChanged = flags.Changed("ga-manage-ssh"), flags.Changed("cloud-init")
	// Inference is on by default. If a volume does not allow it, this is an error only if the user gave the flag.
	if flags.Changed("infer-instancetype") {
		f.Instancetype.Infer = &f.inferInstancetype
	}
	if flags.Changed("infer-preference") {
		f.Preference.Infer = &f.inferPreference
	}
	if f.passwordFile != "" {
		password, err := manifest.ReadFile(f.passwordFile)
		if err != nil {
			return fmt.Errorf("--password-file: %w", err)
		}
		f.Password = strings.TrimSpace(string(password)) // editors end a file with a newline
	}
	var catalog *catalogs.Catalog
	if f.fit != "" || flags.Changed("filename") {
		read, err := o.ReadCatalog(cmd.Context(), f.source)
		if err != nil {
			return err
		}
		catalog = &read
	}
	if f.fit != "" {
		if err := f.chooseInstancetype(*catalog); err != nil {
			return fmt.Errorf("--fit '%s': %w", f.fit, err)
		}
	}
	vm, warnings, err := f.Build()
	if err != nil {
		return err
	}
	o.Warn(warnings...)
	if err := o.judgeWithCatalog(cmd.Context(), catalog, vm); err != nil {
		return err
	}
	return o.printOrApply(cmd.Context(), f.manifestFlags, vm)
}

// judgeWithCatalog reviews a VM with the objects of a catalog, as with --strict. It does nothing if the catalog is nil.
// If the VM has no namespace, it judges a copy with the namespace of the kubeconfig, so that the printed manifest has none.
func (o *createRun) judgeWithCatalog(ctx context.Context, catalog *catalogs.Catalog, vm *v1.VirtualMachine) error {
	if catalog == nil {
		return nil
	}
	object, err := manifest.OfTyped(vm)
	if err != nil {
		return err
	}
	if object.GetNamespace() == "" {
		object.SetNamespace("default")
		if namespace, err := o.Cluster.Namespace(); err == nil { // a catalog of files needs no kubeconfig
			object.SetNamespace(namespace)
		}
	}
	in, err := catalog.ReviewInputs(object)
	if err != nil {
		return err
	}
	o.Bench.Strict = vm.Spec.Instancetype == nil || vm.Spec.Instancetype.InferFromVolume == "" // the catalog does not have the volumes of an inference
	all, err := o.ReviewInputs(ctx, in, nil)
	if err != nil {
		return err
	}
	for _, r := range all {
		switch {
		case r.Fault != nil:
			return r.Fault
		case !r.Verdict.Allowed():
			return o.PrintRejectedObject(r, "")
		}
		o.WarnOf(r)
	}
	return nil
}

// chooseInstancetype sets the instancetype to the one that fits --fit and the preference best (catalogs.Catalog.Nearest). It fails if --fit cannot be parsed,
// the preference does not exist, or no instancetype fits.
func (f *vmFlags) chooseInstancetype(catalog catalogs.Catalog) error {
	w := catalogs.Wish{Kinds: instancetype.Kinds, For: f.Preference.Name}
	for part := range strings.SplitSeq(f.fit, ",") {
		name, value, _ := strings.Cut(part, "=")
		var err error
		switch name {
		case "cpu":
			var n uint64
			n, err = strconv.ParseUint(value, 10, 32)
			w.CPUs = uint32(n)
		case "memory":
			if w.Memory, err = resource.ParseQuantity(value); err != nil {
				err = errors.New(validate.NoQuantity(value))
			}
		case "gpus":
			w.GPUs, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("'%s' must be 'cpu', 'memory' or 'gpus'", name)
		}
		if err != nil {
			return err
		}
	}
	offer, err := catalog.Nearest(w, time.Now())
	f.Instancetype.Name = offer.Flag()
	return err
}
