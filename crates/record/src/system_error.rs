//! Why a system call failed, and what to do: the one place for every command.

use std::fmt;
use std::io::{Error, ErrorKind};

use rustix::process::{Resource, getrlimit};

use crate::Unit;
use crate::quantity::quantity;

/// What a failed system call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Opened or read a file.
    Read,
    /// Created or wrote a file.
    Write {
        /// Whether its file system has free blocks, but no free inode.
        lacks_inodes: bool,
    },
    /// Anything of an end whose sockets are bound to any free port.
    AnyPort,
    /// Anything else, such as a connect.
    Other,
}

/// The cause of a failed system call, as `cause; remedy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemCause {
    /// The cause: the kernel's text, unless that is a symptom.
    pub text: String,
    /// What to do, where that follows from the cause. Names no option of the program.
    pub remedy: Option<&'static str>,
    /// Whether a limit of this machine was reached: nothing crashed, and no other end is at fault.
    pub is_limit: bool,
}

impl fmt::Display for SystemCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.remedy.map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// The cause of an error and its remedy.
pub fn system_cause(error: &Error, activity: Activity) -> SystemCause {
    let limits = |resource| getrlimit(resource).current;
    cause_under(limits, error, activity)
}

/// `limit`: of this process, `None` if unlimited.
fn cause_under(
    limit: impl Fn(Resource) -> Option<u64>,
    error: &Error,
    activity: Activity,
) -> SystemCause {
    use ErrorKind as K;
    let by_kernel = || error.to_string();
    let with = |why: &str| format!("{error}: {why}");
    let of_bytes =
        |bytes: u64| with(&format!("the limit is {}", quantity(bytes as f64, Unit::Bytes)));
    let writes = matches!(activity, Activity::Write { .. });
    let lacks_inodes = activity == Activity::Write { lacks_inodes: true };
    let kind = match (error.kind(), activity) {
        // In use is every port.
        (K::AddrInUse, Activity::AnyPort) => K::AddrNotAvailable,
        (kind, _) => kind,
    };
    let (text, remedy, is_limit) = match (kind, error.raw_os_error()) {
        (K::StorageFull, _) if lacks_inodes => (
            "no free inode on the file system, though it has free space".to_owned(),
            "delete files: each takes an inode (df -i counts them)",
            true,
        ),
        (K::StorageFull, _) => ("no space left on the device".to_owned(), "free space there", true),
        (K::QuotaExceeded, _) => (by_kernel(), "delete files, or raise the disk quota", true),
        (K::FileTooLarge, _) => match limit(Resource::Fsize) {
            Some(bytes) => (of_bytes(bytes), "raise the limit on file size (ulimit -f)", true),
            None => (with("more than its file system allows"), "use another file system", true),
        },
        (K::ReadOnlyFilesystem, _) if writes => (by_kernel(), "name a writable directory", false),
        (K::PermissionDenied, _) if writes => {
            (by_kernel(), "name a directory that this user can write", false)
        }
        (K::NotFound, _) if writes => (by_kernel(), "create its directory (mkdir -p)", false),
        (K::PermissionDenied, _) if activity == Activity::Read => {
            (by_kernel(), "run as a user that can read it", false)
        }
        (K::OutOfMemory, _) => match limit(Resource::As) {
            Some(bytes) => {
                (of_bytes(bytes), "use less memory, or raise the limit on it (ulimit -v)", true)
            }
            None => (by_kernel(), "free memory", true),
        },
        (K::AddrNotAvailable, _) => (
            "no free local port".to_owned(),
            "wait a minute (ss -tan state time-wait), use fewer connections, or widen \
             net.ipv4.ip_local_port_range",
            true,
        ),
        (_, Some(EMFILE)) => {
            let files = limit(Resource::Nofile).unwrap_or(u64::MAX);
            let text = with(&format!("the limit is {files}"));
            (text, "raise the limit on open files (ulimit -n)", true)
        }
        (_, Some(ENFILE)) => (by_kernel(), "raise fs.file-max", true),
        (K::ConnectionRefused, _) => (by_kernel(), "is the server running there?", false),
        (K::TimedOut, _) => {
            (by_kernel(), "does a firewall drop packets, or is the address wrong?", false)
        }
        (K::HostUnreachable | K::NetworkUnreachable, _) => {
            (by_kernel(), "check the route to it (ip route get)", false)
        }
        _ => return SystemCause { text: by_kernel(), remedy: None, is_limit: false },
    };
    SystemCause { text, remedy: Some(remedy), is_limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_depends_on_errno_and_activity() {
        let of = |errno, activity| {
            cause_under(|_| None, &Error::from_raw_os_error(errno), activity).to_string()
        };
        let write = |lacks_inodes| Activity::Write { lacks_inodes };
        let (enospc, efbig, eaddrnotavail, econnrefused) = (28, 27, 99, 111);
        assert!(of(enospc, write(true)).starts_with("no free inode"), "not space");
        let full = "no space left on the device; free space there";
        assert_eq!(of(enospc, write(false)), full);
        assert!(of(efbig, write(false)).ends_with("file system allows; use another file system"));
        let ports = of(eaddrnotavail, Activity::Other);
        assert!(ports.starts_with("no free local port; wait") && !ports.contains("server"));
        let eaddrinuse = 98;
        assert_eq!(of(eaddrinuse, Activity::AnyPort), ports);
        assert!(!of(eaddrinuse, Activity::Other).contains("port"), "that of a listener");
        assert!(of(econnrefused, Activity::Other).ends_with("is the server running there?"));
        assert!(!of(5, Activity::Other).contains(';'), "EIO has no remedy");
        let (enoent, eacces, erofs) = (2, 13, 30);
        for (errno, remedy) in [(enoent, "mkdir -p"), (eacces, "can write"), (erofs, "writable")] {
            assert!(of(errno, write(false)).contains(remedy), "{errno}");
            assert!(!of(errno, Activity::Other).contains(';'), "{errno}: of a socket");
        }
        assert!(of(eacces, Activity::Read).ends_with("; run as a user that can read it"));
    }

    #[test]
    fn limits_are_named_with_their_value() {
        let (enomem, efbig) = (12, 27);
        for (errno, text) in [
            (EMFILE, "the limit is 10240; raise the limit on open files (ulimit -n)"),
            (efbig, "the limit is 10 KiB; raise the limit on file size (ulimit -f)"),
            (enomem, "the limit is 10 KiB; use less memory, or raise the limit on it (ulimit -v)"),
        ] {
            let error = Error::from_raw_os_error(errno);
            let cause = cause_under(|_| Some(10240), &error, Activity::Other);
            assert!(cause.is_limit && cause.to_string().ends_with(text), "{cause}");
        }
    }
}
