//! file.delete: deletes small files.

use super::create::FILES;
use super::small_files::{cases_of_small, disk_of_small, visit_small};
use crate::prelude::*;

pub struct Delete;

static ABOUT: About = About {
    id: "file.delete",
    title: "file deletion",
    timed: "unlinking 64 files in the order of their creation, which frees them; divided by 64",
    not_timed: "creating the files, just before",
    model: "a bound: ≥ os.syscall{call=getppid}",
    source: "lmbench, lat_fs: the sizes; Linux fs/namei.c: vfs_unlink, and evict of the inode",
    pitfalls: &[
        "an open or hard-linked file is not freed: each file is closed and has one name",
        "the data was never written back, so no blocks are freed on the device, as for the \
         temporary files of a build",
        "the deletion is verified after each pass",
    ],
    parameters: &[Parameter { name: "bytes", values: "0, 1K, 4K, 10K", meaning: "per file" }],
    ..super::OF_RUNS
};

impl Probe for Delete {
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
        let source = "the same entry and exit, plus lookup and removal of the name";
        at_least_getppid(1.0, source, known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<()> {
        let check = ("files", format!("0 of {FILES} files left after each pass"));
        visit_small(cases, sampler, FILES, check, |set, clock| {
            set.create()?;
            let start = clock.start();
            set.delete()?;
            let stop = clock.stop();
            match set.existing() {
                0 => Ok(clock.ns(start, stop) / FILES as f64),
                left => Err(Fault::WrongWork(format!("{left} of {FILES} files are left"))),
            }
        })
    }
}
