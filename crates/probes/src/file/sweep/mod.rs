//! `fathom file sweep`: how fast a file is read with many blocks, from memory and from the device,
//! by one thread and by many.

mod dd;
mod points;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use fathom_fileio::Source;
use fathom_metric::notation::time;
use fathom_metric::{Ending, Procedure, ProcedureError, Recorder};
use fathom_record::{Host, Params};

use self::dd::Dd;
use self::points::{Plan, Points};
use super::by_hand::{self, shown};
use super::options::{Blocks, Sizes, StateName, TemporaryOptions, block, blocks, file_sizes};
use super::reasonable_size::{Found, Sought, SoughtOptions, find};
use super::temporary::{Folder, Temporary, announce};

/// The temporary file, where nothing else was asked for.
const USUAL_BYTES: u64 = 256 << 20;
/// Blocks, where none were asked for: powers of four up to 64 MiB.
const USUAL_POWERS: u32 = 13;

const EXAMPLES: &str = "\
Examples:
  fathom file sweep                                    a temporary file of 256 MiB, within a minute
  fathom file sweep FILE --blocks 1..64MiB             every power of two
  fathom file sweep FILE --blocks 4K,64K,1M --state cold --threads 1,2,4
  fathom file sweep --sizes 2MiB..3GiB --blocks 64K --state warm
  fathom file sweep --sized --block 16 --state warm    a file that takes 5 to 15 s with this block
  fathom file sweep FILE --blocks 4K..1M --threads 1 --with-dd

Each point is read forth and back through the list, so that a machine that becomes slower looks like
noise and not like a curve. A point reads as many blocks as its time allows: how many stands beside
it. A dip is a point below 0.8 × the geometric mean of its neighbours, the right one of which lies
above it again.";

/// Read with many blocks, from memory and from the device, by one thread and by many.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Sweep {
    /// The files; a temporary one where none is named.
    #[arg(conflicts_with_all = ["sizes", "sized"])]
    files: Vec<PathBuf>,
    /// A temporary file of each of these sizes instead.
    #[arg(long, value_name = "LIST", value_parser = file_sizes, conflicts_with = "sized")]
    sizes: Option<Sizes>,
    /// A temporary file that takes a reasonable time with `--block` instead.
    #[arg(long)]
    sized: bool,
    /// The block for `--sized`.
    #[arg(long, value_name = "SIZE", default_value = "16", value_parser = block)]
    block: usize,
    /// What `--sized` looks for.
    #[command(flatten)]
    sought: SoughtOptions,
    /// Blocks [default: 1 to 64 MiB by powers of four].
    #[arg(long, value_name = "LIST", value_parser = blocks)]
    blocks: Option<Blocks>,
    /// States [default: warm, cold and direct].
    #[arg(long, value_enum, value_name = "STATE", value_delimiter = ',')]
    state: Vec<StateName>,
    /// Numbers of threads [default: 1, and as many as there are CPUs].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// About how long each pass of a point is to take.
    #[arg(long, value_name = "TIME", default_value = "60ms", value_parser = time)]
    each: Duration,
    /// Passes over each point; an interval takes 6 at least.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1000))]
    passes: u32,
    /// Run dd on the same points of one thread, in turn.
    #[arg(long)]
    with_dd: bool,
    /// Where temporary files lie.
    #[command(flatten)]
    temporary: TemporaryOptions,
}

impl Procedure for Sweep {
    fn asked(&self) -> String {
        by_hand::all_shown(&self.files)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        by_hand::MODEL_INPUTS
    }

    fn check(&self) -> Result<(), ProcedureError> {
        if !self.files.is_empty() {
            return opened(&self.files).map(|_| ());
        }
        let folder = Folder::choose(self.temporary.folder.as_deref())?;
        match self.sized {
            true => self.sought(&Host::default(), &folder).map(|_| ()),
            false => folder.check(self.largest()),
        }
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        let plan = self.plan(recorder.host());
        let dd = if self.with_dd { Dd::find(recorder) } else { None };
        let before = recorder.known().len();
        let sweep = Points { plan: &plan, dd: dd.as_ref() };
        let ending = match (self.files.is_empty(), self.sized) {
            (false, _) => self.of_files(recorder, &sweep)?,
            (true, true) => self.of_reasonable_size(recorder, &sweep)?,
            (true, false) => self.of_sizes(recorder, &sweep)?,
        };
        // All that was asked for may have been left out, and why was said.
        let is_empty = recorder.known().len() == before;
        Ok(if is_empty && ending == Ending::Done { Ending::NotFound } else { ending })
    }
}

impl Sweep {
    fn sizes(&self) -> &[u64] {
        self.sizes.as_ref().map_or(&[USUAL_BYTES], |sizes| &sizes.0)
    }

