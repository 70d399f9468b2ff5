//! Other benchmark programs, one file each: which of their benchmarks do the work of a metric,
//! their command lines, parsing of their output, and how their methods differ.
//!
//! Only benchmarks that do the same work as a metric have a row: a ratio of different work says
//! nothing about either.

mod ab;
mod b3sum;
mod dd;
mod fio;
mod google_benchmark;
mod h2load;
mod hey;
#[cfg(test)]
mod installed;
mod iperf3;
mod lmbench;
mod load;
mod mbw;
mod oha;
mod perf;
mod ping;
mod prelude;
mod process;
mod row;
mod server;
mod slope;
mod sockperf;
mod stalls;
mod stress_ng;
mod sysbench;
mod text;
mod wrk;
mod xxhsum;

pub use process::{Invocation, Output, RunError, Runner, is_there};
pub use row::{DATA_BYTES, On, Ours, PeerMachine, PeerPlace, PeerReading, Row, SERVED_BYTES};
pub use server::{Server, ServerProtocol, free_port};
pub use stalls::Stalls;

/// Another benchmark program.
pub trait Peer: Sync {
    fn name(&self) -> &'static str;
    /// The executable, searched in PATH.
    fn program(&self) -> &'static str {
        self.name()
    }
    /// The Debian package.
    fn package(&self) -> &'static str {
        self.name()
    }
    /// The command that prints its version.
    fn version(&self) -> Invocation {
        Invocation::new(self.program(), ["--version"])
    }
    /// The benchmarks that do the work of a metric.
    fn rows(&self, machine: &PeerMachine) -> Vec<Row>;
    /// A required library: a command that succeeds if it is installed, and its Debian package.
    fn library(&self) -> Option<(Invocation, &'static str)> {
        None
    }
    /// The command that builds the benchmark program.
    fn made_by(&self, _: &PeerPlace) -> Option<Invocation> {
        None
    }
}

pub const PEERS: &[&dyn Peer] = &[
    &perf::Perf,
    &stress_ng::StressNg,
    &sysbench::Sysbench,
    &mbw::Mbw,
    &google_benchmark::GoogleBenchmark,
    &fio::Fio,
    &dd::DdPeer,
    &xxhsum::Xxhsum,
    &b3sum::B3sum,
    &iperf3::Iperf3,
    &sockperf::Sockperf,
    &lmbench::Lmbench,
    &ping::Ping,
    &wrk::Wrk,
    &hey::Hey,
    &ab::Ab,
    &h2load::H2load,
    &oha::Oha,
];

