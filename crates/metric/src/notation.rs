//! Parsers for sizes, counts, times and lists of them on the command line.

use std::time::Duration;

use fathom_record::{escaped, shortened};

const LIST_LENGTH_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{got}`: expected {expected}")]
pub struct NotationError {
    got: String,
    expected: String,
}

impl NotationError {
    /// `expected` names the limits or an example.
    pub fn new(got: &str, expected: impl Into<String>) -> Self {
        Self { got: escaped(&shortened(got, 200)), expected: expected.into() }
    }
}

/// A number of bytes: `4096`, `64KiB`, `64K`, `1 MiB`. `kB`, `MB` to `EB` are decimal.
pub fn bytes(text: &str) -> Result<u64, NotationError> {
    let expected = "a size below 2^64 bytes, such as 4096, 64KiB, 1MiB or 1MB";
    let wrong = || NotationError::new(text, expected);
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "p" | "pib" => 1 << 50,
        "e" | "eib" => 1 << 60,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        "eb" => 1_000_000_000_000_000_000,
        _ => return Err(wrong()),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    size.ok_or_else(wrong)
}

/// A count: `64`, `1e6` or `1_000`.
pub fn count(text: &str) -> Result<u64, NotationError> {
    let plain = text.replace('_', "");
    let (digits, zeroes) = match plain.split_once(['e', 'E']) {
        Some((digits, power)) => (digits.to_owned(), power.parse::<u32>().ok()),
        None => (plain, Some(0)),
    };
    let whole = digits.parse::<u64>().ok();
    whole
        .zip(zeroes)
        .and_then(|(whole, zeroes)| whole.checked_mul(10u64.checked_pow(zeroes)?))
        .ok_or_else(|| NotationError::new(text, "a whole number below 2^64, such as 64 or 1e6"))
}

/// Comma-separated sizes; the range `1..64MiB` doubles from the first to the last.
pub fn sizes(text: &str) -> Result<Vec<u64>, NotationError> {
    list(text, bytes)
}

/// Comma-separated counts; a range doubles, or multiplies by 10 where it starts as in `1e4..1e8`.
pub fn counts(text: &str) -> Result<Vec<u64>, NotationError> {
    list(text, count)
}

fn list(
    text: &str,
    one: fn(&str) -> Result<u64, NotationError>,
) -> Result<Vec<u64>, NotationError> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let ends = part.split_once("..").or_else(|| part.split_once('…'));
        let Some((from, to)) = ends else {
            all.push(one(part)?);
            continue;
        };
        let (mut at, last) = (one(from.trim())?, one(to.trim())?);
        if at == 0 || at > last {
            return Err(NotationError::new(part, "an ascending range above 0, such as 1..8"));
        }
        let step = if from.contains(['e', 'E']) { 10 } else { 2 };
        while at < last {
            all.push(at);
            at = at.saturating_mul(step);
        }
        all.push(last);
        if all.len() > LIST_LENGTH_MAX {
            return Err(NotationError::new(text, format!("at most {LIST_LENGTH_MAX} values")));
        }
    }
    Ok(all)
}

/// A time: `500ms`, `15s`, `2min`, `1h`, or a number of seconds.
pub fn time(text: &str) -> Result<Duration, NotationError> {
    let expected = "a time above 0 and below 11 days, such as 500ms, 15s, 2min or 1h";
    let wrong = || NotationError::new(text, expected);
    let trimmed = text.trim();
    let units = [("ms", 1e-3), ("min", 60.0), ("h", 3600.0), ("s", 1.0), ("", 1.0)];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((trimmed.strip_suffix(unit)?, factor)))
        .ok_or_else(wrong)?;
    let seconds = number.trim().parse::<f64>().map_err(|_| wrong())? * factor;
    match seconds.is_finite() && seconds > 0.0 && seconds < 1e6 {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(wrong()),
    }
}

/// A time window, such as `5s..15s`.
pub fn between(text: &str) -> Result<(Duration, Duration), NotationError> {
    let ends = text.split_once("..").or_else(|| text.split_once('…'));
    let (from, to) = ends.ok_or_else(|| NotationError::new(text, "two times, such as 5s..15s"))?;
    let (from, to) = (time(from)?, time(to)?);
    match to >= from.mul_f64(2.0) {
        true => Ok((from, to)),
        // The search doubles and halves sizes: it could step over a narrower window forever.
        false => Err(NotationError::new(text, "an upper limit of at least twice the lower")),
    }
}

pub fn seed(text: &str) -> Result<u64, NotationError> {
    text.parse().map_err(|_| NotationError::new(text, "a whole number from 0 to 2^64 − 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_accept_binary_and_decimal_units() {
        let sizes = ["4096", "4K", "4KiB", "4 kib", "4096b"].map(bytes);
        assert!(sizes.iter().all(|size| *size == Ok(4096)), "{sizes:?}");
        assert_eq!(bytes("1MB"), Ok(1_000_000));
        assert_eq!(bytes("2TiB"), Ok(2 << 40));
        assert!(
            ["", "K", "4X", "1e3", "-1", "99999999999G"].iter().all(|text| bytes(text).is_err())
        );
    }

    #[test]
    fn error_names_the_input_and_the_expected_form() {
        let error = bytes("4X").unwrap_err().to_string();
        assert_eq!(
            error,
            "`4X`: expected a size below 2^64 bytes, such as 4096, 64KiB, 1MiB or 1MB"
        );
        assert_eq!(sizes("1,8..1").unwrap_err().got, "8..1");
    }

    #[test]
    fn ranges_expand_by_doubling_or_by_ten() {
        assert_eq!(sizes("1..8"), Ok(vec![1, 2, 4, 8]));
        assert_eq!(sizes("3..10,4K"), Ok(vec![3, 6, 10, 4096]));
        assert_eq!(sizes("2MiB…5MiB"), Ok(vec![2 << 20, 4 << 20, 5 << 20]));
        assert_eq!(counts("1e2..1e4"), Ok(vec![100, 1000, 10_000]));
        assert_eq!(count("1_000"), Ok(1000));
        assert!(["8..1", "0..4", "..4", "1..", "1,,2"].iter().all(|text| sizes(text).is_err()));
        assert!(count("1e30").is_err() && count("many").is_err());
    }

    #[test]
    fn narrow_time_windows_are_rejected() {
        assert_eq!(time("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(time("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(between("5s..15s"), Ok((Duration::from_secs(5), Duration::from_secs(15))));
        assert!(["5s..6s", "5s", "x..y"].iter().all(|text| between(text).is_err()));
        assert!(["0s", "-1s", "inf", "1d", "278h"].iter().all(|text| time(text).is_err()));
    }
}