    fn largest(&self) -> u64 {
        self.sizes().last().copied().unwrap_or(USUAL_BYTES)
    }

    fn sought(&self, host: &Host, folder: &Folder) -> Result<Sought, ProcedureError> {
        Sought::new(host, folder, self.block, StateName::Warm, &self.sought)
    }

    fn of_files(
        &self,
        recorder: &mut dyn Recorder,
        sweep: &Points<'_>,
    ) -> Result<Ending, ProcedureError> {
        let sources = opened(&self.files)?;
        for (source, more) in sources.iter().zip(distinguished(&sources)) {
            if !sweep.of(recorder, source, &more)? {
                break;
            }
        }
        Ok(Ending::Done)
    }

    /// A temporary file of the size that takes a reasonable time with the block.
    fn of_reasonable_size(
        &self,
        recorder: &mut dyn Recorder,
        sweep: &Points<'_>,
    ) -> Result<Ending, ProcedureError> {
        let folder = Folder::choose(self.temporary.folder.as_deref())?;
        let sought = self.sought(recorder.host(), &folder)?;
        if !sought.announce(recorder, &folder, self.temporary.yes) {
            return Ok(Ending::Stopped);
        }
        let (found, file) = find(recorder, &folder, &sought)?;
        let Found::Fits(_) = found else { return Ok(Ending::NotFound) };
        sweep.of(recorder, file.source(), &Params::none())?;
        Ok(Ending::Done)
    }

    /// A temporary file of each size, one after the other.
    fn of_sizes(
        &self,
        recorder: &mut dyn Recorder,
        sweep: &Points<'_>,
    ) -> Result<Ending, ProcedureError> {
        let folder = Folder::choose(self.temporary.folder.as_deref())?;
        let what = format!("and reads {}", sweep.plan.words(self.sizes().len()));
        if !announce(recorder, &folder, self.largest(), &what, self.temporary.yes) {
            return Ok(Ending::Stopped);
        }
        let mut file = Temporary::new(&folder)?;
        for bytes in self.sizes() {
            let is_made = file.resize(*bytes, recorder)?;
            if !is_made || !sweep.of(recorder, file.source(), &Params::none())? {
                break;
            }
        }
        Ok(Ending::Done)
    }

    /// What is to be read.
    fn plan(&self, host: &Host) -> Plan {
        let mut blocks = match &self.blocks {
            Some(blocks) => blocks.0.clone(),
            None => (0..=USUAL_POWERS).map(|power| 1 << (2 * power)).collect(),
        };
        if self.sized {
            blocks.push(self.block);
        }
        blocks.sort_unstable();
        blocks.dedup();
        let mut threads = self.threads.clone();
        if threads.is_empty() {
            let all = host.cpu.allowed.len().clamp(1, 1024);
            threads = vec![1, all as u16];
        }
        threads.sort_unstable();
        threads.dedup();
        let usual = [StateName::Warm, StateName::Cold, StateName::Direct];
        let mut states = Vec::new();
        let asked = if self.state.is_empty() { &usual[..] } else { &self.state };
        for state in asked {
            if !states.contains(state) {
                states.push(*state);
            }
        }
        Plan { blocks, states, threads, each: self.each, passes: self.passes }
    }
}

/// The files that were named; each must have something to read.
fn opened(files: &[PathBuf]) -> Result<Vec<Source>, ProcedureError> {
    let open = |path: &PathBuf| {
        let source = Source::open(path).map_err(ProcedureError::failed)?;
        match source.subject().size {
            Some(0) => Err(ProcedureError::failed(format!(
                "{} is empty: there is nothing to read",
                shown(path)
            ))),
            Some(_) => Ok(source),
            None => Err(ProcedureError::failed(format!(
                "{} has no end: name a regular file",
                shown(path)
            ))),
        }
    };
    files.iter().map(open).collect()
}

/// What tells files of one size apart in the records: their names, where that is needed.
fn distinguished(sources: &[Source]) -> Vec<Params> {
    let size = |source: &Source| source.subject().size;
    let name = |source: &Source| shown(&source.subject().path);
    let more = |(at, source): (usize, &Source)| {
        let alike = |one: &&Source| size(one) == size(source);
        if sources.iter().filter(alike).count() == 1 {
            return Params::none();
        }
        // Named twice, it is two cases all the same.
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
    fn files_of_one_size_are_distinguished_and_others_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str, bytes: usize| {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![1; bytes]).expect("a file");
            path
        };
        let files = [path("a", 10), path("b", 20), path("c", 10), path("a", 10)];
        let sources = opened(&files).expect("four files");
        let more = distinguished(&sources);
        assert!(more[0].text("file").is_some_and(|name| name.ends_with("/a")), "{more:?}");
        assert!(more[1].is_empty(), "{more:?}");
        let mut distinct = more.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 4, "{more:?}");
    }
}
