//! One chart as SVG: lines or areas over time, with axes and round numbers at them.
//!
//! Our own small writer rather than a plotting library: the colours are classes, so that the page
//! decides them for light and dark, and not a byte depends on a font or a machine.

use std::fmt::Write;

use spillgate_core::time::Duration;

/// Size of the drawing in its own units; the page scales it.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 200.0;
/// Room for the numbers at the axes.
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 22.0;
const TOP: f64 = 8.0;
const RIGHT: f64 = 10.0;
/// Marks at an axis: about so many.
const MARKS: f64 = 4.0;

/// What a chart shows.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// The time between two values.
    pub(super) step: Duration,
    /// Where the time axis ends.
    pub(super) end: Duration,
    /// Where the other axis ends.
    pub(super) top: f64,
    /// What its numbers are followed by.
    pub(super) unit: &'static str,
    pub(super) curves: Vec<Curve>,
    /// Curves stand on each other, each an area.
    pub(super) stacked: bool,
}

/// One curve of a chart.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    /// Its class in the page, which says its colour.
    pub(super) class: String,
    pub(super) values: Vec<f64>,
    /// The area below it is filled.
    pub(super) area: bool,
}

impl Chart {
    /// The largest value, or sum of values where they are stacked.
    pub(super) fn largest(&self) -> f64 {
        let points = self.curves.iter().map(|curve| curve.values.len()).max().unwrap_or_default();
        let at = |point: usize| {
            let values = self.curves.iter().filter_map(|curve| curve.values.get(point).copied());
            if self.stacked { values.sum() } else { values.fold(0.0, f64::max) }
        };
        (0..points).map(at).fold(0.0, f64::max)
    }

