//! dd on the same points, in turn: another program's word on the same file.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use fathom_analysis::statistics;
use fathom_fileio::Source;
use fathom_measure::Clock;
use fathom_metric::{Event, ProcedureError, Recorder};

use crate::file::cache_state;
use crate::file::options::StateName;
use crate::file::passes::ReadConfig;

/// Starts of a dd that reads nothing.
const EMPTY: usize = 7;

/// A dd that runs here.
pub(super) struct Dd {
    /// What one takes that reads nothing.
    empty_ns: f64,
}

impl Dd {
    /// None, and a word on it, where there is no dd.
    pub(super) fn find(recorder: &mut dyn Recorder) -> Option<Self> {
        let mut nothing = Command::new("dd");
        nothing.args(["if=/dev/null", "of=/dev/null", "bs=1", "count=0"]);
        let times: std::io::Result<Vec<f64>> =
            (0..EMPTY).map(|_| run(recorder.clock(), &mut nothing)).collect();
        match times {
            Ok(times) => statistics::median(&times).map(|empty_ns| Self { empty_ns }),
            Err(error) => {
                let text = "dd is left out: it is of the package coreutils";
                recorder.event(Event::Warning(&format!("{text} ({error})")));
                None
            }
        }
    }

    /// Bytes a second of dd in this config: of its whole process, less one that reads nothing.
    /// None where too little is left of it to be told from that.
    pub(super) fn read(
        &self,
        recorder: &dyn Recorder,
        source: &Source,
        config: &ReadConfig,
    ) -> Result<Option<f64>, ProcedureError> {
        cache_state::prepare_again(source, config.state, recorder.stop().now())?;
        let file = source.info().size.unwrap_or(0);
        let bytes = config.range.as_ref().map_or(file, |range| range.end);
        let block = config.block as u64;
        let mut dd = Command::new("dd");
        // By its number here: a temporary file has no name.
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

    /// What is to be known of its figures.
    pub(super) fn words(&self) -> String {
        format!(
            "whole processes of dd if=FILE of=/dev/null, less {:.2} ms of one that reads nothing; \
             none where less than half of that is left",
            self.empty_ns / 1e6
        )
    }
}

/// The nanoseconds of a process from its start to its end.
fn run(clock: &Clock, command: &mut Command) -> std::io::Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // A person's Ctrl-C is for this program: dd comes to its end by itself.
    command.process_group(0);
    let begin = clock.start();
    let output = command.output()?;
    let ns = clock.ns(begin, clock.stop());
    match output.status.success() {
        true => Ok(ns),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let first = said.lines().next().unwrap_or("it said nothing");
            Err(std::io::Error::other(format!("dd failed: {first}")))
        }
    }
}
