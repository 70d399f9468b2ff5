//! How a case is named: its metric, its parameters, its place on an axis.

use fathom_record::quantity::binary_size;
use fathom_record::{MetricId, ParamValue, Params};

/// A case with its metric: `os.syscall call=stat`.
pub(crate) fn named(metric: &MetricId, params: &Params) -> String {
    if params.is_empty() { metric.to_string() } else { format!("{metric} {}", case(params)) }
}

/// `1 case`, `12 cases`.
pub(crate) fn cases(count: usize) -> String {
    if count == 1 { "1 case".to_owned() } else { format!("{count} cases") }
}

/// The parameters of a case, sizes in binary units without `_bytes`: `order=random set=64 KiB`.
pub(crate) fn case(params: &Params) -> String {
    let list: Vec<String> = params
        .0
        .iter()
        .map(|(name, value)| match (value, size_name(name)) {
            (ParamValue::Integer(bytes), Some(name)) => format!("{name}={}", binary_size(*bytes)),
            (value, _) => format!("{name}={value}"),
        })
        .collect();
    list.join(" ")
}

/// The name of a size without its unit; `bytes` alone stays, and a `block` is one of bytes.
pub(crate) fn size_name(name: &str) -> Option<&str> {
    if matches!(name, "bytes" | "block") { Some(name) } else { name.strip_suffix("_bytes") }
}

/// The axis as a reader knows it from the other rows: `set` of `set_bytes`.
pub(crate) fn axis_name(axis: &str) -> &str {
    size_name(axis).unwrap_or(axis)
}

/// A place on the axis: `64 KiB`, or `12` where it is no size.
pub(crate) fn place(axis: &str, at: i64) -> String {
    if size_name(axis).is_some() { binary_size(at) } else { at.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_among_parameters_read_as_sizes() {
        let params =
            Params::one("set_bytes", 65_536).and("order", "random").and("bytes", 56).and("args", 3);
        assert_eq!(case(&params), "args=3 bytes=56 B order=random set=64 KiB");
    }
}