/// The version in a program's `--version` output: the first word with digits on both sides of a
/// dot, or that is a date of eight digits.
pub fn version_in(text: &str) -> Option<String> {
    let number = |word: &str| {
        let from = word.find(|c: char| c.is_ascii_digit())?;
        let word = word[from..].trim_end_matches([',', ';', ')']);
        let dotted = word.split_once('.').is_some_and(|(whole, rest)| {
            whole.bytes().all(|byte| byte.is_ascii_digit()) && rest.starts_with(char::is_numeric)
        });
        let is_date = word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_digit());
        (dotted || is_date).then(|| word.to_owned())
    };
    text.split_whitespace().find_map(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_peers_are_parsed() {
        for (text, version) in [
            ("perf version 6.1.187\n", "6.1.187"),
            ("sysbench 1.0.20", "1.0.20"),
            ("stress-ng, version 0.15.06 (gcc 12.2.0, x86_64 Linux 6.18.44)", "0.15.06"),
            ("fio-3.33", "3.33"),
            ("dd (coreutils) 9.1\nCopyright (C) 2022", "9.1"),
            ("xxhsum 0.8.1 by Yann Collet \ncompiled as 64-bit x86_64", "0.8.1"),
            ("b3sum 1.2.0", "1.2.0"),
            ("iperf 3.12 (cJSON 1.7.15)\nLinux debian 6.18.44", "3.12"),
            ("sockperf, version 3.7-no.git \n   compiled: Feb  7 2022", "3.7-no.git"),
            ("ping from iputils 20221126\nlibcap: yes", "20221126"),
            ("1.2.2-1.1", "1.2.2-1.1"),
            ("3.0-a9+debian.1-6", "3.0-a9+debian.1-6"),
        ] {
            assert_eq!(version_in(text).as_deref(), Some(version), "{text}");
        }
        for text in ["", "b3sum", "no version here. None."] {
            assert_eq!(version_in(text), None, "{text}");
        }
    }

    /// All rows, on a machine with two CPUs.
    fn rows() -> Vec<Row> {
        let mut host = fathom_record::Host::default();
        host.cpu.allowed = vec![0, 1];
        let machine = PeerMachine { host: &host, cpu: 1 };
        let of_peer = |peer: &&dyn Peer| {
            let rows = peer.rows(&machine);
            assert!(!rows.is_empty(), "{}", peer.name());
            rows
        };
        PEERS.iter().flat_map(of_peer).collect()
    }

    #[test]
    fn outputs_of_peers_are_parsed() {
        const MIB: f64 = 1_048_576.0;
        let syscall = include_str!("../tests/outputs/perf-6.1.187-syscall.txt");
        let pipe = include_str!("../tests/outputs/perf-6.1.187-pipe.txt");
        let memcpy = include_str!("../tests/outputs/perf-6.1.187-memcpy.txt");
        let vdso = include_str!("../tests/outputs/stress-ng-0.15.06-vdso.txt");
        let read = include_str!("../tests/outputs/sysbench-1.0.20-read.txt");
        let dumb = include_str!("../tests/outputs/mbw-1.2.2.txt");
        for (work, text, value, wrong) in [
            ("bench syscall basic", syscall, 255.668, "0.0 usecs/op"),
            ("bench sched pipe", pipe, 6853.96, "perf: not supported"),
            ("bench mem memcpy", memcpy, 2.0 * 9.137677 * 1024.0 * MIB, "perf: not supported"),
            ("bench mem memcpy", " 512.5 MB/sec\n", 2.0 * 512.5 * MIB, "12 MB"),
            ("--vdso clock_gettime", vdso, 52.44, "stress-ng: skipped, no vDSO"),
            ("memory read", read, 18602.60 * MIB, "FATAL: Cannot find benchmark 'memory'"),
            ("DUMB (-t 1)", dumb, 2.0 * 6270.821 * MIB, "Long uses 8 bytes. "),
        ] {
            // perf has no memcpy of its own on other architectures than x86-64.
            let Some(row) = rows().into_iter().find(|row| row.work == work) else {
                assert_ne!(std::env::consts::ARCH, "x86_64", "{work}");
                continue;
            };
            let parsed = |text| (row.parse)(&[Output::printed(text)]);
            assert_eq!(parsed(text).map(|reading| reading.value), Ok(value), "{work}");
            assert!(parsed(wrong).is_err(), "{work}");
        }
    }

    #[test]
    fn missing_text_is_named_with_the_first_line() {
        let error = text::missing("`usecs/op`", &Output::printed("\n perf: not supported\n"));
        let expected = "no `usecs/op` in the output: perf: not supported".to_owned();
        assert_eq!(error, RunError::Failed(expected));
    }

    #[test]
    fn every_row_has_texts_and_rejects_empty_output() {
        let place = PeerPlace::at("/var/tmp/x".as_ref());
        for row in rows() {
            assert!(!row.work.is_empty() && row.difference.len() > 20, "{}", row.case());
            let commands = (row.commands)(&place);
            assert!(!commands.is_empty(), "{}", row.case());
            let empty = vec![Output::default(); commands.len()];
            assert!((row.parse)(&empty).is_err(), "{}", row.case());
        }
    }
}
