//! Values with their units, formatted for people.
//!
//! All scaling happens here; stored and compared values are in base units. Times and rates scale by
//! powers of 1000, bytes by powers of 1024. Widths are in characters: each character written here
//! is one terminal column wide.

use std::ops::RangeInclusive;

use crate::Unit;

/// Significant figures of measured values.
const FIGURES: usize = 4;
/// Significant figures of predicted values, whose tolerance is far wider.
const FIGURES_PREDICTED: usize = 3;
/// Printed in place of a missing value.
pub const NOTHING: &str = "–";

/// A measured value in four significant figures, such as `165.2 ns`, `4.498 GHz` or `12.30 MiB/s`.
/// A size that is a whole number of its unit has no decimals: `32 KiB`. A value that is not finite
/// is `–`.
pub fn quantity(value: f64, unit: Unit) -> String {
    figures(value, unit, FIGURES)
}

/// A ratio in at most six columns: `1.097`, `12.35`, `142`, `2.1e6`.
pub fn short(ratio: f64) -> String {
    match ratio.abs() {
        size if !size.is_finite() => NOTHING.to_owned(),
        size if size >= 99_999.5 => format!("{ratio:.1e}"),
        size if size >= 99.995 => format!("{ratio:.0}"),
        size if size >= 9.999_5 => format!("{ratio:.2}"),
        size if size >= 0.000_5 || size == 0.0 => format!("{ratio:.3}"),
        _ => format!("{ratio:.0e}"),
    }
}

/// As [`quantity`], with as many significant figures as fit `width`: four at most, two at least.
pub fn quantity_within(value: f64, unit: Unit, width: usize) -> String {
    let write = |count| figures(value, unit, count);
    widest_fit(2..=FIGURES, write, |text| fits(text, width)).unwrap_or_else(|| write(2))
}

/// As [`quantity_within`], with no more figures than an uncertainty justifies: a share of the
/// value, such as half the width of its interval.
pub fn quantity_rounded(value: f64, share: f64, unit: Unit, width: usize) -> String {
    let most = match share {
        share if share >= 0.1 => 2,
        share if share >= 0.01 => 3,
        _ => FIGURES,
    };
    let value = rounded(value, most);
    let write = |count| figures(value, unit, count);
    widest_fit(2..=most, write, |text| fits(text, width)).unwrap_or_else(|| write(2))
}

/// The value in this many significant figures.
pub fn rounded(value: f64, count: usize) -> f64 {
    format!("{value:.*e}", count - 1).parse().unwrap_or(value)
}

/// The text with the most significant figures that is accepted.
fn widest_fit(
    counts: RangeInclusive<usize>,
    write: impl Fn(usize) -> String,
    accepts: impl Fn(&str) -> bool,
) -> Option<String> {
    counts.rev().map(write).find(|text| accepts(text))
}

fn fits(text: &str, width: usize) -> bool {
    text.chars().count() <= width
}

/// No bound on a time is shown to be less than a picosecond.
const LEAST_NS: f64 = 1e-3;

/// An upper bound, such as `≤ 0.2 ns`: two significant figures, rounded up, because a bound rounded
/// down would be wrong.
pub fn at_most(bound: f64, unit: Unit) -> String {
    if !bound.is_finite() {
        return NOTHING.to_owned();
    }
    let bound = if unit == Unit::Nanoseconds { bound.max(LEAST_NS) } else { bound };
    let scale = scale_of(bound, unit, 2);
    let scaled = bound / scale.divisor;
    let step = 10f64.powi(magnitude(scaled) - 1);
    // 0.2 is 2.0000000000000002 steps of 0.1: a rounding error must not add a step.
    let raised = (scaled / step * (1.0 - 1e-12)).ceil() * step;
    let next = raised * scale.divisor;
    if scale_of(next, unit, 2).divisor != scale.divisor {
        return at_most(next, unit);
    }
    let digits = trimmed_zeros(&fixed(raised, decimals_for(raised, 2)));
    with_symbol(format!("≤ {digits}"), &scale)
}

/// A predicted range in three significant figures and one unit, such as `84–126 ns`; one value if
/// both limits read alike. One-sided bounds are `> 16 ns` and `< 16 ns`.
pub fn range(low: Option<f64>, high: Option<f64>, unit: Unit) -> String {
    range_figures(low, high, unit, FIGURES_PREDICTED)
}

