//! One place where a setting is: a file of the kernel, or a mount.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::knob::{ALL_CPUS, ATIME, KNOBS, KnobSetting, LAST_CPU, RESETS};

/// Longer values are none of the list.
const VALUE_MAX: usize = 200;
const ATIMES: [&str; 3] = ["noatime", "relatime", "strictatime"];

/// What stands for /proc and /sys, and the folder whose mount may be changed.
#[derive(Clone, Debug)]
pub struct TrialMachine {
    pub root: PathBuf,
    pub scratch: PathBuf,
}

impl TrialMachine {
    pub fn here() -> Self {
        let scratch = std::env::var_os("FATHOM_FOLDER").map(PathBuf::from);
        Self { root: "/".into(), scratch: scratch.unwrap_or_else(|| "/var/tmp".into()) }
    }

    /// The places of a setting that exist here.
    pub(crate) fn targets(&self, setting: &KnobSetting) -> Vec<SettingTarget> {
        if setting.path == ATIME {
            let mount = mount_of(&self.scratch).map(|(mount, _)| SettingTarget::Atime(mount));
            return Vec::from_iter(mount);
        }
        let paths = below(&self.root, setting.path);
        paths.filter(|path| !is_empty_device(path)).map(SettingTarget::File).collect()
    }

    /// Whether the list has this place, or the kernel sets it anew with one of the list.
    pub(crate) fn lists(&self, target: &SettingTarget) -> bool {
        let mut all = KNOBS.iter().flat_map(|knob| knob.settings).flat_map(|it| self.targets(it));
        all.any(|it| it == *target || it.resets().contains(target))
    }

    /// A value of the list, with the CPUs of this machine.
    pub(crate) fn value(&self, text: &str) -> String {
        let online = fs::read_to_string(self.root.join("sys/devices/system/cpu/online"));
        let last: u32 = online
            .ok()
            .and_then(|list| list.trim().rsplit([',', '-']).next()?.parse().ok())
            .unwrap_or(0);
        match text {
            ALL_CPUS if last < 32 => format!("{:x}", u32::MAX >> (31 - last)),
            // A mask is written in words of 32 CPUs, the last ones first.
            ALL_CPUS => {
                let rest = ",ffffffff".repeat((last / 32) as usize);
                format!("{:x}{rest}", u32::MAX >> (31 - last % 32))
            }
            LAST_CPU => last.to_string(),
            text => text.to_owned(),
        }
    }
}

/// The files below a folder by a pattern.
fn below(folder: &Path, pattern: &str) -> impl Iterator<Item = PathBuf> {
    let folder = glob::Pattern::escape(&folder.to_string_lossy());
    let paths = glob::glob(&format!("{}/{pattern}", folder.trim_end_matches('/')));
    paths.into_iter().flatten().flatten()
}

/// A loop device without a file has queues, too.
fn is_empty_device(path: &Path) -> bool {
    let size = path.parent().and_then(Path::parent).map(|device| device.join("size"));
    size.and_then(|size| fs::read_to_string(size).ok()).is_some_and(|size| size.trim() == "0")
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingTarget {
    File(PathBuf),
    /// The mount on this folder.
    Atime(PathBuf),
}

impl fmt::Display for SettingTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Atime(path) => write!(f, "mount on {}", path.display()),
        }
    }
}

impl SettingTarget {
    pub(crate) fn read(&self) -> io::Result<String> {
        match self {
            Self::File(path) => fs::read_to_string(path).map(|text| chosen(&text)),
            Self::Atime(path) => mount_of(path).map(|(_, atime)| atime).ok_or_else(not_found),
        }
    }

    /// What the kernel sets anew when this is written.
    pub(crate) fn resets(&self) -> Vec<Self> {
        let Self::File(path) = self else { return Vec::new() };
        let Some((folder, name)) = path.parent().zip(path.file_name()) else { return Vec::new() };
        let all = RESETS.iter().filter(|(of, _)| name == *of);
        all.flat_map(|(_, pattern)| below(folder, pattern)).map(Self::File).collect()
    }

    pub(crate) fn write(&self, value: &str) -> io::Result<()> {
        match self {
            // Created by nobody else than the kernel.
            Self::File(path) => {
                use std::io::Write as _;
                let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
                file.write_all(value.as_bytes())
            }
            Self::Atime(path) => set_atime(path, value),
        }
    }

    /// Whether this user may change it.
    pub(crate) fn is_writable(&self) -> bool {
        match self {
            Self::File(path) => rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok(),
            Self::Atime(_) => rustix::process::geteuid().is_root(),
        }
    }

