//! Known answers of the bandwidth of the network: the far end is behind a limit of known size.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fathom_lab::Unmet;
use fathom_lab::bandwidth::{self, limited_by, share_of_link};
use fathom_lab::limited::ImposedLimit;
use fathom_record::{Document, Record};

use crate::group::skipped;
use crate::test_env::{ProgramTestEnv, TestEnvFolder, document, median, of_metric};

const METRIC: &str = "network.tcp.bandwidth";

/// `None` if the limit is not possible here.
fn measured(name: &str, limit: ImposedLimit, direction: &str) -> Option<Record> {
    let folder = TestEnvFolder::on_disk()?;
    let place = (Path::new(env!("CARGO_BIN_EXE_fathom")), folder.path(), name);
    match bandwidth::measured(place, limit, direction, &AtomicBool::new(false)) {
        Err(why) if why.is::<Unmet>() => {
            skipped(&why.to_string());
            None
        }
        measured => Some(measured.expect("a record")),
    }
}

/// The direction in which the link is limited.
fn assert_link(bits_s: f64) {
    let name = format!("flow-{:.0}", bits_s / 1e6);
    let Some(record) = measured(&name, ImposedLimit::Network(bits_s), "receive") else { return };
    let share = share_of_link(&record, bits_s).expect("a number");
    assert!((share - 1.0).abs() <= 0.01, "{share}: {:?}", record.verdict);
    assert_eq!(limited_by(&record), Some("link"), "{:?}", record.facts);
}

#[test]
#[ignore = "lab: shaped links"]
fn shaped_links_are_named_with_their_rates() {
    [10e6, 100e6, 1e9].into_iter().for_each(assert_link);
}

#[test]
#[ignore = "lab: a quota of CPU time"]
fn receiver_that_reads_slowly_is_a_window() {
    let Some(record) = measured("flow-slow", ImposedLimit::ServerCpu(0.05), "send") else { return };
    assert_eq!(limited_by(&record), Some("window"), "{:?}", record.facts);
}

#[test]
#[ignore = "lab: rates of two congestion controls"]
fn loopback_under_bbr_is_paced_and_cubic_is_beside_it() {
    let env = ProgramTestEnv::new();
    let case = format!("{METRIC}{{chunk_bytes=65536,cpus=2,direction=send,streams=1}}");
    let run: Document = document(&env.exec(&format!("run --quick --only {case} --json")));
    if run.host.tcp.congestion.as_deref() != Some("bbr") {
        return skipped("the default congestion control is not BBR");
    }
    let records = of_metric(&run, METRIC);
    let is_default = |record: &&&Record| record.params.text("congestion").is_none();
    let default = records.iter().find(is_default).expect("a case");
    assert_eq!(limited_by(default), Some("pacing"), "{:?}", default.facts);
    let Some(cubic) = records.iter().find(|record| !is_default(record)) else {
        return skipped("there is no cubic");
    };
    if cubic.summary.is_none() {
        return skipped(&format!("cubic: {:?}", cubic.verdict));
    }
    assert_ne!(limited_by(cubic), Some("pacing"), "{:?}", cubic.facts);
    assert!(median(cubic) > median(default), "{:?}", cubic.facts);
}
