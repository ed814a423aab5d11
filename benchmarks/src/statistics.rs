//! Computes the statistics of a record from durations.

use std::time::{Duration, Instant};

use crate::record::Statistics;

/// Value at a percentile by nearest rank: the smallest value that at least `percent` of the sample do not exceed.
pub fn nearest_rank(sorted: &[f64], percent: f64) -> Option<f64> {
    let count = sorted.len() as f64;
    let rank = (percent / 100.0 * count).ceil().clamp(1.0, count.max(1.0)) as usize;
    sorted.get(rank - 1).copied()
}

/// Statistics of a sample in any unit; empty for an empty sample.
pub fn of(sample: &[f64]) -> Statistics {
    if sample.is_empty() {
        return Statistics::default();
    }
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / count;
    let spread = sorted
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>();
    let stddev = (count > 1.0).then(|| (spread / (count - 1.0)).sqrt());
    let half = stddev.map(|stddev| student(sorted.len()) * stddev / count.sqrt());
    Statistics {
        mean: Some(mean),
        p50: nearest_rank(&sorted, 50.0),
        p95: nearest_rank(&sorted, 95.0),
        p99: nearest_rank(&sorted, 99.0),
        min: sorted.first().copied(),
        max: sorted.last().copied(),
        stddev,
        ci95: half.map(|half| [mean - half, mean + half]),
        samples: Some(sorted.len() as u64),
        ..Statistics::default()
    }
}

/// Two-sided 95 % quantiles of Student's t for samples of two and more.
pub const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Two-sided 95 % quantile of Student's t for a sample of `count`.
pub fn student(count: usize) -> f64 {
    STUDENT
        .get(count.saturating_sub(2))
        .copied()
        .unwrap_or(1.96)
}

/// Measures each repetition of `work` in milliseconds, after discarded warm-ups. Uses the monotonic clock.
///
/// # Errors
/// The first error of `work`.
pub fn timed<T, E>(
    warmups: u64,
    repetitions: u64,
    mut work: impl FnMut() -> Result<T, E>,
) -> Result<Vec<f64>, E> {
    for _ in 0..warmups {
        std::hint::black_box(work()?);
    }
    (0..repetitions).map(|_| elapsed(&mut work)).collect()
}

/// Measures `work` in milliseconds, including the time to drop its result.
///
/// # Errors
/// The error of `work`.
pub fn elapsed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<f64, E> {
    let begun = Instant::now();
    std::hint::black_box(work()?);
    Ok(milliseconds(begun.elapsed()))
}

/// Collects the figures of `measure` for each contender in every round, after discarded warm-up rounds.
///
/// The contenders alternate, A B A B, so that a disturbance of the machine affects all of them.
///
/// # Errors
/// The first error of `measure`.
pub fn in_turns<C, E>(
    warmups: u64,
    repetitions: u64,
    contenders: &mut [C],
    mut measure: impl FnMut(&mut C) -> Result<f64, E>,
) -> Result<Vec<Vec<f64>>, E> {
    let mut samples = vec![Vec::new(); contenders.len()];
    for round in 0..warmups + repetitions {
        for (contender, sample) in contenders.iter_mut().zip(&mut samples) {
            let found = measure(contender)?;
            if round >= warmups {
                sample.push(found);
            }
        }
    }
    Ok(samples)
}

/// Milliseconds of a duration.
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Slope and intercept of the least-squares line, and the share of the variance that it explains (R²).
pub fn least_squares(points: &[(f64, f64)]) -> Option<(f64, f64, f64)> {
    let count = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for point in points {
        xx += (point.0 - x).powi(2);
        xy += (point.0 - x) * (point.1 - y);
        yy += (point.1 - y).powi(2);
    }
    (xx > 0.0).then(|| {
        let slope = xy / xx;
        (
            slope,
            y - slope * x,
            if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 },
        )
    })
}

/// Mean of the paired relative differences of `b` over `a` in per cent, and half its 95 % confidence interval.
pub fn paired(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let ratios: Vec<f64> = a
        .iter()
        .zip(b)
        .filter(|(a, _)| **a > 0.0)
        .map(|(a, b)| (b / a - 1.0) * 100.0)
        .collect();
    let statistics = of(&ratios);
    let [low, high] = statistics.ci95?;
    Some((statistics.mean?, (high - low) / 2.0))
}

