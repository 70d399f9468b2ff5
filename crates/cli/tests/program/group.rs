//! A cgroup with limits for the time of a test, and how a test that cannot run here says so.

pub(crate) use fathom_lab::group::Group;

/// A group, or none where it cannot be made, which is said.
pub(crate) fn group(controller: &str, name: &str, limits: &[(&str, u64)]) -> Option<Group> {
    Group::new(controller, name, limits).map_err(|why| skipped(&why.to_string())).ok()
}

/// Says that a test cannot run here, and why.
#[expect(clippy::print_stderr, reason = "a test that is skipped must say so")]
pub(crate) fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}
