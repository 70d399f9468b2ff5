//! The store as its users see it: what goes in comes out, whatever happens in between.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]

mod children;
mod damage;
mod example;
mod kills;
mod names;
mod places;
mod refusals;
mod round_trip;
mod writers;