/// The limits of an interval in the figures of the number beside it, fewer if they do not fit
/// `width`.
pub fn interval_within([low, high]: [f64; 2], unit: Unit, width: usize) -> String {
    let write = |count| range_figures(Some(low), Some(high), unit, count);
    widest_fit(2..=FIGURES, write, |text| fits(text, width)).unwrap_or_else(|| write(2))
}

/// As [`range`], in three or two figures as fit `width`; if neither fits, the approximate middle of
/// a narrow range, or the lower limit of a wide one.
pub fn range_within(low: Option<f64>, high: Option<f64>, unit: Unit, width: usize) -> String {
    let write = |count| range_figures(low, high, unit, count);
    widest_fit(2..=FIGURES_PREDICTED, write, |text| fits(text, width)).unwrap_or_else(|| {
        match (low, high) {
            (Some(low), Some(high)) => {
                let (sign, value) = in_short(low, high);
                format!("{sign} {}", figures(value, unit, 2))
            }
            (Some(low), None) => format!("> {}", figures(low, unit, 2)),
            (None, Some(high)) => format!("< {}", figures(high, unit, 2)),
            (None, None) => NOTHING.to_owned(),
        }
    })
}

fn range_figures(low: Option<f64>, high: Option<f64>, unit: Unit, count: usize) -> String {
    let one = |value: f64, divisor: f64| {
        let scaled = value / divisor;
        trimmed_zeros(&fixed(scaled, decimals_for(scaled, count)))
    };
    let limit = |sign: char, value: f64| {
        let scale = scale_of(value, unit, count);
        with_symbol(format!("{sign} {}", one(value, scale.divisor)), &scale)
    };
    match (low, high) {
        (Some(low), Some(high)) if low.is_finite() && high.is_finite() => {
            let scale = scale_of(high, unit, count);
            let (low, high) = (low / scale.divisor, high / scale.divisor);
            let whole = unit == Unit::Bytes && low.fract() == 0.0 && high.fract() == 0.0;
            let (low, high) = if whole {
                (fixed(low, 0), fixed(high, 0))
            } else if low < high / 20.0 {
                (one(low, 1.0), one(high, 1.0))
            } else {
                let decimals = decimals_for(high, count).max(decimals_for(low, 2));
                (fixed(low, decimals), fixed(high, decimals))
            };
            let text = if low == high { low } else { format!("{low}–{high}") };
            with_symbol(text, &scale)
        }
        (Some(low), None) if low.is_finite() => limit('>', low),
        (None, Some(high)) if high.is_finite() => limit('<', high),
        _ => NOTHING.to_owned(),
    }
}

/// The hardware and the software term in one unit, such as `60 + 45 ns`, in up to three significant
/// figures as fit `width`; the hardware term alone if there is no software term.
pub fn terms(hardware: Option<f64>, software: Option<f64>, unit: Unit, width: usize) -> String {
    // What software takes off a rate is no overhead in its unit.
    let software = software.filter(|value| *value >= 0.0);
    let largest = hardware.into_iter().chain(software).fold(0f64, |max, v| max.max(v.abs()));
    if hardware.is_none() && software.is_none() {
        return NOTHING.to_owned();
    }
    let write = |count: usize| {
        let scale = scale_of(largest, unit, count);
        let decimals = decimals_for(largest / scale.divisor, count);
        let term = |value: Option<f64>| match value {
            Some(value) => trimmed_zeros(&fixed(value / scale.divisor, decimals)),
            None => NOTHING.to_owned(),
        };
        let text = match software {
            Some(_) => format!("{} + {}", term(hardware), term(software)),
            None => term(hardware),
        };
        with_symbol(text, &scale)
    };
    widest_fit(1..=FIGURES_PREDICTED, write, |text| fits(text, width))
        .unwrap_or_else(|| NOTHING.to_owned())
}

/// What a ratio changes: `+34 %`, `−12 %`.
pub fn signed_percent(ratio: f64) -> String {
    let sign = if ratio < 1.0 { '−' } else { '+' };
    format!("{sign}{}", percent((ratio - 1.0).abs()))
}

/// A share in percent with two significant figures: `0.04 %`, `1.2 %`, `12 %`. Only all is `100 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    let value = if (99.5..100.0).contains(&value) { (value * 10.0).floor() / 10.0 } else { value };
    if !value.is_finite() {
        NOTHING.to_owned()
    } else if value.abs() >= 999.5 {
        ">999 %".to_owned()
    } else if value == 0.0 {
        "0 %".to_owned()
    } else {
        let figures = if (99.5..100.0).contains(&value) { 3 } else { 2 };
        format!("{} %", fixed(value, decimals_for(value, figures).min(2)))
    }
}

