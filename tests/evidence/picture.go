package main

import (
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// drawn are the setups of the picture, with Okabe and Ito's colours and a dash of their own.
var drawn = []struct {
	setup setup
	name  string
	color color.RGBA
	dash  []vg.Length
	mark  draw.GlyphDrawer
}{
	{shipped, "Slurm as it ships", color.RGBA{213, 94, 0, 255}, []vg.Length{vg.Points(6), vg.Points(3)}, draw.SquareGlyph{}},
	{expert, "an expert's Slurm (QOS preemption)", color.RGBA{230, 159, 0, 255}, []vg.Length{vg.Points(2), vg.Points(2)}, draw.TriangleGlyph{}},
	{alone[0], "FitGpp alone", color.RGBA{204, 121, 167, 255}, []vg.Length{vg.Points(1), vg.Points(3)}, draw.CrossGlyph{}},
	{alone[1], "Gavel alone", color.RGBA{86, 180, 233, 255}, []vg.Length{vg.Points(8), vg.Points(2), vg.Points(2), vg.Points(2)}, draw.RingGlyph{}},
	{profile, "priod, profile \"balanced\"", color.RGBA{0, 114, 178, 255}, nil, draw.CircleGlyph{}},
}

// draw writes the picture: by load, mean completion of all jobs and the slowdown p95 of trials.
func (m *matrix) draw(path string) error {
	left, err := m.panel("All jobs: mean completion", "hours", false, func(f *figures) float64 { return f.MeanH })
	if err != nil {
		return err
	}
	right, err := m.panel("Trials: slowdown, 95th percentile (1 is ideal)", "times", true, func(f *figures) float64 { return f.TESlowdownP95 })
	if err != nil {
		return err
	}
	right.Legend = plot.NewLegend()
	canvas := vgimg.NewWith(vgimg.UseWH(24*vg.Centimeter, 9*vg.Centimeter), vgimg.UseDPI(110), vgimg.UseBackgroundColor(color.White))
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Points(14), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(10)}
	for i, c := range plot.Align([][]*plot.Plot{{left, right}}, tiles, draw.New(canvas))[0] {
		[]*plot.Plot{left, right}[i].Draw(c)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(f); err != nil {
		return err
	}
	return f.Close()
}

func (m *matrix) panel(title, unit string, log bool, of func(*figures) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "load, % of the cluster", unit
	for _, style := range []*draw.TextStyle{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant, style.Font.Size = "Sans", font.Length(9)
	}
	p.Title.TextStyle.Font.Size = font.Length(11)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	p.Legend.Top, p.Legend.Left, p.Legend.ThumbnailWidth, p.Legend.Padding = true, true, vg.Points(26), vg.Points(2)
	if p.Y.Min = 0; log {
		p.Y.Scale, p.Y.Tick.Marker, p.Y.Min = plot.LogScale{}, times{}, 1
	}
	var ticks []plot.Tick
	for _, load := range m.o.loads {
		ticks = append(ticks, plot.Tick{Value: 100 * load, Label: number(100 * load)})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	most := 0.0
	for _, d := range drawn {
		var points plotter.XYs
		for _, load := range m.o.loads {
			y := of(&m.cell(d.setup.name, load, "").mean)
			most = max(most, y)
			points = append(points, plotter.XY{X: 100 * load, Y: y})
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width, line.Dashes = d.color, vg.Points(1.8), d.dash
		marks.Color, marks.Shape, marks.Radius = d.color, d.mark, vg.Points(3)
		p.Add(line, marks)
		p.Legend.Add(d.name, line, marks)
	}
	if p.Y.Max = most * 1.05; log {
		p.Y.Max = math.Pow(10, math.Ceil(math.Log10(most)))
	}
	return p, nil
}

// times are the powers of ten, and two and five times these.
type times struct{}

// Ticks implements plot.Ticker.
func (times) Ticks(low, high float64) (all []plot.Tick) {
	for ten := 1.0; ten <= high; ten *= 10 {
		for _, n := range []float64{1, 2, 5} {
			if v := n * ten; v >= low && v <= high {
				all = append(all, plot.Tick{Value: v, Label: number(v)})
			}
		}
	}
	return all
}
