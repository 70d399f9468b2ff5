//! The bandwidth of the network to a far end behind a limit of known size.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, ensure};
use fathom_record::{FactValue, Record};

use crate::limited::{ImposedLimit, LabLimited, LimitedFiles, PAYLOAD};

const METRIC: &str = "network.tcp.bandwidth";
const FILES: LimitedFiles = LimitedFiles { count: 1, bytes: 4096, are_cold: false };

/// The bandwidth in a direction (`send` or `receive`) to a far end that is limited. `name` is of
/// cgroups and namespaces, the folder is for files of the service.
///
/// # Errors
/// [`crate::Unmet`] if the limit is not possible here; otherwise if a program fails.
pub fn measured(
    place: (&Path, &Path, &str),
    limit: ImposedLimit,
    direction: &str,
    stop: &AtomicBool,
) -> Result<Record> {
    let limited = LabLimited::start(place, limit, FILES)?;
    if matches!(limit, ImposedLimit::ServerCpu(_)) {
        // A larger one takes in all that is sent while the reader waits for its CPU.
        limited.receive_buffer(128 << 10)?;
    }
    let case = format!("{{chunk_bytes=65536,cpus=2,direction={direction},streams=1}}");
    let document = limited.measure_run(&format!("{METRIC}{case}"), stop)?;
    let mut remote = document.records.into_iter().filter(|record| {
        record.metric.as_str() == METRIC && record.params.text("to") != Some("loopback")
    });
    let record = remote.next().context("no record to the far end")?;
    ensure!(remote.next().is_none(), "several records to the far end");
    Ok(record)
}

/// The rate of a record as a share of what a link of this rate carries.
pub fn share_of_link(record: &Record, bits_s: f64) -> Option<f64> {
    Some(record.summary.as_ref()?.median / (bits_s / 8.0 * PAYLOAD))
}

/// The name of what limited a transfer.
pub fn limited_by(record: &Record) -> Option<&str> {
    let fact = record.facts.iter().find(|fact| fact.name == "limited by")?;
    let FactValue::Text { text } = &fact.value else { return None };
    text.split(':').next()
}
