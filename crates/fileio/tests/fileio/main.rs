//! Files read and written in every way, their page cache, and faults on purpose.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]
#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]

mod fast;
mod faults;
mod generator;
mod peak;
mod places;
mod reading;
mod sums;
mod writing;
