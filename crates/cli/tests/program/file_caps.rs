//! Reads under a limit of the control group: as fast as it allows, and it is named. The one place
//! where a test asserts a speed, because here it is known.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fathom_record::{Cause, Record};

use crate::Place;
use crate::file_calls::{Disk, document, value};
use crate::group::{Group, skipped};

const BYTES_A_SECOND: f64 = 50e6;
const READS_A_SECOND: f64 = 1000.0;
const TRIES: u32 = 2;

/// The whole disk that a folder lies on, as the kernel numbers it.
fn whole_disk(folder: &Path) -> Option<String> {
    let device = folder.metadata().ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let own = format!("/sys/dev/block/{major}:{minor}");
    let is_part = Path::new(&own).join("partition").exists();
    let whole = if is_part { format!("{own}/..") } else { own };
    Some(std::fs::read_to_string(format!("{whole}/dev")).ok()?.trim().to_owned())
}

/// A read in a group with a limit, of a file of so many bytes;
/// again where it was not near `rate`.
fn read_under(
    limit: (&str, f64),
    rate: f64,
    bytes: u64,
    arguments: &[&str],
) -> Result<Record, String> {
    let disk = Disk::new()?;
    let name = format!("caps-{}", limit.1);
    let group = Group::new("blkio", &name, &[])?;
    let device = whole_disk(disk.path()).ok_or("the folder lies on no disk")?;
    let file = group.file(&format!("blkio.throttle.{}_device", limit.0));
    std::fs::write(&file, format!("{device} {}", limit.1))
        .map_err(|error| format!("write {}: {error}", file.display()))?;
    let place = Place::new();
    let path = disk.path().join("file");
    let path = path.to_str().ok_or("a plain path")?;
    let count = format!("{}", bytes >> 20);
    let written = place.run(&["file", "write", path, "--block", "1M", "--count", &count]);
    assert!(written.status.success(), "{}", crate::text(&written.stderr));
    let program = Path::new(env!("CARGO_BIN_EXE_fathom"));
    let read = || {
        let arguments = [&["file", "read", path, "--json"], arguments].concat();
        let mut inside = group.enter(program, &arguments);
        let output = inside.env("FATHOM_STORE", place.store()).output().expect("it starts");
        document(&output).records.remove(0)
    };
    // Neighbours that take the CPU make it slower than its limit; nothing makes it faster.
    let fastest = (0..TRIES).map(|_| read()).find(|record| is_near(record, rate));
    Ok(fastest.unwrap_or_else(read))
}

fn is_near(record: &Record, rate: f64) -> bool {
    (value(record) / rate - 1.0).abs() < 0.05
}

/// The limits of the control group that stand beside a record.
fn limits(record: &Record) -> String {
    let limits = record.facts.iter().filter(|fact| fact.name == "control group");
    limits.map(|fact| format!("{:?} ", fact.value)).collect()
}

/// Asserts a rate within 5 % of its cap, and that the cap is named.
fn is_capped(record: &Record, rate: f64, file: &str) {
    assert!(is_near(record, rate), "{} B/s instead of {rate}", value(record));
    let named = limits(record);
    assert!(named.contains(&format!("{file} of /fathom-lab-caps")), "{named}");
    let reason = record.verdict.reasons.iter().find(|reason| reason.cause == Cause::Capped);
    let reason = reason.expect("the verdict names the cap");
    assert!(reason.text.contains(file) && reason.next.contains("raise the limit"), "{reason:?}");
}

#[test]
fn cold_reads_are_as_fast_as_a_limit_of_50_mb_a_second_lets_them() {
    let limit = ("read_bps", BYTES_A_SECOND);
    // Twice 5.4 seconds.
    let asked = ["--block", "1M", "--state", "cold", "--repeat", "2"];
    match read_under(limit, BYTES_A_SECOND, 256 << 20, &asked) {
        Ok(record) => {
            is_capped(&record, BYTES_A_SECOND, "blkio.throttle.read_bps_device");
            assert!(limits(&record).contains("capped: 50.0 MB/s"), "{:?}", record.facts);
        }
        Err(why) => skipped(&why),
    }
}

#[test]
fn direct_reads_are_as_many_as_a_limit_of_1000_a_second_lets_be() {
    let limit = ("read_iops", READS_A_SECOND);
    let asked = ["--block", "4K", "--count", "4000", "--state", "direct"];
    let rate = 4096.0 * READS_A_SECOND;
    match read_under(limit, rate, 32 << 20, &asked) {
        Ok(record) => {
            is_capped(&record, rate, "blkio.throttle.read_iops_device");
        }
        Err(why) => skipped(&why),
    }
}

#[test]
fn what_is_read_from_memory_names_no_limit() {
    // No rate is near nought: it is read as often as may be.
    match read_under(("read_bps", 1e6), 0.0, 4 << 20, &["--block", "1M", "--state", "as-is"]) {
        Ok(record) => {
            assert_eq!(limits(&record), "");
            assert!(record.verdict.reasons.iter().all(|reason| reason.cause != Cause::Capped));
        }
        Err(why) => skipped(&why),
    }
}
