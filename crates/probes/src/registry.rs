//! The list of all metrics. A new metric is one file and one line here.

use std::sync::LazyLock;

use fathom_metric::{Command, Entry, Registry};

use crate::{commands, cpu, file, memory, network, os};

/// The metrics of `fathom run`, in the order of the result table. A metric comes after those it
/// needs.
static BATTERY: &[Entry] = &[
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
    Entry::Probe(&network::icmp_rtt::IcmpRtt),
    Entry::Probe(&network::rtt::TCP_RTT),
    Entry::Probe(&network::rtt::UDP_RTT),
    Entry::Probe(&network::tcp_connect::CONNECT),
    Entry::Probe(&network::tcp_accept::TcpAccept),
    Entry::Probe(&network::tcp_close::CLOSE_FIN),
    Entry::Probe(&network::tcp_close::CLOSE_RST),
    Entry::Probe(&network::tcp_teardown::TEARDOWN),
    Entry::Probe(&network::http_get::HttpGet),
    Entry::Probe(&network::tcp_bandwidth::TcpBandwidth),
    Entry::Derived(&network::tcp_chunk_cost::TcpChunkCost),
    Entry::Probe(&network::tcp_transfer::TcpTransfer),
    Entry::Probe(&network::udp_bandwidth::UdpBandwidth),
    Entry::Probe(&file::call::FileCall),
    Entry::Probe(&file::read_throughput::ReadThroughput),
    Entry::Probe(&file::read_latency::ReadLatency),
    Entry::Probe(&network::file_read_remote::FileReadRemote),
    Entry::Probe(&file::write_throughput::WriteThroughput),
    Entry::Probe(&file::small_files::CREATE),
    Entry::Probe(&file::small_files::DELETE),
    Entry::Probe(&file::small_files::LIST),
    Entry::Probe(&file::small_files::FSYNC),
    Entry::Probe(&file::many_files::FilePath),
];

/// Commands that measure without workers.
static COMMANDS: &[Command] = &[
    Command::for_procedure::<commands::read::Read>("file read", &[]),
    Command::for_procedure::<commands::fast::ReadFast>("file fast", &[&commands::fast::FAST]),
    Command::for_procedure::<commands::write::Write>("file write", &[]),
    Command::for_procedure::<commands::calls::Calls>("file calls", &[]),
    Command::for_procedure::<commands::contention::Contend>(
        "file contend",
        &[&commands::contention::CONTENTION, &commands::contention::PER_PROCESS],
    ),
    Command::for_procedure::<commands::capacity::FindCapacity>(
        "file capacity",
        &[&commands::capacity::CAPACITY, &commands::capacity::BLOCK_TIME],
    ),
    Command::for_procedure::<commands::reasonable_size::FindSize>(
        "file size",
        &[&commands::reasonable_size::REASONABLE_SIZE],
    ),
    Command::for_procedure::<commands::sweep::Sweep>("file sweep", &[]),
    Command::for_procedure::<commands::cache::CommandCache>(
        "file cache",
        &[&commands::cache::SPEEDUP],
    ),
    fathom_bench::COMMAND,
    fathom_load::COMMAND,
    fathom_fetch::COMMAND,
    fathom_transfer::COMMAND,
];

pub static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::new(BATTERY, COMMANDS));

#[cfg(test)]
mod tests {
    use fathom_metric::{Inputs, Sizes};
    use fathom_record::{Host, NoModel, Record};

    use super::*;
    use crate::smoke;

    #[test]
    fn bounds_say_why_there_is_no_value() {
        let reasons = ["o value", "ublished", "ublic source", "metric alone", "o model", "a model"];
        let lacks_reason = |model: &str| {
            model.contains("bound") && !reasons.iter().any(|reason| model.contains(reason))
        };
        let abouts = REGISTRY.entries().iter().map(|entry| entry.about());
        let without: Vec<&str> =
            abouts.filter(|about| lacks_reason(about.model)).map(|about| about.id).collect();
        assert_eq!(without, [""; 0]);
    }

