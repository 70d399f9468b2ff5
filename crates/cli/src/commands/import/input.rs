//! The files of `fathom import`: a file can be read again, a pipe once.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fathom_import::{Format, decoded};
use fathom_measure::clock;
use jiff::Timestamp;

/// So much is read to recognise the format.
const BEGINNING: u64 = 64 << 10;

pub(super) struct ImportInput {
    pub(super) name: String,
    path: PathBuf,
    beginning: Vec<u8>,
    /// After the beginning, unless it is a file.
    pipe: Option<Box<dyn Read>>,
    written: Option<Timestamp>,
}

impl ImportInput {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        if path == Path::new("-") {
            let pipe: Box<dyn Read> = Box::new(std::io::stdin().lock());
            return Self::begun("standard input".to_owned(), path, pipe, None);
        }
        let file = File::open(path).with_context(|| format!("open {name}"))?;
        let facts = file.metadata().ok();
        if facts.as_ref().is_some_and(|facts| facts.is_dir()) {
            bail!("{name} is a directory; name files of `fathom export`");
        }
        let is_file = facts.as_ref().is_none_or(|facts| facts.is_file());
        let modified = facts.filter(|_| is_file).and_then(|facts| facts.modified().ok());
        let written = modified.and_then(|time| Timestamp::try_from(time).ok());
        let input = Self::begun(name, path, Box::new(file), written)?;
        Ok(Self { pipe: input.pipe.filter(|_| !is_file), ..input })
    }

    fn begun(
        name: String,
        path: &Path,
        mut pipe: Box<dyn Read>,
        written: Option<Timestamp>,
    ) -> anyhow::Result<Self> {
        let mut beginning = Vec::new();
        let read = pipe.by_ref().take(BEGINNING).read_to_end(&mut beginning);
        read.with_context(|| format!("read {name}"))?;
        Ok(Self { name, path: path.to_owned(), beginning, pipe: Some(pipe), written })
    }

    pub(super) fn is_pipe(&self) -> bool {
        self.pipe.is_some()
    }

    /// The tool that its beginning shows.
    pub(super) fn format(&self) -> Option<Format> {
        let (text, _) = decoded(self.beginning.clone(), BEGINNING);
        Format::recognised(&String::from_utf8_lossy(&text))
    }

    /// What criterion writes beside its estimates: the name, and the times.
    pub(super) fn neighbours(&self) -> Vec<PathBuf> {
        let is_estimates = self.path.file_name().is_some_and(|name| name == "estimates.json");
        let names = ["benchmark.json", "sample.json"].iter().filter(|_| is_estimates);
        names.map(|name| self.path.with_file_name(name)).filter(|path| path.exists()).collect()
    }

    /// From its beginning. The second one of a pipe has no more than that.
    pub(super) fn reader(&mut self) -> anyhow::Result<Box<dyn Read>> {
        if let Some(pipe) = &mut self.pipe {
            let rest = std::mem::replace(pipe, Box::new(std::io::empty()));
            return Ok(Box::new(Cursor::new(self.beginning.clone()).chain(rest)));
        }
        let file = File::open(&self.path).with_context(|| format!("open {}", self.name))?;
        Ok(Box::new(file))
    }

    /// When it was last modified; now for a pipe.
    pub(super) fn written(&self) -> Timestamp {
        let now = || Timestamp::from_nanosecond(i128::from(clock::wall_ns())).unwrap_or_default();
        self.written.unwrap_or_else(now)
    }
}
