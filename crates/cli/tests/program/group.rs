//! Control groups of tests, and skipped tests.

use std::net::{Ipv6Addr, TcpListener};

pub(crate) use fathom_lab::group::LabGroup;

/// A group with limits; `None` if it cannot be created.
pub(crate) fn group(controller: &str, name: &str, limits: &[(&str, u64)]) -> Option<LabGroup> {
    LabGroup::new(controller, name, limits).map_err(|why| skipped(&why.to_string())).ok()
}

/// Prints why a test is skipped.
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
pub(crate) fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// Whether programs can listen on `::1` and `::`; if not, prints that the test is skipped.
pub(crate) fn has_ipv6() -> bool {
    let binds = |address: Ipv6Addr| TcpListener::bind((address, 0)).is_ok();
    let has = binds(Ipv6Addr::LOCALHOST) && binds(Ipv6Addr::UNSPECIFIED);
    if !has {
        skipped("no IPv6");
    }
    has
}
