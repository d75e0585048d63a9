package catalogcmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/catalogsource"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/table"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// chooseRun is a run of 'instancetypes' or 'preferences'.
type chooseRun struct{ catalogOptions }

// InstancetypesCommand returns 'instancetypes'. Unlike 'kubectl get', the command lists cluster-wide and namespaced instancetypes together, leaves out
// obsolete ones, and reports which ones meet the requirements of a preference.
// The exit status is 0, also for an empty list, and 2 if the catalog or the object of --for cannot be read.
func InstancetypesCommand(s *cmdutil.Session) *cobra.Command {
	o := &chooseRun{newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use:     "instancetypes",
		Aliases: []string{"instancetype"},
		Short:   "List the instancetypes that a new VM may use",
		Long: "List the instancetypes that a new VM may use: of the cluster and the namespace, or with -f of a folder or an OCI artifact.\n" +
			"Instancetypes that any node can run come first, and then instancetypes with features that only some nodes have, such as\n" +
			"dedicated CPUs and huge pages; both by class and size. With --runtime, column STARTS names those with which this runtime starts\n" +
			"no guest. The first column is a value for --instancetype of 'kubectl kiln create vm'.",
		Example: "  kubectl kiln instancetypes --for windows.11 --min-cpu 4\n" +
			"  kubectl kiln instancetypes -f catalog/ -l instancetype.kubevirt.io/class=general.purpose -o wide",
		Args: cobra.NoArgs,
	}
	memory := cmd.Flags().String("min-memory", "", "list instancetypes with at least this memory, such as 8Gi")
	w := o.addWish(cmd, "InstancetypeList", instancetype.Kinds, "list instancetypes that meet the requirements of this preference")
	cmd.Flags().Uint32Var(&w.CPUs, "min-cpu", 0, "list instancetypes with at least this number of vCPUs")
	cmd.Flags().IntVar(&w.GPUs, "gpus", 0, "list instancetypes with at least this number of GPUs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if *memory != "" {
			if w.Memory, err = resource.ParseQuantity(*memory); err != nil {
				return fmt.Errorf("--min-memory '%s': %s", *memory, validate.NoQuantity(*memory))
			}
			if w.Memory.CmpInt64(1<<20) < 0 { // a unit was forgotten
				return fmt.Errorf("--min-memory '%s' is %d bytes: write a unit such as Mi or Gi", *memory, w.Memory.Value())
			}
		}
		return o.printOffers(cmd.Context(), w, sizeColumns)
	}
	return cmd
}

// PreferencesCommand returns 'preferences'. The command reports which preferences an instancetype satisfies.
func PreferencesCommand(s *cmdutil.Session) *cobra.Command {
	o := &chooseRun{newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use:     "preferences",
		Aliases: []string{"preference"},
		Short:   "List the preferences that a new VM may use",
		Long: "List the preferences that a new VM may use, with their requirements: of the cluster and the namespace, or with -f of a folder\n" +
			"or an OCI artifact. The first column is a value for --preference of 'kubectl kiln create vm'.",
		Example: "  kubectl kiln preferences --for u1.small\n" +
			"  kubectl kiln preferences -l instancetype.kubevirt.io/os-type=windows -o json",
		Args: cobra.NoArgs,
	}
	w := o.addWish(cmd, "PreferenceList", instancetype.PreferenceKinds, "list preferences whose requirements this instancetype meets")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return o.printOffers(cmd.Context(), w, preferenceColumns) }
	return cmd
}

// wish has the flags of 'instancetypes' and 'preferences'. selector is the value of -l, and source the value of -f.
type wish struct {
	catalogs.Wish
	selector, source string
}

// addWish adds the flags that both commands have. list is the kind of the document of -o json. Their values are set when the command runs.
// -f has one value here, because a catalog has one source.
func (o *chooseRun) addWish(cmd *cobra.Command, list string, kinds instancetype.KindNames, about string) *wish {
	w := &wish{Wish: catalogs.Wish{Kinds: kinds}}
	flags := cmd.Flags()
	flags.StringVar(&w.For, "for", "", about)
	o.CompleteObjects(cmd, "for", kinds.Other())
	flags.StringVarP(&w.selector, "selector", "l", "", "list only objects with these labels, as in kubectl")
	flags.BoolVar(&w.All, "all", false, "list also objects that are obsolete or do not fit")
	flags.StringVarP(&w.source, "filename", "f", catalogsource.Cluster, catalogsource.Usage)
	o.addRuntime(cmd)
	o.AddRegistry(cmd)
	o.AddOutput(cmd, "table", "table", "wide", "name", "json", "yaml")
	o.Answers(cmd, list, []catalogs.Offer{})
	return w
}

