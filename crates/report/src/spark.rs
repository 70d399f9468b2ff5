//! Sparklines.

/// Values that differ by less, relatively, read alike in four figures.
const EQUAL: f64 = 1e-3;
/// The least share of the values from the lowest to the highest bar: what differs by less is drawn
/// around the middle, since noise must not look like a change.
const LEAST: f64 = 0.05;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The values in their order, at most `width` of them (else means of stretches), from the lowest
/// to the highest bar. Empty for fewer than two finite values.
pub(crate) fn line(values: &[f64], width: usize) -> String {
    let values: Vec<Option<f64>> = values.iter().map(|it| Some(*it)).filter(is_finite).collect();
    if values.len() < 2 || width < 2 { String::new() } else { bars(&values, width, LEAST, |it| it) }
}

/// The newest values, with their own least share from the lowest to the highest bar.
pub(crate) fn trend(values: &[f64], least: f64, width: usize) -> String {
    let newest = values[values.len().saturating_sub(width)..].iter().map(|it| Some(*it));
    let newest: Vec<Option<f64>> = newest.filter(is_finite).collect();
    if newest.len() < 2 { String::new() } else { bars(&newest, width, least, |it| it) }
}

/// Drawn in place of a point without a number.
pub(crate) const NO_NUMBER: char = '?';

/// The points of a curve in their order, on a logarithmic scale if all are positive, so that small
/// steps stay visible beside a high plateau. At most `width` bars, else means of stretches; empty
/// without any number.
pub(crate) fn curve(values: &[Option<f64>], width: usize) -> String {
    let is_positive = values.iter().flatten().all(|value| *value > 0.0);
    // On a logarithmic scale a difference is a share.
    let share = if is_positive { f64::ln } else { |value: f64| value };
    bars(values, width, LEAST, share)
}

fn is_finite(value: &Option<f64>) -> bool {
    value.is_some_and(f64::is_finite)
}

fn bars(values: &[Option<f64>], width: usize, least: f64, scale: impl Fn(f64) -> f64) -> String {
    let count = values.len().min(width);
    let start = |i: usize| i * values.len() / count;
    let means: Vec<Option<f64>> = (0..count)
        .map(|i| {
            let stretch = values[start(i)..start(i + 1)].iter().copied().filter(is_finite);
            let heights: Vec<f64> = stretch.flatten().collect();
            (!heights.is_empty()).then(|| heights.iter().sum::<f64>() / heights.len() as f64)
        })
        .collect();
    let known = || means.iter().flatten().copied();
    if known().next().is_none() {
        return String::new();
    }
    let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::MIN, f64::max));
    let middle = f64::midpoint(low, high);
    let half = least * middle.abs() / 2.0;
    let (from, to) = match high - low {
        // What reads alike is drawn alike.
        span if span <= EQUAL * middle.abs() => (high, high),
        span if span < 2.0 * half => (middle - half, middle + half),
        _ => (low, high),
    };
    let height = |value: f64| scale(value) - scale(from);
    let draw = |mean: &Option<f64>| mean.map_or(NO_NUMBER, |it| bar(height(it), height(to)));
    means.iter().map(draw).collect()
}

/// How many values fall into each of `width` equal bins from the smallest to the 99th percentile;
/// the last bin includes larger values. A bin with any value never looks empty.
pub(crate) fn histogram(values: &[f64], width: usize) -> String {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if sorted.len() < 2 || width < 2 {
        return String::new();
    }
    sorted.sort_unstable_by(f64::total_cmp);
    let low = sorted[0];
    let span = sorted[(sorted.len() - 1) * 99 / 100] - low;
    let mut counts = vec![0u32; width];
    for value in &sorted {
        let step = if span > 0.0 { (value - low) / span * width as f64 } else { 0.0 };
        counts[(step as usize).min(width - 1)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    counts
        .iter()
        .map(|count| match count {
            0 => ' ',
            count => bar(f64::from(*count), f64::from(most)),
        })
        .collect()
}

fn bar(height: f64, highest: f64) -> char {
    if highest > 0.0 { BARS[((height / highest * 7.0).round() as usize).min(7)] } else { BARS[3] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_follows_its_values() {
        assert_eq!(line(&[1.0, 2.0, 3.0, 8.0], 8), "▁▂▃█");
        assert_eq!(line(&[2.0, 2.0, 2.0], 8), "▄▄▄");
        assert_eq!(line(&[1.0831, 1.0833, 1.0834], 8), "▄▄▄");
        // As in two runs: 0.3 % is no change.
        assert_eq!(line(&[189.5, 189.0], 8), "▅▄");
        assert_eq!(curve(&[189.5, 189.0].map(Some), 8), "▅▄");
        assert_eq!(line(&[2.0], 8), "");
        assert_eq!(line(&[1.0; 40], 9).chars().count(), 9);
    }

    #[test]
    fn trend_is_flat_within_a_few_percent() {
        assert_eq!(trend(&[100.0, 100.5, 100.2], 0.05, 8), "▄▅▄");
        assert_eq!(trend(&[100.0, 100.5, 120.0], 0.05, 8), "▁▁█");
        assert_eq!(trend(&[100.0, 120.0], 0.40, 8), "▃▆");
        assert_eq!(trend(&[100.0], 0.05, 8), "");
        assert_eq!(trend(&[1.0; 40], 0.05, 9).chars().count(), 9);
    }

    #[test]
    fn curve_is_logarithmic_and_marks_missing_numbers() {
        let values = [1.0, 1.0, 4.0, 16.0, 128.0].map(Some);
        assert_eq!(curve(&values, 8), "▁▁▃▅█");
        assert_eq!(curve(&[Some(1.0), None, Some(128.0)], 8), "▁?█");
        assert_eq!(curve(&[None, None], 8), "");
        assert_eq!(curve(&[Some(1.0); 100], 9).chars().count(), 9);
    }
}
