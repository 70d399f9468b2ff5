//! file.delete: a file with a name is taken away.

use fathom_measure::Sampler;
use fathom_measure::sampler::Fault;
use fathom_record::{Host, NoModel, Params, Prediction};

use super::create::FILES;
use super::named::{cases_of_small, disk_of_small, visit_small};
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Inputs, Needs, Parameter, Probe, Sizes};

/// file.delete.
pub struct Delete;

static ABOUT: About = About {
    id: "file.delete",
    title: "file deletion",
    timed: "the names of 64 files removed one after another, in the order in which they were \
            made, which frees the files; divided by 64",
    not_timed: "making the files, which is done just before",
    model: "a bound: ≥ os.syscall{call=getppid}",
    source: "lmbench, lat_fs: the sizes; Linux fs/namei.c: vfs_unlink, and evict of the inode",
    pitfalls: &[
        "a file that is still open, or has another name, is not freed: each has one name and is \
         closed",
        "bytes that never came to a device are dropped from memory, and no block is given back: \
         the files are as young as a build's",
        "that they are gone is looked at after each pass",
    ],
    parameters: &[Parameter { name: "bytes", values: "0, 1K, 4K, 10K", meaning: "of each file" }],
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

    fn predict(&self, _: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let source = "the same entry and exit, and a name to be looked up and taken out";
        let order = Order { factor: 1.0, metric: "os.syscall", source };
        order.claim(&Params::one("call", "getppid"), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let check = ("files", format!("none of {FILES} left after each pass"));
        visit_small(cases, sampler, FILES, check, |set, clock| {
            set.create()?;
            let start = clock.start();
            set.delete()?;
            let stop = clock.stop();
            match set.there() {
                0 => Ok(clock.ns(start, stop) / FILES as f64),
                left => Err(Fault::WrongWork(format!("{left} of {FILES} files are left"))),
            }
        })
    }
}
