//! What a system call does, by its number.

use super::count::Operation;

/// What is counted of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// Bytes from or to the descriptor of the first argument; the result is their number.
    Read,
    Write,
    /// As these, of messages: the result is no number of bytes.
    ReadMessages,
    WriteMessages,
    /// From one descriptor to another, by the numbers of these arguments.
    Between {
        from: usize,
        to: usize,
    },
    /// The path is this argument, after that of its folder; the flags follow.
    Open {
        path: usize,
    },
    Delete {
        path: usize,
    },
    Close,
    CloseRange,
    /// The second argument is replaced, if it is open.
    Replace,
    /// Of a path, or with AT_EMPTY_PATH in this argument of a descriptor.
    StatAt {
        flags: usize,
    },
    /// The second argument is the number of bytes.
    Sized(Operation),
    /// The result is the number of bytes.
    Returned(Operation),
    Futex,
    /// Waits for time to pass.
    Sleep,
    WaitChild,
    /// Of so many descriptors as this argument says.
    Many {
        operation: Operation,
        count: usize,
    },
    /// May wait for a socket.
    Socket(Operation),
    File(Operation),
    /// Counted by its event, once it succeeds.
    Create,
    Exec,
    /// Its work is done later, in the kernel.
    Ring,
    Plain(Operation),
}

use CallKind::{
    Between, Close, CloseRange, Create, Delete, Exec, File, Futex, Many, Open, Plain, Read,
    ReadMessages, Replace, Returned, Ring, Sized, Sleep, Socket, StatAt, WaitChild, Write,
    WriteMessages,
};
use Operation::{Entry, Other};

/// The name of a call, and what it does. A call of another number has no name and does other work.
pub(super) fn call(number: i64) -> Option<(&'static str, CallKind)> {
    let at = CALLS.binary_search_by_key(&number, |(number, ..)| *number).ok()?;
    CALLS.get(at).map(|(_, name, kind)| (*name, *kind))
}

