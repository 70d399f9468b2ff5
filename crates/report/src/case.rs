//! Names of cases: metric, parameters, position on an axis.

use fathom_analysis::fleet::FleetSubject;
use fathom_record::quantity::binary_size;
pub(crate) use fathom_record::quantity::counted;
use fathom_record::{MetricId, Params};

use crate::wrap::clean;

/// A case with its metric, as every command takes it: `os.syscall{call=stat}`.
pub(crate) fn named(metric: &MetricId, params: &Params) -> String {
    format!("{metric}{params}")
}

/// The parameters of a case, as every command takes them after a metric: `{set_bytes=0}`.
pub(crate) fn case(params: &Params) -> String {
    params.to_string()
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

/// A case, or `memory (14 cases together)`.
pub(crate) fn subject(subject: &FleetSubject) -> String {
    let mut name = clean(&named(&subject.metric, &subject.params));
    if let Some(far) = subject.far.as_ref().filter(|far| subject.params.text("to") != Some(far)) {
        name += &format!(", far end {}", clean(far));
    }
    match subject.cases {
        Some(cases) => format!("{name} ({} together)", counted(cases, "case")),
        None => name,
    }
}
