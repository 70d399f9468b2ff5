//! file.create: creates small files.

use super::small_files::{cases_of_small, disk_of_small, visit_small};
use crate::prelude::*;

pub struct Create;

static ABOUT: About = About {
    id: "file.create",
    title: "file creation",
    timed: "creating 64 files in an empty folder: open, one write of all bytes, close; divided by \
            64",
    not_timed: "generating names and data; deleting the files",
    model: "a bound: ≥ os.syscall{call=open_close}. The cost of the file system's journal is not \
            published",
    source: "lmbench, lat_fs: the sizes; Linux fs/namei.c: lookup_open",
    pitfalls: &[
        "an existing file would be opened, not created: O_EXCL fails then",
        "the files are in memory, not on the device: file.fsync measures that",
        "a large folder takes longer to search: this one has 64 files",
        "the size of each file is verified after the pass",
    ],
    parameters: &[Parameter { name: "bytes", values: "0, 1K, 4K, 10K", meaning: "per file" }],
    ..super::OF_RUNS
};

pub(super) const FILES: usize = 64;

impl Probe for Create {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn needs(&self) -> Needs {
        Needs { disk: Some(disk_of_small(FILES)), far: None }
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        cases_of_small(40e6)
    }

    fn predict(&self, _: &Case, _: &Host, known: &Inputs<'_>) -> Model {
        let source = "open and close, plus the creation";
        at_least("os.syscall", &Params::one("call", "open_close"), source, known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<()> {
        let check = ("files", format!("{FILES} files of the right size after each pass"));
        visit_small(cases, sampler, FILES, check, |set, clock| {
            let start = clock.start();
            set.create()?;
            let stop = clock.stop();
            let whole = set.whole();
            if whole != FILES {
                let text = format!("{whole} of {FILES} files have the right size");
                return Err(Fault::WrongWork(text));
            }
            set.delete()?;
            Ok(clock.ns(start, stop) / FILES as f64)
        })
    }
}
