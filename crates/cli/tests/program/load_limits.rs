//! Known answers of `fathom load`: a limit of known size is imposed on `fathom serve`, and the load
//! must name it. `make lab PART=load` has more of them, with narrow tolerances.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use fathom_lab::Unmet;
use fathom_lab::group;
use fathom_lab::limited::{ImposedLimit, LabLimited, LimitedFiles, LimitedFound};
use fathom_record::Document;

use crate::group::skipped;
use crate::test_env::{TestEnvFolder, median, of_metric};

const OPTIONS: &str = "--clients 1,2,4,8 --time 1.5s";
/// On one machine only a proof names the network.
const PROVED: &str = "--clients 1,2,4 --time 900ms --prove";
const TOLERANCE: f64 = 0.2;

/// A server with a limit; `None` if the limit is not possible here.
fn start(
    folder: &TestEnvFolder,
    name: &str,
    limit: ImposedLimit,
    files: LimitedFiles,
) -> Option<LabLimited> {
    let program = Path::new(env!("CARGO_BIN_EXE_fathom"));
    match LabLimited::start((program, folder.path(), name), limit, files) {
        Err(why) if why.is::<Unmet>() => {
            skipped(&why.to_string());
            None
        }
        started => Some(started.expect("a server")),
    }
}

/// What a load finds of a limit, which it must name.
fn named(name: &str, limit: ImposedLimit, files: LimitedFiles) -> Option<(Document, LimitedFound)> {
    let folder = TestEnvFolder::on_disk()?;
    let limited = start(&folder, name, limit, files)?;
    let options = match limit {
        ImposedLimit::Network(_) => PROVED.to_owned(),
        ImposedLimit::Disk(_) => format!("{OPTIONS} --server-cache cold"),
        _ => OPTIONS.to_owned(),
    };
    let document = limited.measure(&options, &AtomicBool::new(false)).expect("a load");
    let found = LimitedFound::from_document(&document);
    assert_eq!(found.name, limit.name(), "{found:?}");
    Some((document, found))
}

fn assert_rate(limit: ImposedLimit, files: LimitedFiles, found: &LimitedFound) {
    let rate = limit.throughput(files.bytes).expect("a known one");
    let saturation = found.saturation.expect("a saturation").value;
    assert!((saturation / rate - 1.0).abs() < TOLERANCE, "{saturation} of {rate}: {found:?}");
}

#[test]
#[ignore = "lab: a shaped link"]
fn slow_link_is_named_with_its_rate() {
    let (limit, files) =
        (ImposedLimit::Network(100e6), LimitedFiles { count: 8, bytes: 200_000, are_cold: false });
    if let Some((_, found)) = named("link", limit, files) {
        assert_rate(limit, files, &found);
    }
}

#[test]
#[ignore = "lab: a throttled disk"]
fn slow_disk_is_named_with_its_rate() {
    let (limit, files) =
        (ImposedLimit::Disk(40e6), LimitedFiles { count: 400, bytes: 100_000, are_cold: true });
    if let Some((_, found)) = named("disk", limit, files) {
        assert_rate(limit, files, &found);
    }
}

#[test]
#[ignore = "lab: the rate of a lock"]
fn serial_section_is_named_with_its_rate() {
    let (limit, files) =
        (ImposedLimit::Serial(10e-3), LimitedFiles { count: 8, bytes: 4096, are_cold: false });
    if let Some((_, found)) = named("serial", limit, files) {
        assert_rate(limit, files, &found);
    }
}

#[test]
#[ignore = "lab: a quota of CPU time"]
fn server_quota_is_named_and_used_whole() {
    let (quota, files) = (0.2, LimitedFiles { count: 8, bytes: 4096, are_cold: false });
    let Some((document, found)) = named("quota", ImposedLimit::ServerCpu(quota), files) else {
        return;
    };
    let per_request = of_metric(&document, "load.server.cpu_per_request");
    let seconds = median(per_request.last().expect("a step")) / 1e9;
    let used = found.saturation.expect("a saturation").value * seconds;
    assert!((used / quota - 1.0).abs() < TOLERANCE, "{used} of {quota} CPUs: {found:?}");
}

#[test]
fn limits_end_with_a_panic() {
    let Some(folder) = TestEnvFolder::on_disk() else { return };
    let files = LimitedFiles { count: 1, bytes: 4096, are_cold: false };
    let mut is_possible = false;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let limited = start(&folder, "panic", ImposedLimit::ServerCpu(0.5), files);
        is_possible = limited.is_some();
        assert!(limited.is_none(), "on purpose");
    }));
    if !is_possible {
        return;
    }
    assert!(ended.is_err());
    assert!(!group::path("cpu", "panic").expect("root").exists());
    let namespaces = Command::new("ip").args(["netns", "list"]).output().expect("it runs");
    let left = format!("fathom-lab-panic-near-{}", std::process::id());
    assert!(!String::from_utf8_lossy(&namespaces.stdout).contains(&left));
}
