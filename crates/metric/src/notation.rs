//! Sizes, lists of sizes and times as people write them.

use std::time::Duration;

/// The longest list.
const MANY: usize = 1000;

/// A number of bytes: `4096`, `64KiB`, `64K`, `1 MiB`; `MB` and its kin go by powers of 1000.
///
/// # Errors
/// In one line: what was got, and what is meant.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(meant(text)),
    };
    if number.is_empty() {
        return Err(meant(text));
    }
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    size.ok_or_else(|| format!("`{text}` is above 2^64 bytes"))
}

fn meant(text: &str) -> String {
    format!("`{text}` is no size; write a whole number of bytes, or as 64KiB, 1MiB or 1MB")
}

/// A count, which may be written as `1e6`, `10M` or `1_000`.
///
/// # Errors
/// In one line: what was got, and what is meant.
pub fn count(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let (digits, zeroes) = match plain.split_once(['e', 'E']) {
        Some((digits, power)) => (digits.to_owned(), power.parse::<u32>().ok()),
        None => (plain, Some(0)),
    };
    let whole = digits.parse::<u64>().ok();
    whole
        .zip(zeroes)
        .and_then(|(whole, zeroes)| whole.checked_mul(10u64.checked_pow(zeroes)?))
        .ok_or_else(|| format!("`{text}` is no count; write a whole number below 2^64, or as 1e6"))
}

/// Sizes one by one with commas between; `1..64MiB` is the first, its doublings, and the last.
///
/// # Errors
/// In one line: what was got, and what is meant.
pub fn sizes(text: &str) -> Result<Vec<u64>, String> {
    list(text, bytes)
}

/// Counts in the same way; `1e4..1e8` goes by tens, as does what begins with a power of ten.
///
/// # Errors
/// In one line: what was got, and what is meant.
pub fn counts(text: &str) -> Result<Vec<u64>, String> {
    list(text, count)
}

fn list(text: &str, one: fn(&str) -> Result<u64, String>) -> Result<Vec<u64>, String> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let ends = part.split_once("..").or_else(|| part.split_once('…'));
        let Some((from, to)) = ends else {
            all.push(one(part)?);
            continue;
        };
        let (mut at, last) = (one(from.trim())?, one(to.trim())?);
        if at == 0 || at > last {
            return Err(format!("`{part}` is no range; its first is above 0 and below its last"));
        }
        let step = if from.contains(['e', 'E']) { 10 } else { 2 };
        while at < last {
            all.push(at);
            at = at.saturating_mul(step);
        }
        all.push(last);
        if all.len() > MANY {
            return Err(format!("`{text}` has more than {MANY} members"));
        }
    }
    Ok(all)
}

/// A time: `15s`, `500ms`, `2min`, or a number of seconds.
///
/// # Errors
/// In one line: what was got, and what is meant.
pub fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write as 15s, 500ms or 2min");
    let trimmed = text.trim();
    let units = [("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("", 1.0)];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((trimmed.strip_suffix(unit)?, factor)))
        .ok_or_else(wrong)?;
    let seconds = number.trim().parse::<f64>().map_err(|_| wrong())? * factor;
    match seconds.is_finite() && seconds > 0.0 && seconds < 1e6 {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("{} and above 0, below 11 days", wrong())),
    }
}

/// Two times, as `5s..15s`.
///
/// # Errors
/// In one line: what was got, and what is meant.
pub fn between(text: &str) -> Result<(Duration, Duration), String> {
    let ends = text.split_once("..").or_else(|| text.split_once('…'));
    let (from, to) =
        ends.ok_or_else(|| format!("`{text}` is no range of times; write as 5s..15s"))?;
    let (from, to) = (time(from)?, time(to)?);
    match to >= from.mul_f64(2.0) {
        true => Ok((from, to)),
        // Sizes are doubled and halved: a narrower window could be leapt over for ever.
        false => Err(format!("`{text}`: the second time must be at least twice the first")),
    }
}

/// A seed.
///
/// # Errors
/// In one line: what is meant.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a seed is a whole number from 0 to 2^64 − 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_be_written_as_people_write_it() {
        let sizes = ["4096", "4K", "4KiB", "4 kib", "4096b"].map(bytes);
        assert!(sizes.iter().all(|size| *size == Ok(4096)), "{sizes:?}");
        assert_eq!(bytes("1MB"), Ok(1_000_000));
        assert_eq!(bytes("2TiB"), Ok(2 << 40));
        assert!(
            ["", "K", "4X", "1e3", "-1", "99999999999G"].iter().all(|text| bytes(text).is_err())
        );
    }

    #[test]
    fn lists_are_doublings_or_what_is_written() {
        assert_eq!(sizes("1..8"), Ok(vec![1, 2, 4, 8]));
        assert_eq!(sizes("3..10,4K"), Ok(vec![3, 6, 10, 4096]));
        assert_eq!(sizes("2MiB…5MiB"), Ok(vec![2 << 20, 4 << 20, 5 << 20]));
        assert_eq!(counts("1e2..1e4"), Ok(vec![100, 1000, 10_000]));
        assert_eq!(count("1_000"), Ok(1000));
        assert!(["8..1", "0..4", "..4", "1..", "1,,2"].iter().all(|text| sizes(text).is_err()));
        assert!(count("1e30").is_err() && count("many").is_err());
    }

    #[test]
    fn times_have_units_and_windows_are_wide_enough() {
        assert_eq!(time("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(between("5s..15s"), Ok((Duration::from_secs(5), Duration::from_secs(15))));
        assert!(["5s..6s", "5s", "x..y"].iter().all(|text| between(text).is_err()));
        assert!(["0s", "-1s", "inf", "1h"].iter().all(|text| time(text).is_err()));
    }
}
