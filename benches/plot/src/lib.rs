//! Line charts as SVG, for the figures of the documentation.

#![forbid(unsafe_code)]

use std::{fmt::Write, fs, io, path::Path};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 45.0;
const TOP: f64 = 50.0;
/// Room for the name of a line.
const NAME: f64 = 160.0;
const COLOURS: [&str; 6] = [
    "#b3541e", "#2b6cb0", "#2f855a", "#6b46c1", "#97266d", "#4a5568",
];

/// A named line; at most six have colours.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it shows.
    pub name: &'static str,
    /// Positions, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines over one horizontal axis. The vertical axis begins at zero.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What the vertical axis shows.
    pub title: &'static str,
    /// What the horizontal axis shows.
    pub across: &'static str,
    /// The lines.
    pub lines: Vec<Line>,
    /// Labelled values of the horizontal axis.
    pub marks: Vec<f64>,
    /// Whether the horizontal axis is logarithmic.
    pub is_logarithmic: bool,
}

impl Chart {
    /// Writes the chart to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, self.text())
    }

    fn text(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let most_x = points().map(|it| self.scaled(it.0)).fold(1.0, f64::max);
        let least_x = points().map(|it| self.scaled(it.0)).fold(most_x, f64::min);
        let most_y = points().map(|it| it.1).fold(0.001, f64::max);
        let x = |value: f64| {
            LEFT + (self.scaled(value) - least_x) / (most_x - least_x) * (WIDTH - LEFT - 20.0)
        };
        let y = |value: f64| HEIGHT - BOTTOM - value / most_y * (HEIGHT - BOTTOM - TOP);
        let (base, title) = (y(0.0), self.title);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"18\" font-size=\"13\">{title}</text>\n\
             <path d=\"M{LEFT} {TOP}V{base}H{}\" fill=\"none\" stroke=\"black\"/>\n",
            WIDTH - 20.0
        );
        // Writing to a string cannot fail.
        for part in [0.0, 0.5, 1.0] {
            let value = most_y * part;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.0}\" text-anchor=\"end\">{value:.2}</text>",
                LEFT - 6.0,
                y(value) + 4.0
            );
        }
        for value in &self.marks {
            let _ = writeln!(
                svg,
                "<text x=\"{:.0}\" y=\"{}\" text-anchor=\"middle\">{value}</text>",
                x(*value),
                base + 16.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            WIDTH / 2.0,
            HEIGHT - 8.0,
            self.across
        );
        let room = NAME.min((WIDTH - LEFT) / self.lines.len().max(1) as f64);
        for (number, (line, colour)) in self.lines.iter().zip(COLOURS).enumerate() {
            let path = line
                .points
                .iter()
                .map(|it| format!("{:.1},{:.1}", x(it.0), y(it.1)));
            let path: Vec<String> = path.collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
                 <text x=\"{}\" y=\"36\" fill=\"{colour}\">{}</text>",
                path.join(" "),
                LEFT + room * number as f64,
                line.name
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.is_logarithmic {
            value.log10()
        } else {
            value
        }
    }
}
