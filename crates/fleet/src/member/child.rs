//! The measuring process of a member, and its reports.

use std::io::Result as IoResult;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use fathom_far::printable;
use fathom_measure::process::{ErrorFile, Running, exit_text};
use fathom_record::SERVER_TOKEN;
use rustix::buffer::spare_capacity;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::token_file::TokenFile;
use crate::protocol::DOCUMENT_BYTES_MAX;

/// The variable with the token, which the measuring process does not get.
pub const TOKEN: &str = "FATHOM_TOKEN";
const READ_BYTES: usize = 64 << 10;
/// A longer line is the document.
const LINE_BYTES_MAX: usize = 4 << 10;

/// A line on the standard output of a measuring process, before its document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChildLine {
    /// It can start, and waits for a line with the time to do so.
    Ready { ready: bool },
    /// When it started, by CLOCK_MONOTONIC_RAW.
    Started { started_ns: u64 },
    /// From 0 to 1, and what it measures.
    Progress { done: f64, what: String },
    /// The port of its far end.
    Serving { serving_port: u16 },
}

/// What a measuring process has reported.
#[derive(Debug, PartialEq)]
pub(super) enum News {
    Line(ChildLine),
    /// It has ended with a document.
    Document,
    /// It has ended without one.
    Failed(String),
}

#[derive(Debug)]
pub(super) struct MemberChild {
    process: Running,
    /// Its standard output, until that is closed.
    output: Option<OwnedFd>,
    errors: ErrorFile,
    /// What it reads until it ends.
    _token: Option<TokenFile>,
    /// Lines that are not whole, then the document.
    received: Vec<u8>,
    is_in_document: bool,
    has_ended: bool,
}

