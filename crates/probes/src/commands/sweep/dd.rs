//! dd on the same points, interleaved, for comparison.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::commands::by_hand::ByHandResult;
use crate::commands::cache_state;
use crate::commands::options::StateName;
use crate::commands::passes::ReadConfig;
use crate::prelude::*;

/// Runs for the startup time of dd.
const EMPTY_RUNS: usize = 7;

pub(super) struct Dd {
    /// Median time of a dd that reads nothing.
    empty_ns: f64,
}

impl Dd {
    /// Measures the startup time. `None`, with a warning, if dd is missing.
    pub(super) fn find(recorder: &mut dyn Recorder) -> Option<Self> {
        let mut nothing = Command::new("dd");
        nothing.args(["if=/dev/null", "of=/dev/null", "bs=1", "count=0"]);
        let times: std::io::Result<Vec<f64>> =
            (0..EMPTY_RUNS).map(|_| run(recorder.clock(), &mut nothing)).collect();
        match times {
            Ok(times) => statistics::median(&times).map(|empty_ns| Self { empty_ns }),
            Err(error) => {
                let text = format!("dd skipped: {error}; install coreutils");
                recorder.event(Event::Warning(&text));
                None
            }
        }
    }

    /// Bytes per second of dd, without its startup time. `None` if the startup time dominates.
    pub(super) fn read(
        &self,
        recorder: &dyn Recorder,
        source: &PathInfoSource,
        config: &ReadConfig,
    ) -> ByHandResult<Option<f64>> {
        cache_state::prepare(source, config.state, None, recorder.stop().now())?;
        let file = source.info().size.unwrap_or(0);
        let bytes = config.range.as_ref().map_or(file, |range| range.end);
        let block = config.block as u64;
        let mut dd = Command::new("dd");
        // By descriptor: a temporary file has no name.
        let path = format!("/proc/{}/fd/{}", std::process::id(), source.file().as_raw_fd());
        dd.args([&format!("if={path}"), "of=/dev/null", &format!("bs={block}")]);
        dd.arg(format!("count={}", bytes.div_ceil(block)));
        if config.state == StateName::Direct {
            dd.arg("iflag=direct");
        }
        let ns = run(recorder.clock(), &mut dd)?;
        let reading_ns = ns - self.empty_ns;
        Ok((reading_ns > self.empty_ns / 2.0).then(|| 1e9 * bytes as f64 / reading_ns))
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "dd if=FILE of=/dev/null, process time minus {:.2} ms startup; omitted where that \
             dominates",
            self.empty_ns / 1e6
        )
    }
}

/// Runs a command. Returns its wall time in nanoseconds.
fn run(clock: &Clock, command: &mut Command) -> std::io::Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Ctrl-C goes to this program only; dd finishes by itself.
    command.process_group(0);
    let begin = clock.start();
    let output = command.output()?;
    let ns = clock.ns(begin, clock.stop());
    match output.status.success() {
        true => Ok(ns),
        false => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let first = stderr.lines().next().unwrap_or_default();
            Err(std::io::Error::other(format!("dd: {}: {first}", output.status)))
        }
    }
}
