//! `fathom file sweep`: read rate over block sizes, cache states and threads.

mod dd;
mod points;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use fathom_metric::notation::time;

use self::dd::Dd;
use self::points::{SweepConfig, Sweeper};
use super::by_hand::{self, ByHandResult, printable};
use super::options::{
    Blocks, SizeRange, StateName, TemporaryOptions, block, blocks, file_sizes, sorted,
};
use super::reasonable_size::{SearchEnd, SearchOptions, SizeSearch, find};
use super::temporary::{Temporary, TemporaryFolder, announce};
use crate::prelude::*;

/// Default size of the temporary file.
const DEFAULT_BYTES: u64 = 256 << 20;
/// Default blocks: powers of four up to 64 MiB.
const DEFAULT_POWERS: u32 = 13;

const EXAMPLES: &str = "\
Examples:
  fathom file sweep                                    a temporary file of 256 MiB, under a minute
  fathom file sweep FILE --blocks 1..64MiB             every power of two
  fathom file sweep FILE --blocks 4K,64K,1M --state cold --threads 1,2,4
  fathom file sweep --sizes 2MiB..3GiB --blocks 64K --state warm
  fathom file sweep --sized --block 16 --state warm    a file whose read takes 5 to 15 s
  fathom file sweep FILE --blocks 4K..1M --threads 1 --with-dd

Every second pass goes through the points backwards, so that drift looks like noise and not like a
curve. Each point reads as many blocks as fit its time. A dip is a point slower than both
neighbours, and than 0.8 × the line between them on logarithmic axes.";

/// Measure the read rate over block sizes, cache states and threads.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("between", |it| it.requires("sized").conflicts_with_all(["files", "sizes"])))]
#[command(mut_arg("max", |it| it.requires("sized").conflicts_with_all(["files", "sizes"])))]
#[command(mut_arg("folder", |it| it.conflicts_with("files")))]
#[command(mut_arg("yes", |it| it.conflicts_with("files")))]
pub struct Sweep {
    /// Files to read [default: a temporary file].
    #[arg(conflicts_with_all = ["sizes", "sized"])]
    files: Vec<PathBuf>,
    /// Use temporary files of these sizes instead.
    #[arg(long, value_name = "LIST", value_parser = file_sizes, conflicts_with = "sized")]
    sizes: Option<SizeRange>,
    /// Use a temporary file whose read takes a reasonable time with `--block` instead.
    #[arg(long)]
    sized: bool,
    /// Block size for `--sized`.
    #[arg(long, value_name = "SIZE", default_value = "16", value_parser = block)]
    #[arg(requires = "sized", conflicts_with_all = ["files", "sizes"])]
    block: usize,
    #[command(flatten)]
    search: SearchOptions,
    /// List of block sizes [default: 1 to 64 MiB by powers of four].
    #[arg(long, value_name = "LIST", value_parser = blocks)]
    blocks: Option<Blocks>,
    /// List of cache states [default: warm, cold and direct].
    #[arg(long, value_enum, value_name = "STATE", value_delimiter = ',')]
    state: Vec<StateName>,
    /// List of thread counts [default: 1 and the number of CPUs].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Approximate time of each pass of a point.
    #[arg(long, value_name = "TIME", default_value = "60ms", value_parser = time)]
    each: Duration,
    /// Passes per point; with 12 or more the results have a confidence interval.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1000))]
    passes: u32,
    /// Run dd on the points with one thread, interleaved.
    #[arg(long)]
    with_dd: bool,
    #[command(flatten)]
    temporary: TemporaryOptions,
}

impl Procedure for Sweep {
    fn asked(&self) -> String {
        by_hand::printable_list(&self.files)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        by_hand::MODEL_INPUTS
    }

    fn check(&self) -> ByHandResult<()> {
        if !self.files.is_empty() {
            return opened(&self.files).map(|_| ());
        }
        let folder = TemporaryFolder::choose(self.temporary.folder.as_deref())?;
        match self.sized {
            true => self.size_search(&Host::default(), &folder).map(|_| ()),
            false => folder.check(self.largest()),
        }
    }

    fn run(&self, recorder: &mut dyn Recorder) -> ByHandResult<Ending> {
        let config = self.config(recorder.host());
        let dd = if self.with_dd { Dd::find(recorder) } else { None };
        let before = recorder.known().len();
        let sweeper = Sweeper { config: &config, dd: dd.as_ref(), file: [0, 1] };
        let ending = match (self.files.is_empty(), self.sized) {
            (false, _) => self.sweep_files(recorder, &sweeper)?,
            (true, true) => self.sweep_reasonable_size(recorder, &sweeper)?,
            (true, false) => self.sweep_sizes(recorder, &sweeper)?,
        };
        // All points may have been skipped, with warnings.
        let is_empty = recorder.known().len() == before;
        Ok(if is_empty && ending == Ending::Done { Ending::NotFound } else { ending })
    }
}

