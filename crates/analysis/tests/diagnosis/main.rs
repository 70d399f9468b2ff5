//! The doctor's rules on synthetic machines: triggered, not triggered, and unknown.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod background;
mod fixture;
mod lasting;
mod momentary;
mod network;
mod thresholds;
mod whole;
