//! The requested cache state of a file: preparing it, proving it, and the verdict where it could
//! not be reached.

use std::sync::atomic::AtomicBool;

use fathom_fileio::extents;
use fathom_fileio::path_info::{FileKind, PathInfo};
use fathom_fileio::residency::{self, CacheKind, Residency, ResidencyState};
use fathom_record::quantity::percent;
use fathom_record::{Activity, system_cause};

use super::by_hand::{ByHandResult, printable, size};
use super::options::{DropName, StateName};
use crate::file::state;
use crate::prelude::*;

/// Evicts or loads a file as requested, unless it is in that state. Returns its residency after
/// that.
pub(super) fn prepare(
    source: &PathInfoSource,
    requested: StateName,
    drop: Option<DropName>,
    stop: &AtomicBool,
) -> ByHandResult<Residency> {
    drop.map_or(Ok(()), drop_caches)?;
    let file = source.file();
    let path = source.info().path.display();
    match requested {
        StateName::Cold => residency::evict(file).map_err(|error| {
            ProcedureError::failed(format!(
                "write {path} back: {}",
                system_cause(&error.into(), Activity::Read)
            ))
        }),
        StateName::Warm => state::warmed(file, stop).map_err(|error| {
            ProcedureError::failed(format!(
                "read {path} into memory: {}",
                system_cause(&error.into(), Activity::Read)
            ))
        }),
        StateName::AsIs | StateName::Direct => Ok(residency::residency_of(file)),
    }
}

fn drop_caches(name: DropName) -> ByHandResult<()> {
    let kind = match name {
        DropName::Pagecache => CacheKind::PageCache,
        DropName::Slab => CacheKind::Slab,
        DropName::All => CacheKind::All,
    };
    residency::drop_caches(kind).map_err(|error| {
        ProcedureError::failed(format!(
            "--drop-caches: write /proc/sys/vm/drop_caches: {error}; run as root outside a \
             container, or use --state cold, which evicts the file itself without root"
        ))
    })
}

/// The state with the cached bytes and how they were counted.
pub(super) fn describe(residency: &Residency) -> String {
    let brief = describe_briefly(residency);
    let dirty = match residency.dirty {
        0 => String::new(),
        bytes => format!(", {} dirty", size(bytes)),
    };
    let by = residency.counted_by.describe();
    match residency.state {
        ResidencyState::Unknown { .. } => brief,
        ResidencyState::Mixed { share } => {
            format!("{brief} cached, {}{dirty} ({by})", percent(share))
        }
        _ => format!("{brief} cached{dirty} ({by})"),
    }
}

/// The state with the cached bytes.
pub(super) fn describe_briefly(residency: &Residency) -> String {
    let state = residency.state.name().to_uppercase();
    match residency.state {
        ResidencyState::Unknown { why } => format!("{state}: {why}"),
        _ => format!("{state}: {} of {}", size(residency.cached), size(residency.bytes)),
    }
}

/// The verdict on a pass that did not begin in the requested state.
pub(super) fn wrong_state(
    source: &PathInfoSource,
    requested: StateName,
    found: &Residency,
) -> Option<Verdict> {
    let name = source.info().file_system.name;
    let in_memory = || match source.info().is_on_device() {
        Some(false) => format!("; {name} is not on a device of this machine"),
        _ => String::new(),
    };
    let text = match (requested, found.state) {
        (StateName::Cold, ResidencyState::Warm) => {
            format!("requested cold, but 100 % cached{}", in_memory())
        }
        (StateName::Cold, ResidencyState::Mixed { share }) => {
            format!("requested cold, but {} cached{}", percent(share), in_memory())
        }
        (StateName::Warm, ResidencyState::Mixed { share }) => {
            let why = match state::fits_in_memory(found.bytes) {
                true => "pages are reclaimed although memory is available, as DAMON does",
                false => "the file is larger than the available memory",
            };
            format!("requested warm, but only {} stays cached: {why}", percent(share))
        }
        (StateName::Warm, ResidencyState::Cold) => {
            "requested warm, but 0 % stays cached".to_owned()
        }
        _ => return None,
    };
    Some(Verdict::because(fathom_record::State::Invalid, Cause::NotAsAsked, text))
}

