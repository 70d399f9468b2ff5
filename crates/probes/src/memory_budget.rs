//! How much memory a probe may allocate: a quarter of what is available and of the cgroup's limit.

use crate::buffer::binary_size;
use crate::shared::Result;
use fathom_measure::sampler::SamplerFault;
use fathom_record::{Host, Remedy};

/// A probe allocates at most 1 ÷ this share of the available memory.
const SHARE_MAX: u64 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryBudget {
    /// 0 where neither limit is known.
    pub(crate) bytes: u64,
    limited_by: &'static str,
}

impl MemoryBudget {
    /// From the current facts of the host: a worker reads them again.
    pub(crate) fn from_host(host: &Host) -> Self {
        let available = (host.memory.available_bytes, "the available memory");
        let limit = (host.cgroup.memory_limit_bytes, "the cgroup's memory limit");
        let known = [available, limit].into_iter().filter_map(|(bytes, by)| Some((bytes?, by)));
        let (bytes, limited_by) = known.min().unwrap_or((0, "the memory, which is unknown,"));
        Self { bytes: bytes / SHARE_MAX, limited_by }
    }

    /// # Errors
    /// `Unavailable` where an allocation of this size exceeds the budget.
    pub(crate) fn check(&self, bytes: u64) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let (needed, budget) = (binary_size(bytes), binary_size(self.bytes >> 20 << 20));
        let limit = self.limited_by;
        let what = format!("needs {needed} of memory; a quarter of {limit} is {budget}");
        Err(SamplerFault::unavailable(what, Remedy::FreeMemory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(available: Option<u64>, limit: Option<u64>) -> MemoryBudget {
        let mut host = Host::default();
        host.memory.available_bytes = available;
        host.cgroup.memory_limit_bytes = limit;
        MemoryBudget::from_host(&host)
    }

    #[test]
    fn budget_is_a_quarter_of_the_tighter_limit() {
        assert_eq!(budget(Some(8 << 30), None).bytes, 2 << 30);
        assert_eq!(budget(None, None).bytes, 0);
        let budget = budget(Some(8 << 30), Some(1 << 30));
        assert_eq!(budget.check(256 << 20), Ok(()));
        let text = budget.check(1 << 30).unwrap_err().to_string();
        assert!(text.contains("needs 1024 MiB") && text.contains("memory limit is 256 MiB"));
    }
}