/// The exact size of a parameter, in the largest binary unit that needs at most two decimals
/// (`64 KiB`, `1.5 MiB`), else in bytes; from 1 MiB on in four figures if it needs more.
pub fn binary_size(bytes: i64) -> String {
    let mut size = bytes as f64;
    let mut symbol = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        let scaled = size / 1024.0;
        if scaled.abs() < 1.0 || (scaled * 100.0).fract() != 0.0 {
            break;
        }
        (size, symbol) = (scaled, next);
    }
    // 976562.5 KiB would be exact, too.
    if bytes >= 1 << 20 && size >= 1024.0 {
        return quantity(bytes as f64, Unit::Bytes);
    }
    format!("{} {symbol}", trimmed_zeros(&fixed(size, 2)))
}

/// Two values in one unit, such as `165.2 → 181.3 ns`, in as many figures as fit `width`.
pub fn change(a: f64, b: f64, unit: Unit, width: usize) -> String {
    let write = |count: usize| {
        let scale = scale_of(a.abs().max(b.abs()), unit, count);
        let (a, b) = (a / scale.divisor, b / scale.divisor);
        let decimals = decimals_for(a.abs().max(b.abs()), count);
        with_symbol(format!("{} → {}", fixed(a, decimals), fixed(b, decimals)), &scale)
    };
    // In a shared unit a much smaller value can lose all its figures.
    let rounds_to_zero = |text: &str| a != 0.0 && b != 0.0 && text.split(" → ").any(reads_as_zero);
    widest_fit(2..=FIGURES, write, |text| fits(text, width) && !rounds_to_zero(text))
        .unwrap_or_else(|| format!("{} → {}", figures(a, unit, 2), figures(b, unit, 2)))
}

/// The lowest to the highest of many values, such as `1.08…112 ns`; each with its own unit if one
/// would not suit both: `1.08 ns…1.12 µs`. In three significant figures, or in two if three do not
/// fit `width`; two may be wider than `width`.
pub fn span_within(low: f64, high: f64, unit: Unit, width: usize) -> String {
    let write = |count: usize| {
        let (scale, own) = (scale_of(high, unit, count), scale_of(low, unit, count));
        let one =
            |value: f64| fixed(value / scale.divisor, decimals_for(value / scale.divisor, count));
        let (from, to) = (one(low), one(high));
        match (from == to, low < high / 500.0 && own.symbol != scale.symbol) {
            (true, _) => with_symbol(to, &scale),
            (_, true) => format!("{}…{}", figures(low, unit, count), figures(high, unit, count)),
            _ => with_symbol(format!("{from}…{to}"), &scale),
        }
    };
    let three = write(FIGURES_PREDICTED);
    if fits(&three, width) { three } else { write(2) }
}

/// The divisor and the symbol of the unit that suits a value.
pub fn unit_for(value: f64, unit: Unit) -> (f64, &'static str) {
    let scale = scale_of(value, unit, 2);
    (scale.divisor, scale.symbol)
}

/// A value in multiples of `divisor` without a unit: four significant figures, fewer if they do not
/// fit `width`, a power of ten if two do not.
pub fn scaled_within(value: f64, divisor: f64, width: usize) -> String {
    let scaled = value / divisor;
    if !scaled.is_finite() {
        return NOTHING.to_owned();
    }
    if scaled == 0.0 {
        return "0".to_owned();
    }
    let write = |count| fixed(scaled, decimals_for(scaled, count));
    widest_fit(2..=FIGURES, write, |text| fits(text, width))
        .unwrap_or_else(|| format!("{scaled:.0e}"))
}

/// As [`range_within`] in multiples of `divisor`, without a unit.
pub fn scaled_range_within(
    low: Option<f64>,
    high: Option<f64>,
    divisor: f64,
    width: usize,
) -> String {
    let one = |value: f64, room: usize| scaled_within(value, divisor, room);
    let (low, high) = match (low, high) {
        (Some(low), Some(high)) => (low, high),
        (Some(low), None) => return format!("> {}", one(low, width.saturating_sub(2))),
        (None, Some(high)) => return format!("< {}", one(high, width.saturating_sub(2))),
        (None, None) => return NOTHING.to_owned(),
    };
    if low == high {
        return one(low, width);
    }
    let write = |count| {
        let (low, high) = (low / divisor, high / divisor);
        let decimals = decimals_for(high, count).max(decimals_for(low, 1));
        format!("{}–{}", fixed(low, decimals), fixed(high, decimals))
    };
    widest_fit(2..=FIGURES_PREDICTED, write, |text| fits(text, width)).unwrap_or_else(|| {
        let (sign, value) = in_short(low, high);
        format!("{sign} {}", one(value, width.saturating_sub(2)))
    })
}

