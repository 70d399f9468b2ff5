//! Control groups of tests, and skipped tests.

pub(crate) use fathom_lab::group::Group;

/// A group with limits; `None` if it cannot be created.
pub(crate) fn group(controller: &str, name: &str, limits: &[(&str, u64)]) -> Option<Group> {
    Group::new(controller, name, limits).map_err(|why| skipped(&why.to_string())).ok()
}

/// Prints why a test is skipped.
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
pub(crate) fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}
