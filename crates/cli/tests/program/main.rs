//! The program as users call it, correctly and incorrectly.

mod addresses;
mod bad_runs;
mod bandwidth_limits;
mod bench;
mod bench_answers;
mod children;
mod comparing;
mod crosscheck;
mod doctor;
mod examples;
mod exchange;
mod far;
mod fetch;
mod file_calls;
mod file_capacity;
mod file_caps;
mod file_fast;
mod file_read;
mod file_run;
mod file_sweep;
mod file_write;
mod fleet;
mod fleet_run;
mod forbidden;
mod golden;
mod group;
mod groups;
mod host_names;
mod hostile;
mod https;
mod importing;
mod laboratory;
mod latest;
mod limits;
mod load;
mod load_limits;
mod load_live;
mod manifest;
mod memory;
mod mounted;
mod network;
mod over_http;
mod packages;
mod reference;
mod report;
mod serve;
mod signals;
mod test_env;
mod transfer;
mod units;
mod unusable_store;
mod views;

use test_env::{TestEnv, assert_failure, assert_usage_error, text};

/// Two metrics that take well under a second.
const SHORT: [&str; 2] = ["cpu.frequency", "cpu.clock.resolution"];
