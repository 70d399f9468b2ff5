//! The state in which a file is read: brought about outside the timer, and proved.

use fathom_record::Remedy;
use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fathom_fileio::residency::{self, UnknownReason, Residency, State as InMemory};
use fathom_measure::sampler::Fault;

use super::failed;

/// How often a file is read into memory, or a pass taken again, before it is given up: what other
/// programs ask for may drive out a page.
pub(super) const TRIES: u32 = 3;
/// Pages that are still on their way from the device, as what was read ahead and nobody wanted,
/// cannot be dropped before they are there.
const ON_THE_WAY: Duration = Duration::from_millis(1);
const ON_THE_WAY_MAX: u32 = 1000;
/// What of a file may at least be in memory behind reads that no device had a part in.
const NEARLY_ALL: f64 = 0.99;
static NEVER_STOP: AtomicBool = AtomicBool::new(false);

/// From where a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// From memory: all of it is there before and after.
    Warm,
    /// From a device: none of it is in memory before.
    Cold,
    Direct,
}

impl State {
    pub(super) const ALL: [Self; 3] = [Self::Warm, Self::Cold, Self::Direct];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::Direct => "direct",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Brings a file into this state. What is to be read past the page cache is taken out of it
    /// too: else nothing would show that it went past.
    pub(super) fn prepare(self, file: &File) -> Result<Residency, Fault> {
        let is = match self {
            Self::Cold | Self::Direct => evicted(file)?,
            Self::Warm => warmed(file)?,
        };
        match (self, is.state) {
            (_, InMemory::Unknown { why }) => Err(Fault::unavailable(
                format!("how much of the file is in memory is unknown: {why}"),
                Remedy::OtherFolder,
            )),
            (Self::Warm, InMemory::Warm) | (Self::Cold | Self::Direct, InMemory::Cold) => Ok(is),
            _ => Err(Fault::WrongWork(format!("asked for {}, but {}", self.name(), words(&is)))),
        }
    }

    /// Whether what was done with a file in this state met it there: by how the file is afterwards,
    /// and by the bytes that this process had devices fetch meanwhile.
    pub(super) fn has_held(self, file: &File, fetched: Option<u64>) -> bool {
        self.was_held(&residency::of(file), fetched)
    }

    /// Why a file cannot be held in this state here.
    pub(super) fn unheld(self) -> Fault {
        match self {
            Self::Direct => Fault::unavailable(
                "the file system took direct reads, and read by way of the page cache",
                Remedy::OtherFolder,
            ),
            Self::Warm | Self::Cold => {
                Fault::unavailable("pages were evicted while the file was read", Remedy::FreeMemory)
            }
        }
    }

    fn was_held(self, is: &Residency, fetched: Option<u64>) -> bool {
        match self {
            Self::Warm => is.state == InMemory::Warm || (fetched == Some(0) && is_nearly_all(is)),
            Self::Cold => true,
            // A pass reads some pages at least: none of them may be in memory.
            Self::Direct => is.state == InMemory::Cold,
        }
    }
}

/// Whether only a few pages were driven out, as a machine does that has little memory free. Where
/// nothing was fetched either, no read met one of them missing.
fn is_nearly_all(is: &Residency) -> bool {
    is.cached as f64 >= NEARLY_ALL * is.bytes as f64
}

fn evicted(file: &File) -> Result<Residency, Fault> {
    let mut tries = 0;
    loop {
        let is = residency::evict(file).map_err(|error| failed("write the file back", error))?;
        tries += 1;
        if is.state == InMemory::Cold || !is_on_the_way(&is) || tries == ON_THE_WAY_MAX {
            return Ok(is);
        }
        std::thread::sleep(ON_THE_WAY);
    }
}

/// Whether pages may be under way: cachestat counts such, and mincore does not.
fn is_on_the_way(is: &Residency) -> bool {
    match is.state {
        InMemory::Unknown { why: UnknownReason::Disagreement { .. } } => true,
        InMemory::Unknown { .. } => false,
        _ => is.state != InMemory::Warm,
    }
}

fn warmed(file: &File) -> Result<Residency, Fault> {
    let mut is = residency::of(file);
    for _ in 0..TRIES {
        if is.state == InMemory::Warm {
            break;
        }
        is = residency::warm(file, &NEVER_STOP).map_err(|error| failed("read the file", error))?;
    }
    Ok(is)
}

/// What of a file is in memory, and who says so.
pub(super) fn words(is: &Residency) -> String {
    let word = is.state.name().to_uppercase();
    format!("{word}: {} of {} bytes in memory ({})", is.cached, is.bytes, is.counted_by)
}

#[cfg(test)]
mod tests {
    use fathom_fileio::residency::CountedBy;

    use super::*;

    #[test]
    fn a_page_that_is_missing_afterwards_is_forgiven_where_nothing_was_fetched() {
        let of = |state, cached| Residency {
            state,
            bytes: 1000,
            cached,
            dirty: 0,
            writeback: 0,
            counted_by: CountedBy::Both,
        };
        let mixed = |cached| of(InMemory::Mixed { share: cached as f64 / 1000.0 }, cached);
        let (warm, cold) = (of(InMemory::Warm, 1000), of(InMemory::Cold, 0));
        assert!(State::Warm.was_held(&warm, Some(4096)) && State::Warm.was_held(&warm, None));
        assert!(State::Warm.was_held(&mixed(990), Some(0)));
        assert!(!State::Warm.was_held(&mixed(990), Some(4096)), "it was read again");
        assert!(!State::Warm.was_held(&mixed(990), None), "nobody tells");
        assert!(
            !State::Warm.was_held(&mixed(980), Some(0)) && !State::Warm.was_held(&cold, Some(0))
        );
        assert!(State::Direct.was_held(&cold, None) && !State::Direct.was_held(&mixed(4), None));
    }
}