    #[test]
    fn prices_of_commands_are_cases_of_metrics() {
        for result in fathom_bench::price_results() {
            let (metric, params) = result.split_once('{').unwrap_or((result, ""));
            let Some(Entry::Probe(probe)) = REGISTRY.find(metric) else {
                panic!("{metric} is no probe");
            };
            let wanted: Vec<&str> =
                params.trim_end_matches('}').split(',').filter(|it| !it.is_empty()).collect();
            let has_all = |case: &fathom_metric::ProbeCase| {
                let names = case.params.0.iter().map(|(name, value)| format!("{name}={value}"));
                let names: Vec<String> = names.collect();
                wanted.iter().all(|one| names.iter().any(|name| name == one))
            };
            let cases = probe.cases(&Host::default(), &Sizes::default());
            assert!(cases.iter().any(has_all), "{result}: no such case");
        }
    }

    #[test]
    fn ids_are_unique_and_needs_come_first() {
        for (index, entry) in REGISTRY.entries().iter().enumerate() {
            let about = entry.about();
            let earlier: Vec<&str> =
                REGISTRY.entries()[..index].iter().map(|entry| entry.about().id).collect();
            assert!(!earlier.contains(&about.id), "{} is registered twice", about.id);
            for need in about.needs {
                assert!(earlier.contains(need), "{} needs {need} before it", about.id);
            }
        }
    }

    /// The metrics in the second column of a table row, with whether they are marked as planned.
    fn metrics_of(line: &str) -> Vec<(&str, bool)> {
        let Some(column) = line.strip_prefix('|').and_then(|line| line.split('|').nth(1)) else {
            return Vec::new();
        };
        let planned = column.contains("planned");
        let names = column.split('`').skip(1).step_by(2);
        names.map(|name| (name, planned)).collect()
    }

    #[test]
    fn lmbench_table_names_existing_metrics() {
        let text = include_str!("../../../docs/LMBENCH.md");
        let named: Vec<(&str, bool)> = text.lines().flat_map(metrics_of).collect();
        assert!(named.len() > 30, "{named:?}");
        for (name, planned) in named {
            assert_eq!(REGISTRY.find(name).is_none(), planned, "docs/LMBENCH.md: {name}");
        }
    }

    #[test]
    fn every_metric_has_a_complete_description() {
        for about in REGISTRY.entries().iter().map(Entry::about) {
            for text in [about.title, about.timed, about.not_timed, about.model, about.source] {
                assert!(!text.is_empty(), "{} has an empty text", about.id);
            }
            assert!(!about.pitfalls.is_empty(), "{} has no pitfall", about.id);
            assert!(about.title.chars().count() <= 32, "{}: the title is too long", about.id);
        }
    }

    #[test]
    fn os_predictions_use_declared_needs_only() {
        for entry in REGISTRY.entries() {
            let Entry::Probe(probe) = entry else { continue };
            let about = probe.about();
            if about.group() != "os" {
                continue;
            }
            let mut records: Vec<Record> =
                about.needs.iter().flat_map(|need| all_of(need)).collect();
            for (order, case) in probe.cases(&Host::default(), &Sizes::default()).iter().enumerate()
            {
                match probe.predict(case, &Host::default(), &Inputs::new(&records)) {
                    Ok(prediction) => {
                        assert!(!prediction.inputs.is_empty() && !prediction.source.is_empty());
                    }
                    Err(NoModel::MissingInput { metric }) => {
                        panic!("{}{} uses {metric}", about.id, case.params);
                    }
                    Err(_) => {}
                }
                let median = 1e3 * (order + 1) as f64;
                records.push(smoke::record(about.id, &case.params, median, 1.0));
            }
        }
    }

    /// Records of all cases of a metric.
    fn all_of(metric: &str) -> Vec<Record> {
        let Some(Entry::Probe(probe)) = REGISTRY.find(metric) else {
            panic!("{metric} is not a probe");
        };
        let cases = probe.cases(&Host::default(), &Sizes::default());
        cases.iter().map(|case| smoke::record(metric, &case.params, 10.0, 0.1)).collect()
    }
}
