//! Host facts and conditions of synthetic machines, and of the current one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod background;
mod board;
mod condition;
mod container;
mod fixture;
mod golden;
mod identity;
mod junk;
mod laptop;
mod live;
mod odd;
mod origins;
mod server;
