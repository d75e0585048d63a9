package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

var (
	blue   = color.RGBA{R: 0x3b, G: 0x76, B: 0xaf, A: 0xff}
	orange = color.RGBA{R: 0xd9, G: 0x7a, B: 0x2b, A: 0xff}
	black  = color.RGBA{A: 0xff}
	red    = color.RGBA{R: 0xb0, G: 0x20, B: 0x20, A: 0xff}
)

const (
	width, height = 16 * vg.Centimeter, 9 * vg.Centimeter
	barWidth      = 24
)

func newPlot(title, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text, p.Y.Min = title, y, 0
	p.Title.Padding, p.X.Padding = vg.Points(8), vg.Points(12)
	p.Legend.Top, p.Legend.Left, p.Legend.Padding, p.Legend.XOffs = true, true, vg.Points(3), vg.Points(10)
	p.BackgroundColor = color.White
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	p.Add(grid)
	return p
}

// nameBars names the places on the X axis, and leaves room for the legend above the bars.
func nameBars(p *plot.Plot, titles []string, path string) error {
	p.NominalX(titles...)
	p.X.Min, p.X.Max = -0.6, float64(len(titles))-0.4
	p.Y.Max *= 1.4
	return p.Save(width, height, path)
}

// group is a set of bars of one colour.
type group struct {
	title  string
	values plotter.Values
	offset vg.Length
	color  color.Color
}

func addBars(p *plot.Plot, groups ...group) error {
	for _, g := range groups {
		bars, err := plotter.NewBarChart(g.values, vg.Points(barWidth))
		if err != nil {
			return err
		}
		bars.Offset, bars.Color, bars.LineStyle.Width = g.offset, g.color, 0
		p.Add(bars)
		if g.title != "" {
			p.Legend.Add(g.title, bars)
		}
	}
	return nil
}

// addLine adds a dashed line.
func addLine(p *plot.Plot, points plotter.XYs, of color.Color) (*plotter.Line, error) {
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.Color, line.Dashes = of, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(line)
	return line, nil
}

// variantsWithRuns returns the variants that have runs.
func variantsWithRuns(runs map[string][]Run) (found []variant) {
	for _, v := range variants {
		if len(runs[v.name]) > 0 {
			found = append(found, v)
		}
	}
	return found
}

// drawCreates draws the median of each variant as a bar, and each run as a point.
func drawCreates(r Results, path string) error {
	p := newPlot(fmt.Sprintf("Creates of Halted VMs, %d clients", r.Options.Clients), "creates a second")
	var medians plotter.Values
	var titles []string
	var points plotter.XYs
	for i, v := range variantsWithRuns(r.Creates) {
		medians, titles = append(medians, medianOfRuns(r.Creates[v.name], perSecond)), append(titles, v.short)
		for _, run := range r.Creates[v.name] {
			points = append(points, plotter.XY{X: float64(i), Y: run.PerSecond})
		}
	}
	if len(medians) == 0 {
		return nil
	}
	if err := addBars(p, group{title: "median", values: medians, color: blue}); err != nil {
		return err
	}
	runs, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	runs.Color, runs.Radius = black, vg.Points(2)
	p.Add(runs)
	p.Legend.Add("a run", runs)
	return nameBars(p, titles, path)
}

// drawLatency draws p50 and p99 of the same runs.
func drawLatency(r Results, path string) error {
	p := newPlot(fmt.Sprintf("Latency of creates, %d clients", r.Options.Clients), "milliseconds")
	var half, nearly plotter.Values
	var titles []string
	for _, v := range variantsWithRuns(r.Creates) {
		half, nearly = append(half, medianOfRuns(r.Creates[v.name], p50)), append(nearly, medianOfRuns(r.Creates[v.name], p99))
		titles = append(titles, v.short)
	}
	if len(half) == 0 {
		return nil
	}
	if err := addBars(p, group{"p50", half, -vg.Points(barWidth / 2), blue}, group{"p99", nearly, vg.Points(barWidth / 2), orange}); err != nil {
		return err
	}
	return nameBars(p, titles, path)
}

// drawMemory draws the peaks at each size beside their limits at the largest one.
func drawMemory(r Results, path string) error {
	p := newPlot("Peak of memory (VmHWM), start and relists included", "MB")
	var webhook, controller plotter.Values
	var titles []string
	for _, at := range r.Memory {
		webhook, controller = append(webhook, inMegabytes(at.Webhook.Peak)), append(controller, inMegabytes(at.Controller.Peak))
		titles = append(titles, fmt.Sprintf("%d VMs, %d VMIs", at.VMs, at.VMIs))
	}
	if len(webhook) == 0 {
		return nil
	}
	if err := addBars(p, group{"webhook", webhook, -vg.Points(barWidth / 2), blue}, group{"controller", controller, vg.Points(barWidth / 2), orange}); err != nil {
		return err
	}
	for _, limit := range []struct {
		title string
		at    float64
		color color.Color
	}{{"bound of a webhook, 80 MB", 80, blue}, {"bound of the controller, 250 MB", 250, red}} {
		line, err := addLine(p, plotter.XYs{{X: -0.5, Y: limit.at}, {X: float64(len(titles)) - 0.5, Y: limit.at}}, limit.color)
		if err != nil {
			return err
		}
		p.Legend.Add(limit.title, line)
	}
	return nameBars(p, titles, path)
}