    /// Write the drawing.
    pub(super) fn write(&self, page: &mut String, title: &str) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        put(
            page,
            format_args!(
                "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\" \
                 data-left=\"{LEFT}\" data-right=\"{right}\" data-width=\"{WIDTH}\">\n"
            ),
        );
        for mark in marks(self.top) {
            let y = self.y(mark);
            let text = short(mark);
            put(page, format_args!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>"));
            let (x, y) = (LEFT - 6.0, y + 3.5);
            put(page, format_args!("<text x=\"{x}\" y=\"{y:.1}\" class=\"end\">{text}</text>\n"));
        }
        let (unit, seconds) = time_unit(self.end);
        for mark in marks(self.end.as_secs_f64() / seconds) {
            let x = self.x(mark * seconds);
            let anchor = if x > right - 12.0 { "end" } else { "middle" };
            let text = if mark == 0.0 { "0".to_owned() } else { format!("{}{unit}", short(mark)) };
            put(page, format_args!("<text x=\"{x:.1}\" y=\"{}\" ", HEIGHT - 6.0));
            put(page, format_args!("class=\"{anchor}\">{text}</text>\n"));
        }
        let mut floor: Vec<f64> = Vec::new();
        for curve in &self.curves {
            self.write_curve(page, curve, &mut floor);
        }
        put(page, format_args!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\n"));
        put(page, format_args!("<path class=\"cursor\" d=\"M0 {TOP}V{bottom}\" hidden=\"\"/>"));
        page.push_str("</svg>\n");
    }

    fn write_curve(&self, page: &mut String, curve: &Curve, floor: &mut Vec<f64>) {
        floor.resize(floor.len().max(curve.values.len()), 0.0);
        let below = floor.clone();
        let tops: Vec<f64> = match self.stacked {
            true => curve.values.iter().zip(&below).map(|(value, below)| value + below).collect(),
            false => curve.values.clone(),
        };
        let mut line = String::new();
        for (point, top) in tops.iter().enumerate() {
            let letter = if point == 0 { 'M' } else { 'L' };
            put(&mut line, format_args!("{letter}{:.1} {:.1}", self.middle(point), self.y(*top)));
        }
        if tops.is_empty() {
            return;
        }
        if self.stacked || curve.area {
            let mut area = line.clone();
            for point in (0..tops.len()).rev() {
                let base = if self.stacked { below[point] } else { 0.0 };
                put(&mut area, format_args!("L{:.1} {:.1}", self.middle(point), self.y(base)));
            }
            put(page, format_args!("<path class=\"area {}\" d=\"{area}Z\"/>\n", curve.class));
        }
        put(page, format_args!("<path class=\"line {}\" d=\"{line}\"/>\n", curve.class));
        if self.stacked {
            floor[..tops.len()].copy_from_slice(&tops);
        }
    }

    fn middle(&self, point: usize) -> f64 {
        self.x(self.step.as_secs_f64() * (point as f64 + 0.5))
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (seconds / self.end.as_secs_f64()).min(1.0)
    }

    fn y(&self, value: f64) -> f64 {
        let room = HEIGHT - TOP - BOTTOM;
        TOP + room * (1.0 - (value / self.top.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0))
    }
}

/// Round numbers from zero to `top`: steps of one, two or five.
fn marks(top: f64) -> Vec<f64> {
    if top <= 0.0 {
        return vec![0.0];
    }
    let step = round_step(top / MARKS);
    let count = (top / step * (1.0 + 1e-9)).floor() as u32;
    (0..=count).map(|mark| f64::from(mark) * step).collect()
}

/// The smallest of one, two, five, ten … that is not below `step`.
fn round_step(step: f64) -> f64 {
    let mut ten = 1.0;
    while ten > step {
        ten /= 10.0;
    }
    while ten * 10.0 <= step {
        ten *= 10.0;
    }
    let fits = [1.0, 2.0, 5.0].into_iter().map(|one| one * ten).find(|one| *one >= step * 0.999);
    fits.unwrap_or(10.0 * ten)
}

/// The next round number above `largest`: where an axis may end.
pub(super) fn axis_end(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let step = round_step(largest / MARKS / 2.0);
    (largest / step).ceil() * step
}

/// The unit of a time axis, and its seconds.
fn time_unit(end: Duration) -> (&'static str, f64) {
    match end.as_secs() {
        0..=180 => (" s", 1.0),
        181..=10_800 => (" min", 60.0),
        _ => (" h", 3600.0),
    }
}

/// A number at an axis.
pub(super) fn short(number: f64) -> String {
    let text = |number: f64, unit: &str| {
        let digits = format!("{number:.2}");
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        format!("{digits}{unit}")
    };
    match number {
        1e6.. => text(number / 1e6, " M"),
        1e4.. => text(number / 1e3, " k"),
        _ => text(number, ""),
    }
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        let check = |top, expected: &[f64]| assert_eq!(marks(top), expected, "{top}");
        check(100.0, &[0.0, 50.0, 100.0]);
        check(4.0, &[0.0, 1.0, 2.0, 3.0, 4.0]);
        check(10.0, &[0.0, 5.0, 10.0]);
        check(0.0, &[0.0]);
        assert_eq!(axis_end(4182.0), 5000.0);
        assert_eq!(axis_end(0.0), 1.0);
        assert_eq!(short(12_500.0), "12.5 k");
        assert_eq!(short(0.2), "0.2");
    }

    #[test]
    fn stacked_curves_stand_on_each_other() {
        let curve = |values: &[f64]| Curve {
            name: String::new(),
            class: "a".to_owned(),
            values: values.to_vec(),
            area: false,
        };
        let second = Duration::from_secs(1);
        let curves = vec![curve(&[1.0, 2.0]), curve(&[3.0, 1.0])];
        let (step, end) = (second, 2 * second);
        let mut chart = Chart { step, end, top: 4.0, unit: "", curves, stacked: true };
        assert_eq!(chart.largest(), 4.0);
        let mut page = String::new();
        chart.write(&mut page, "x");
        assert!(page.contains("d=\"M150.5 8.0L363.5 50.5\""), "{page}");
        chart.stacked = false;
        assert_eq!(chart.largest(), 3.0);
    }
}
