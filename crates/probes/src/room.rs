//! How much memory a probe may take: a quarter of what is free, and of what the cgroup allows.

use fathom_measure::sampler::Fault;
use fathom_record::{Host, Remedy};

use crate::buffer::in_words;

/// No probe takes more than this share of the memory that may be had.
const SHARE_MAX: u64 = 4;

/// Memory that may be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes; nothing where neither limit is known.
    pub(crate) bytes: u64,
    /// What it is a quarter of.
    of: &'static str,
}

impl Room {
    /// By the host's facts as they are now: a worker reads them anew.
    pub(crate) fn on(host: &Host) -> Self {
        let available = (host.memory.available_bytes, "of the available memory");
        let limit = (host.cgroup.memory_limit_bytes, "of the cgroup's limit");
        let known = [available, limit].into_iter().filter_map(|(bytes, of)| Some((bytes?, of)));
        let (bytes, of) = known.min().unwrap_or((0, "of the memory, which is unknown"));
        Self { bytes: bytes / SHARE_MAX, of }
    }

    /// Whether so many bytes may be taken.
    ///
    /// # Errors
    /// `Unavailable`, with what would be needed, what there is and what helps.
    pub(crate) fn admits(&self, bytes: u64) -> Result<(), Fault> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let (needed, there) = (in_words(bytes), in_words(self.bytes >> 20 << 20));
        let what = format!("needs {needed} of memory, and a quarter {} is {there}", self.of);
        Err(Fault::unavailable(what, Remedy::FreeMemory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(available: Option<u64>, limit: Option<u64>) -> Room {
        let mut host = Host::default();
        host.memory.available_bytes = available;
        host.cgroup.memory_limit_bytes = limit;
        Room::on(&host)
    }

    #[test]
    fn it_is_a_quarter_of_the_tighter_limit() {
        assert_eq!(room(Some(8 << 30), None).bytes, 2 << 30);
        assert_eq!(room(Some(8 << 30), Some(1 << 30)).bytes, 256 << 20);
        assert_eq!(room(None, None).bytes, 0);
    }

    #[test]
    fn a_refusal_names_the_limit() {
        let room = room(Some(8 << 30), Some(1 << 30));
        assert_eq!(room.admits(256 << 20), Ok(()));
        let Err(Fault::Unavailable(text, _)) = room.admits(1 << 30) else { panic!("admitted") };
        assert!(text.contains("needs 1024 MiB") && text.contains("cgroup's limit is 256 MiB"));
    }
}
