//! The facts, lasting and momentary, of machines whose files a test writes, and of the machine
//! the tests run on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod background;
mod board;
mod condition;
mod container;
mod fixture;
mod identity;
mod junk;
mod laptop;
mod live;
mod origins;
mod server;
