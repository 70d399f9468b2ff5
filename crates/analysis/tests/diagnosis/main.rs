//! The doctor's rules on made-up machines: each fires, does not fire, and says what it cannot know.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod background;
mod fixture;
mod lasting;
mod momentary;
mod whole;