// printOffers prints the offers that meet a wish. It leaves out objects that cannot be read, with a warning: a broken manifest must not
// hide all others. An empty list is not an error.
func (o *chooseRun) printOffers(ctx context.Context, w *wish, columns []column) (err error) {
	if w.Labels, err = labels.Parse(w.selector); err != nil {
		return fmt.Errorf("--selector '%s': %w", w.selector, err)
	}
	catalog, err := o.ReadCatalog(ctx, w.source)
	if err != nil {
		return err
	}
	for _, refused := range catalog.Refused {
		o.Warn(cmdutil.Printable(fmt.Sprintf("%s:%d: left out: %s", refused.File, refused.Line, refused.Message)))
	}
	if w.Refused, err = catalogs.RefusedByRuntime(ctx, &o.Bench, catalog); err != nil {
		return err
	}
	offers, err := catalog.Choose(w.Wish, time.Now())
	if err != nil {
		return fmt.Errorf("--for: %w", err)
	}
	if o.Output == "json" || o.Output == "yaml" {
		return o.Print(offers)
	}
	if len(offers) == 0 {
		fmt.Fprintln(o.ErrOut, "nothing in the catalog meets this; --all lists objects that do not fit, with the reason")
		return nil
	}
	if o.Output == "name" {
		var names []string
		for _, offer := range offers {
			names = append(names, offer.Flag())
		}
		return o.PrintNames(names)
	}
	if !slices.ContainsFunc(offers, isNotActive) {
		columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.head == lifecycle })
	}
	return o.printTable(columns, offers)
}

// isNotActive reports whether an offer has another lifecycle than most have.
func isNotActive(o catalogs.Offer) bool { return o.Lifecycle != v1alpha1.LifecycleActive }

// column is a column in a table of offers.
type column struct {
	// head is the title, in capitals as in kubectl get.
	head string
	// cell returns the text of an offer, which may be empty.
	cell func(catalogs.Offer) string
	// wide columns are printed only with -o wide.
	wide bool
}

// lifecycle is the title of a column that is printed only if a cell differs.
const lifecycle = "LIFECYCLE"

var (
	// NAME is a value for --instancetype or --preference of 'create vm'. It includes the kind of a namespaced object.
	sizeColumns = append([]column{
		{head: "NAME", cell: catalogs.Offer.Flag},
		{head: "CPU", cell: func(o catalogs.Offer) string { return fmt.Sprint(o.CPUs) }},
		{head: "MEMORY", cell: func(o catalogs.Offer) string { return o.Memory }},
		{head: "GPUS", cell: func(o catalogs.Offer) string { return fmt.Sprint(o.GPUs) }},
		{head: "FEATURES", cell: sizeFeatures},
		{head: "CLASS", cell: catalogs.Offer.Class},
	}, sharedColumns...)
	preferenceColumns = slices.Concat([]column{
		{head: "NAME", cell: catalogs.Offer.Flag},
		{head: "MIN-CPU", cell: requiredCPUs},
		{head: "MIN-MEMORY", cell: func(o catalogs.Offer) string { return o.Memory }},
		{head: "OS", cell: func(o catalogs.Offer) string { return o.Labels["instancetype.kubevirt.io/os-type"] }},
	}, sharedColumns, []column{
		{head: "FEATURES", cell: func(o catalogs.Offer) string { return strings.Join(o.Features, ", ") }, wide: true},
	})
	sharedColumns = []column{
		{head: lifecycle, cell: func(o catalogs.Offer) string { return o.Lifecycle }},
		{head: "USE-INSTEAD", cell: func(o catalogs.Offer) string { return o.ReplacedBy }},
		{head: "OBSOLETE-AFTER", cell: func(o catalogs.Offer) string { return o.ObsoleteAfter }, wide: true},
		{head: "ARCHITECTURES", cell: func(o catalogs.Offer) string { return strings.Join(o.Architectures, ",") }, wide: true},
	}
)

// sizeFeatures returns the features of an instancetype, and the number of its host devices, which have no column.
func sizeFeatures(o catalogs.Offer) string {
	features := o.Features
	if o.HostDevices > 0 {
		features = append(features[:len(features):len(features)], cmdutil.Counted(o.HostDevices, "host device"))
	}
	return strings.Join(features, ", ")
}

// requiredCPUs returns the number of vCPUs that a preference requires; empty if it requires none.
func requiredCPUs(o catalogs.Offer) string {
	if o.CPUs == 0 {
		return ""
	}
	return fmt.Sprint(o.CPUs)
}

// fits is the column that reports whether an offer fits the object of --for. It must be used only with --for. Without --all, all offers fit.
var fits = column{head: "FITS", cell: func(o catalogs.Offer) string {
	if *o.Fits {
		return "yes"
	}
	return "no: " + o.Misses
}}

// starts is the column that reports whether the runtime of --runtime starts guests with an offer. Without a refusal it is not printed.
var starts = column{head: "STARTS", cell: func(o catalogs.Offer) string {
	if o.Refused == "" {
		return "yes"
	}
	return "no: " + o.Refused
}}

// printTable prints offers. It leaves out columns in which all cells are empty, and prints '-' for other empty cells.
func (o *chooseRun) printTable(columns []column, offers []catalogs.Offer) error {
	if slices.ContainsFunc(offers, func(o catalogs.Offer) bool { return o.Fits != nil && !*o.Fits }) {
		// The capacity is cut, because columns is a variable of the package: append must not write into its array.
		columns = append(columns[:len(columns):len(columns)], fits)
	}
	if slices.ContainsFunc(offers, func(o catalogs.Offer) bool { return o.Refused != "" }) {
		columns = append(columns[:len(columns):len(columns)], starts)
	}
	var filled []table.Column
	rows := make([][]string, len(offers))
	for _, c := range columns {
		if !slices.ContainsFunc(offers, func(o catalogs.Offer) bool { return c.cell(o) != "" }) {
			continue
		}
		filled = append(filled, table.Column{Title: c.head, Wide: c.wide})
		for i, offer := range offers {
			rows[i] = append(rows[i], cmp.Or(c.cell(offer), "-"))
		}
	}
	return table.Print(&o.Printer, filled, rows)
}
