//! The program as a person uses it, and misuses it.

mod bad_input;
mod children;
mod comparing;
mod crosscheck;
mod doctor;
mod endings;
mod exchange;
mod file_calls;
mod file_capacity;
mod file_caps;
mod file_fast;
mod file_read;
mod file_run;
mod file_sweep;
mod file_write;
mod forbidden;
mod group;
mod hosts;
mod keeping;
mod labels;
mod laboratory;
mod limits;
mod memory;
mod place;
mod reference;
mod report;
mod spoilt;
mod views;

use place::{Place, fails, is_refused, text};

/// Two metrics that take well under a second.
const SHORT: [&str; 2] = ["cpu.frequency", "cpu.clock.resolution"];
