//! Reads under a blkio limit of a control group reach it and name it.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fathom_record::{Cause, Document, Record, Remedy};

use crate::ProgramTestEnv;
use crate::group::{group, skipped};
use crate::test_env::{TestEnvFolder, json, median};

const BYTES_A_SECOND: f64 = 50e6;
const READS_A_SECOND: f64 = 1000.0;

/// The disk of a folder, as `major:minor`.
fn whole_disk(folder: &Path) -> Option<String> {
    let device = folder.metadata().ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let own = format!("/sys/dev/block/{major}:{minor}");
    let is_part = Path::new(&own).join("partition").exists();
    let whole = if is_part { format!("{own}/..") } else { own };
    Some(std::fs::read_to_string(format!("{whole}/dev")).ok()?.trim().to_owned())
}

/// Reads a new file in a group with a limit; once more if the result is not near `rate`. Of the lab
/// only: a busy CPU makes it slower than its limit; nothing makes it faster.
fn read_near(limit: (&str, f64), rate: f64, bytes: u64, arguments: &str) -> Option<Record> {
    let read = || read_under(limit, bytes, arguments);
    read().filter(|record| is_near(record, rate)).or_else(read)
}

/// Reads a new file in a group with a limit.
fn read_under(limit: (&str, f64), bytes: u64, arguments: &str) -> Option<Record> {
    let disk = TestEnvFolder::on_disk()?;
    let group = group("blkio", &format!("caps-{}", limit.1), &[])?;
    let Some(device) = whole_disk(disk.path()) else {
        skipped("the folder is not on a disk");
        return None;
    };
    let file = group.file(&format!("blkio.throttle.{}_device", limit.0));
    if let Err(error) = std::fs::write(&file, format!("{device} {}", limit.1)) {
        skipped(&format!("write {}: {error}", file.display()));
        return None;
    }
    let env = ProgramTestEnv::new();
    let path = format!("{}/file", disk.path_text());
    env.stdout(&format!("file write {path} --block 1M --count {}", bytes >> 20));
    let line = format!("file read {path} --json {arguments}");
    Some(json::<Document>(&env.exec_in(&group, &line)).records.remove(0))
}

fn is_near(record: &Record, rate: f64) -> bool {
    (median(record) / rate - 1.0).abs() < 0.05
}

/// The facts of a record about its control group.
fn limits(record: &Record) -> String {
    let limits = record.facts.iter().filter(|fact| fact.name == "control group");
    limits.map(|fact| format!("{:?} ", fact.value)).collect()
}

/// Asserts a rate within 5 % of its cap, and a verdict that names the cap.
fn assert_capped(record: &Record, rate: f64, file: &str) {
    assert!(is_near(record, rate), "{} B/s instead of {rate}", median(record));
    let named = limits(record);
    assert!(named.contains(&format!("{file} of /fathom-lab-caps")), "{named}");
    let reason = record.verdict.reasons.iter().find(|reason| reason.cause == Cause::Capped);
    let reason = reason.expect("a reason");
    assert!(
        reason.text.contains(file) && reason.remedy == Some(Remedy::RaiseDeviceLimit),
        "{reason:?}"
    );
}

#[test]
#[ignore = "lab: the rate of a throttled disk"]
fn cold_reads_reach_the_bandwidth_limit() {
    let limit = ("read_bps", BYTES_A_SECOND);
    // 5.4 seconds, twice.
    let options = "--block 1M --state cold --repeat 2";
    let Some(record) = read_near(limit, BYTES_A_SECOND, 256 << 20, options) else { return };
    assert_capped(&record, BYTES_A_SECOND, "blkio.throttle.read_bps_device");
    assert!(limits(&record).contains("capped: 50.0 MB/s"), "{:?}", record.facts);
}

#[test]
#[ignore = "lab: the rate of a throttled disk"]
fn direct_reads_reach_the_iops_limit() {
    let limit = ("read_iops", READS_A_SECOND);
    let options = "--block 4K --count 4000 --state direct";
    let rate = 4096.0 * READS_A_SECOND;
    let Some(record) = read_near(limit, rate, 32 << 20, options) else { return };
    assert_capped(&record, rate, "blkio.throttle.read_iops_device");
}

#[test]
#[ignore = "lab: the rate of a throttled disk"]
fn cached_reads_name_no_limit() {
    let read = read_under(("read_bps", 1e6), 4 << 20, "--block 1M --state as-is");
    let Some(record) = read else { return };
    assert_eq!(limits(&record), "");
    assert!(record.verdict.reasons.iter().all(|reason| reason.cause != Cause::Capped));
}

#[test]
fn limit_of_the_group_is_a_fact() {
    let limit = ("read_bps", BYTES_A_SECOND);
    let options = "--block 4K --count 4 --state direct";
    let Some(record) = read_under(limit, 1 << 20, options) else { return };
    let named = limits(&record);
    let file = "blkio.throttle.read_bps_device of /fathom-lab-caps";
    assert!(named.contains("capped: 50.0 MB/s") && named.contains(file), "{named}");
    assert_eq!(record.checks["bytes"], "16384");
}
