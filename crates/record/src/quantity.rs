//! A value with its unit, as a person reads it.
//!
//! Values are scaled here and nowhere else; what is stored and compared stays in base units. Times
//! and rates go by powers of 1000, bytes by powers of 1024, and the unit is always written out.

use crate::Unit;

/// Significant figures of a measured value.
pub const FIGURES: usize = 4;
/// What stands where there is no value.
pub const NOTHING: &str = "–";

/// A measured value in four significant figures, such as `165.2 ns`, `4.498 GHz` or `12.30 MiB/s`;
/// a size that is a whole number of its unit is written as one: `32 KiB`. A value that is not
/// finite is `–`.
pub fn quantity(value: f64, unit: Unit) -> String {
    figures(value, unit, FIGURES)
}

/// A share in per cent with two significant figures: `0.04 %`, `1.2 %`, `12 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if !value.is_finite() {
        NOTHING.to_owned()
    } else if value.abs() >= 999.5 {
        ">999 %".to_owned()
    } else if value == 0.0 {
        "0 %".to_owned()
    } else {
        format!("{} %", fixed(value, decimals_for(value, 2).min(2)))
    }
}

/// A parameter's size: exact, in the largest binary unit that shows it with two decimals at most
/// (`64 KiB`, `1.5 MiB`), else in bytes.
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
    format!("{} {symbol}", trimmed_zeros(&fixed(size, 2)))
}

/// A value in so many significant figures, with the unit that suits it.
pub fn figures(value: f64, unit: Unit, count: usize) -> String {
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

/// Digits with the symbol of their unit.
pub fn with_symbol(digits: String, scale: &Scale) -> String {
    if scale.symbol.is_empty() { digits } else { format!("{digits} {}", scale.symbol) }
}

/// A unit in which a value is shown.
pub struct Scale {
    /// How many base units it is.
    pub divisor: f64,
    /// Its symbol; empty for a ratio.
    pub symbol: &'static str,
}

/// The largest unit in which the value, as it will be rounded, is 1 or more.
pub fn scale_of(value: f64, unit: Unit, count: usize) -> Scale {
    let (step, symbols): (f64, &[&'static str]) = match unit {
        Unit::Nanoseconds => (1e3, &["ns", "µs", "ms", "s"]),
        Unit::Bytes => (1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]),
        Unit::BytesPerSecond => (1024.0, &["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"]),
        // Spelled: "12 M/s" would be read as megabytes.
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

/// The power of ten of the first significant figure.
pub fn magnitude(value: f64) -> i32 {
    if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 }
}

/// Decimals that give `count` significant figures.
pub fn decimals_for(value: f64, count: usize) -> usize {
    let decimals = count as i32 - 1 - magnitude(value);
    // 9.9996 in four figures is 10.00, not 10.000.
    let rounded = format!("{:.*}", decimals.max(0) as usize, value);
    let rounded = rounded.parse::<f64>().unwrap_or(value);
    (count as i32 - 1 - magnitude(rounded)).max(0) as usize
}

/// A number with so many decimals.
pub fn fixed(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}")
}

/// `16.0` → `16`, `0.20` → `0.2`.
pub fn trimmed_zeros(digits: &str) -> String {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        digits.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_values_have_four_figures_and_the_unit_a_person_would_choose() {
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
    fn shares_have_two_figures() {
        let shares = [0.000_4, 0.012_3, 0.123, 0.999, 12.0, 0.000_01, 0.0];
        let texts = ["0.04 %", "1.2 %", "12 %", "100 %", ">999 %", "0.00 %", "0 %"];
        assert_eq!(shares.map(percent), texts);
    }

    #[test]
    fn sizes_of_parameters_are_exact() {
        let sizes = [1, 1_024, 65_536, 1_536, 1_500, 268_435_456, 0, 3 << 30];
        let texts = ["1 B", "1 KiB", "64 KiB", "1.5 KiB", "1500 B", "256 MiB", "0 B", "3 GiB"];
        assert_eq!(sizes.map(binary_size), texts);
    }
}
