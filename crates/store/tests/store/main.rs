//! The store as its users see it: what goes in comes out, whatever happens in between.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]

mod children;
mod damage;
mod example;
mod kills;
mod names;
mod older;
mod places;
mod power;
mod refusals;
mod round_trip;
mod writers;
