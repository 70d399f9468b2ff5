//! The doctor's rules on synthetic machines: triggered, not triggered, and unknown.

mod background;
mod fixture;
mod lasting;
mod momentary;
mod network;
mod thresholds;
mod whole;
