//! A cgroup with limits for the time of a test, and how a test that cannot run here says so.

pub(crate) use fathom_lab::group::Group;

/// Says that a test cannot run here, and why.
#[expect(clippy::print_stderr, reason = "a test that is skipped must say so")]
pub(crate) fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}