macro_rules! calls {
    ($($(#[$if:meta])? $name:literal $number:ident = $kind:expr;)*) => {
        &[$($(#[$if])? (libc::$number, $name, $kind),)*]
    };
}

static CALLS: std::sync::LazyLock<Vec<(i64, &'static str, CallKind)>> =
    std::sync::LazyLock::new(|| {
        let mut all: Vec<_> = ALL.iter().chain(OLD).copied().collect();
        all.sort_by_key(|(number, ..)| *number);
        all
    });

const ALL: &[(i64, &str, CallKind)] = calls! {
    "read" SYS_read = Read;
    "pread64" SYS_pread64 = Read;
    "readv" SYS_readv = Read;
    "preadv" SYS_preadv = Read;
    "preadv2" SYS_preadv2 = Read;
    "recvfrom" SYS_recvfrom = Read;
    "recvmsg" SYS_recvmsg = Read;
    "recvmmsg" SYS_recvmmsg = ReadMessages;
    "write" SYS_write = Write;
    "pwrite64" SYS_pwrite64 = Write;
    "writev" SYS_writev = Write;
    "pwritev" SYS_pwritev = Write;
    "pwritev2" SYS_pwritev2 = Write;
    "sendto" SYS_sendto = Write;
    "sendmsg" SYS_sendmsg = Write;
    "sendmmsg" SYS_sendmmsg = WriteMessages;
    "sendfile" SYS_sendfile = Between { from: 1, to: 0 };
    "splice" SYS_splice = Between { from: 0, to: 2 };
    "copy_file_range" SYS_copy_file_range = Between { from: 0, to: 2 };
    "openat" SYS_openat = Open { path: 1 };
    "openat2" SYS_openat2 = Open { path: 1 };
    "close" SYS_close = Close;
    "close_range" SYS_close_range = CloseRange;
    "dup" SYS_dup = Plain(Entry);
    "dup3" SYS_dup3 = Replace;
    "newfstatat" SYS_newfstatat = StatAt { flags: 3 };
    "statx" SYS_statx = StatAt { flags: 2 };
    "fstat" SYS_fstat = Plain(Operation::Fstat);
    "fstatfs" SYS_fstatfs = Plain(Operation::Fstat);
    "statfs" SYS_statfs = Plain(Operation::Stat);
    "faccessat" SYS_faccessat = Plain(Operation::Stat);
    "faccessat2" SYS_faccessat2 = Plain(Operation::Stat);
    "readlinkat" SYS_readlinkat = Plain(Operation::Stat);
    "chdir" SYS_chdir = Plain(Operation::Stat);
    "fchdir" SYS_fchdir = Plain(Entry);
    "lseek" SYS_lseek = Plain(Operation::Seek);
    "getdents64" SYS_getdents64 = Returned(Operation::List);
    "unlinkat" SYS_unlinkat = Delete { path: 1 };
    "flock" SYS_flock = File(Operation::Lock);
    "fsync" SYS_fsync = File(Operation::Sync);
    "fdatasync" SYS_fdatasync = File(Operation::Sync);
    "sync_file_range" SYS_sync_file_range = File(Operation::Sync);
    "syncfs" SYS_syncfs = File(Operation::Sync);
    "sync" SYS_sync = File(Operation::Sync);
    "msync" SYS_msync = File(Operation::Sync);
    "mmap" SYS_mmap = Sized(Operation::Map);
    "munmap" SYS_munmap = Sized(Operation::Unmap);
    "mprotect" SYS_mprotect = Plain(Operation::Map);
    "brk" SYS_brk = Plain(Operation::Map);
    "futex" SYS_futex = Futex;
    "nanosleep" SYS_nanosleep = Sleep;
    "clock_nanosleep" SYS_clock_nanosleep = Sleep;
    "restart_syscall" SYS_restart_syscall = Sleep;
    "rt_sigsuspend" SYS_rt_sigsuspend = Sleep;
    "rt_sigtimedwait" SYS_rt_sigtimedwait = Sleep;
    "wait4" SYS_wait4 = WaitChild;
    "waitid" SYS_waitid = WaitChild;
    "ppoll" SYS_ppoll = Many { operation: Operation::Poll, count: 1 };
    "pselect6" SYS_pselect6 = Many { operation: Operation::Select, count: 0 };
    "epoll_pwait" SYS_epoll_pwait = Many { operation: Operation::Epoll, count: 6 };
    "epoll_pwait2" SYS_epoll_pwait2 = Many { operation: Operation::Epoll, count: 6 };
    "epoll_ctl" SYS_epoll_ctl = Plain(Other);
    "connect" SYS_connect = Socket(Operation::Connect);
    "accept" SYS_accept = Socket(Operation::Accept);
    "accept4" SYS_accept4 = Socket(Operation::Accept);
    "socket" SYS_socket = Plain(Other);
    "socketpair" SYS_socketpair = Plain(Other);
    "bind" SYS_bind = Plain(Other);
    "listen" SYS_listen = Plain(Other);
    "shutdown" SYS_shutdown = Plain(Other);
    "setsockopt" SYS_setsockopt = Plain(Entry);
    "getsockopt" SYS_getsockopt = Plain(Entry);
    "getsockname" SYS_getsockname = Plain(Entry);
    "getpeername" SYS_getpeername = Plain(Entry);
    "clone" SYS_clone = Create;
    "clone3" SYS_clone3 = Create;
    "execve" SYS_execve = Exec;
    "execveat" SYS_execveat = Exec;
    "rt_sigaction" SYS_rt_sigaction = Plain(Operation::SignalAction);
    "rt_sigreturn" SYS_rt_sigreturn = Plain(Operation::SignalDelivery);
    "io_uring_enter" SYS_io_uring_enter = Ring;
    "exit" SYS_exit = Plain(Entry);
    "exit_group" SYS_exit_group = Plain(Entry);
    "rt_sigprocmask" SYS_rt_sigprocmask = Plain(Entry);
    "rt_sigpending" SYS_rt_sigpending = Plain(Entry);
    "sigaltstack" SYS_sigaltstack = Plain(Entry);
    "getpid" SYS_getpid = Plain(Entry);
    "getppid" SYS_getppid = Plain(Entry);
    "gettid" SYS_gettid = Plain(Entry);
    "getuid" SYS_getuid = Plain(Entry);
    "geteuid" SYS_geteuid = Plain(Entry);
    "getgid" SYS_getgid = Plain(Entry);
    "getegid" SYS_getegid = Plain(Entry);
    "getpgid" SYS_getpgid = Plain(Entry);
    "setpgid" SYS_setpgid = Plain(Entry);
    "getsid" SYS_getsid = Plain(Entry);
    "setsid" SYS_setsid = Plain(Entry);
    "getgroups" SYS_getgroups = Plain(Entry);
    "getcwd" SYS_getcwd = Plain(Entry);
    "uname" SYS_uname = Plain(Entry);
    "umask" SYS_umask = Plain(Entry);
    "prctl" SYS_prctl = Plain(Entry);
    "prlimit64" SYS_prlimit64 = Plain(Entry);
    "getrlimit" SYS_getrlimit = Plain(Entry);
    "getrusage" SYS_getrusage = Plain(Entry);
    "sysinfo" SYS_sysinfo = Plain(Entry);
    "times" SYS_times = Plain(Entry);
    "rseq" SYS_rseq = Plain(Entry);
    "set_tid_address" SYS_set_tid_address = Plain(Entry);
    "set_robust_list" SYS_set_robust_list = Plain(Entry);
    "sched_yield" SYS_sched_yield = Plain(Entry);
    "sched_getaffinity" SYS_sched_getaffinity = Plain(Entry);
    "clock_gettime" SYS_clock_gettime = Plain(Entry);
    "clock_getres" SYS_clock_getres = Plain(Entry);
    "gettimeofday" SYS_gettimeofday = Plain(Entry);
    "setitimer" SYS_setitimer = Plain(Entry);
    "timerfd_settime" SYS_timerfd_settime = Plain(Entry);
    "getrandom" SYS_getrandom = Plain(Entry);
    "fcntl" SYS_fcntl = Plain(Entry);
    "ioctl" SYS_ioctl = Plain(Entry);
    "fadvise64" SYS_fadvise64 = Plain(Entry);
    "kill" SYS_kill = Plain(Entry);
    "tgkill" SYS_tgkill = Plain(Entry);
    "madvise" SYS_madvise = Plain(Other);
    "mremap" SYS_mremap = Plain(Other);
    "pipe2" SYS_pipe2 = Plain(Other);
    "eventfd2" SYS_eventfd2 = Plain(Other);
    "epoll_create1" SYS_epoll_create1 = Plain(Other);
    "memfd_create" SYS_memfd_create = Plain(Other);
    "ftruncate" SYS_ftruncate = Plain(Other);
    "fallocate" SYS_fallocate = Plain(Other);
    "mkdirat" SYS_mkdirat = Plain(Other);
    "renameat2" SYS_renameat2 = Plain(Other);
    "linkat" SYS_linkat = Plain(Other);
    "symlinkat" SYS_symlinkat = Plain(Other);
    "fchmod" SYS_fchmod = Plain(Other);
    "fchmodat" SYS_fchmodat = Plain(Other);
    "fchown" SYS_fchown = Plain(Other);
    "fchownat" SYS_fchownat = Plain(Other);
    "utimensat" SYS_utimensat = Plain(Other);
    "getxattr" SYS_getxattr = Plain(Other);
    "fgetxattr" SYS_fgetxattr = Plain(Other);
    "lgetxattr" SYS_lgetxattr = Plain(Other);
    "fsetxattr" SYS_fsetxattr = Plain(Other);
    "flistxattr" SYS_flistxattr = Plain(Other);
};

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: &[(i64, &str, CallKind)] = calls! {
    "open" SYS_open = Open { path: 0 };
    "creat" SYS_creat = Open { path: 0 };
    "dup2" SYS_dup2 = Replace;
    "stat" SYS_stat = Plain(Operation::Stat);
    "lstat" SYS_lstat = Plain(Operation::Stat);
    "access" SYS_access = Plain(Operation::Stat);
    "readlink" SYS_readlink = Plain(Operation::Stat);
    "getdents" SYS_getdents = Returned(Operation::List);
    "unlink" SYS_unlink = Delete { path: 0 };
    "poll" SYS_poll = Many { operation: Operation::Poll, count: 1 };
    "select" SYS_select = Many { operation: Operation::Select, count: 0 };
    "epoll_wait" SYS_epoll_wait = Many { operation: Operation::Epoll, count: 6 };
    "pause" SYS_pause = Sleep;
    "fork" SYS_fork = Create;
    "vfork" SYS_vfork = Create;
    "getpgrp" SYS_getpgrp = Plain(Entry);
    "arch_prctl" SYS_arch_prctl = Plain(Entry);
    "alarm" SYS_alarm = Plain(Entry);
    "time" SYS_time = Plain(Entry);
    "pipe" SYS_pipe = Plain(Other);
    "mkdir" SYS_mkdir = Plain(Other);
    "rmdir" SYS_rmdir = Plain(Other);
    "rename" SYS_rename = Plain(Other);
    "link" SYS_link = Plain(Other);
    "symlink" SYS_symlink = Plain(Other);
    "chmod" SYS_chmod = Plain(Other);
    "chown" SYS_chown = Plain(Other);
    "lchown" SYS_lchown = Plain(Other);
    "utime" SYS_utime = Plain(Other);
};
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[(i64, &str, CallKind)] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_calls() {
        assert_eq!(call(libc::SYS_read), Some(("read", Read)));
        assert_eq!(call(libc::SYS_exit_group).map(|(name, _)| name), Some("exit_group"));
        assert_eq!(call(1 << 20), None);
        let mut numbers: Vec<i64> = CALLS.iter().map(|(number, ..)| *number).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), CALLS.len(), "a number is in the table twice");
    }
}