/// Doubts about a number because of the state of the file.
pub(super) fn doubts(
    source: &PathInfoSource,
    requested: StateName,
    found: &Residency,
) -> Vec<Reason> {
    let mut doubts = Vec::new();
    if let (StateName::Cold | StateName::Warm, ResidencyState::Unknown { why }) =
        (requested, found.state)
    {
        let text = format!("the residency of the file is unknown: {why}");
        doubts.push(Reason::new(Cause::NotAsAsked, text));
    }
    if !matches!(requested, StateName::Cold | StateName::Direct) {
        return doubts;
    }
    doubts.extend(no_device(source.info()));
    if let Ok(mapped) = extents::extents_of(source.file())
        && mapped.share() < 1.0
    {
        let text = format!(
            "only {} of the file is data: holes and unwritten extents are read without a device",
            percent(mapped.share())
        );
        doubts.push(Reason::new(Cause::NotAsAsked, text));
    }
    doubts
}

/// A doubt about a number of cold or direct reads, if they may reach no device.
pub(super) fn no_device(info: &PathInfo) -> Option<Reason> {
    info.backing().doubt().map(|text| Reason::new(Cause::NotAsAsked, text))
}

/// Path, size, file system and extents of a file.
pub(super) fn describe_file(source: &PathInfoSource) -> String {
    let info = source.info();
    let bytes = match info.size {
        Some(bytes) => format!("{} ({bytes} bytes)", size(bytes)),
        None => "of unknown size".to_owned(),
    };
    let link = if info.is_link { ", symbolic link" } else { "" };
    let data = match extents::extents_of(source.file()) {
        Ok(found) if found.share() < 1.0 => format!(
            ", {} data, {} holes, {} unwritten",
            percent(found.share()),
            size(found.holes),
            size(found.unwritten)
        ),
        _ => String::new(),
    };
    if info.kind == FileKind::Character {
        return format!("{}: character device{link}", printable(&info.path));
    }
    let place = match (info.is_on_device(), info.file_system.name) {
        _ if info.kind == FileKind::Block => ", block device".to_owned(),
        (Some(false), name) => format!(" on {name} (no device)"),
        (_, name) => format!(" on {name}"),
    };
    format!("{}: {bytes}{place}{link}{data}", printable(&info.path))
}

/// A note on cold files in a virtual machine.
pub(super) fn in_guest(host: &fathom_record::Host, state: ResidencyState) -> &'static str {
    match state == ResidencyState::Cold && host.is_guest() {
        true => "; cold in this guest, may be cached on the host",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use fathom_fileio::residency::CountedBy;

    use super::*;

    #[test]
    fn pass_in_another_state_than_requested_is_invalid() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let source = PathInfoSource::open(file.path()).expect("a file");
        let verdict = |requested, state, cached| {
            let (bytes, counted_by) = (1000, CountedBy::Both);
            let found = Residency { state, bytes, cached, dirty: 0, writeback: 0, counted_by };
            wrong_state(&source, requested, &found).map(|verdict| verdict.reasons[0].text.clone())
        };
        let mixed = ResidencyState::Mixed { share: 0.25 };
        for (requested, state, cached, part) in [
            (StateName::Cold, ResidencyState::Warm, 1000, "requested cold, but 100 % cached"),
            (StateName::Cold, mixed, 250, "requested cold, but 25 % cached"),
            (StateName::Warm, mixed, 250, "requested warm, but only 25 % stays cached: pages"),
            (StateName::Warm, ResidencyState::Cold, 0, "requested warm, but 0 % stays cached"),
        ] {
            let text = verdict(requested, state, cached).expect("a verdict");
            assert!(text.starts_with(part), "{text}");
        }
        for (requested, state, cached) in [
            (StateName::Cold, ResidencyState::Cold, 0),
            (StateName::Warm, ResidencyState::Warm, 1000),
            (StateName::AsIs, mixed, 250),
            (StateName::Direct, ResidencyState::Warm, 1000),
        ] {
            assert_eq!(verdict(requested, state, cached), None);
        }
    }

    #[test]
    fn passes_in_different_states_are_a_doubt() {
        use crate::commands::by_hand::other_states;
        let other = other_states(&["cold", "warm", "warm"]).expect("a doubt");
        assert!(other.text.contains("the first cold, the last warm"), "{}", other.text);
        assert_eq!(other_states(&["warm", "warm"]), None);
    }
}
