//! Why a system call failed, and what to do: the one place for every command.

use std::fmt;
use std::io::{Error, ErrorKind};

/// What a failed system call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
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
    use ErrorKind as K;
    let by_kernel = || error.to_string();
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
        (K::FileTooLarge, _) => {
            let text = "larger than the limit on file size of this shell or of the file system";
            (format!("{}: {text}", by_kernel()), "raise it (ulimit -f)", true)
        }
        (K::AddrNotAvailable, _) => (
            "no free local port".to_owned(),
            "wait a minute (ss -tan state time-wait), use fewer connections, or widen \
             net.ipv4.ip_local_port_range",
            true,
        ),
        (_, Some(EMFILE)) => (by_kernel(), "raise the limit on open files (ulimit -n)", true),
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
        let of =
            |errno, activity| system_cause(&Error::from_raw_os_error(errno), activity).to_string();
        let write = |lacks_inodes| Activity::Write { lacks_inodes };
        let (enospc, efbig, eaddrnotavail, econnrefused) = (28, 27, 99, 111);
        assert!(of(enospc, write(true)).starts_with("no free inode"), "not space");
        let full = "no space left on the device; free space there";
        assert_eq!(of(enospc, write(false)), full);
        assert!(of(efbig, write(false)).ends_with("; raise it (ulimit -f)"));
        let ports = of(eaddrnotavail, Activity::Other);
        assert!(ports.starts_with("no free local port; wait") && !ports.contains("server"));
        let eaddrinuse = 98;
        assert_eq!(of(eaddrinuse, Activity::AnyPort), ports);
        assert!(!of(eaddrinuse, Activity::Other).contains("port"), "that of a listener");
        assert!(of(econnrefused, Activity::Other).ends_with("is the server running there?"));
        assert!(of(EMFILE, Activity::Other).ends_with("(ulimit -n)"));
        assert!(!of(5, Activity::Other).contains(';'), "EIO has no remedy");
    }
}