impl Sweep {
    fn sizes(&self) -> &[u64] {
        self.sizes.as_ref().map_or(&[DEFAULT_BYTES], |sizes| &sizes.0)
    }

    fn largest(&self) -> u64 {
        self.sizes().last().copied().unwrap_or(DEFAULT_BYTES)
    }

    fn size_search(&self, host: &Host, folder: &TemporaryFolder) -> ByHandResult<SizeSearch> {
        SizeSearch::new(host, folder, self.block, StateName::Warm, &self.search)
    }

    fn sweep_files(
        &self,
        recorder: &mut dyn Recorder,
        sweeper: &Sweeper<'_>,
    ) -> ByHandResult<Ending> {
        let sources = opened(&self.files)?;
        for (at, (source, more)) in sources.iter().zip(distinguishing_params(&sources)).enumerate()
        {
            let sweeper = Sweeper { file: [at, sources.len()], ..*sweeper };
            if !sweeper.sweep_file(recorder, source, &more)? {
                break;
            }
        }
        Ok(by_hand::ending(&sources))
    }

    fn sweep_reasonable_size(
        &self,
        recorder: &mut dyn Recorder,
        sweeper: &Sweeper<'_>,
    ) -> ByHandResult<Ending> {
        let folder = TemporaryFolder::choose(self.temporary.folder.as_deref())?;
        let search = self.size_search(recorder.host(), &folder)?;
        if !search.announce(recorder, &folder, self.temporary.yes) {
            return Ok(Ending::Stopped);
        }
        let (end, file) = find(recorder, &folder, &search)?;
        let SearchEnd::Fits(_) = end else { return Ok(Ending::NotFound) };
        sweeper.sweep_file(recorder, file.source(), &Params::none())?;
        Ok(Ending::Done)
    }

    fn sweep_sizes(
        &self,
        recorder: &mut dyn Recorder,
        sweeper: &Sweeper<'_>,
    ) -> ByHandResult<Ending> {
        let folder = TemporaryFolder::choose(self.temporary.folder.as_deref())?;
        let what = format!("and reads {}", sweeper.config.describe(self.sizes().len()));
        if !announce(recorder, &folder, self.largest(), &what, self.temporary.yes) {
            return Ok(Ending::Stopped);
        }
        let mut file = Temporary::new(&folder)?;
        for (at, bytes) in self.sizes().iter().enumerate() {
            let is_complete = file.resize(*bytes, recorder)?;
            let sweeper = Sweeper { file: [at, self.sizes().len()], ..*sweeper };
            if !is_complete || !sweeper.sweep_file(recorder, file.source(), &Params::none())? {
                break;
            }
        }
        Ok(Ending::Done)
    }

    /// Resolves the defaults.
    fn config(&self, host: &Host) -> SweepConfig {
        let mut blocks = match &self.blocks {
            Some(blocks) => blocks.0.clone(),
            None => (0..=DEFAULT_POWERS).map(|power| 1 << (2 * power)).collect(),
        };
        if self.sized {
            blocks.push(self.block);
        }
        sorted(&mut blocks);
        let mut threads = self.threads.clone();
        if threads.is_empty() {
            let all = host.cpu.allowed.len().clamp(1, 1024);
            threads = vec![1, all as u16];
        }
        sorted(&mut threads);
        let mut states = Vec::new();
        for state in &self.state {
            if !states.contains(state) {
                states.push(*state);
            }
        }
        if states.is_empty() {
            states = vec![StateName::Warm, StateName::Cold, StateName::Direct];
        }
        SweepConfig { blocks, states, threads, each: self.each, passes: self.passes }
    }
}

/// Opens the files; each must have a size above 0.
fn opened(files: &[PathBuf]) -> ByHandResult<Vec<PathInfoSource>> {
    files.iter().map(|path| by_hand::open_with_pages(path)).collect()
}

/// Additional parameters where there are several files: the path.
fn distinguishing_params(sources: &[PathInfoSource]) -> Vec<Params> {
    let name = |source: &PathInfoSource| printable(&source.info().path);
    let more = |(at, source): (usize, &PathInfoSource)| {
        if sources.len() == 1 {
            return Params::none();
        }
        // The same path twice makes two cases.
        let before = sources[..at].iter().filter(|one| name(one) == name(source)).count();
        let params = Params::one("file", name(source).as_str());
        if before == 0 { params } else { params.and("again", before as i64) }
    };
    sources.iter().enumerate().map(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, bytes: usize| {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![1; bytes]).unwrap();
            path
        };
        let files = [path("a", 10), path("b", 20), path("c", 10), path("a", 10)];
        let sources = opened(&files).unwrap();
        let more = distinguishing_params(&sources);
        for (params, name) in more.iter().zip(["/a", "/b", "/c", "/a"]) {
            assert!(params.text("file").is_some_and(|path| path.ends_with(name)), "{more:?}");
        }
        assert!(distinguishing_params(&sources[..1])[0].is_empty());
        let mut distinct = more.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 4, "{more:?}");
    }
}