/// Formats four significant digits; for a cosine just below 1, two significant digits of its distance to 1.
pub fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if !(1e-6..1e15).contains(&size) {
        return format!("{value:.3e}");
    }
    let digits = if (0.999..1.0).contains(&size) {
        1.0 - (1.0 - size).log10().floor()
    } else {
        3.0 - size.log10().floor()
    }
    .clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_members_of_the_sample() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        let table = [
            (0.0, 1.0),
            (1.0, 1.0),
            (50.0, 50.0),
            (50.1, 51.0),
            (95.0, 95.0),
            (99.0, 99.0),
            (100.0, 100.0),
        ];
        for (percent, value) in table {
            assert_eq!(nearest_rank(&sorted, percent), Some(value), "{percent}");
        }
        assert_eq!(nearest_rank(&[7.0], 99.0), Some(7.0));
        assert_eq!(nearest_rank(&[], 50.0), None);
    }

    #[test]
    fn statistics_of_a_known_sample() {
        let statistics = of(&[4.0, 2.0, 6.0]);
        assert_eq!(
            (statistics.mean, statistics.min, statistics.max),
            (Some(4.0), Some(2.0), Some(6.0))
        );
        assert_eq!(statistics.stddev, Some(2.0));
        let [low, high] = statistics.ci95.unwrap();
        assert!((high - low - 2.0 * 4.303 * 2.0 / 3f64.sqrt()).abs() < 1e-9);
        assert!(of(&[]).is_empty());
        assert_eq!(of(&[1.0]).stddev, None);
    }

    #[test]
    fn quantiles_are_those_of_the_page() {
        #[derive(serde::Deserialize)]
        struct Case {
            count: usize,
            quantile: f64,
        }
        #[derive(serde::Deserialize)]
        struct Cases {
            quantiles: Vec<Case>,
        }
        let cases: Cases = serde_json::from_str(include_str!("../tests/student.json")).unwrap();
        for Case { count, quantile } in cases.quantiles {
            assert_eq!(student(count), quantile, "{count}");
        }
    }

    #[test]
    fn the_published_fit_follows_from_the_published_points() {
        let points = [
            (32.0, 21.59),
            (63.0, 38.03),
            (128.0, 84.80),
            (256.0, 230.38),
        ];
        let (slope, intercept, explained) = least_squares(&points).unwrap();
        assert!(
            (slope - 0.949).abs() < 0.001 && (intercept + 19.91).abs() < 0.1,
            "{slope} {intercept}"
        );
        assert!(explained > 0.98);
        assert_eq!(least_squares(&[(1.0, 1.0)]), None);
    }

    #[test]
    fn contenders_alternate_and_warmups_are_discarded() {
        let mut order = Vec::new();
        let mut rounds = [("a", 0.0), ("b", 10.0)];
        let samples = in_turns(1, 2, &mut rounds, |(name, count)| {
            order.push(*name);
            *count += 1.0;
            Ok::<_, ()>(*count)
        });
        assert_eq!(samples, Ok(vec![vec![2.0, 3.0], vec![12.0, 13.0]]));
        assert_eq!(order, ["a", "b", "a", "b", "a", "b"]);
        let failed = in_turns(0, 2, &mut rounds, |(name, _)| Err::<f64, _>(*name));
        assert_eq!(failed, Err("a"));
    }

    #[test]
    fn paired_differences_cancel_shared_disturbances() {
        let a = [10.0, 20.0, 40.0];
        let (percent, half) = paired(&a, &a.map(|value| value * 1.1)).unwrap();
        assert!((percent - 10.0).abs() < 1e-9 && half < 1e-9);
    }

    #[test]
    fn numbers_keep_four_digits() {
        let table = [
            (78.547, "78.55"),
            (0.29834, "0.2983"),
            (7051.83, "7052"),
            (0.0, "0"),
            (12.6, "12.6"),
            (5.811e-7, "5.811e-7"),
            (0.99999, "0.99999"),
            (0.999_470_116, "0.99947"),
            (0.999_999_999_999_6, "1"),
            (1.0, "1"),
        ];
        for (value, text) in table {
            assert_eq!(short(value), text);
        }
    }
}
