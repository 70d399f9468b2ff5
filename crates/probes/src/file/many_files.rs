//! file.path: a call on one of many files, by its name.

use std::ffi::CString;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdir, openat, statat};

use super::failed;
use super::small_files::Apart;
use crate::prelude::*;

metric!(FilePath, ABOUT);

static ABOUT: About = About {
    id: "file.path",
    title: "call on one of many files",
    timed: "stat, or open and close, of empty files of a folder by their names, relative to the \
            folder, in an order that scatters them",
    not_timed: "creating the files: names and inodes are cached; the folders of a longer path",
    model: "a bound: stat ≥ os.syscall{call=getppid}, open and close ≥ twice that. No value: the \
            lookup of a name and its cache misses are known from this metric alone",
    source: "Linux fs/namei.c: path_lookupat, lookup_fast; the name is hashed and found in the \
             dentry cache, whose entries and inodes are in memory, not in the caches of the core",
    pitfalls: &[
        "os.syscall repeats one path, whose name stays in the L1 cache: a program that walks \
         through files pays this price",
        "a name that is not cached is read from the device",
        "each call is checked: a file that is missing counts as no call",
    ],
    parameters: &[Parameter::new(
        "call",
        "stat, open_close",
        "attributes; opening to read, and closing",
    )],
    disk: Some(MetricDisk { large: 0, own: 4 * FILES as u64 }),
    ..super::OF_RUNS
};

/// Of which names and inodes fill some hundred KiB: more than the L1 cache.
const FILES: usize = 1024;
/// Odd, so that it reaches all of them.
const STRIDE: usize = 397;

#[derive(Clone, Copy)]
enum PathCall {
    Stat,
    OpenClose,
}

impl PathCall {
    const NAMED: [(&str, Self); 2] = [("stat", Self::Stat), ("open_close", Self::OpenClose)];

    fn from_params(params: &Params) -> Option<Self> {
        let name = params.text("call")?;
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, call)| *call)
    }

    /// Whether the call succeeded.
    fn is_done(self, folder: impl AsFd, name: &CString) -> bool {
        match self {
            Self::Stat => statat(folder, name, AtFlags::empty()).is_ok(),
            Self::OpenClose => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                openat(folder, name, flags, Mode::empty()).is_ok()
            }
        }
    }
}

impl Probe for FilePath {
    fn selection(&self, _: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        // No device is involved.
        Ok(Stratum::ToItself)
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        PathCall::NAMED
            .map(|(call, _)| ProbeCase { params: Params::one("call", call), cost_ns: 12e6 })
            .into()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let entries = match parsed(&case.params, PathCall::from_params)? {
            PathCall::Stat => 1.0,
            PathCall::OpenClose => 2.0,
        };
        at_least_getppid(entries, "the same entry and exit, plus the lookup of a name", known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let files = sampler.files()?;
        let apart = Apart::within(&files.folder)?;
        each_parsed(cases, sampler, PathCall::from_params, |index, call, sampler| {
            let path = apart.0.join(format!("path-{index}"));
            mkdir(&path, Mode::RWXU).map_err(|error| failed("create a folder", error))?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = openat(CWD, &path, flags, Mode::empty());
            let folder = folder.map_err(|error| failed("open a folder", error))?;
            let names = created(&folder)?;
            let mut at = 0;
            let kernel = move |calls: u64| {
                let mut done = 0;
                for _ in 0..calls {
                    done += u64::from(call.is_done(&folder, &names[at]));
                    at = (at + STRIDE) % FILES;
                }
                done
            };
            sampler.run(vec![SamplerWork::batched(index, kernel)]);
            sampler.check(index, "files", true, format!("{FILES} files, each call succeeded"));
            Ok(())
        })
    }
}

/// The names of new empty files of a folder.
fn created(folder: impl AsFd) -> Result<Vec<CString>> {
    let name = |number: usize| {
        let name = CString::new(format!("file-{number:04}")).unwrap_or_default();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR);
        file.map(|_| name).map_err(|error| failed("create a file", error))
    };
    (0..FILES).map(name).collect()
}
