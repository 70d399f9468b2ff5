//! A distribution in one word of bars.

/// Bars from the lowest to the highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The values in their order, at most `width` of them (else means of stretches), from the lowest
/// to the highest bar. Nothing below two finite values: one has no spread.
pub(crate) fn line(values: &[f64], width: usize) -> String {
    let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if values.len() < 2 || width < 2 {
        return String::new();
    }
    let count = values.len().min(width);
    let start = |i: usize| i * values.len() / count;
    let heights: Vec<f64> = (0..count)
        .map(|i| {
            let stretch = &values[start(i)..start(i + 1)];
            stretch.iter().sum::<f64>() / stretch.len() as f64
        })
        .collect();
    let low = heights.iter().copied().fold(f64::INFINITY, f64::min);
    let high = heights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    heights.iter().map(|height| bar(height - low, high - low)).collect()
}

/// How many values fall into each of `width` equal steps from the smallest to the 99th percentile;
/// the last holds what lies beyond. A step that holds anything never looks empty.
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
    fn a_line_follows_its_values() {
        assert_eq!(line(&[1.0, 2.0, 3.0, 8.0], 8), "▁▂▃█");
        assert_eq!(line(&[2.0, 2.0, 2.0], 8), "▄▄▄");
        assert_eq!(line(&[2.0], 8), "");
        assert_eq!(line(&[1.0; 40], 9).chars().count(), 9);
    }

    #[test]
    fn a_histogram_shows_two_modes_and_leaves_the_gap_open() {
        let values: Vec<f64> = [1.0; 65].into_iter().chain([2.0; 35]).collect();
        assert_eq!(histogram(&values, 6), "█    ▅");
    }
}
