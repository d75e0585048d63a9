// Package table prints tables as 'kubectl get' does.
package table

import (
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
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

// Print prints rows below the titles of their columns, with the printer of 'kubectl get'. It prints nothing if there are no rows. It replaces control
// characters, because objects of tenants and of registries have the values.
func Print(o *cmdutil.Printer, columns []Column, rows [][]string) error {
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
			row.Cells = append(row.Cells, cmdutil.Printable(cell))
		}
		table.Rows = append(table.Rows, row)
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: o.Output == wide}).PrintObj(table, o.Out)
}