impl MemberChild {
    /// Starts a program, which ends with this process; `token`: what it sends to a server;
    /// `token_file`: that of a far end, which its arguments name.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(
        program: &Path,
        arguments: &[String],
        token: Option<&str>,
        token_file: Option<TokenFile>,
    ) -> IoResult<Self> {
        let errors = ErrorFile::new()?;
        let command = || {
            let mut command = Command::new(program);
            command.args(arguments).env_remove(TOKEN).env_remove(SERVER_TOKEN);
            command.envs(token.map(|token| (SERVER_TOKEN, token)));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.stdio()?);
            Ok(command)
        };
        let mut process = Running::start_tied(command, &[])?;
        let output = process.stdout()?.as_fd().try_clone_to_owned()?;
        fcntl_setfl(&output, OFlags::NONBLOCK)?;
        let (received, is_in_document, has_ended) = (Vec::new(), false, false);
        let (output, _token) = (Some(output), token_file);
        Ok(Self { process, output, errors, _token, received, is_in_document, has_ended })
    }

    /// What becomes readable with news.
    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(OwnedFd::as_fd)
    }

    /// Whether it has closed its output, and will end at any moment.
    pub(super) fn is_ending(&self) -> bool {
        self.output.is_none() && !self.has_ended
    }

    /// Has it start at a time by CLOCK_MONOTONIC_RAW.
    ///
    /// # Errors
    /// If it cannot be written to.
    pub(super) fn start_at(&mut self, at_ns: u64) -> IoResult<()> {
        self.process.write_input(format!("{at_ns}\n").as_bytes())
    }

    /// What it has reported since the last call.
    ///
    /// # Errors
    /// If it cannot be read from, or waited for.
    pub(super) fn news(&mut self) -> IoResult<Vec<News>> {
        let mut news = Vec::new();
        while let Some(output) = &self.output {
            self.received.reserve(READ_BYTES);
            match rustix::io::read(output, spare_capacity(&mut self.received)) {
                Ok(0) => self.output = None,
                Ok(_) => self.lines(&mut news),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
            if self.received.len() as u64 > DOCUMENT_BYTES_MAX {
                let limit = DOCUMENT_BYTES_MAX >> 20;
                self.output = None;
                self.has_ended = true;
                news.push(News::Failed(format!("its run exceeds {limit} MiB")));
            }
        }
        if self.is_ending()
            && let Some(status) = self.process.try_wait()?
        {
            self.has_ended = true;
            news.push(match self.received.is_empty() {
                true => News::Failed(self.last_words().unwrap_or_else(|| exit_text(status))),
                false => News::Document,
            });
        }
        Ok(news)
    }

    /// Takes reports from what was received, until the document begins.
    fn lines(&mut self, news: &mut Vec<News>) {
        while !self.is_in_document {
            let end = self.received.iter().position(|byte| *byte == b'\n');
            let Some(end) = end.filter(|end| *end <= LINE_BYTES_MAX) else {
                self.is_in_document = self.received.len() > LINE_BYTES_MAX;
                return;
            };
            match serde_json::from_slice(&self.received[..end]) {
                Ok(line) => {
                    news.push(News::Line(line));
                    self.received.drain(..=end);
                }
                Err(_) => self.is_in_document = true,
            }
        }
    }

    fn last_words(&self) -> Option<String> {
        let words = self.errors.last_words()?;
        Some(printable(words.trim_start_matches("fathom: ")))
    }

    pub(super) fn take_document(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn shell(script: &str) -> MemberChild {
        MemberChild::start(Path::new("/bin/sh"), &["-c".to_owned(), script.to_owned()], None, None)
            .unwrap()
    }

    /// The news until the end, which does as `each` says after each line.
    fn news(child: &mut MemberChild, mut each: impl FnMut(&mut MemberChild, &News)) -> Vec<News> {
        let mut all = Vec::new();
        while !child.has_ended {
            if let Some(output) = child.output() {
                poll(&mut [PollFd::from_borrowed_fd(output, PollFlags::IN)], None).unwrap();
            }
            for one in child.news().unwrap() {
                each(child, &one);
                all.push(one);
            }
        }
        all
    }

    #[test]
    fn reports_come_before_the_document() {
        let mut child = shell(
            r#"echo '{"ready":true}'; read at; echo "{\"started_ns\":$at}"
               echo '{"done":0.5,"what":"cpu.call"}'; printf '{\n"schema":3,"ready":true}\n'"#,
        );
        let all = news(&mut child, |child, one| {
            if *one == News::Line(ChildLine::Ready { ready: true }) {
                child.start_at(71).unwrap();
            }
        });
        let lines = [
            ChildLine::Ready { ready: true },
            ChildLine::Started { started_ns: 71 },
            ChildLine::Progress { done: 0.5, what: "cpu.call".to_owned() },
        ];
        let expected: Vec<News> =
            lines.map(News::Line).into_iter().chain([News::Document]).collect();
        assert_eq!(all, expected);
        assert_eq!(child.take_document(), b"{\n\"schema\":3,\"ready\":true}\n");
    }

    #[test]
    fn failure_has_its_last_line() {
        let mut child = shell("echo 'fathom: no such CPU' >&2; exit 2");
        assert_eq!(news(&mut child, |_, _| {}), [News::Failed("no such CPU".to_owned())]);
        let mut child = shell("exit 7");
        assert_eq!(news(&mut child, |_, _| {}), [News::Failed("exited with status 7".to_owned())]);
    }

    #[test]
    fn endless_document_ends_at_its_limit() {
        let mut child = shell("exec yes");
        let all = news(&mut child, |_, _| {});
        assert_eq!(all, [News::Failed("its run exceeds 16 MiB".to_owned())]);
        assert!(child.received.len() as u64 <= DOCUMENT_BYTES_MAX + READ_BYTES as u64);
    }

    #[test]
    fn token_does_not_reach_the_measuring_process() {
        let mut child = shell("tr '\\0' '\\n' </proc/$$/environ | grep -c ^FATHOM_TOKEN=");
        news(&mut child, |_, _| {});
        assert_eq!(child.take_document(), b"0\n");
    }
}
