package cmdutil

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	kubevirt "kubevirt.io/api/core/v1"
)

// wide is the format of -o in which tables have all columns.
const wide = "wide"

// Column is a column of a table. A Wide column is printed only with -o wide.
type Column struct {
	Title string
	Wide  bool
}

// Columns returns columns with these titles.
func Columns(titles ...string) (columns []Column) {
	for _, title := range titles {
		columns = append(columns, Column{Title: title})
	}
	return columns
}

// WideColumns returns columns with these titles, which are printed only with -o wide.
func WideColumns(titles ...string) (columns []Column) {
	for _, title := range titles {
		columns = append(columns, Column{title, true})
	}
	return columns
}

// PrintTable prints rows below the titles of their columns, with the printer of 'kubectl get'. It prints nothing if there are no rows. It replaces control
// characters, because objects of tenants and of registries have the values.
func (o *Printer) PrintTable(columns []Column, rows [][]string) error {
	table := &metav1.Table{}
	for _, c := range columns {
		definition := metav1.TableColumnDefinition{Name: c.Title, Type: "string"}
		if c.Wide {
			definition.Priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, definition)
	}
	for _, cells := range rows {
		row := metav1.TableRow{}
		for _, cell := range cells {
			row.Cells = append(row.Cells, Printable(cell))
		}
		table.Rows = append(table.Rows, row)
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: o.Output == wide}).PrintObj(table, o.Out)
}

// PrintNames prints a name in each line, for -o name.
func (o *Printer) PrintNames(names []string) error {
	for _, name := range names {
		if _, err := fmt.Fprintln(o.Out, Printable(name)); err != nil {
			return err
		}
	}
	return nil
}

// ResourceName returns KIND.GROUP/NAME of an object that Kiln judges, as 'kubectl get -o name' prints it.
func ResourceName(kind, name string) string {
	group := kubevirt.SchemeGroupVersion.Group
	for _, kinds := range []instancetype.KindNames{instancetype.Kinds, instancetype.PreferenceKinds} {
		if kinds.Canonical(kind) != "" {
			group = "instancetype.kubevirt.io"
		}
	}
	return strings.ToLower(kind) + "." + group + "/" + name
}