/// One number for a range: its middle, unless that is far from both limits.
fn in_short(low: f64, high: f64) -> (char, f64) {
    if high > 2.0 * low { ('>', low) } else { ('≈', (low + high) / 2.0) }
}

/// A number without unit in three significant figures.
pub fn bare(scaled: f64) -> String {
    fixed(scaled, decimals_for(scaled, FIGURES_PREDICTED))
}

fn reads_as_zero(text: &str) -> bool {
    let number = text.split(' ').next().unwrap_or(text);
    number.parse::<f64>() == Ok(0.0)
}

fn figures(value: f64, unit: Unit, count: usize) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let scale = scale_of(value, unit, count);
    let scaled = value / scale.divisor;
    let digits = if unit == Unit::Bytes && scaled.fract() == 0.0 {
        fixed(scaled, 0)
    } else if scaled != 0.0 && !(-3..7).contains(&magnitude(scaled)) {
        format!("{scaled:.*e}", count - 1)
    } else {
        fixed(scaled, decimals_for(scaled, count))
    };
    with_symbol(digits, &scale)
}

fn with_symbol(digits: String, scale: &Scale) -> String {
    if scale.symbol.is_empty() { digits } else { format!("{digits} {}", scale.symbol) }
}

struct Scale {
    divisor: f64,
    symbol: &'static str,
}

/// The largest unit in which the rounded value is at least 1.
fn scale_of(value: f64, unit: Unit, count: usize) -> Scale {
    let (step, symbols): (f64, &[&'static str]) = match unit {
        Unit::Nanoseconds => (1e3, &["ns", "µs", "ms", "s"]),
        Unit::Bytes => (1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]),
        Unit::BytesPerSecond => (1024.0, &["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"]),
        // Spelled out: "12 M/s" would be read as megabytes.
        Unit::PerSecond => (1e3, &["ops/s", "kops/s", "Mops/s", "Gops/s"]),
        Unit::Hertz => (1e3, &["Hz", "kHz", "MHz", "GHz"]),
        Unit::Ratio => (1e3, &[""]),
    };
    let mut scale = Scale { divisor: 1.0, symbol: symbols[0] };
    for symbol in &symbols[1..] {
        let scaled = value / scale.divisor;
        let shown = fixed(scaled, decimals_for(scaled, count));
        if shown.parse::<f64>().is_ok_and(|shown| shown.abs() < step) {
            break;
        }
        scale = Scale { divisor: scale.divisor * step, symbol };
    }
    scale
}

/// The decimal exponent of the first significant figure.
fn magnitude(value: f64) -> i32 {
    if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 }
}

/// The number of decimals for `count` significant figures.
fn decimals_for(value: f64, count: usize) -> usize {
    let decimals = count as i32 - 1 - magnitude(value);
    // 9.9996 in four figures is 10.00, not 10.000.
    let rounded = format!("{:.*}", decimals.max(0) as usize, value);
    let rounded = rounded.parse::<f64>().unwrap_or(value);
    (count as i32 - 1 - magnitude(rounded)).max(0) as usize
}

/// From where all digits of a number are no number to read.
const DIGITS_END: f64 = 1e15;
const DECIMALS_MAX: usize = 12;

fn fixed(value: f64, decimals: usize) -> String {
    match value.abs() >= DIGITS_END || decimals > DECIMALS_MAX {
        true => format!("{value:.*e}", FIGURES - 1),
        false => format!("{value:.decimals$}"),
    }
}

/// `16.0` → `16`, `0.20` → `0.2`.
fn trimmed_zeros(digits: &str) -> String {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        digits.to_owned()
    }
}

/// `1 case`, `12 cases`, `2 processes`.
pub fn counted(count: usize, noun: &str) -> String {
    let ending = if noun.ends_with('s') { "es" } else { "s" };
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}{ending}") }
}

