//! Names of cases: metric, parameters, position on an axis.

use fathom_record::quantity::binary_size;
use fathom_record::{MetricId, ParamValue, Params};

/// A case with its metric: `os.syscall call=stat`.
pub(crate) fn named(metric: &MetricId, params: &Params) -> String {
    if params.is_empty() { metric.to_string() } else { format!("{metric} {}", case(params)) }
}

/// `1 case`, `12 cases`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The parameters of a case. Sizes and times have their unit after the value instead of in the
/// name: `order=random set=64 KiB think=1 s`.
pub(crate) fn case(params: &Params) -> String {
    let list: Vec<String> = params
        .0
        .iter()
        .map(|(name, value)| match (value, size_name(name), name.strip_suffix("_s")) {
            (ParamValue::Integer(rate), None, Some(name)) if size_name(name).is_some() => {
                let (name, megabytes) = (axis_name(name), *rate as f64 / 1e6);
                format!("{name}={megabytes} MB/s")
            }
            (ParamValue::Integer(bytes), Some(name), _) => {
                format!("{name}={}", binary_size(*bytes))
            }
            (ParamValue::Integer(seconds), _, Some(name)) => format!("{name}={seconds} s"),
            // Parts of a second.
            (ParamValue::Text(seconds), _, Some(name)) if seconds.parse::<f64>().is_ok() => {
                format!("{name}={seconds} s")
            }
            (value, ..) => format!("{name}={value}"),
        })
        .collect();
    list.join(" ")
}

/// The name of a size without its unit. `bytes` and `block` have no unit to remove.
pub(crate) fn size_name(name: &str) -> Option<&str> {
    if matches!(name, "bytes" | "block") { Some(name) } else { name.strip_suffix("_bytes") }
}

/// The axis as named in rows: `set` for `set_bytes`.
pub(crate) fn axis_name(axis: &str) -> &str {
    size_name(axis).unwrap_or(axis)
}

/// A position on the axis: `64 KiB`, or `12` for an axis that is not a size.
pub(crate) fn position(axis: &str, at: i64) -> String {
    if size_name(axis).is_some() { binary_size(at) } else { at.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_their_unit() {
        let params =
            Params::one("set_bytes", 65_536).and("order", "random").and("bytes", 56).and("args", 3);
        assert_eq!(case(&params), "args=3 bytes=56 B order=random set=64 KiB");
        assert_eq!(case(&Params::one("rate_bytes_s", 100_000_000)), "rate=100 MB/s");
        let params = Params::one("window_bytes", 1 << 20).and("think_s", 1).and("set", "small");
        assert_eq!(case(&params), "set=small think=1 s window=1 MiB");
        assert_eq!(case(&Params::one("think_s", "0.002")), "think=0.002 s");
    }
}
