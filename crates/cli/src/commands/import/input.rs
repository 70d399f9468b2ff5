//! The files of `fathom import`: a file can be read again, a pipe once.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fathom_import::{Format, decoded};
use fathom_measure::clock;
use fathom_record::{is_hidden, shortened};
use jiff::Timestamp;

/// So much is read to recognise the format.
const BEGINNING: u64 = 64 << 10;
/// Of a file that has to be decoded as a whole.
const CODED_MAX: u64 = 256 << 20;
/// Of gzip, and of UTF-8 and UTF-16 with a mark.
const MARKS: [&[u8]; 4] = [&[0x1f, 0x8b], &[0xef, 0xbb, 0xbf], &[0xff, 0xfe], &[0xfe, 0xff]];
/// What compressed files begin with. Those of gzip are decompressed once.
const COMPRESSED: [(&[u8], &str, &str); 4] = [
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\x1f\x8b", "gzip", "gzip -dc | gzip -dc"),
];

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

    /// Names what a file is that nobody reads; a known one is of the tool that the user named.
    pub(super) fn check_kind(&self, named: bool) -> anyhow::Result<()> {
        let is_known = named || self.format().is_some();
        let name = &self.name;
        let (text, _) = decoded(self.beginning.clone(), BEGINNING);
        let compressed = COMPRESSED.iter().find(|(magic, ..)| text.starts_with(magic));
        if let Some((_, how, command)) = compressed {
            let times = if *how == "gzip" { " twice" } else { "" };
            bail!("{name} is compressed with {how}{times}; import its text: `{command}` writes it");
        }
        let text = String::from_utf8_lossy(&text);
        let first = text.trim_start().lines().next().unwrap_or_default();
        let begins = |word: &str| first.to_lowercase().starts_with(word);
        let what = match () {
            () if begins("<html") || begins("<!doctype") => "a page of HTML".to_owned(),
            () if is_known || first.is_empty() || begins("{") || begins("[") => return Ok(()),
            () if first.chars().any(is_hidden) => "no text".to_owned(),
            () => format!("text that begins with `{}`", shortened(first, 40)),
        };
        let tools = Format::ALL.map(Format::name).join(", ");
        bail!("{name} is {what}; runs of `fathom export` and results of {tools} are read")
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

    /// The text of a file of Fathom, which may be compressed or of Windows as those of other tools.
    pub(super) fn text(&mut self) -> anyhow::Result<Box<dyn Read>> {
        let reader = self.reader()?;
        if !MARKS.iter().any(|mark| self.beginning.starts_with(mark)) {
            return Ok(reader);
        }
        let (mut bytes, name) = (Vec::new(), &self.name);
        let read = reader.take(CODED_MAX + 1).read_to_end(&mut bytes);
        read.with_context(|| format!("read {name}"))?;
        let (bytes, whole) = decoded(bytes, CODED_MAX + 1);
        whole.with_context(|| format!("decompress {name}"))?;
        if bytes.len() as u64 > CODED_MAX {
            bail!("{name} exceeds {} MiB of text; import it as plain UTF-8", CODED_MAX >> 20);
        }
        Ok(Box::new(Cursor::new(bytes)))
    }

    /// When it was last modified; now for a pipe.
    pub(super) fn written(&self) -> Timestamp {
        let now = || Timestamp::from_nanosecond(i128::from(clock::wall_ns())).unwrap_or_default();
        self.written.unwrap_or_else(now)
    }
}
