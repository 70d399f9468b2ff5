//! file.create: a new file with a name, with some bytes in it or none.

use fathom_measure::Sampler;
use fathom_measure::sampler::Fault;
use fathom_record::{Host, NoModel, Params, Prediction};

use super::named::{cases_of_small, disk_of_small, visit_small};
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Inputs, Needs, Parameter, Probe, Sizes};

/// file.create.
pub struct Create;

static ABOUT: About = About {
    id: "file.create",
    title: "file creation",
    timed: "64 new files in an empty folder, one after another, each with all its bytes by one \
            call, and closed; divided by 64",
    not_timed: "making the names and the data; taking the files away again",
    model: "a bound: ≥ os.syscall{call=open_close}. What a file system does besides, it keeps \
            in a journal of its own making, and no source tells its price",
    source: "lmbench, lat_fs: the sizes; Linux fs/namei.c: lookup_open",
    pitfalls: &[
        "a file that is there already is opened and not made: each must be new, or the pass fails",
        "what is created is in memory, and not on a device: file.fsync is the price of that",
        "a folder of many files takes longer to search: here it holds 64",
        "sizes that were not written: each file is looked at after the pass",
    ],
    parameters: &[Parameter { name: "bytes", values: "0, 1K, 4K, 10K", meaning: "of each file" }],
    ..super::OF_RUNS
};

/// Files of a pass.
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

    fn predict(&self, _: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let source = "a file is opened and closed, and besides it is made";
        let order = Order { factor: 1.0, metric: "os.syscall", source };
        order.claim(&Params::one("call", "open_close"), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let check = ("files", format!("{FILES} were there after each pass, with all their bytes"));
        visit_small(cases, sampler, FILES, check, |set, clock| {
            let start = clock.start();
            set.create()?;
            let stop = clock.stop();
            let whole = set.whole();
            if whole != FILES {
                let text = format!("{whole} of {FILES} files have all their bytes");
                return Err(Fault::WrongWork(text));
            }
            set.delete()?;
            Ok(clock.ns(start, stop) / FILES as f64)
        })
    }
}