/// Whole seconds, or minutes beyond two, as an option takes them: `45s`, `3min`.
pub fn time_option(seconds: u64) -> String {
    if seconds <= 120 { format!("{seconds}s") } else { format!("{}min", seconds / 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_values_have_few_digits() {
        for unit in [Unit::Bytes, Unit::Nanoseconds, Unit::PerSecond, Unit::Ratio] {
            let huge = quantity(1e300, unit);
            let (span, range) =
                (span_within(1.0, 1e300, unit, 20), range(Some(1.0), Some(1e300), unit));
            for text in [&huge, &span, &range, &change(1.0, 1e300, unit, 20)] {
                assert!(text.chars().count() <= 30 && text.contains('e'), "{text}");
            }
        }
        assert_eq!(quantity(1e300, Unit::Bytes), "9.095e287 TiB");
        assert_eq!(quantity(f64::from(1 << 25), Unit::Bytes), "32 MiB");
    }

    #[test]
    fn ratios_have_at_most_six_columns() {
        for (ratio, text) in [
            (0.0, "0.000"),
            (0.000_49, "5e-4"),
            (1.0966, "1.097"),
            (9.999_4, "9.999"),
            (9.999_6, "10.00"),
            (-12.345, "-12.35"),
            (99.994, "99.99"),
            (99.996, "100"),
            (99_999.6, "1.0e5"),
            (f64::NAN, NOTHING),
        ] {
            assert_eq!(short(ratio), text, "{ratio}");
        }
    }

    #[test]
    fn measured_values_have_four_significant_figures() {
        for (value, unit, text) in [
            (165.23, Unit::Nanoseconds, "165.2 ns"),
            (0.222_4, Unit::Nanoseconds, "0.2224 ns"),
            (999.96, Unit::Nanoseconds, "1.000 µs"),
            (999.94, Unit::Nanoseconds, "999.9 ns"),
            (1_325_000.0, Unit::Nanoseconds, "1.325 ms"),
            (8.05e9, Unit::Nanoseconds, "8.050 s"),
            (4.498e9, Unit::Hertz, "4.498 GHz"),
            (32_768.0, Unit::Bytes, "32 KiB"),
            (5.9e9, Unit::Bytes, "5.495 GiB"),
            (1_073_741_823.9, Unit::BytesPerSecond, "1.000 GiB/s"),
            (1_048_576.0 * 1_010.0, Unit::BytesPerSecond, "1010 MiB/s"),
            (12_345_678.0, Unit::PerSecond, "12.35 Mops/s"),
            (5.6, Unit::PerSecond, "5.600 ops/s"),
            (0.978_5, Unit::Ratio, "0.9785"),
            (0.000_022_24, Unit::Nanoseconds, "2.224e-5 ns"),
            (f64::NAN, Unit::Nanoseconds, "–"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
    }

    #[test]
    fn bounds_are_rounded_up() {
        assert_eq!(at_most(0.2, Unit::Nanoseconds), "≤ 0.2 ns");
        assert_eq!(at_most(7.7e-5, Unit::Nanoseconds), "≤ 0.001 ns");
        assert_eq!(at_most(7.7e-5, Unit::Ratio), "≤ 0.000077");
        assert_eq!(at_most(0.183_1, Unit::Nanoseconds), "≤ 0.19 ns");
        assert_eq!(at_most(1_210.0, Unit::Nanoseconds), "≤ 1.3 µs");
        assert_eq!(at_most(995.0, Unit::Nanoseconds), "≤ 1 µs");
        assert_eq!(at_most(30.0, Unit::Nanoseconds), "≤ 30 ns");
    }

    #[test]
    fn predicted_range_has_one_unit() {
        let ns = Unit::Nanoseconds;
        assert_eq!(range(Some(84.0), Some(126.0), ns), "84–126 ns");
        assert_eq!(range(Some(900.0), Some(1_200.0), ns), "0.90–1.20 µs");
        assert_eq!(range(Some(0.04), Some(126.0), ns), "0.04–126 ns");
        assert_eq!(range(Some(16.0), None, ns), "> 16 ns");
        assert_eq!(range(None, Some(1_625.0), ns), "< 1.62 µs");
        assert_eq!(range(Some(32_768.0), Some(32_768.0), Unit::Bytes), "32 KiB");
        let rate = Unit::BytesPerSecond;
        let (low, high) = (Some(1.02 * 1_073_741_824.0), Some(1.38 * 1_073_741_824.0));
        assert_eq!(range_within(low, high, rate, 15), "1.02–1.38 GiB/s");
        assert_eq!(range_within(low, high, rate, 13), "1.0–1.4 GiB/s");
        assert_eq!(range_within(low, high, rate, 12), "≈ 1.2 GiB/s");
        assert_eq!(range_within(low.map(|low| low / 2.0), high, rate, 12), "> 522 MiB/s");
    }

    #[test]
    fn terms_lose_figures_to_fit_their_column() {
        let ns = Unit::Nanoseconds;
        assert_eq!(terms(Some(60.0), Some(45.0), ns, 14), "60 + 45 ns");
        assert_eq!(terms(Some(1_234.0), Some(2_345.0), ns, 13), "1.2 + 2.3 µs");
        assert_eq!(terms(Some(60.0), None, ns, 14), "60 ns");
        assert_eq!(terms(None, Some(45.0), ns, 14), "– + 45 ns");
        assert_eq!(terms(Some(60.0), Some(-45.0), ns, 14), "60 ns", "off a rate");
        assert_eq!(terms(None, None, ns, 14), "–");
    }

    #[test]
    fn uncertain_value_has_few_figures() {
        let ns = Unit::Nanoseconds;
        for (share, text) in [(0.001, "165.2 ns"), (0.05, "165 ns"), (4.7, "170 ns")] {
            assert_eq!(quantity_rounded(165.23, share, ns, 12), text);
        }
        assert_eq!(quantity_rounded(1_325_168.0, 0.2, Unit::Ratio, 12), "1300000");
    }

    #[test]
    fn scaled_values_fit_their_column() {
        let texts = [(11.899, "11.90"), (0.059_98, "0.060"), (123_456.0, "1e5"), (0.0, "0")];
        for (value, text) in texts {
            assert_eq!(scaled_within(value, 1.0, 5), text);
        }
        let range = |low, high, width| scaled_range_within(low, high, 1e9, width);
        assert_eq!(range(Some(7.5e9), Some(8.5e9), 9), "7.50–8.50");
        assert_eq!(range(Some(7.5e9), Some(8.5e9), 8), "7.5–8.5");
        assert_eq!(range(Some(7.5e9), Some(8.5e9), 6), "≈ 8.00");
        assert_eq!(range(Some(3.5e9), Some(8.5e9), 6), "> 3.50");
        assert_eq!(range(None, Some(8.5e9), 8), "< 8.500");
        assert_eq!(range(Some(11.1e9), Some(11.1e9), 8), "11.10");
    }

    #[test]
    fn shares_have_two_significant_figures() {
        let shares = [0.000_4, 0.012_3, 0.123, 12.0, 0.000_01, 0.0];
        let texts = ["0.04 %", "1.2 %", "12 %", ">999 %", "0.00 %", "0 %"];
        assert_eq!(shares.map(percent), texts);
        let shares = [0.994, 0.995, 0.999_99, 1.0, 1.004];
        let texts = ["99 %", "99.5 %", "99.9 %", "100 %", "100 %"];
        assert_eq!(shares.map(percent), texts);
    }

    #[test]
    fn parameter_sizes_are_exact() {
        let sizes = [1, 1_024, 65_536, 1_536, 1_500, 268_435_456, 0, 3 << 30];
        let texts = ["1 B", "1 KiB", "64 KiB", "1.5 KiB", "1500 B", "256 MiB", "0 B", "3 GiB"];
        assert_eq!(sizes.map(binary_size), texts);
        assert_eq!(binary_size(1_000_000_000), quantity(1e9, Unit::Bytes), "not 976562.5 KiB");
    }

    #[test]
    fn span_has_one_unit_unless_ends_are_far_apart() {
        let ns = Unit::Nanoseconds;
        assert_eq!(span_within(1.08, 112.4, ns, 13), "1.08…112 ns");
        assert_eq!(span_within(90.0, 1_120.0, ns, 13), "0.090…1.1 µs");
        assert_eq!(span_within(1.08, 1_120.0, ns, 20), "1.08 ns…1.12 µs");
        assert_eq!(span_within(1.08, 1.08, ns, 13), "1.08 ns");
        let gib = 1_073_741_824.0;
        assert_eq!(span_within(10.2 * gib, 11.6 * gib, Unit::BytesPerSecond, 13), "10…12 GiB/s");
    }

    #[test]
    fn change_has_one_unit_and_no_false_zero() {
        let ns = Unit::Nanoseconds;
        assert_eq!(change(165.23, 181.3, ns, 17), "165.2 → 181.3 ns");
        assert_eq!(change(990.0, 1_100.0, ns, 17), "0.990 → 1.100 µs");
        assert_eq!(change(1.0, 1e9, ns, 17), "1.0 ns → 1.0 s");
    }
}
