//! The list of everything that can be measured. Adding a metric is one file and one line here.

use fathom_record::{Host, NoModel, Params, Prediction};

use crate::{About, ByHand, Case, Derived, Known, Probe, cpu, file, memory, os};

/// A registered metric.
#[derive(Clone, Copy)]
pub enum Entry {
    /// Measured.
    Probe(&'static dyn Probe),
    /// Computed from others.
    Derived(&'static dyn Derived),
    /// Measured by a command of its own.
    ByHand(&'static dyn ByHand),
}

impl Entry {
    /// What it is.
    pub fn about(&self) -> &'static About {
        match self {
            Self::Probe(probe) => probe.about(),
            Self::Derived(derived) => derived.about(),
            Self::ByHand(by_hand) => by_hand.about(),
        }
    }

    /// What a case should give.
    ///
    /// # Errors
    /// Why there is no model.
    pub fn predict(
        &self,
        params: &Params,
        host: &Host,
        known: &Known<'_>,
    ) -> Result<Prediction, NoModel> {
        match self {
            Self::Probe(probe) => probe.predict(&Case::usual(params.clone()), host, known),
            Self::Derived(derived) => derived.predict(params, host, known),
            Self::ByHand(by_hand) => by_hand.predict(params, host, known),
        }
    }
}

/// Every metric, in the order of the table. A metric stands after those that it needs.
pub static REGISTRY: &[Entry] = &[
    Entry::Probe(&cpu::frequency::Frequency),
    Entry::Probe(&cpu::clock_read::ClockRead),
    Entry::Probe(&cpu::clock_resolution::ClockResolution),
    Entry::Probe(&cpu::loop_iteration::LoopIteration),
    Entry::Probe(&cpu::call::Call),
    Entry::Derived(&cpu::call_per_argument::CallPerArgument),
    Entry::Probe(&os::syscall::Syscall),
    Entry::Probe(&os::syscall_fresh::SyscallFresh),
    Entry::Probe(&os::vdso::ClockGettime),
    Entry::Probe(&os::futex::FutexUncontended),
    Entry::Probe(&os::multiplex::SELECT),
    Entry::Probe(&os::multiplex::POLL),
    Entry::Probe(&os::multiplex::EPOLL),
    Entry::Probe(&os::signal::SignalInstall),
    Entry::Probe(&os::signal::SignalDeliver),
    Entry::Probe(&os::file_lock::FileLock),
    Entry::Probe(&os::thread_create::THREAD_CREATE),
    Entry::Probe(&os::thread_create::THREAD_CREATE_JOIN),
    Entry::Probe(&os::process_fork::ProcessFork),
    Entry::Probe(&os::process_exec::VFORK_EXEC),
    Entry::Probe(&os::process_exec::SPAWN),
    Entry::Probe(&os::process_exec::SHELL),
    Entry::Probe(&os::switch::SWITCH_THREAD),
    Entry::Probe(&os::switch::SWITCH_PROCESS),
    Entry::Derived(&os::ratio::Ratio),
    Entry::Probe(&os::switch_ring::SwitchRing),
    Entry::Probe(&os::wake::Wake),
    Entry::Probe(&os::round_trip::PIPE_RTT),
    Entry::Probe(&os::round_trip::FIFO_RTT),
    Entry::Probe(&os::round_trip::UNIX_RTT),
    Entry::Probe(&os::round_trip::SEMAPHORE_RTT),
    Entry::Probe(&os::bandwidth::PIPE_BANDWIDTH),
    Entry::Probe(&os::bandwidth::UNIX_BANDWIDTH),
    Entry::Probe(&os::unix_connect::UnixConnect),
    Entry::Probe(&memory::latency::Latency),
    Entry::Derived(&memory::levels::LATENCY_L1),
    Entry::Derived(&memory::levels::LATENCY_L2),
    Entry::Derived(&memory::levels::LATENCY_L3),
    Entry::Derived(&memory::levels::LATENCY_DRAM),
    Entry::Derived(&memory::levels::SIZE_L1),
    Entry::Derived(&memory::levels::SIZE_L2),
    Entry::Derived(&memory::levels::SIZE_L3),
    Entry::Derived(&memory::tlb_miss::TlbMiss),
    Entry::Probe(&memory::loaded::Loaded),
    Entry::Probe(&memory::bandwidth::Bandwidth),
    Entry::Probe(&memory::fault::PageFault),
    Entry::Probe(&memory::mmap_setup::MmapSetup),
    Entry::Probe(&memory::munmap::Munmap),
    Entry::Probe(&memory::core_to_core::CoreToCore),
    Entry::Probe(&file::call::FileCall),
    Entry::Probe(&file::read_throughput::ReadThroughput),
    Entry::Probe(&file::read_latency::ReadLatency),
    Entry::Probe(&file::write_throughput::WriteThroughput),
    Entry::Probe(&file::create::Create),
    Entry::Probe(&file::delete::Delete),
    Entry::Probe(&file::fsync::Fsync),
    Entry::ByHand(&file::fast::Fast),
    Entry::ByHand(&file::reasonable_size::ReasonableSize),
    Entry::ByHand(&file::contention::Contention),
    Entry::ByHand(&file::contention::PerProcess),
    Entry::ByHand(&file::capacity::Capacity),
];

/// The metric with this id.
pub fn find(id: &str) -> Option<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.about().id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_needs_are_registered_before() {
        for (index, entry) in REGISTRY.iter().enumerate() {
            let about = entry.about();
            let earlier: Vec<&str> =
                REGISTRY[..index].iter().map(|entry| entry.about().id).collect();
            assert!(!earlier.contains(&about.id), "{} is registered twice", about.id);
            for need in about.needs {
                assert!(
                    earlier.contains(need),
                    "{} needs {need}, which must come before it",
                    about.id
                );
            }
        }
    }

    /// Each metric in the second column of a table, with whether it is said to be planned.
    fn metrics_of(line: &str) -> Vec<(&str, bool)> {
        let Some(column) = line.strip_prefix('|').and_then(|line| line.split('|').nth(1)) else {
            return Vec::new();
        };
        let planned = column.contains("planned");
        let names = column.split('`').skip(1).step_by(2);
        names.map(|name| (name, planned)).collect()
    }

    #[test]
    fn what_is_said_to_cover_lmbench_exists_and_what_is_planned_does_not() {
        let text = include_str!("../../../docs/LMBENCH.md");
        let named: Vec<(&str, bool)> = text.lines().flat_map(metrics_of).collect();
        assert!(named.len() > 30, "{named:?}");
        for (name, planned) in named {
            assert_eq!(find(name).is_none(), planned, "docs/LMBENCH.md: {name}");
        }
    }

    #[test]
    fn every_metric_says_what_it_is() {
        for about in REGISTRY.iter().map(Entry::about) {
            for text in [about.title, about.timed, about.not_timed, about.model, about.source] {
                assert!(!text.is_empty(), "{} leaves a text empty", about.id);
            }
            assert!(!about.pitfalls.is_empty(), "{} names no pitfall", about.id);
            assert!(
                about.title.chars().count() <= 32,
                "{}: the title is too long for a table",
                about.id
            );
        }
    }
}
