//! Units as tools write them: an amount, alone or per something.

use fathom_record::Unit;

use crate::parsed::ParsedKind;

/// Of `time` in ns: a power of ten, and what else it is multiplied by.
fn time_of(name: &str) -> Option<(i32, f64)> {
    Some(match name {
        "ns" => (0, 1.0),
        "us" | "µs" | "μs" => (3, 1.0),
        "ms" => (6, 1.0),
        "s" | "sec" => (9, 1.0),
        "min" => (9, 60.0),
        "h" | "hr" => (9, 3_600.0),
        "day" => (9, 86_400.0),
        _ => return None,
    })
}

/// Of a size in bytes, likewise.
fn size_of(name: &str) -> Option<(i32, f64)> {
    Some(match name {
        "B" | "bytes" => (0, 1.0),
        "kB" | "KB" => (3, 1.0),
        "MB" => (6, 1.0),
        "GB" => (9, 1.0),
        "TB" => (12, 1.0),
        "KiB" => (0, 1024.0),
        "MiB" => (0, f64::from(1 << 20)),
        "GiB" => (0, f64::from(1 << 30)),
        "bit" | "bits" => (0, 0.125),
        "kbit" | "Kbit" => (3, 0.125),
        "Mbit" => (6, 0.125),
        "Gbit" => (9, 0.125),
        _ => return None,
    })
}

/// What numbers of a unit are, and what each is multiplied by before its kind converts it: `ms/op`,
/// `p99-ns/op`, `GB/s`, `kB/op`, `ops/min`.
pub(crate) fn kind_of(unit: &str) -> (ParsedKind, f64) {
    let (what, per) = unit.split_once('/').map_or((unit, None), |(what, per)| (what, Some(per)));
    let name = what.rsplit('-').next().unwrap_or(what);
    let with = |kind: ParsedKind, exponent, factor| (ParsedKind { exponent, ..kind }, factor);
    let per_time = per.and_then(time_of);
    match (time_of(name), size_of(name), per_time) {
        (Some((exponent, factor)), _, None) => with(ParsedKind::time(0), exponent, factor),
        // A share of the time, of which nobody knows whether more is better.
        (Some(_), _, Some(_)) => (ParsedKind::NUMBER, 1.0),
        (_, Some((exponent, factor)), None) => {
            with(ParsedKind::amount(Unit::Bytes), exponent, factor)
        }
        (_, Some((exponent, factor)), Some((time, times))) => {
            let rate = ParsedKind::rate(Unit::BytesPerSecond);
            with(rate, exponent + 9 - time, factor / times)
        }
        (_, _, Some((time, times))) => {
            with(ParsedKind::rate(Unit::PerSecond), 9 - time, 1.0 / times)
        }
        _ if unit == "allocs/op" => (ParsedKind::amount(Unit::Ratio), 1.0),
        _ => (ParsedKind::NUMBER, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::Better;

    use super::*;

    #[test]
    fn units_are_what_they_say() {
        use Better::{Higher, Lower, Neither};
        for (unit, of, better, value) in [
            ("ns/op", Unit::Nanoseconds, Lower, 6.0),
            ("ms/op", Unit::Nanoseconds, Lower, 6e6),
            ("us/op", Unit::Nanoseconds, Lower, 6e3),
            ("min/op", Unit::Nanoseconds, Lower, 360e9),
            ("p99-ms/op", Unit::Nanoseconds, Lower, 6e6),
            ("pause-ns", Unit::Nanoseconds, Lower, 6.0),
            ("MB/s", Unit::BytesPerSecond, Higher, 6e6),
            ("GB/s", Unit::BytesPerSecond, Higher, 6e9),
            ("MiB/sec", Unit::BytesPerSecond, Higher, 6_291_456.0),
            ("Mbit/s", Unit::BytesPerSecond, Higher, 750_000.0),
            ("kB/op", Unit::Bytes, Lower, 6e3),
            ("heap-bytes", Unit::Bytes, Lower, 6.0),
            ("ops/min", Unit::PerSecond, Higher, 0.1),
            ("ops/us", Unit::PerSecond, Higher, 6e6),
            ("req/s", Unit::PerSecond, Higher, 6.0),
            ("allocs/op", Unit::Ratio, Lower, 6.0),
            ("ns/s", Unit::Ratio, Neither, 6.0),
            ("counts", Unit::Ratio, Neither, 6.0),
        ] {
            let (kind, factor) = kind_of(unit);
            let found = kind.in_unit(6.0 * factor);
            assert_eq!((kind.unit, kind.better, found), (of, better, value), "{unit}");
        }
    }
}
