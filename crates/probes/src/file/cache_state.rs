//! The condition in which a person wants a file read: bringing it about, proving it, and saying
//! what speaks against a number where it could not be had.

use std::sync::atomic::AtomicBool;

use fathom_fileio::residency::{self, CacheKind, Residency, State};
use fathom_fileio::{Source, extents};
use fathom_metric::ProcedureError;
use fathom_record::quantity::percent;
use fathom_record::{Cause, Reason, Verdict};

use super::by_hand::{printable, size};
use super::options::{DropName, StateName};

/// As [`prepare`], but leaves a file alone that is warm already: to read it anew for each of many
/// passes would take longer than they do.
pub(super) fn prepare_again(
    source: &Source,
    asked: StateName,
    stop: &AtomicBool,
) -> Result<Residency, ProcedureError> {
    match (asked, residency::of(source.file())) {
        (StateName::Warm, found) if found.state == State::Warm => Ok(found),
        _ => prepare(source, asked, None, stop),
    }
}

/// Brings a file into a state, and says what of it is in memory then.
pub(super) fn prepare(
    source: &Source,
    asked: StateName,
    drop: Option<DropName>,
    stop: &AtomicBool,
) -> Result<Residency, ProcedureError> {
    drop.map_or(Ok(()), drop_caches)?;
    let file = source.file();
    let path = source.info().path.display();
    match asked {
        StateName::Cold => residency::evict(file)
            .map_err(|error| ProcedureError::failed(format!("write {path} back: {error}"))),
        StateName::Warm => residency::warm(file, stop)
            .map_err(|error| ProcedureError::failed(format!("read {path} into memory: {error}"))),
        StateName::AsIs | StateName::Direct => Ok(residency::of(file)),
    }
}

fn drop_caches(what: DropName) -> Result<(), ProcedureError> {
    let what = match what {
        DropName::Pagecache => CacheKind::PageCache,
        DropName::Slab => CacheKind::Slab,
        DropName::All => CacheKind::All,
    };
    residency::drop_caches(what).map_err(|error| {
        ProcedureError::failed(format!(
            "--drop-caches: write /proc/sys/vm/drop_caches: {error}; run as root outside a \
             container, or leave it away: `--state cold` drops the file's own pages without root"
        ))
    })
}

/// The state with its proof.
pub(super) fn proof(residency: &Residency) -> String {
    let word = residency.state.name().to_uppercase();
    if let State::Unknown { why } = residency.state {
        return format!("{word}: {why}");
    }
    let (cached, all) = (size(residency.cached), size(residency.bytes));
    let by = residency.counted_by;
    let dirty = match residency.dirty {
        0 => String::new(),
        bytes => format!(", {} not yet written", size(bytes)),
    };
    match residency.state {
        State::Mixed { share } => {
            format!("{word}: {} of {all} in memory{dirty}, {cached} ({by})", percent(share))
        }
        _ => format!("{word}: {cached} of {all} in memory{dirty} ({by})"),
    }
}

/// The state with its proof, as short as a table has room for.
pub(super) fn briefly(residency: &Residency) -> String {
    let word = residency.state.name().to_uppercase();
    match residency.state {
        State::Unknown { why } => format!("{word}: {why}"),
        _ => format!("{word}: {} of {}", size(residency.cached), size(residency.bytes)),
    }
}

/// What a pass was worth that began in another state than was asked for; none where it did not.
pub(super) fn not_as_asked(
    source: &Source,
    asked: StateName,
    found: &Residency,
) -> Option<Verdict> {
    let name = source.info().file_system.name;
    let in_memory = || match source.info().is_on_device() {
        Some(false) => format!("; {name} keeps files in memory or elsewhere, and on no device"),
        _ => String::new(),
    };
    let text = match (asked, found.state) {
        (StateName::Cold, State::Warm) => {
            format!("asked for cold, but 100 % cached{}", in_memory())
        }
        (StateName::Cold, State::Mixed { share }) => {
            format!("asked for cold, but {} cached{}", percent(share), in_memory())
        }
        (StateName::Warm, State::Mixed { share }) => format!(
            "asked for warm, but only {} stays in memory: the file is larger than what is free, \
             or than the memory limit of the control group",
            percent(share)
        ),
        (StateName::Warm, State::Cold) => "asked for warm, but none stays in memory".to_owned(),
        _ => return None,
    };
    Some(Verdict::because(fathom_record::State::Invalid, Cause::NotAsAsked, text))
}

/// What speaks against a number that the state of the file was to give.
pub(super) fn doubts(source: &Source, asked: StateName, found: &Residency) -> Vec<Reason> {
    let mut doubts = Vec::new();
    if let (StateName::Cold | StateName::Warm, State::Unknown { why }) = (asked, found.state) {
        let text = format!("what of the file is in memory cannot be told: {why}");
        doubts.push(Reason::new(Cause::NotAsAsked, text));
    }
    if asked == StateName::Direct && source.info().is_on_device() == Some(false) {
        let name = source.info().file_system.name;
        let text = format!("{name} is not a device of this machine: nothing here tells of one");
        doubts.push(Reason::new(Cause::NotAsAsked, text));
    }
    if matches!(asked, StateName::Cold | StateName::Direct)
        && let Ok(found) = extents::of(source.file())
        && found.share() < 1.0
    {
        let text = format!(
            "only {} of the file is data: holes and reserved space are read without a device",
            percent(found.share())
        );
        doubts.push(Reason::new(Cause::NotAsAsked, text));
    }
    doubts
}

/// What the file is, in words.
pub(super) fn place(source: &Source) -> String {
    let info = source.info();
    let bytes = match info.size {
        Some(bytes) => format!("{} ({bytes} bytes)", size(bytes)),
        None => "of unknown size".to_owned(),
    };
    let link = if info.is_link { ", by a symbolic link" } else { "" };
    let data = match extents::of(source.file()) {
        Ok(found) if found.share() < 1.0 => format!(
            ", {} data, {} holes, {} reserved but never written",
            percent(found.share()),
            size(found.holes),
            size(found.unwritten)
        ),
        _ => String::new(),
    };
    if info.kind == fathom_fileio::path_info::FileKind::Character {
        return format!("{}: a device without an end{link}", printable(&info.path));
    }
    let whither = match (info.is_on_device(), info.file_system.name) {
        (Some(false), name) => format!("{name}, which is no device"),
        (_, name) => name.to_owned(),
    };
    format!("{}: {bytes} on {whither}{link}{data}", printable(&info.path))
}

/// What cold means where the machine is a guest.
pub(super) fn in_guest(host: &fathom_record::Host, state: State) -> &'static str {
    match state == State::Cold && host.virtualization.is_some() {
        true => "; cold in this guest: its host may hold it",
        false => "",
    }
}
