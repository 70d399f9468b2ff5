//! lmbench: round trips, connections and one stream over TCP on loopback.

use std::sync::LazyLock;

use crate::prelude::*;
use crate::server::{Server, ServerProtocol};

pub(crate) struct Lmbench;

/// The servers fork and end their first process. A shell stays in its place, and the group ends
/// with the pipe to the shell: a server whose client was killed would wait for an hour.
const SERVE: &str = "exec 3<&0; \"$@\" || exit; (read _ <&3; kill -KILL 0) & wait";
/// Without the calibration of their clock, which takes half a minute.
const CALIBRATED: [&str; 2] = ["TIMING_O=0", "LOOP_O=0"];

/// The folder of the programs, with a slash at its end; empty where they are in PATH. Debian
/// installs them beside the folders of PATH.
static FOLDER: LazyLock<String> = LazyLock::new(|| {
    if crate::is_there(TRIP.name) {
        return String::new();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_system = |folder: std::path::PathBuf| {
        let folders = std::fs::read_dir(folder.parent()?.join("lib/lmbench/bin")).ok()?;
        let folders = folders.flatten().map(|entry| format!("{}/", entry.path().display()));
        folders.into_iter().find(|folder| crate::is_there(&format!("{folder}{}", TRIP.name)))
    };
    std::env::split_paths(&path).find_map(of_system).unwrap_or_default()
});
static PROGRAM: LazyLock<String> = LazyLock::new(|| TRIP.path());

/// A program that is server and client, and the port that it has of its own.
#[derive(Clone, Copy, Debug)]
struct LmbenchProgram {
    name: &'static str,
    port: u16,
    /// Microseconds of a batch.
    enough: u32,
    options: &'static [&'static str],
}

const TRIP: LmbenchProgram =
    LmbenchProgram { name: "lat_tcp", port: 31234, enough: 5000, options: &["-m", "1", "-N", "1"] };
/// A batch makes fewer connections than the queue of the server has room for: a full one drops
/// SYNs, which are sent again after a second.
const CONNECT: LmbenchProgram =
    LmbenchProgram { name: "lat_connect", port: 31237, enough: 300, options: &["-N", "51"] };
const STREAM: LmbenchProgram = LmbenchProgram {
    name: "bw_tcp",
    port: 31236,
    enough: 500_000,
    options: &["-m", "64k", "-W", "1000000", "-N", "3"],
};

impl LmbenchProgram {
    fn path(self) -> String {
        format!("{}{}", *FOLDER, self.name)
    }

    /// Both ends; the port of the place is not used.
    fn row(self, parse: Parse) -> Row {
        let client = move |_: &PeerPlace| {
            let words = CALIBRATED.map(str::to_owned).into_iter();
            let words = words.chain([format!("ENOUGH={}", self.enough), self.path()]);
            let options = self.options.iter().copied().chain(["127.0.0.1"]);
            vec![Invocation::new("env", words.chain(options.map(str::to_owned)))]
        };
        let server = move |_: &PeerPlace| {
            let words = ["-c", SERVE, "sh", &self.path(), "-s"];
            let invocation = Invocation::new("/bin/sh", words);
            Server { invocation, protocol: ServerProtocol::Tcp, port: self.port }
        };
        Row { server: Some(Box::new(server)), ..Row::usual(Box::new(client), parse) }
    }
}

impl Peer for Lmbench {
    fn name(&self) -> &'static str {
        "lmbench"
    }

    fn program(&self) -> &'static str {
        &PROGRAM
    }

    /// The programs do not print it.
    fn version(&self) -> Invocation {
        Invocation::new("dpkg-query", ["--show", "--showformat=${Version}", "lmbench"])
    }

    fn rows(&self, machine: &PeerMachine) -> Vec<Row> {
        let mut rows = vec![round_trip(On::One)];
        if machine.other_cpu().is_some() {
            rows.extend([round_trip(On::Two), connect(), stream()]);
        }
        rows
    }
}

fn round_trip(on: On) -> Row {
    let cpus = if on == On::One { 1 } else { 2 };
    Row {
        metric: "network.tcp.rtt",
        params: Params::one("bytes", 1).and("cpus", cpus).and("mode", "block").and("to", LOOPBACK),
        unit: Unit::Nanoseconds,
        work: "lat_tcp -m 1",
        difference: "the same bytes, calls and placement; lat_tcp does not set TCP_NODELAY, and \
                     divides the time of a second by its round trips; its server listens on all \
                     addresses",
        statistic: PeerStatistic::Mean,
        on,
        takes_turns: on == On::One,
        seconds: 5.0,
        ..TRIP.row(Box::new(|outputs| time(&outputs[0], "TCP latency using")))
    }
}

fn connect() -> Row {
    Row {
        metric: "network.tcp.connect",
        params: Params::one("to", LOOPBACK),
        unit: Unit::Nanoseconds,
        work: "lat_connect",
        difference: "lat_connect also times socket, setsockopt and close, which sends FIN and \
                     leaves TIME_WAIT, and does not wait for the server between connections; \
                     Fathom times connect alone, to a far end that sleeps; the server of \
                     lat_connect listens on all addresses",
        on: On::Two,
        seconds: 4.0,
        ..CONNECT.row(Box::new(|outputs| time(&outputs[0], "TCP/IP connection cost to")))
    }
}

fn stream() -> Row {
    let params = Params::one("chunk_bytes", 64 << 10).and("cpus", 2).and("direction", "receive");
    Row {
        metric: "network.tcp.bandwidth",
        params: params.and("streams", 1).and("to", LOOPBACK),
        work: "bw_tcp -m 64k",
        difference: "the same chunk, default congestion control and placement, counted at the \
                     receiver; bw_tcp sets both socket buffers to 1 MiB, or to the limit of the \
                     system, which turns off their growth, and divides by the time of half a \
                     second including interruptions; its server listens on all addresses",
        on: On::Two,
        seconds: 5.0,
        ..STREAM.row(Box::new(|outputs| rate(&outputs[0])))
    }
}

const LOOPBACK: &str = "loopback";

/// Microseconds.
fn time(output: &Output, name: &str) -> Result<PeerReading, RunError> {
    let found = output.err.split_once(name).and_then(|(_, rest)| before(rest, "microseconds"));
    PeerReading::from_value(1e3 * found.ok_or_else(|| missing("`microseconds`", output))?)
}

/// MB of 10^6 bytes.
fn rate(output: &Output) -> Result<PeerReading, RunError> {
    let found = before(&output.err, "MB/sec");
    PeerReading::from_value(1e6 * found.ok_or_else(|| missing("`MB/sec`", output))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_lmbench_3_is_parsed() {
        let text = include_str!("../tests/outputs/lmbench-3.0-a9.txt");
        let line = |mark: &str| {
            let line = text.lines().find(|line| line.contains(mark)).expect("a line");
            [Output { err: format!("{line}\n"), ..Output::default() }]
        };
        let parsed = |row: Row, mark| (row.parse)(&line(mark)).map(|reading| reading.value);
        assert_eq!(parsed(round_trip(On::One), "latency"), Ok(1e3 * 5.3029));
        assert_eq!(parsed(connect(), "cost"), Ok(1e3 * 13.4545));
        assert_eq!(parsed(stream(), "MB/sec"), Ok(1e6 * 914.52));
        assert!(parsed(connect(), "latency").is_err(), "of another program");
    }
}
