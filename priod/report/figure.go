package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Curve is one line of a figure; X and Y have equal length and X ascends.
type Curve struct {
	Name string
	X, Y []float64
}

// Figure is a plot. With LogX, points at X <= 0 are left out.
type Figure struct {
	Title          string
	XLabel, YLabel string
	LogX           bool
	Times          bool // X is Unix seconds, shown as clock times of this machine's zone
	Points         bool // mark each point: few of them, each measured
	Scatter        bool // points alone, without lines
	Steps          bool // Y holds until the next X
	Beneath        bool // curves may coincide: earlier ones are wider, to be seen beneath later ones
	Curves         []Curve
	Bars           []Bar // instead of curves
}

// Bar is one value with a name.
type Bar struct {
	Name  string
	Value float64
}

// palette is Okabe and Ito's, which colour-blind readers can tell apart.
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {0, 0, 0, 255},
}

// SVG draws the figure.
func (f *Figure) SVG() (template.HTML, error) {
	p := plot.New()
	p.Title.Text = f.Title
	p.X.Label.Text, p.Y.Label.Text = f.XLabel, f.YLabel
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.ThumbnailWidth = true, true, vg.Points(18)
	legend.Padding = vg.Points(3)
	for _, style := range []*draw.TextStyle{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size = font.Length(13)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	shown := 0
	for i, c := range f.Curves {
		xys := f.points(c)
		if len(xys) == 0 {
			continue
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return "", fmt.Errorf("figure %q, curve %q: %w", f.Title, c.Name, err)
		}
		line.Color, line.Width = palette[i%len(palette)], vg.Points(1.6)
		line.Dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}}[i/len(palette)%3]
		if f.Beneath {
			line.Width += vg.Points(1.4 * float64(len(f.Curves)-1-i))
		}
		if f.Steps {
			line.StepStyle = plotter.PostStep
		}
		if !f.Scatter {
			p.Add(line)
		}
		if f.Points || f.Scatter {
			marks, err := plotter.NewScatter(xys)
			if err != nil {
				return "", fmt.Errorf("figure %q, curve %q: %w", f.Title, c.Name, err)
			}
			marks.Color, marks.Shape, marks.Radius = line.Color, draw.CircleGlyph{}, vg.Points(2.5)
			if f.Scatter {
				marks.Shape, marks.Radius = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.PlusGlyph{}, draw.BoxGlyph{}}[i%3], vg.Points(3.5)
				legend.Add(Safe(c.Name), marks)
			}
			p.Add(marks)
		}
		if !f.Scatter {
			legend.Add(Safe(c.Name), line)
		}
		shown++
	}
	if len(f.Bars) > 0 {
		if err := f.bars(p); err != nil {
			return "", err
		}
		shown++
	}
	if shown == 0 {
		return "", fmt.Errorf("figure %q has nothing to draw", f.Title)
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = distinctTicks{p.X.Tick.Marker}, distinctTicks{p.Y.Tick.Marker}
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		if p.X.Min == p.X.Max { // a log axis needs an extent
			p.X.Max *= 10
		}
	}
	if f.Times {
		p.X.Tick.Marker = clockTicks{}
	}
	b, err := drawn(p, &legend)
	if err != nil {
		return "", err
	}
	if at := bytes.Index(b.Bytes(), []byte("<svg")); at > 0 {
		b.Next(at) // an XML prologue has no place inside a page
	}
	return template.HTML(b.String()), nil
}

// bars adds the figure's bars to the plot.
func (f *Figure) bars(p *plot.Plot) error {
	values, names := make(plotter.Values, len(f.Bars)), make([]string, len(f.Bars))
	for i, b := range f.Bars {
		values[i], names[i] = b.Value, Safe(b.Name)
	}
	bars, err := plotter.NewBarChart(values, vg.Points(min(30, 300/float64(len(f.Bars)))))
	if err != nil {
		return fmt.Errorf("figure %q: %w", f.Title, err)
	}
	bars.Color, bars.LineStyle.Width = palette[0], 0
	p.Add(bars)
	p.NominalX(names...)
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = 0.5, draw.XRight, draw.YTop
	p.Y.Min = min(0, p.Y.Min)
	return nil
}

// drawn is a plot with its legend below, so that it covers no curve.
func drawn(p *plot.Plot, legend *plot.Legend) (b bytes.Buffer, err error) {
	const width, height = 18 * vg.Centimeter, 10 * vg.Centimeter
	below := vg.Length(0)
	if size := legend.Rectangle(draw.New(vgsvg.New(width, height))).Size(); size.Y > 0 {
		below = size.Y + vg.Points(8)
	}
	canvas := vgsvg.New(width, height+below)
	whole := draw.New(canvas)
	p.Draw(draw.Crop(whole, 0, 0, below, 0))
	legend.Draw(draw.Crop(whole, vg.Points(8), 0, 0, -height))
	_, err = canvas.WriteTo(&b)
	return b, err
}

// distinctTicks are those of another ticker, with as many digits as tell them apart; names stay.
type distinctTicks struct{ plot.Ticker }

// Ticks are between min and max.
func (d distinctTicks) Ticks(min, max float64) []plot.Tick {
	ticks := d.Ticker.Ticks(min, max)
	for digits := range 7 {
		labels := map[string]float64{}
		same := false
		for _, t := range ticks {
			if _, err := strconv.ParseFloat(t.Label, 64); err != nil {
				if t.Label != "" {
					return ticks
				}
				continue
			}
			label := strconv.FormatFloat(t.Value, 'f', digits, 64)
			_, twice := labels[label]
			was, _ := strconv.ParseFloat(label, 64)
			same = same || twice || math.Abs(was-t.Value) > 1e-6*(max-min)
			labels[label] = t.Value
		}
		if same {
			continue
		}
		for i, t := range ticks {
			if t.Label != "" {
				ticks[i].Label = strconv.FormatFloat(t.Value, 'f', digits, 64)
			}
		}
		break
	}
	return ticks
}

// clockTicks marks whole hours, or whole days, of this machine's zone: ten at most.
type clockTicks struct{}

// Ticks has min and max in Unix seconds.
func (clockTicks) Ticks(min, max float64) (ticks []plot.Tick) {
	hours := 168
	for _, few := range []int{1, 2, 3, 6, 12, 24, 48} {
		if (max-min)/3600 <= float64(10*few) {
			hours = few
			break
		}
	}
	format := "15:04"
	if hours >= 24 {
		format = "Jan 2"
	}
	first := time.Unix(int64(min), 0)
	for step := 0; ; step += hours {
		at := time.Date(first.Year(), first.Month(), first.Day(), step, 0, 0, 0, time.Local)
		switch value := float64(at.Unix()); {
		case value > max:
			return ticks
		case value >= min:
			ticks = append(ticks, plot.Tick{Value: value, Label: at.Format(format)})
		}
	}
}

func (f *Figure) points(c Curve) plotter.XYs {
	xys := make(plotter.XYs, 0, len(c.X))
	for i, x := range c.X {
		if !f.LogX || x > 0 {
			xys = append(xys, plotter.XY{X: x, Y: c.Y[i]})
		}
	}
	return xys
}
