//! A line through measured costs: least squares with coefficients that are not negative.

use super::calibration::Line;
use super::label::Features;

/// Coefficients: base, entry, record, reply.
const UNKNOWNS: usize = 4;
/// Where inputs never differ in two features, their cost is split between these instead of left open.
const RIDGE: f64 = 1e-7;
/// Further samples of one point say nothing new.
const WEIGHT_MAX: f64 = 1_000.0;

/// A point is far above the line if it costs more than so many times as much, and this.
const FAR: f64 = 2.0;
const FAR_NS: f64 = 1_000.0;

/// Inputs with the same features.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) features: Features,
    pub(crate) mean_ns: f64,
    pub(crate) samples: usize,
}

impl Point {
    fn row(&self) -> [f64; UNKNOWNS] {
        let Features { entries, records, replies } = self.features;
        [1.0, f64::from(entries), f64::from(records), f64::from(replies)]
    }
}

/// The line that fits best those points that are not far above it: of a kind of input that was measured a few times, one may have
/// been interrupted.
pub(crate) fn line(points: &[Point]) -> Line {
    let mut kept = points.to_vec();
    loop {
        let line = through(&kept);
        let before = kept.len();
        kept.retain(|point| point.mean_ns <= FAR * line.cost_ns(point.features) + FAR_NS);
        if kept.len() == before {
            return line;
        }
    }
}

fn through(points: &[Point]) -> Line {
    let mut used = [true; UNKNOWNS];
    let solution = loop {
        let solution = solve(points, used);
        let least = (0..UNKNOWNS).min_by(|&a, &b| solution[a].total_cmp(&solution[b])).expect("there are some");
        if solution[least] >= 0.0 {
            break solution;
        }
        used[least] = false;
    };
    let [base_ns, entry_ns, record_ns, reply_ns] = solution.map(|ns| (ns * 10.0).round() / 10.0);
    Line { base_ns, entry_ns, record_ns, reply_ns, samples: points.iter().map(|point| point.samples as u64).sum() }
}

/// Solves the normal equations for the coefficients in use; the others are 0.
fn solve(points: &[Point], used: [bool; UNKNOWNS]) -> [f64; UNKNOWNS] {
    let mut a = [[0.0; UNKNOWNS]; UNKNOWNS];
    let mut b = [0.0; UNKNOWNS];
    for point in points {
        let weight = (point.samples as f64).min(WEIGHT_MAX);
        let row = point.row();
        for i in 0..UNKNOWNS {
            b[i] += weight * row[i] * point.mean_ns;
            for j in 0..UNKNOWNS {
                a[i][j] += weight * row[i] * row[j];
            }
        }
    }
    let trace: f64 = (0..UNKNOWNS).map(|i| a[i][i]).sum();
    for i in 0..UNKNOWNS {
        a[i][i] += RIDGE * trace;
        if !used[i] {
            (0..UNKNOWNS).for_each(|j| (a[i][j], a[j][i]) = (0.0, 0.0));
            (a[i][i], b[i]) = (1.0, 0.0);
        }
    }
    eliminate(a, b)
}

/// Gauss. The matrix is positive definite, so no pivot is 0.
fn eliminate(mut a: [[f64; UNKNOWNS]; UNKNOWNS], mut b: [f64; UNKNOWNS]) -> [f64; UNKNOWNS] {
    for i in 0..UNKNOWNS {
        for j in i + 1..UNKNOWNS {
            let factor = a[j][i] / a[i][i];
            let above = a[i];
            a[j].iter_mut().zip(above).skip(i).for_each(|(x, y)| *x -= factor * y);
            b[j] -= factor * b[i];
        }
    }
    for i in (0..UNKNOWNS).rev() {
        let known: f64 = (i + 1..UNKNOWNS).map(|j| a[i][j] * b[j]).sum();
        b[i] = (b[i] - known) / a[i][i];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(entries: u32, records: u32, replies: u32, mean_ns: f64) -> Point {
        Point { features: Features { entries, records, replies }, mean_ns, samples: 500 }
    }

    #[test]
    fn a_plane_is_found_again() {
        let cost = |e: u32, r: u32, p: u32| 100.0 + 50.0 * f64::from(e) + 300.0 * f64::from(r) + 70.0 * f64::from(p);
        let points: Vec<_> = [(0, 0, 0), (1, 1, 0), (64, 1, 0), (3, 0, 2), (0, 5, 1)]
            .map(|(e, r, p)| point(e, r, p, cost(e, r, p)))
            .into();
        let line = line(&points);
        assert!((line.base_ns - 100.0).abs() < 1.0 && (line.entry_ns - 50.0).abs() < 0.2, "{line:?}");
        assert!((line.record_ns - 300.0).abs() < 1.0 && (line.reply_ns - 70.0).abs() < 1.0, "{line:?}");
    }

    #[test]
    fn what_never_differs_is_not_lost_and_nothing_is_negative() {
        let one = line(&[point(0, 1, 1, 900.0)]);
        let cost = one.cost_ns(Features { entries: 0, records: 1, replies: 1 });
        assert!((cost - 900.0).abs() < 1.0, "{one:?}");
        let falls = line(&[point(0, 0, 0, 500.0), point(10, 0, 0, 400.0)]);
        assert!(falls.entry_ns == 0.0 && falls.base_ns > 400.0, "{falls:?}");
    }
}
