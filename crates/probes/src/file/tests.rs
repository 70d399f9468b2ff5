//! The probes of files in their smallest size, and their models.

use fathom_fileio::residency;
use fathom_record::{Host, NoModel, Params, Prediction, Record};

use super::state::State;
use super::{call, create, delete, fsync, held, read_latency, read_throughput, write_throughput};
use crate::{Case, Entry, Known, Plan, Probe, REGISTRY, smoke};

/// Takes a probe: each case gives values, and what it wrote is gone.
fn take(probe: &dyn Probe, checks: &[&str]) {
    let Some(place) = smoke::place() else { return };
    for (case, sample) in smoke::take(probe) {
        let sample = sample.unwrap_or_else(|fault| panic!("{}: {fault}", case.params));
        for check in checks {
            let found = sample.checks.iter().any(|one| one.name == *check);
            assert!(found, "{}: {check} was not looked at", case.params);
        }
    }
    let left: Vec<_> = std::fs::read_dir(&place.folder).unwrap().map(Result::unwrap).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_file_is_read_in_each_state_and_way_and_nothing_is_left() {
    take(&read_throughput::ReadThroughput, &["in memory", "content", "bytes"]);
}

#[test]
fn a_file_is_written_and_read_again_and_nothing_is_left() {
    take(&write_throughput::WriteThroughput, &["content", "last pass"]);
}

#[test]
fn blocks_are_read_in_each_state_and_order_and_nothing_is_left() {
    take(&read_latency::ReadLatency, &["in memory", "content"]);
}

#[test]
fn each_call_is_made_and_nothing_is_left() {
    take(&call::FileCall, &["in memory", "content"]);
}

#[test]
fn small_files_are_made_deleted_and_synced_and_nothing_is_left() {
    take(&create::Create, &["files"]);
    take(&delete::Delete, &["files"]);
    take(&fsync::Fsync, &["written"]);
}
