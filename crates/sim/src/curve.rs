//! How many clients come a second, as a function of the time: a base, steps, waves and spikes.
//!
//! Only sums, products and quotients, in an order that is written down: the functions of the
//! system's library may differ in the last digit from machine to machine, and a run must not.

use spillgate_core::time::{Duration, Instant};

/// A load that changes with the time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Curve {
    /// Arrivals a second where nothing else is said.
    pub(crate) base: f64,
    /// From this moment on this base, in order of time.
    pub(crate) steps: Vec<(Instant, f64)>,
    /// So many more and less, each this long from peak to peak; begins in the middle, rising.
    pub(crate) waves: Vec<(Duration, f64)>,
    /// So many more at this moment, and less the farther away: a bell of this width.
    pub(crate) spikes: Vec<(Instant, Duration, f64)>,
}

impl Curve {
    /// Arrivals a second at `now`; never below zero.
    pub(crate) fn rate(&self, now: Instant) -> f64 {
        let step = self.steps.iter().rev().find(|(from, _)| *from <= now);
        let mut rate = step.map_or(self.base, |(_, rate)| *rate);
        for (period, height) in &self.waves {
            let part = now.as_nanos() as f64 / period.as_nanos() as f64;
            rate += height * sine(part);
        }
        for (at, width, height) in &self.spikes {
            let far = now.since(*at).max(at.since(now));
            let widths = far.as_nanos() as f64 / width.as_nanos() as f64;
            rate += height * exp(-widths * widths);
        }
        rate.max(0.0)
    }
}

/// The sine of a part of a full turn.
fn sine(turns: f64) -> f64 {
    // Into the first quarter, where the series is short.
    let turn = turns - turns.floor();
    let (sign, half) = if turn < 0.5 { (1.0, turn) } else { (-1.0, turn - 0.5) };
    let quarter = if half <= 0.25 { half } else { 0.5 - half };
    let x = quarter * std::f64::consts::TAU;
    let (mut term, mut sum) = (x, x);
    for n in 1..12 {
        term *= -x * x / f64::from((2 * n) * (2 * n + 1));
        sum += term;
    }
    sign * sum
}

/// The exponential of a number that is not above zero.
fn exp(x: f64) -> f64 {
    if x < -60.0 {
        return 0.0;
    }
    // Halved until the series is short, then squared back.
    let small = x / 64.0;
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1..18 {
        term *= small / f64::from(n);
        sum += term;
    }
    (0..6).fold(sum, |power, _| power * power)
}

/// The natural logarithm of a number above 0 and not above 1.
pub(crate) fn ln(x: f64) -> f64 {
    let (mut mantissa, mut halvings) = (x, 0.0);
    while mantissa < 0.5 {
        mantissa *= 2.0;
        halvings += 1.0;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)); the argument is between -1/3 and 0.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut power, mut sum) = (ratio, ratio);
    for n in 1..18 {
        power *= ratio * ratio;
        sum += power / f64::from(2 * n + 1);
    }
    2.0 * sum - halvings * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(ours: f64, theirs: f64) {
        assert!((ours - theirs).abs() < 1e-12, "{ours} is not {theirs}");
    }

    #[test]
    fn the_functions_are_those_of_the_library() {
        for n in 0..1000 {
            let x = f64::from(n) / 250.0;
            close(sine(x), (x * std::f64::consts::TAU).sin());
            close(exp(-x), (-x).exp());
            let part = f64::from(n + 1) / 1000.0;
            close(ln(part), part.ln());
        }
        close(exp(-40.0), (-40f64).exp());
        close(ln(1e-9), (1e-9f64).ln());
    }

    #[test]
    fn parts_of_a_load_add_up() {
        let seconds = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let curve = Curve {
            base: 80.0,
            steps: vec![(seconds(10), 20.0)],
            waves: vec![(Duration::from_secs(40), 15.0)],
            spikes: vec![(seconds(30), Duration::from_secs(1), 100.0)],
        };
        close(curve.rate(seconds(0)), 80.0);
        close(curve.rate(seconds(10)), 35.0);
        close(curve.rate(seconds(30)), 105.0);
        let wave = 15.0 * (31.0 / 40.0 * std::f64::consts::TAU).sin();
        close(curve.rate(seconds(31)), 20.0 + wave + 100.0 * (-1f64).exp());
    }
}
