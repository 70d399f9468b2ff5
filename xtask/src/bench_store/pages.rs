//! The data of the views of `fathom ui`, from the request to the last byte.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use fathom_measure::clock::monotonic_raw_ns;

use super::{row, seconds_since};

/// Views, with the limit of their median in seconds.
const VIEWS: [(&str, Option<f64>); 8] = [
    ("runs", Some(0.3)),
    ("runs?page=50", Some(0.3)),
    ("runs?label=none", Some(0.3)),
    ("runs?kind=battery", Some(0.3)),
    ("runs?metric=cpu", Some(0.3)),
    ("run/latest", None),
    ("compare?a=latest~1&b=latest", None),
    ("history?metric=cpu.clock.read", Some(0.5)),
];

/// Ends the server with the program.
struct BenchStoreServer(Child);

impl Drop for BenchStoreServer {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Prints a row for each view; returns those above their limit.
pub(super) fn time(program: &str, store: &OsStr, repetitions: usize) -> Result<Vec<String>> {
    let mut command = Command::new(program);
    command.args(["ui", "--listen", "0"]).env("FATHOM_STORE", store).stdout(Stdio::piped());
    let mut server = BenchStoreServer(command.spawn().with_context(|| format!("start {program}"))?);
    let output = server.0.stdout.take().context("its output")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("http://")).context("its address")?;
    let address = line.trim_end_matches('/').rsplit('/').next().context("its address")?;
    let mut slow = Vec::new();
    for (view, limit) in VIEWS {
        let all = (0..repetitions).map(|_| answer(address, view));
        let name = format!("ui {}", view.split('?').next_back().unwrap_or(view));
        if !row(&name, all.collect::<Result<_>>()?, limit) {
            slow.push(format!("ui {view}"));
        }
    }
    Ok(slow)
}

/// Seconds until the end of the response.
fn answer(address: &str, view: &str) -> Result<f64> {
    let started = monotonic_raw_ns();
    let mut stream = TcpStream::connect(address).with_context(|| format!("connect {address}"))?;
    write!(stream, "GET /api/{view} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let seconds = seconds_since(started);
    let head = String::from_utf8_lossy(&response[..response.len().min(400)]).into_owned();
    ensure!(head.starts_with("HTTP/1.1 200"), "{view}: {head}");
    Ok(seconds)
}