    /// Whether it takes a value, as far as the kernel lists what it takes.
    pub(crate) fn takes(&self, value: &str) -> bool {
        let Self::File(path) = self else { return ATIMES.contains(&value) };
        let own = fs::read_to_string(path).ok().filter(|text| text.contains('['));
        let list = own.or_else(|| fs::read_to_string(list_beside(path)?).ok());
        list.is_none_or(|list| {
            list.split_whitespace().any(|word| word.trim_matches(['[', ']']) == value)
        })
    }

    /// Whether a value of a journal may be written to it.
    pub(crate) fn is_plausible(value: &str) -> bool {
        value.len() <= VALUE_MAX && !value.contains(['\n', '\0'])
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

/// The file in which the kernel lists what another one takes.
fn list_beside(path: &Path) -> Option<PathBuf> {
    let name = match path.file_name()?.to_str()? {
        "tcp_congestion_control" => "tcp_available_congestion_control",
        "scaling_governor" => "scaling_available_governors",
        "energy_performance_preference" => "energy_performance_available_preferences",
        _ => return None,
    };
    Some(path.with_file_name(name))
}

/// `madvise` of `always [madvise] never`; else all of it, with single blanks.
fn chosen(text: &str) -> String {
    let in_brackets = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let value = in_brackets.map_or(text, |(value, _)| value);
    value.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// The mount that has a folder, and its times of access.
fn mount_of(folder: &Path) -> Option<(PathBuf, String)> {
    let folder = folder.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let of_line = |line: &str| {
        let mut fields = line.split(' ').skip(4);
        let (place, options) = (PathBuf::from(fields.next()?), fields.next()?);
        let has = |name: &str| options.split(',').any(|one| one == name);
        let atime = ATIMES.iter().find(|name| has(name)).unwrap_or(&"strictatime");
        folder.starts_with(&place).then(|| (place, (*atime).to_owned()))
    };
    // Of several on one folder the last one is seen.
    mounts.lines().filter_map(of_line).max_by_key(|(place, _)| place.components().count())
}

/// As mount(8) with `remount`, but for the other options, which stay.
fn set_atime(mount: &Path, value: &str) -> io::Result<()> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    const ATIME_MASK: u64 = 0x70;
    let set = match value {
        "relatime" => 0x00,
        "noatime" => 0x10,
        "strictatime" => 0x20,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let attributes = MountAttr { set, clear: ATIME_MASK, propagation: 0, user_namespace: 0 };
    let path = std::ffi::CString::new(mount.as_os_str().as_encoded_bytes())?;
    // SAFETY: the path ends with 0, and the size is that of the attributes, which live on.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            0,
            &raw const attributes,
            size_of::<MountAttr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_value_is_the_one_in_brackets() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("4096\t131072\t6291456\n"), "4096 131072 6291456");
        assert_eq!(chosen("none\n"), "none");
    }

    #[test]
    fn masks_have_all_cpus() {
        let folder = tempfile::tempdir().unwrap();
        let online = folder.path().join("sys/devices/system/cpu/online");
        fs::create_dir_all(online.parent().unwrap()).unwrap();
        let machine = TrialMachine { root: folder.path().into(), scratch: folder.path().into() };
        for (list, mask, last) in [
            ("0\n", "1", "0"),
            ("0-1\n", "3", "1"),
            ("0-31\n", "ffffffff", "31"),
            ("0-15,17-33\n", "3,ffffffff", "33"),
        ] {
            fs::write(&online, list).unwrap();
            assert_eq!([machine.value(ALL_CPUS), machine.value(LAST_CPU)], [mask, last]);
        }
        assert_eq!(machine.value("cubic"), "cubic");
    }

    #[test]
    fn devices_without_a_medium_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for (name, size) in [("vda", "1000\n"), ("loop0", "0\n")] {
            let queue = folder.path().join(format!("sys/block/{name}/queue"));
            fs::create_dir_all(&queue).unwrap();
            fs::write(queue.join("read_ahead_kb"), "128\n").unwrap();
            fs::write(queue.with_file_name("size"), size).unwrap();
        }
        let machine = TrialMachine { root: folder.path().into(), scratch: folder.path().into() };
        let knob = crate::knob::find("read-ahead").unwrap();
        let found = machine.targets(&knob.settings[0]);
        let vda = SettingTarget::File(folder.path().join("sys/block/vda/queue/read_ahead_kb"));
        assert_eq!(found, std::slice::from_ref(&vda));
        let etc = SettingTarget::File(folder.path().join("etc/passwd"));
        assert!(machine.lists(&vda) && !machine.lists(&etc));
    }
}
